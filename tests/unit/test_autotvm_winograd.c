/* SPDX-License-Identifier: Apache-2.0 */
/* AutoTVM's space for Winograd's method: its records, its limits, what it computes. */
#include "autotvm_subject.h"
#include "gpu/template/autotvm_winograd_transform.h"

static const struct template *const template = &autotvm_winograd_cuda;

#define RESNET                                                             \
    "conv2d(f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}"
/* Squares of 4 × 4, one row and two columns of which lie outside; asymmetric pads. */
#define F43                                                                                       \
    "conv2d(f32:row:2x6x8x11, f32:row:4x6x3x3, f32:row:4, f32:row:2x4x9x10) -> f32:row:2x4x9x10 " \
    "{stride=1x1, dilation=1x1, pad=1x0x2x1, groups=1} bias residual act=relu"
#define F23                                                                   \
    "conv2d(f32:row:1x5x7x9, f32:row:6x5x3x3, f32:row:6) -> f32:row:1x6x7x9 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu"
#define F45                                                            \
    "conv2d(f32:row:1x3x16x10, f32:row:4x3x5x5) -> f32:row:1x4x14x10 " \
    "{stride=1x1, dilation=1x1, pad=1x2x1x2, groups=1}"
#define F25                                                        \
    "conv2d(f32:row:1x4x9x9, f32:row:2x4x5x5) -> f32:row:1x2x5x5 " \
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}"

Test(autotvm_winograd, records_have_their_indices_and_render) {
    cr_assert_eq(records_of(template->name, check_record, (void *)template), 54);
}

Test(autotvm_winograd, the_space_has_the_published_size) {
    struct subject subject = subject_of(template, RESNET);
    cr_assert_eq(subject.space->size, 352800);
    arena_free(subject.arena);
}

/* ---- the transforms ---- */

/* A filter of r taps by the three matrices, against the sums that define it. */
static void check_transform(int m, int r) {
    struct winograd w;
    double d[WINOGRAD_MOST_POINTS], g[WINOGRAD_MOST_POINTS], product[WINOGRAD_MOST_POINTS];
    winograd_of(m, r, &w);
    for (int i = 0; i < w.alpha; i++) {
        d[i] = 3 * i - i * i + 2;
        g[i] = 5 - 2 * i;
    }
    for (int j = 0; j < w.alpha; j++) {
        double of_kernel = 0, of_data = 0;
        for (int i = 0; i < r; i++)
            of_kernel += w.kernel[j][i] * g[i];
        for (int i = 0; i < w.alpha; i++)
            of_data += w.data[j][i] * d[i];
        product[j] = of_kernel * of_data;
    }
    for (int i = 0; i < m; i++) {
        double got = 0, expected = 0;
        for (int j = 0; j < w.alpha; j++)
            got += w.output[i][j] * product[j];
        for (int k = 0; k < r; k++)
            expected += g[k] * d[i + k];
        cr_assert_float_eq(got, expected, 1e-9, "output %d of F(%d, %d): %g, not %g", i, m, r, got, expected);
    }
}

Test(autotvm_winograd, the_transforms_compute_a_filter) {
    for (int m = 2; m <= 4; m++)
        for (int r = 2; m + r - 1 <= WINOGRAD_MOST_POINTS; r++)
            check_transform(m, r);
}

Test(autotvm_winograd, kernels_and_data_are_transformed_by_whole_numbers) {
    struct winograd w;
    winograd_of(4, 3, &w);
    for (int j = 0; j < w.alpha; j++) {
        for (int i = 0; i < w.alpha; i++) {
            cr_assert_eq(w.data[j][i], (double)(int)w.data[j][i]);
            cr_assert_eq(w.kernel[j][i], (double)(int)w.kernel[j][i]);
        }
    }
}

/* ---- what is served ---- */

Test(autotvm_winograd, strides_dilations_groups_and_other_kernels_are_left_to_others) {
#define ONE(kernel, out, attributes) \
    "conv2d(f32:row:1x8x16x16, f32:row:" kernel ") -> f32:row:1x8x" out " {" attributes "}"
    cr_assert(subject_serves(template, RESNET));
    cr_assert(subject_serves(template, F45));
    cr_assert_not(subject_serves(template, ONE("8x8x3x3", "8x8", "stride=2x2, dilation=1x1, pad=1x1x1x1, groups=1")));
    cr_assert_not(subject_serves(template, ONE("8x8x3x3", "14x14", "stride=1x1, dilation=2x2, pad=1x1x1x1, groups=1")));
    cr_assert_not(subject_serves(template, ONE("8x4x3x3", "16x16", "stride=1x1, dilation=1x1, pad=1x1x1x1, groups=2")));
    cr_assert_not(subject_serves(template, ONE("8x8x1x1", "16x16", "stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1")));
    cr_assert_not(subject_serves(template, ONE("8x8x3x5", "16x14", "stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1")));
    cr_assert_not(subject_serves(template, "dense(f32:row:4x8, f32:row:8x8) -> f32:row:4x8"));
}

