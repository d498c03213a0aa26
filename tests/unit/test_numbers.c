/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/numbers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/guarded.h"
#include "service/base/bfloat.h"
#include "service/base/half.h"

static struct arena *arena;

static void start(void) {
    arena = arena_new(0);
}

static void stop(void) {
    arena_free(arena);
}

TestSuite(numbers, .init = start, .fini = stop);

static struct workload *parse(const char *key) {
    struct workload *workload;
    struct error error = {0};
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s", error.text);
    return workload;
}

static void *filled(const struct workload *workload, int input, enum numbers kind) {
    void *data = arena_alloc(arena, operand_bytes(&workload->in[input]));
    numbers_fill(workload, input, kind, data);
    return data;
}

static const char conv[] = "conv2d(f32:nhwc:1x16x8x8, f32:row:32x16x3x3, f32:row:32) -> f32:nhwc:1x32x8x8 "
                           "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu";

Test(numbers, integers_are_small_and_whole) {
    const struct workload *workload = parse(conv);
    for (int input = 0; input < 3; input++) {
        const float *data = filled(workload, input, NUMBERS_INTEGERS);
        int64_t n = shape_count(&workload->in[input].shape);
        bool differ = false;
        for (int64_t i = 0; i < n; i++) {
            cr_assert_eq(data[i], rintf(data[i]));
            cr_assert_leq(fabsf(data[i]), input == 2 ? 8 : 3);
            differ |= data[i] != data[0];
        }
        cr_assert(differ);
    }
}

Test(numbers, uniform_ones_are_between_minus_one_and_one) {
    const struct workload *workload = parse(conv);
    const float *data = filled(workload, 0, NUMBERS_UNIFORM);
    for (int i = 0; i < 1024; i++)
        cr_assert(data[i] >= -1 && data[i] <= 1);
}

Test(numbers, the_same_arguments_give_the_same_bytes) {
    const struct workload *workload = parse(conv);
    size_t bytes = operand_bytes(&workload->in[1]);
    cr_assert_eq(memcmp(filled(workload, 1, NUMBERS_UNIFORM), filled(workload, 1, NUMBERS_UNIFORM), bytes), 0);
    cr_assert_neq(memcmp(filled(workload, 1, NUMBERS_UNIFORM), filled(workload, 1, NUMBERS_INTEGERS), bytes), 0);
}

Test(numbers, indices_stay_within_what_they_index) {
    const struct workload *workload = parse("gather(f32:row:3x5, i64:row:40) -> f32:row:40x5 {axis=0}");
    const int64_t *index = filled(workload, 1, NUMBERS_UNIFORM);
    for (int i = 0; i < 40; i++)
        cr_assert(index[i] >= 0 && index[i] < 3);
}

static const struct operand out = {DTYPE_F32, LAYOUT_NHWC, {4, {1, 2, 1, 3}}};

