/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/guarded.h"

#include <string.h>

enum { ALIGNMENT = 256, WORD = 4 };

int guarded_alloc(const struct device_class *class, struct device *device, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) {
    struct guarded guarded = {.bytes = bytes, .canary = canary};
    if (bytes > SIZE_MAX / 2)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "A buffer of %zu bytes is too large.", bytes);
    guarded.total = GUARD_BYTES + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD_BYTES;
    if (class->alloc(device, guarded.total, &guarded.base, error) < 0)
        return -1;
    guarded.data = guarded.base + GUARD_BYTES;
    if (class->fill(device, guarded.base, canary, guarded.total / WORD, error) < 0) {
        class->free(device, guarded.base);
        return -1;
    }
    *ret = guarded;
    return 0;
}

int guarded_poison(const struct device_class *class, struct device *device, const struct guarded *guarded,
                   struct error *error) {
    static const unsigned char ones[WORD] = {0xff, 0xff, 0xff, 0xff};
    size_t words = guarded->bytes / WORD;
    if (class->fill(device, guarded->data, UINT32_MAX, words, error) < 0)
        return -1;
    return class->write(device, guarded->data + words * WORD, ones, guarded->bytes % WORD, error);
}

/* The first byte of [from, from + len) that is not the canary's; len when all are. Offsets count from the base. */
static int find_change(const struct device_class *class, struct device *device, const struct guarded *guarded,
                       size_t from, size_t len, size_t *ret, struct error *error) {
    unsigned char bytes[GUARD_BYTES + ALIGNMENT], pattern[WORD];
    memcpy(pattern, &guarded->canary, WORD);
    if (class->read(device, bytes, guarded->base + from, len, error) < 0)
        return -1;
    size_t i = 0;
    while (i < len && bytes[i] == pattern[(from + i) % WORD])
        i++;
    *ret = i;
    return 0;
}

int guarded_check(const struct device_class *class, struct device *device, const struct guarded *guarded,
                  bool *ret_intact, int64_t *ret_offset, struct error *error) {
    size_t before = 0, after = 0, end = GUARD_BYTES + guarded->bytes;
    if (find_change(class, device, guarded, 0, GUARD_BYTES, &before, error) < 0 ||
        find_change(class, device, guarded, end, guarded->total - end, &after, error) < 0)
        return -1;
    *ret_intact = before == GUARD_BYTES && after == guarded->total - end;
    *ret_offset = before < GUARD_BYTES ? (int64_t)before - GUARD_BYTES : (int64_t)(guarded->bytes + after);
    return 0;
}

void guarded_free(const struct device_class *class, struct device *device, struct guarded *guarded) {
    if (guarded->base)
        class->free(device, guarded->base);
    *guarded = (struct guarded){0};
}
