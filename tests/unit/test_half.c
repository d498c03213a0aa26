/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/half.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

Test(half, every_one_comes_back_from_a_float) {
    for (uint32_t i = 0; i < 65536; i++) {
        float wide = half_to_float((uint16_t)i);
        if ((i & 0x7fff) > 0x7c00)
            cr_assert(isnan(wide) && (half_from_float(wide) & 0x7fff) > 0x7c00, "%#x", i);
        else
            cr_assert_eq(half_from_float(wide), i, "%#x is %g", i, (double)wide);
    }
}

Test(half, has_the_values_of_its_format) {
    cr_assert_eq(half_to_float(0x3c00), 1);
    cr_assert_eq(half_to_float(0xc100), -2.5F);
    cr_assert_eq(half_to_float(0x7bff), HALF_MAX);
    cr_assert_eq(half_to_float(0x0400), 0x1p-14F, "the smallest normal one");
    cr_assert_eq(half_to_float(0x03ff), 1023 * 0x1p-24F, "the largest subnormal one");
    cr_assert_eq(half_to_float(0x0001), 0x1p-24F);
    cr_assert(half_to_float(0x8000) == 0 && signbit(half_to_float(0x8000)));
    cr_assert(isinf(half_to_float(0x7c00)) && half_to_float(0xfc00) == -INFINITY);
}

Test(half, rounds_to_the_nearest_and_ties_to_the_even) {
    static const struct {
        float value;
        uint16_t half;
    } cases[] = {
        {1 + 0x1p-11F, 0x3c00},
        {1 + 0x1p-11F + 0x1p-20F, 0x3c01},
        {1 + 0x3p-11F, 0x3c02},
        {1 + 0x3p-11F - 0x1p-20F, 0x3c01},
        {2 - 0x1p-11F, 0x4000}, /* up into the next exponent */
        {0x1p-25F, 0},
        {0x1p-25F + 0x1p-40F, 1},
        {0x3p-25F, 2},
        {-0x5p-25F, 0x8002},
        {0x1p-14F - 0x1p-25F, 0x0400}, /* up from the subnormal ones */
        {FLT_MIN / 4, 0},
        {-0.0F, 0x8000},
        {65519.996F, 0x7bff},
        {65520, 0x7c00},
        {-FLT_MAX, 0xfc00},
        {INFINITY, 0x7c00},
        {-INFINITY, 0xfc00},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(half_from_float(cases[i].value), cases[i].half, "%.9g becomes %#x, not %#x",
                     (double)cases[i].value, half_from_float(cases[i].value), cases[i].half);
    cr_assert_eq(half_from_float(NAN) & 0x7fff, 0x7e00);
}

#ifdef __FLT16_MANT_DIG__
Test(half, is_the_compilers) {
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 1009) {
        uint32_t bits = (uint32_t)i;
        float value;
        uint16_t expected;
        memcpy(&value, &bits, sizeof value);
        const _Float16 narrow = (_Float16)value;
        memcpy(&expected, &narrow, sizeof expected);
        cr_assert(isnan(value) || half_from_float(value) == expected, "%.9g", (double)value);
    }
}
#endif
