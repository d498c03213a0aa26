/* SPDX-License-Identifier: Apache-2.0 */
/* narrow.h: floating-point numbers of 16 bits, whichever of the two types they are of, to and from f32. */
#ifndef WARPTUNE_MODEL_NARROW_H
#define WARPTUNE_MODEL_NARROW_H

#include "service/base/bfloat.h"
#include "service/base/half.h"
#include "service/model/graph.h"

static inline bool dtype_is_narrow(enum dtype dtype) {
    return dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* Exact. */
static inline float narrow_to_float(enum dtype dtype, uint16_t bits) {
    return dtype == DTYPE_F16 ? half_to_float(bits) : bfloat_to_float(bits);
}

/* The nearest one; what is too large becomes an infinity. */
static inline uint16_t narrow_from_float(enum dtype dtype, float value) {
    return dtype == DTYPE_F16 ? half_from_float(value) : bfloat_from_float(value);
}

/* The largest finite one. */
static inline float narrow_max(enum dtype dtype) {
    return dtype == DTYPE_F16 ? HALF_MAX : BFLOAT_MAX;
}

/* Many at a time: each loop is one that compilers make vectors of. */
static inline void narrow_widen(enum dtype dtype, const uint16_t *from, int64_t n, float *to) {
    if (dtype == DTYPE_F16)
        for (int64_t i = 0; i < n; i++)
            to[i] = half_to_float(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = bfloat_to_float(from[i]);
}

#endif