Test(autotvm_winograd, it_is_searched_only_by_its_name) {
    struct subject subject = subject_of(template, RESNET);
    cr_assert_eq(template_find(template_builtin, "conv2d_nchw_winograd.cuda"), template);
    cr_assert_neq(template_for(template_builtin, subject.workload, &subject.target), template);
    arena_free(subject.arena);
}

/* ---- rendering ---- */

Test(autotvm_winograd, configurations_render_or_say_why_not) {
    static const char *const keys[] = {RESNET, F43, F23, F45, F25};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject subject = subject_of(template, keys[i]);
        subject_fallback(&subject);
        check_random_configurations(&subject, 200);
        arena_free(subject.arena);
    }
}

#define ENTITY(y, x, rc)                                                                                          \
    "[[\"tile_b\",\"sp\",[-1,1,1,1]],[\"tile_y\",\"sp\"," y "],[\"tile_x\",\"sp\"," x "],[\"tile_rc\",\"sp\"," rc \
    "],[\"auto_unroll_max_step\",\"ot\",1500],[\"unroll_explicit\",\"ot\",0]]"

Test(autotvm_winograd, the_product_is_launched_as_autotvm_does) {
    struct subject subject = subject_of(template, RESNET);
    struct program *program =
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,2,8,2]", "[-1,1,14,2]", "[-1,8]")));
    cr_assert_not_null(program);
    cr_assert_eq(program->n_prepare, 1);
    cr_assert_eq(program->n_run, 3);
    const struct launch *product = &program->run[1];
    cr_assert(product->grid[0] == 7 && product->grid[1] == 2 && product->grid[2] == 36);
    cr_assert(product->block[0] == 14 && product->block[1] == 8 && product->block[2] == 1);
    cr_assert_eq(program->prepared_bytes[0], 36u * 64 * 64 * 4);
    cr_assert_eq(program->scratch_bytes[0], 36u * 64 * 196 * 4);
    arena_free(subject.arena);
}

Test(autotvm_winograd, too_many_threads_and_too_much_shared_memory_are_refused) {
    struct subject subject = subject_of(template, RESNET);
    cr_assert_null(subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,64,1]", "[-1,1,196,1]", "[-1,1]"))));
    cr_assert_null(subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,8,8]", "[-1,1,49,4]", "[-1,64]"))));
    cr_assert_not_null(
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,8,8]", "[-1,1,49,2]", "[-1,64]"))));
    arena_free(subject.arena);
}

Test(autotvm_winograd, the_loops_are_those_of_the_product) {
    struct subject subject = subject_of(template, RESNET);
    int64_t index = subject_index(&subject, ENTITY("[-1,2,8,2]", "[-1,1,14,2]", "[-1,8]"));
    cr_assert_eq(nest_steps(&subject, index), 36LL * 64 * 64 * 196);
    cr_assert_eq(nest_reach(&subject, index, 0), 36LL * 64 * 196 - 1);
    cr_assert_eq(nest_reach(&subject, index, 1), 36LL * 64 * 64 - 1);
    cr_assert_eq(nest_reach(&subject, index, 2), 8 * 28 - 1);
    cr_assert_eq(nest_reach(&subject, index, 3), 8 * 32 - 1);
    cr_assert_eq(nest_reach(&subject, index, 4), 36LL * 64 * 196 - 1);
    arena_free(subject.arena);
}

/* ---- compiling and running ---- */

Test(autotvm_winograd, nvrtc_compiles_small_and_large_tiles) {
    struct subject subject = subject_of(template, RESNET);
    subject_compile(&subject, subject_fallback(&subject));
    subject_compile(&subject, subject_index(&subject, ENTITY("[-1,4,1,4]", "[-1,2,7,7]", "[-1,4]")));
    subject_compile(&subject, subject_index(&subject, ENTITY("[-1,1,1,64]", "[-1,1,1,196]", "[-1,32]")));
    arena_free(subject.arena);
}

static void run(const char *key, int n) {
    struct subject subject = subject_of(template, key);
    subject_run(&subject, n, 48);
    arena_free(subject.arena);
}

Test(autotvm_winograd, squares_of_4_by_4_give_what_the_evaluator_gives) {
    run(F43, 4);
}

Test(autotvm_winograd, squares_of_2_by_2_give_what_the_evaluator_gives) {
    run(F23, 4);
}

Test(autotvm_winograd, kernels_of_5_by_5_give_what_the_evaluator_gives) {
    run(F45, 2);
    run(F25, 2);
}
