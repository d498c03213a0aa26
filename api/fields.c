/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/base/secret_token.h"

enum { MOST_EVENT_DIGITS = 18 };

static bool parse_number(const char **text, int64_t *ret) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *ret = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* The last `tail` bytes. */
static enum field_range_result range_at_end(const char *value, int64_t bytes, struct field_range *ret) {
    int64_t tail;
    if (!parse_number(&value, &tail) || *value)
        return RANGE_NONE;
    if (tail == 0)
        return RANGE_BAD;
    if (bytes == 0) /* the whole of nothing: no range can say that */
        return RANGE_NONE;
    int64_t len = tail < bytes ? tail : bytes;
    *ret = (struct field_range){bytes - len, len};
    return RANGE_OK;
}

enum field_range_result field_range(const char *value, int64_t bytes, struct field_range *ret) {
    static const char unit[] = "bytes=";
    int64_t first, last = bytes - 1;
    if (!value || strncmp(value, unit, strlen(unit)) != 0)
        return RANGE_NONE;
    value += strlen(unit);
    if (*value == '-')
        return range_at_end(value + 1, bytes, ret);
    if (!parse_number(&value, &first) || *value++ != '-')
        return RANGE_NONE;
    if (*value && (!parse_number(&value, &last) || *value || last < first))
        return RANGE_NONE;
    if (first >= bytes)
        return RANGE_BAD;
    if (last >= bytes)
        last = bytes - 1;
    *ret = (struct field_range){first, last - first + 1};
    return RANGE_OK;
}

bool field_names_tag(const char *value, const char *etag) {
    return value && etag && (strcmp(value, "*") == 0 || strstr(value, etag) != NULL);
}

int field_event_id(const char *value, int64_t *ret, struct error *error) {
    const char *at = value;
    int64_t number;
    if (!value || !*value)
        return 0;
    if (!parse_number(&at, &number) || *at || at - value > MOST_EVENT_DIGITS)
        return error_set(error, ERROR_INVALID, "bad-header", "Last-Event-ID",
                         "Last-Event-ID is '%.40s', but must be the number of an event.", value);
    *ret = number;
    return 0;
}

bool field_is_idempotency_key(const char *value) {
    size_t len = strlen(value);
    for (size_t i = 0; i < len; i++)
        if (value[i] < 0x20 || value[i] > 0x7e)
            return false;
    return len > 0 && len <= IDEMPOTENCY_KEY_MOST;
}

const char *field_bearer(const char *value) {
    static const char scheme[] = "Bearer ";
    if (strncasecmp(value, scheme, strlen(scheme)) != 0)
        return NULL;
    value += strlen(scheme);
    value += strspn(value, " ");
    return secret_token_valid(value) ? value : NULL;
}
