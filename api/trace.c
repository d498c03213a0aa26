/* SPDX-License-Identifier: Apache-2.0 */
#include "api/trace.h"

#include <stddef.h>
#include <string.h>

/* Whether `len` lower-case hexadecimal digits stand there, and (unless it is allowed) not all of them are zero. */
static bool is_hex(const char *text, size_t len, bool may_be_zero) {
    return strspn(text, "0123456789abcdef") >= len && (may_be_zero || strspn(text, "0") < len);
}

/* version-trace-parent-flags; a later version may have more behind another dash. */
bool trace_read(const char *traceparent, char ret[TRACE_ID]) {
    enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LENGTH = 55 };
    const char *text = traceparent;
    if (!text || strlen(text) < LENGTH || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    bool first = strncmp(text, "00", 2) == 0;
    if (!is_hex(text, 2, true) || strncmp(text, "ff", 2) == 0 || (text[LENGTH] && (first || text[LENGTH] != '-')))
        return false;
    if (!is_hex(text + TRACE_AT, 32, false) || !is_hex(text + PARENT_AT, 16, false) ||
        !is_hex(text + FLAGS_AT, 2, true))
        return false;
    memcpy(ret, text + TRACE_AT, TRACE_ID - 1);
    ret[TRACE_ID - 1] = 0;
    return true;
}
