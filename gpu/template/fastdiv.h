/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fastdiv.h: division by a number that a kernel hears only when it is launched, without dividing: the host computes a
 * multiplier and a shift, and n / d is the upper half of 2n × multiplier, shifted right. Exact for 0 <= n < 2^31 and
 * 1 <= d < 2^31.
 */
#ifndef WARPTUNE_TEMPLATE_FASTDIV_H
#define WARPTUNE_TEMPLATE_FASTDIV_H

#include <stdint.h>

struct fastdiv {
    uint32_t multiplier;
    int shift;
};

struct fastdiv fastdiv_of(uint32_t divisor);
/* What kernels do with it: __umulhi(2 * n, multiplier) >> shift. */
uint32_t fastdiv_quotient(uint32_t n, struct fastdiv divisor);

#endif
