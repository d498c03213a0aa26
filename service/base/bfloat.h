/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bfloat.h: bfloat16, carried in a uint16_t: the upper half of a float's bits, 1 of sign, 8 of exponent, 7 of fraction;
 * and TF32, a float of which tensor cores take the upper 19 bits: 10 of fraction, as f16 has.
 */
#ifndef WARPTUNE_BASE_BFLOAT_H
#define WARPTUNE_BASE_BFLOAT_H

#include <stdint.h>
#include <string.h>

#define BFLOAT_MAX 0x1.fep127f /* the largest finite one */

/* Exact. */
static inline float bfloat_to_float(uint16_t bfloat) {
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest one, the even one of two; what is too large becomes an infinity, a NaN a quiet NaN. */
static inline uint16_t bfloat_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    rounded = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded;
    return (uint16_t)(rounded >> 16);
}

/* The nearest number of TF32, of two the one farther from 0: as cvt.rna.tf32 does it. NaN stays one. */
static inline float tf32_from_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x1000) & 0xffffe000;
    rounded = (bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded;
    memcpy(&value, &rounded, sizeof value);
    return value;
}

#endif
