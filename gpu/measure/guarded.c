/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/guarded.h"

#include <string.h>

enum { ALIGNMENT = 256, WORD = 4 };

size_t guarded_total(size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return SIZE_MAX;
    return GUARD_BYTES + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD_BYTES;
}

int guarded_place(const struct device_class *class, struct device *device, uint64_t base, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) {
    struct guarded guarded = {
        .base = base, .data = base + GUARD_BYTES, .bytes = bytes, .total = guarded_total(bytes), .canary = canary};
    size_t after = GUARD_BYTES + bytes / WORD * WORD; /* from the word in which the data ends */
    if (class->fill(device, base, canary, GUARD_BYTES / WORD, error) < 0 ||
        class->fill(device, base + after, canary, (guarded.total - after) / WORD, error) < 0)
        return -1;
    *ret = guarded;
    return 0;
}

int guarded_alloc(const struct device_class *class, struct device *device, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) {
    uint64_t base;
    if (guarded_total(bytes) == SIZE_MAX)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "A buffer of %zu bytes is too large.", bytes);
    if (class->alloc(device, guarded_total(bytes), &base, error) < 0)
        return -1;
    if (guarded_place(class, device, base, bytes, canary, ret, error) == 0)
        return 0;
    class->free(device, base);
    return -1;
}

int guarded_poison(const struct device_class *class, struct device *device, const struct guarded *guarded,
                   struct error *error) {
    static const unsigned char ones[WORD] = {0xff, 0xff, 0xff, 0xff};
    size_t words = guarded->bytes / WORD;
    if (class->fill(device, guarded->data, UINT32_MAX, words, error) < 0)
        return -1;
    return class->write(device, guarded->data + words * WORD, ones, guarded->bytes % WORD, error);
}

/* How many of the `len` bytes that lie at offset `from` of the buffer are the canary's, up to the first that is not. */
static size_t count_intact(const struct guarded *guarded, const unsigned char *bytes, size_t from, size_t len) {
    unsigned char pattern[WORD];
    size_t i = 0;
    memcpy(pattern, &guarded->canary, WORD);
    while (i < len && bytes[i] == pattern[(from + i) % WORD])
        i++;
    return i;
}

/* Judges the bytes before and after the data. */
static void judge(const struct guarded *guarded, const unsigned char *before, const unsigned char *after,
                  bool *ret_intact, int64_t *ret_offset) {
    size_t end = GUARD_BYTES + guarded->bytes, rest = guarded->total - end;
    size_t good_before = count_intact(guarded, before, 0, GUARD_BYTES);
    size_t good_after = count_intact(guarded, after, end, rest);
    *ret_intact = good_before == GUARD_BYTES && good_after == rest;
    *ret_offset =
        good_before < GUARD_BYTES ? (int64_t)good_before - GUARD_BYTES : (int64_t)(guarded->bytes + good_after);
}

int guarded_check(const struct device_class *class, struct device *device, const struct guarded *guarded,
                  bool *ret_intact, int64_t *ret_offset, struct error *error) {
    unsigned char before[GUARD_BYTES], after[GUARD_BYTES + ALIGNMENT];
    size_t end = GUARD_BYTES + guarded->bytes;
    if (class->read(device, before, guarded->base, GUARD_BYTES, error) < 0 ||
        class->read(device, after, guarded->base + end, guarded->total - end, error) < 0)
        return -1;
    judge(guarded, before, after, ret_intact, ret_offset);
    return 0;
}

int guarded_read(const struct device_class *class, struct device *device, const struct guarded *guarded, void *whole,
                 const void **ret_data, bool *ret_intact, int64_t *ret_offset, struct error *error) {
    const unsigned char *bytes = whole;
    if (class->read(device, whole, guarded->base, guarded->total, error) < 0)
        return -1;
    judge(guarded, bytes, bytes + GUARD_BYTES + guarded->bytes, ret_intact, ret_offset);
    *ret_data = bytes + GUARD_BYTES;
    return 0;
}

void guarded_free(const struct device_class *class, struct device *device, struct guarded *guarded) {
    if (guarded->base)
        class->free(device, guarded->base);
    *guarded = (struct guarded){0};
}
