/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/fastdiv.h"

#include <assert.h>

/*
 * With 2^(l-1) < d <= 2^l let m = floor(2^(31+l) / d) + 1. Then n × m / 2^(31+l) is above n / d by at most n /
 * 2^(31+l), less than 1 / 2^l <= 1 / d, which does not reach the next whole number. m is below 2^32 since d is above
 * 2^(l-1).
 */
struct fastdiv fastdiv_of(uint32_t divisor) {
    assert(divisor >= 1 && divisor < (uint32_t)1 << 31);
    int shift = 0;
    while ((uint32_t)1 << shift < divisor)
        shift++;
    return (struct fastdiv){(uint32_t)(((uint64_t)1 << (31 + shift)) / divisor + 1), shift};
}

uint32_t fastdiv_quotient(uint32_t n, struct fastdiv divisor) {
    return (uint32_t)((uint64_t)(2 * n) * divisor.multiplier >> 32) >> divisor.shift;
}
