/* SPDX-License-Identifier: Apache-2.0 */
/* AutoTVM's space for depthwise convolutions: its records, its limits, what it computes. */
#include "autotvm_subject.h"

static const struct template *const template = &autotvm_depthwise_cuda;

#define MOBILENET                                                             \
    "conv2d(f32:row:1x32x112x112, f32:row:32x1x3x3) -> f32:row:1x32x112x112 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}"
#define PLAIN                                                                                    \
    "conv2d(f32:row:2x6x7x9, f32:row:6x1x3x3, f32:row:6, f32:row:2x6x8x10) -> f32:row:2x6x8x10 " \
    "{stride=1x1, dilation=1x1, pad=2x1x1x2, groups=6} bias residual act=relu"
#define STRIDED                                                                 \
    "conv2d(f32:row:1x4x13x15, f32:row:4x1x5x3, f32:row:4) -> f32:row:1x4x6x5 " \
    "{stride=2x3, dilation=1x1, pad=2x0x1x2, groups=4} bias act=silu"
#define DILATED                                                      \
    "conv2d(f32:row:1x4x11x12, f32:row:4x1x3x3) -> f32:row:1x4x9x6 " \
    "{stride=1x1, dilation=2x3, pad=1x0x1x0, groups=4}"
/* Three filters a channel, so that tiles of two or four filters begin and end within a channel. */
#define MULTIPLIED                                                   \
    "conv2d(f32:row:2x4x6x6, f32:row:12x1x3x3) -> f32:row:2x12x6x6 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4}"

Test(autotvm_depthwise, records_have_their_indices_and_render) {
    cr_assert_eq(records_of(template->name, check_record, (void *)template), 9);
}

Test(autotvm_depthwise, the_space_has_the_published_size) {
    struct subject subject = subject_of(template, MOBILENET);
    cr_assert_eq(subject.space->size, 6585600);
    arena_free(subject.arena);
}

Test(autotvm_depthwise, dense_and_channels_last_convolutions_are_left_to_others) {
    cr_assert(subject_serves(template, MULTIPLIED));
    cr_assert_not(subject_serves(template, "conv2d(f32:row:1x8x6x6, f32:row:8x2x3x3) -> f32:row:1x8x6x6 "
                                           "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4}"));
    cr_assert_not(subject_serves(template, "conv2d(f32:nhwc:1x8x6x6, f32:row:8x1x3x3) -> f32:nhwc:1x8x6x6 "
                                           "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=8}"));
    cr_assert_not(subject_serves(template, "dense(f32:row:4x1, f32:row:8x1) -> f32:row:4x8"));
}

/* ---- rendering ---- */

Test(autotvm_depthwise, configurations_render_or_say_why_not) {
    static const char *const keys[] = {MOBILENET, PLAIN, STRIDED, DILATED, MULTIPLIED};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject subject = subject_of(template, keys[i]);
        check_random_configurations(&subject, 200);
        arena_free(subject.arena);
    }
}

Test(autotvm_depthwise, a_fallback_fits_where_channels_or_windows_are_many) {
    static const char *const keys[] = {"conv2d(f32:row:64x2048x4x4, f32:row:2048x1x3x3) -> f32:row:64x2048x4x4 "
                                       "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=2048}",
                                       "conv2d(f32:row:1x8x200x200, f32:row:8x1x31x31) -> f32:row:1x8x170x170 "
                                       "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=8}"};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject subject = subject_of(template, keys[i]);
        subject_fallback(&subject);
        arena_free(subject.arena);
    }
}

#define ENTITY(f, y, x)                                                          \
    "[[\"tile_f\",\"sp\"," f "],[\"tile_y\",\"sp\"," y "],[\"tile_x\",\"sp\"," x \
    "],[\"auto_unroll_max_step\",\"ot\",1500],[\"unroll_explicit\",\"ot\",0]]"

Test(autotvm_depthwise, it_is_launched_as_autotvm_does) {
    struct subject subject = subject_of(template, MOBILENET);
    struct program *program =
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,2,2]", "[-1,2,4,1]", "[-1,1,28,2]")));
    cr_assert_not_null(program);
    const struct launch *launch = &program->run[0];
    cr_assert(launch->grid[0] == 2 && launch->grid[1] == 14 && launch->grid[2] == 8);
    cr_assert(launch->block[0] == 28 && launch->block[1] == 4 && launch->block[2] == 2);
    arena_free(subject.arena);
}

Test(autotvm_depthwise, too_many_threads_and_too_much_shared_memory_are_refused) {
    struct subject subject = subject_of(template, MOBILENET);
    cr_assert_null(
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,1,1]", "[-1,1,112,1]", "[-1,1,112,1]"))));
    cr_assert_null(
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,1,1,1]", "[-1,1,8,14]", "[-1,1,112,1]"))));
    arena_free(subject.arena);
}

Test(autotvm_depthwise, the_loops_cover_input_filters_and_output) {
    struct subject subject = subject_of(template, MOBILENET);
    int64_t index = subject_index(&subject, ENTITY("[-1,1,2,2]", "[-1,2,4,1]", "[-1,1,28,2]"));
    cr_assert_eq(nest_steps(&subject, index), 32LL * 112 * 112 * 9);
    cr_assert_eq(nest_reach(&subject, index, 0), 31LL * 112 * 112 + 113 * 112 + 113); /* with a border of one */
    cr_assert_eq(nest_reach(&subject, index, 1), 32 * 9 - 1);
    cr_assert_eq(nest_reach(&subject, index, 2), 4 * 10 * 58 - 1);
    cr_assert_eq(nest_reach(&subject, index, 3), 4 * 9 - 1);
    cr_assert_eq(nest_reach(&subject, index, 4), 32LL * 112 * 112 - 1);
    arena_free(subject.arena);
}

/* ---- compiling and running ---- */

Test(autotvm_depthwise, nvrtc_compiles_small_and_large_tiles) {
    struct subject subject = subject_of(template, MOBILENET);
    subject_compile(&subject, subject_fallback(&subject));
    subject_compile(&subject, subject_index(&subject, ENTITY("[-1,1,1,1]", "[-1,2,4,7]", "[-1,1,16,7]")));
    subject_compile(&subject, subject_index(&subject, ENTITY("[-1,1,1,1]", "[-1,1,1,28]", "[-1,1,4,28]")));
    arena_free(subject.arena);
}

static void run(const char *key) {
    struct subject subject = subject_of(template, key);
    subject_run(&subject, 3, 48);
    arena_free(subject.arena);
}

Test(autotvm_depthwise, padded_images_give_what_the_evaluator_gives) {
    run(PLAIN);
}

Test(autotvm_depthwise, strides_and_dilations_give_what_the_evaluator_gives) {
    run(STRIDED);
    run(DILATED);
}

Test(autotvm_depthwise, several_filters_a_channel_give_what_the_evaluator_gives) {
    static const char *const entities[] = {ENTITY("[-1,1,2,1]", "[-1,2,1,3]", "[-1,1,3,2]"),
                                           ENTITY("[-1,2,1,2]", "[-1,1,2,3]", "[-1,1,6,1]"),
                                           ENTITY("[-1,1,3,2]", "[-1,1,2,1]", "[-1,1,3,1]")};
    struct subject subject = subject_of(template, MULTIPLIED);
    for (size_t i = 0; i < ARRAY_COUNT(entities); i++)
        host_check(template, subject.workload, &subject.target, subject.space, subject_index(&subject, entities[i]));
    arena_free(subject.arena);
}
