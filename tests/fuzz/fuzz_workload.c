/* SPDX-License-Identifier: Apache-2.0 */
/* Any text: workload_parse refuses it, or it is the key of what was parsed, whose costs can be counted. */
#include <stdlib.h>
#include <string.h>

#include "service/model/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena *arena = arena_new(0);
    struct buf key CLEANUP(buf_release) = BUF_INIT((size_t)1 << 22);
    const char *text = arena_strndup(arena, (const char *)data, size);
    struct workload *workload;
    struct error error;
    if (workload_parse(text, arena, &workload, &error) == 0) {
        workload_key(workload, &key);
        if (strcmp(buf_str(&key), text) || workload_flops(workload) < 0 || workload_bytes(workload) < 0) {
            abort();
        }
    } else if (error.class != ERROR_INVALID) {
        abort();
    }
    arena_free(arena);
    return 0;
}
