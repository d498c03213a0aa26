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

int guarded_alloc(const struct device_class *class, struct device *device, size_t bytes, uint32_t canary,
                  struct guarded *ret, struct error *error) MUST_CHECK;
/* Sets all data bits: NaN in any floating-point type. */
int guarded_poison(const struct device_class *class, struct device *device, const struct guarded *guarded,
                   struct error *error) MUST_CHECK;
/* *ret_intact: false when a canary byte was changed; *ret_offset then tells how far from the data: -1 is the byte
 * before. */
int guarded_check(const struct device_class *class, struct device *device, const struct guarded *guarded,
                  bool *ret_intact, int64_t *ret_offset, struct error *error) MUST_CHECK;
void guarded_free(const struct device_class *class, struct device *device, struct guarded *guarded);

#endif
