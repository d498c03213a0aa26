/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "service/model/workload_distance.h"

static double between(const char *left, const char *right) {
    struct arena *arena = arena_new(0);
    struct workload *a = NULL, *b = NULL;
    struct error error = {0};
    cr_assert_eq(workload_parse(left, arena, &a, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(right, arena, &b, &error), 0, "%s", error.text);
    double distance = workload_distance(a, b);
    cr_expect_eq(distance, workload_distance(b, a));
    arena_free(arena);
    return distance;
}

#define CONV(n, pad, out, rest)                                                        \
    "conv2d(f32:row:" n "x8x14x14, f32:row:16x8x3x3) -> f32:row:" n "x16x" out "x" out \
    " {stride=1x1, dilation=1x1, pad=" pad ", groups=1}" rest
#define SAME CONV("1", "1x1x1x1", "14", "")

Test(workload_distance, is_zero_from_itself_and_grows_with_the_ratio) {
    cr_expect_eq(between(SAME, SAME), 0);
    /* Twice the batch doubles a dimension of the input and one of the output. */
    cr_expect_float_eq(between(SAME, CONV("2", "1x1x1x1", "14", "")), sqrt(2), 1e-12);
    cr_expect_float_eq(between(SAME, CONV("8", "1x1x1x1", "14", "")), sqrt(2) * 3, 1e-12);
}

Test(workload_distance, counts_attributes_and_a_little_the_epilogue) {
    double pads = between(SAME, CONV("1", "0x0x0x0", "12", ""));
    cr_expect_float_eq(pads, sqrt(4 + 2 * log2(14.0 / 12) * log2(14.0 / 12)), 1e-12);
    cr_expect_float_eq(between(SAME, CONV("1", "1x1x1x1", "14", " act=relu")), 0.25, 1e-12);
    cr_expect_float_eq(between("dense(f32:row:1x8, f32:row:4x8) -> f32:row:1x4",
                               "dense(f32:row:1x8, f32:row:4x8, f32:row:4) -> f32:row:1x4 bias act=relu"),
                       sqrt(2.0 / 16), 1e-12);
}

Test(workload_distance, is_infinite_between_kinds) {
    const char *dense = "dense(f32:row:1x8, f32:row:4x8) -> f32:row:1x4";
    const char *nhwc = "conv2d(f32:nhwc:1x8x14x14, f32:row:16x8x3x3) -> f32:nhwc:1x16x14x14 "
                       "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}";
    cr_expect_eq(between(SAME, dense), INFINITY);
    cr_expect_eq(between(SAME, nhwc), INFINITY);
    cr_expect_eq(between(dense, "dense(f16:row:1x8, f16:row:4x8) -> f16:row:1x4"), INFINITY);
    cr_expect_eq(between(dense, "dense(f32:row:1x8, f32:row:4x8) -> f32:row:1x4 math=tf32"), INFINITY);
}