Test(numbers, rounding_is_no_difference_and_more_is) {
    float expected[] = {1000, 0, 3, 4, 5, 6}, got[6];
    char text[256] = "";
    memcpy(got, expected, sizeof got);
    got[2] += 0.009F;
    cr_assert(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    got[2] += 0.009F;
    cr_assert_not(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    cr_assert(numbers_agree(&out, NUMBERS_UNIFORM, got, expected, text, sizeof text));
}

Test(numbers, the_worst_element_is_named_by_its_logical_place) {
    float expected[] = {1, 2, 3, 4, 5, 6}, got[] = {1, 2.5F, 3, 4, 5, 9};
    char text[256] = "";
    cr_assert_not(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    cr_assert_str_eq(text, "element [0, 1, 0, 2] should be 6 and is 9; 2 of 6 elements differ");
}

Test(numbers, nan_agrees_with_nan_alone) {
    float expected[] = {NAN, INFINITY, 1, 2, 3, 4}, got[] = {-NAN, INFINITY, 1, 2, 3, 4};
    char text[256] = "";
    cr_assert(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    got[1] = -INFINITY;
    cr_assert_not(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    got[1] = INFINITY;
    got[5] = NAN;
    cr_assert_not(numbers_agree(&out, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    cr_assert(strstr(text, "nan"));
}

Test(numbers, integers_of_an_integer_type_must_be_equal) {
    const struct operand operand = {DTYPE_I32, LAYOUT_ROW, {1, {2}}};
    int32_t expected[] = {1000000000, 1}, got[] = {1000000000, 2};
    char text[256] = "";
    cr_assert_not(numbers_agree(&operand, NUMBERS_UNIFORM, got, expected, text, sizeof text));
}

/* ---- a quick look ---- */

enum { MANY = 600 * 1024 + 7 };
static const struct operand large = {DTYPE_F32, LAYOUT_ROW, {1, {MANY}}};

/* With element `at` changed to `value`, by `threads`; 0: without a pool. */
static bool agrees_surely(int64_t at, float value, int threads) {
    float *expected = arena_array(arena, MANY, sizeof *expected), *got = arena_array(arena, MANY, sizeof *got);
    for (int64_t i = 0; i < MANY; i++) {
        expected[i] = (float)(i % 1000) / 1000;
        got[i] = expected[i] + 1e-5F;
    }
    got[at] = value;
    struct pool *pool = threads ? pool_new(threads) : NULL;
    bool sure =
        numbers_surely_agree(pool, &large, numbers_limit(&large, false, NUMBERS_UNIFORM, expected), got, expected);
    pool_free(pool);
    return sure;
}

Test(numbers, a_quick_look_misses_nothing) {
    static const int64_t places[] = {0, 1023, 1024, 300 * 1024 + 5, 600 * 1024 - 1, 600 * 1024, MANY - 1};
    for (int threads = 0; threads < 4; threads += 3) {
        cr_assert(agrees_surely(0, 0, threads));
        for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
            cr_assert_not(agrees_surely(places[i], 1.5F, threads), "element %lld", (long long)places[i]);
            cr_assert_not(agrees_surely(places[i], NAN, threads), "element %lld", (long long)places[i]);
        }
    }
}

Test(numbers, a_quick_look_knows_floats_alone) {
    const struct operand operand = {DTYPE_I32, LAYOUT_ROW, {1, {2}}};
    int32_t same[] = {1, 2};
    cr_assert_not(numbers_surely_agree(NULL, &operand, 0, same, same));
}

/* ---- f16 ---- */

static float half_at(const void *data, int64_t i) {
    return half_to_float(((const uint16_t *)data)[i]);
}

Test(numbers, long_sums_of_halves_have_few_terms) {
    static const struct {
        const char *key;
        int64_t rows, terms; /* of the weights: each row belongs to one sum */
    } cases[] = {
        {"conv2d(f16:nhwc:1x512x7x7, f16:row:64x512x3x3) -> f16:nhwc:1x64x7x7 "
         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
         64, 4608},
        {"dense(f16:row:1x25088, f16:row:32x25088, f32:row:32) -> f16:row:1x32 bias", 32, 25088},
        {"dense(f16:row:1x200, f16:row:32x200) -> f16:row:1x32", 32, 200},
    };
    for (size_t c = 0; c < ARRAY_COUNT(cases); c++) {
        const uint16_t *w = filled(parse(cases[c].key), 1, NUMBERS_INTEGERS);
        for (int64_t row = 0; row < cases[c].rows; row++) {
            double most = 0;
            for (int64_t i = 0; i < cases[c].terms; i++)
                most += 3 * fabs((double)half_at(w, row * cases[c].terms + i));
            cr_assert(most > 200 && most + 8 <= 2048, "%s: row %lld: %g", cases[c].key, (long long)row, most);
        }
    }
}

Test(numbers, halves_are_whole_or_between_minus_one_and_one) {
    const struct workload *workload = parse("dense(f16:row:4x100, f16:row:5x100) -> f16:row:4x5");
    const void *whole = filled(workload, 0, NUMBERS_INTEGERS), *uniform = filled(workload, 0, NUMBERS_UNIFORM);
    bool fraction = false;
    for (int64_t i = 0; i < 400; i++) {
        cr_assert(rintf(half_at(whole, i)) == half_at(whole, i) && fabsf(half_at(whole, i)) <= 3);
        cr_assert_leq(fabsf(half_at(uniform, i)), 1);
        fraction |= rintf(half_at(uniform, i)) != half_at(uniform, i);
    }
    cr_assert(fraction);
}

Test(numbers, a_last_place_of_a_half_is_no_difference_and_a_wrong_integer_is) {
    enum { N = 1030 };
    const struct operand operand = {DTYPE_F16, LAYOUT_ROW, {1, {N}}};
    uint16_t expected[N], got[N];
    char text[256] = "";
    for (int i = 0; i < N; i++)
        expected[i] = half_from_float((float)(i % 301 - 150));
    memcpy(got, expected, sizeof got);
    got[150] = half_from_float(0.125F);
    cr_assert(numbers_agree(&operand, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    double limit = numbers_limit(&operand, false, NUMBERS_INTEGERS, expected);
    cr_assert(numbers_surely_agree(NULL, &operand, limit, got, expected));
    for (int at = 1; at < N; at += 1027) {
        memcpy(got, expected, sizeof got);
        got[at] = half_from_float(half_to_float(expected[at]) + 1);
        cr_assert_not(numbers_agree(&operand, NUMBERS_INTEGERS, got, expected, text, sizeof text));
        cr_assert_not(numbers_agree(&operand, NUMBERS_UNIFORM, got, expected, text, sizeof text));
        cr_assert_not(numbers_surely_agree(NULL, &operand, limit, got, expected));
    }
}

/* ---- bf16, tf32 ---- */

static float bfloat_at(const void *data, int64_t i) {
    return bfloat_to_float(((const uint16_t *)data)[i]);
}

/* Sums with the largest that a fill can give stay where a difference of 1 is seen, but for very few. */
Test(numbers, long_sums_of_bfloats_have_fewer_terms) {
    enum { ROWS = 512, TERMS = 4608 };
    const struct workload *workload = parse("conv2d(bf16:nhwc:1x512x7x7, bf16:row:512x512x3x3) -> bf16:nhwc:1x512x7x7 "
                                            "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}");
    const uint16_t *w = filled(workload, 1, NUMBERS_INTEGERS), *x = filled(workload, 0, NUMBERS_INTEGERS);
    double largest = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        double sum = 0;
        int terms = 0;
        for (int64_t i = 0; i < TERMS; i++) {
            sum += (double)bfloat_at(w, row * TERMS + i) * (double)bfloat_at(x, i);
            terms += bfloat_at(w, row * TERMS + i) != 0;
        }
        largest = fmax(largest, fabs(sum));
        cr_assert(terms > 6 && terms < 64, "row %lld: %d", (long long)row, terms);
    }
    cr_assert(largest > 16 && largest + 11 < 128, "%g", largest);
}

Test(numbers, bfloats_are_whole_or_between_minus_one_and_one) {
    const struct workload *workload = parse("dense(bf16:row:4x100, bf16:row:5x100) -> bf16:row:4x5");
    const void *whole = filled(workload, 0, NUMBERS_INTEGERS), *uniform = filled(workload, 0, NUMBERS_UNIFORM);
    bool fraction = false;
    for (int64_t i = 0; i < 400; i++) {
        cr_assert(rintf(bfloat_at(whole, i)) == bfloat_at(whole, i) && fabsf(bfloat_at(whole, i)) <= 3);
        cr_assert_leq(fabsf(bfloat_at(uniform, i)), 1);
        fraction |= rintf(bfloat_at(uniform, i)) != bfloat_at(uniform, i);
    }
    cr_assert(fraction);
}

Test(numbers, a_last_place_of_a_bfloat_is_no_difference_and_a_wrong_integer_is) {
    enum { N = 1030 };
    const struct operand operand = {DTYPE_BF16, LAYOUT_ROW, {1, {N}}};
    uint16_t expected[N], got[N];
    char text[256] = "";
    for (int i = 0; i < N; i++)
        expected[i] = bfloat_from_float((float)(i % 201 - 100));
    memcpy(got, expected, sizeof got);
    got[3] = bfloat_from_float(-97.5F);
    cr_assert(numbers_agree(&operand, NUMBERS_INTEGERS, got, expected, text, sizeof text));
    double limit = numbers_limit(&operand, false, NUMBERS_INTEGERS, expected);
    cr_assert(numbers_surely_agree(NULL, &operand, limit, got, expected));
    for (int at = 1; at < N; at += 1027) {
        memcpy(got, expected, sizeof got);
        got[at] = bfloat_from_float(bfloat_to_float(expected[at]) + 1);
        cr_assert_not(numbers_agree(&operand, NUMBERS_INTEGERS, got, expected, text, sizeof text));
        cr_assert_not(numbers_surely_agree(NULL, &operand, limit, got, expected));
        got[at] = bfloat_from_float(bfloat_to_float(expected[at]) + 2);
        cr_assert_not(numbers_agree(&operand, NUMBERS_UNIFORM, got, expected, text, sizeof text));
    }
}

Test(numbers, results_of_tf32_may_differ_by_a_thousandth_but_for_integers) {
    const struct operand operand = {DTYPE_F32, LAYOUT_ROW, {1, {3}}};
    const float expected[] = {1, -8, 3};
    cr_assert_float_eq(numbers_limit(&operand, true, NUMBERS_UNIFORM, expected), 8e-3, 1e-9);
    cr_assert_float_eq(numbers_limit(&operand, false, NUMBERS_UNIFORM, expected), 8e-4, 1e-9);
    cr_assert_float_eq(numbers_limit(&operand, true, NUMBERS_INTEGERS, expected), 8e-5, 1e-9);
}

/* ---- canaries ---- */

static struct device *device;

static void expect(const struct guarded *guarded, bool intact, int64_t offset) {
    struct error error = {0};
    bool is_intact = !intact;
    int64_t is_at = 0;
    cr_assert_eq(guarded_check(&device_cpu, device, guarded, &is_intact, &is_at, &error), 0, "%s", error.text);
    cr_assert_eq(is_intact, intact);
    if (!intact)
        cr_assert_eq(is_at, offset);
}

Test(guarded, every_byte_beside_the_data_is_watched) {
    struct error error = {0};
    cr_assert_eq(device_cpu.open(0, &device, &error), 0, "%s", error.text);
    for (size_t bytes = 0; bytes < 11; bytes++) {
        struct guarded guarded;
        cr_assert_eq(guarded_alloc(&device_cpu, device, bytes, CANARY_WRITTEN, &guarded, &error), 0);
        cr_assert_eq(guarded.data % 256, 0);
        cr_assert_eq(guarded_poison(&device_cpu, device, &guarded, &error), 0);
        expect(&guarded, true, 0);
        unsigned char *data = (unsigned char *)(uintptr_t)guarded.data;
        for (size_t i = 0; i < bytes; i++)
            cr_assert_eq(data[i], 0xff);
        const int64_t outside[] = {-GUARD_BYTES, -1, (int64_t)bytes, (int64_t)bytes + GUARD_BYTES - 1};
        for (size_t i = 0; i < ARRAY_COUNT(outside); i++) {
            data[outside[i]] ^= 1;
            expect(&guarded, false, outside[i]);
            data[outside[i]] ^= 1;
        }
        guarded_free(&device_cpu, device, &guarded);
        guarded_free(&device_cpu, device, &guarded);
    }
    device_cpu.close(device);
}
