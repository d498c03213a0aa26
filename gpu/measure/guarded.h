/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guarded.h: device memory with canaries before and after it, so that a kernel that writes past its buffers is found.
 *
 * The data is 256-byte aligned, and the canary behind it begins at the very next byte. Around inputs the canaries are
 * NaN, which shows in the results of a kernel that reads too far.
 */
#ifndef WARPTUNE_MEASURE_GUARDED_H
#define WARPTUNE_MEASURE_GUARDED_H

#include <stdbool.h>

#include "gpu/device/device.h"

enum { GUARD_BYTES = 1024 };
#define CANARY_READ 0xffffffffu    /* around what is read: NaN */
#define CANARY_WRITTEN 0xa5c3a5c3u /* around what is written: no number that a kernel makes */

struct guarded {
    uint64_t base, data; /* device addresses: of the allocation, of the bytes in the middle; 0: none */
    size_t bytes, total;
    uint32_t canary;
};

/* Bytes that a buffer takes with its canaries; SIZE_MAX for one that cannot be. */
size_t guarded_total(size_t bytes);
/* Puts the canaries of a buffer into memory of at least guarded_total(bytes) at `base`; the data stays as it is. */
int guarded_place(const struct device_class *class, struct device *device, uint64_t base, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) MUST_CHECK;
int guarded_alloc(const struct device_class *class, struct device *device, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) MUST_CHECK;
/* Sets all data bits: NaN in any floating-point type. */
int guarded_poison(const struct device_class *class, struct device *device, const struct guarded *guarded,
                   struct error *error) MUST_CHECK;
/* *ret_intact: false when a canary byte was changed; *ret_offset then tells how far from the data: -1 is the byte
 * before. */
int guarded_check(const struct device_class *class, struct device *device, const struct guarded *guarded,
                  bool *ret_intact, int64_t *ret_offset, struct error *error) MUST_CHECK;
/*
 * The same with one transfer of the whole buffer instead of two: `whole` has room for guarded->total bytes; *ret_data
 * points at the data in it.
 */
int guarded_read(const struct device_class *class, struct device *device, const struct guarded *guarded, void *whole,
                 const void **ret_data, bool *ret_intact, int64_t *ret_offset, struct error *error) MUST_CHECK;
void guarded_free(const struct device_class *class, struct device *device, struct guarded *guarded);

#endif
