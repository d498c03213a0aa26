/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.h: IEEE 754's 16-bit floating-point numbers, carried in a uint16_t: 1 bit of sign, 5 of exponent, 10 of
 * fraction.
 *
 * Computed from the bits, since not every compiler has a type for them, and without branches, so that loops over them
 * become vectors.
 */
#ifndef WARPTUNE_BASE_HALF_H
#define WARPTUNE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#define HALF_MAX 65504.0f /* the largest finite one */

/* Exact. */
static inline float half_to_float(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f; /* the bias of the exponents differs by 112; this also makes normal numbers of subnormal ones */
    memcpy(&bits, &value, sizeof bits);
    bits |= (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest one, the even one of two; what is too large becomes an infinity, a NaN a quiet NaN. */
static inline uint16_t half_from_float(float value) {
    uint32_t bits, small;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    float shifted;
    memcpy(&shifted, &size, sizeof shifted);
    shifted += 0.5f; /* whose last bit is worth 2^-24, as a subnormal half's: the addition rounds */
    memcpy(&small, &shifted, sizeof small);
    uint32_t normal = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    uint32_t half = size < 0x38800000 ? small - 0x3f000000 : normal;
    half = size >= 0x477ff000 ? 0x7c00 : half;
    half = size > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(half | sign);
}

#endif
