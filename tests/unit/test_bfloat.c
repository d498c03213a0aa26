/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/bfloat.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

Test(bfloat, every_one_comes_back_from_a_float) {
    for (uint32_t i = 0; i < 65536; i++) {
        float wide = bfloat_to_float((uint16_t)i);
        if ((i & 0x7fff) > 0x7f80)
            cr_assert(isnan(wide) && (bfloat_from_float(wide) & 0x7fff) > 0x7f80, "%#x", i);
        else
            cr_assert_eq(bfloat_from_float(wide), i, "%#x is %g", i, (double)wide);
    }
}

Test(bfloat, has_the_values_of_its_format) {
    cr_assert_eq(bfloat_to_float(0x3f80), 1);
    cr_assert_eq(bfloat_to_float(0xc020), -2.5F);
    cr_assert_eq(bfloat_to_float(0x7f7f), BFLOAT_MAX);
    cr_assert_eq(bfloat_to_float(0x0080), FLT_MIN);
    cr_assert_eq(bfloat_to_float(0x0001), 0x1p-133F);
    cr_assert(isinf(bfloat_to_float(0x7f80)) && bfloat_to_float(0xff80) == -INFINITY);
}

Test(bfloat, rounds_to_the_nearest_and_ties_to_the_even) {
    static const struct {
        float value;
        uint16_t bfloat;
    } cases[] = {
        {1 + 0x1p-8F, 0x3f80},
        {1 + 0x1p-8F + 0x1p-20F, 0x3f81},
        {1 + 0x3p-8F, 0x3f82},
        {1 + 0x3p-8F - 0x1p-20F, 0x3f81},
        {2 - 0x1p-8F, 0x4000}, /* up into the next exponent */
        {-0x3p-134F, 0x8002},
        {-0.0F, 0x8000},
        {BFLOAT_MAX + 0x1p118F, 0x7f7f},
        {BFLOAT_MAX + 0x1p119F, 0x7f80},
        {-FLT_MAX, 0xff80},
        {INFINITY, 0x7f80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(bfloat_from_float(cases[i].value), cases[i].bfloat, "%.9g becomes %#x, not %#x",
                     (double)cases[i].value, bfloat_from_float(cases[i].value), cases[i].bfloat);
    cr_assert(isnan(bfloat_to_float(bfloat_from_float(float_of_bits(0x7f800001)))),
              "a NaN of low bits alone stays one");
    cr_assert(isnan(bfloat_to_float(bfloat_from_float(float_of_bits(0xffffffff)))), "no carry makes a number of one");
}

/* No other number with as many bits is nearer, and of two equally near ones it is the one farther from 0. */
Test(tf32, rounds_to_the_nearest_and_ties_away_from_zero) {
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i += 4093) {
        float value = float_of_bits((uint32_t)i), rounded = tf32_from_float(value);
        if (!isfinite(value) || !isfinite(rounded))
            continue;
        uint32_t bits = bits_of_float(rounded), below = (uint32_t)i & 0xffffe000;
        double lower = (double)float_of_bits(below), upper = (double)float_of_bits(below + 0x2000);
        double expected = fabs((double)value - lower) < fabs(upper - (double)value) ? lower : upper;
        cr_assert_eq(bits & 0x1fff, 0, "%#x", (uint32_t)i);
        cr_assert(!isfinite(upper) || (double)rounded == expected, "%.9g becomes %.9g", (double)value, (double)rounded);
    }
    cr_assert_eq(tf32_from_float(1 + 0x1p-11F), 1 + 0x1p-10F);
    cr_assert_eq(tf32_from_float(-1 - 0x1p-11F), -1 - 0x1p-10F);
    cr_assert_eq(tf32_from_float(INFINITY), INFINITY);
    cr_assert_eq(tf32_from_float(FLT_MAX), INFINITY);
    cr_assert(isnan(tf32_from_float(float_of_bits(0x7fffffff))) && isnan(tf32_from_float(float_of_bits(0xff800001))));
}
