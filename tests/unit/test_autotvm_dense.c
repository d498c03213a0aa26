/* SPDX-License-Identifier: Apache-2.0 */
/* AutoTVM's two spaces for dense layers: which batch each serves, their candidates, what they compute. */
#include "autotvm_subject.h"

static const struct template *const small = &autotvm_dense_small_cuda;
static const struct template *const large = &autotvm_dense_large_cuda;

#define HEAD "dense(f32:row:1x512, f32:row:1000x512, f32:row:1000) -> f32:row:1x1000 bias"
#define BATCH "dense(f32:row:128x2048, f32:row:1024x2048) -> f32:row:128x1024"
#define FEW "dense(f32:row:3x75, f32:row:5x75, f32:row:5, f32:row:3x5) -> f32:row:3x5 bias residual act=tanh"
#define MANY "dense(f32:row:64x48, f32:row:64x48, f32:row:64, f32:row:64x64) -> f32:row:64x64 bias residual act=relu"
/* No tile of 64 divides its outputs. */
#define ODD "dense(f32:row:36x30, f32:row:10x30, f32:row:10) -> f32:row:36x10 bias act=silu"

Test(autotvm_dense, batches_from_32_on_are_large) {
    static const char *const keys[] = {"dense(f32:row:31x64, f32:row:64x64) -> f32:row:31x64",
                                       "dense(f32:row:32x64, f32:row:64x64) -> f32:row:32x64"};
    cr_assert(subject_serves(small, keys[0]) && !subject_serves(large, keys[0]));
    cr_assert(subject_serves(large, keys[1]) && !subject_serves(small, keys[1]));
    cr_assert_not(subject_serves(small, "dense(f16:row:3x75, f16:row:110x75) -> f16:row:3x110"));
}

/* ---- candidates ---- */

Test(autotvm_dense, a_small_batch_has_a_configuration_for_every_divisor_of_the_depth) {
    struct subject subject = subject_of(small, HEAD);
    cr_assert_eq(subject.space->size, 10);
    cr_assert_eq(subject_index(&subject, "[[\"tile_k\",\"sp\",[-1,64]]]"), 6);
    arena_free(subject.arena);
}

static bool is_among(int64_t n, int64_t first, int64_t last) {
    for (int64_t i = first; i <= last; i *= 2)
        if (i == n)
            return true;
    return false;
}

/* How many ways there are to divide `extent` into four, of those that AutoTVM lists. */
static int64_t count_tiles(int64_t extent) {
    int64_t n = 0;
    for (int64_t v = 1; v <= extent; v++)
        for (int64_t t = 1; v * t <= extent; t++)
            for (int64_t i = 1; v * t * i <= extent; i++)
                n += extent % (v * t * i) == 0 && is_among(v, 2, 64) && is_among(t, 8, 64) &&
                     is_among(v * t * i, 64, 128);
    return n;
}

Test(autotvm_dense, a_large_batch_has_the_promising_tiles_alone) {
    struct subject subject = subject_of(large, BATCH);
    const struct knob *knobs = subject.space->knobs;
    cr_assert_eq(knobs[0].n_candidates, count_tiles(128));
    cr_assert_eq(knobs[1].n_candidates, count_tiles(1024));
    for (int64_t i = 0; i < knobs[2].n_candidates; i++)
        cr_assert_gt(knobs[2].values[i * 3], 2);
    cr_assert_eq(knobs[2].n_candidates, 10 * 11 / 2); /* two powers of two, up to 2^9 together */
    arena_free(subject.arena);
}

Test(autotvm_dense, where_no_tile_promises_anything_all_are_there) {
    struct subject subject = subject_of(large, ODD);
    const struct knob *knobs = subject.space->knobs;
    cr_assert_eq(knobs[0].n_candidates, 100); /* 36 = 2²·3²: 10 × 10 */
    cr_assert_eq(knobs[1].n_candidates, 16);
    cr_assert_eq(knobs[2].n_candidates, 27);
    arena_free(subject.arena);
}

/* ---- rendering ---- */

Test(autotvm_dense, configurations_render_or_say_why_not) {
    static const struct {
        const struct template *const *template;
        const char *key;
    } all[] = {{&small, HEAD}, {&small, FEW}, {&large, BATCH}, {&large, MANY}, {&large, ODD}};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        struct subject subject = subject_of(*all[i].template, all[i].key);
        subject_fallback(&subject);
        check_random_configurations(&subject, 200);
        arena_free(subject.arena);
    }
}

Test(autotvm_dense, a_small_batch_takes_a_block_an_output) {
    struct subject subject = subject_of(small, FEW);
    struct program *program = subject_render(&subject, subject_index(&subject, "[[\"tile_k\",\"sp\",[-1,25]]]"));
    cr_assert_not_null(program);
    const struct launch *launch = &program->run[0];
    cr_assert(launch->grid[0] == 5 && launch->grid[1] == 3 && launch->block[0] == 25);
    arena_free(subject.arena);
}

#define ENTITY(x, y, k) "[[\"tile_x\",\"sp\"," x "],[\"tile_y\",\"sp\"," y "],[\"tile_k\",\"sp\"," k "]]"

Test(autotvm_dense, a_large_batch_is_launched_as_autotvm_does) {
    struct subject subject = subject_of(large, BATCH);
    struct program *program =
        subject_render(&subject, subject_index(&subject, ENTITY("[-1,2,16,2]", "[-1,4,8,4]", "[-1,2,8]")));
    cr_assert_not_null(program);
    const struct launch *launch = &program->run[0];
    cr_assert(launch->grid[0] == 2 && launch->grid[1] == 8 && launch->block[0] == 16 && launch->block[1] == 8);
    arena_free(subject.arena);
}

Test(autotvm_dense, too_many_threads_and_too_much_shared_memory_are_refused) {
    struct subject batch = subject_of(large, BATCH), head = subject_of(small, "dense(f32:row:1x4096, f32:row:4x4096) "
                                                                              "-> f32:row:1x4");
    cr_assert_null(subject_render(&batch, subject_index(&batch, ENTITY("[-1,2,64,1]", "[-1,2,64,1]", "[-1,1,4]"))));
    cr_assert_null(subject_render(&batch, subject_index(&batch, ENTITY("[-1,2,16,4]", "[-1,4,8,4]", "[-1,1,64]"))));
    cr_assert_null(subject_render(&head, subject_index(&head, "[[\"tile_k\",\"sp\",[-1,2048]]]")));
    cr_assert_not_null(subject_render(&head, subject_index(&head, "[[\"tile_k\",\"sp\",[-1,1024]]]")));
    arena_free(batch.arena);
    arena_free(head.arena);
}

Test(autotvm_dense, the_loops_cover_samples_weights_and_outputs) {
    struct subject batch = subject_of(large, BATCH), head = subject_of(small, HEAD);
    int64_t index = subject_index(&batch, ENTITY("[-1,2,16,2]", "[-1,4,8,4]", "[-1,2,8]"));
    cr_assert_eq(nest_steps(&batch, index), 128LL * 1024 * 2048);
    cr_assert_eq(nest_reach(&batch, index, 0), 128 * 2048 - 1);
    cr_assert_eq(nest_reach(&batch, index, 1), 1024 * 2048 - 1);
    cr_assert_eq(nest_reach(&batch, index, 2), 64 * 17 - 2);
    cr_assert_eq(nest_reach(&batch, index, 3), 128 * 17 - 2);
    cr_assert_eq(nest_reach(&batch, index, 4), 128 * 1024 - 1);
    cr_assert_eq(nest_steps(&head, 6), 1000 * 512);
    cr_assert_eq(nest_reach(&head, 6, 1), 1000 * 512 - 1);
    arena_free(batch.arena);
    arena_free(head.arena);
}

/* ---- compiling and running ---- */

Test(autotvm_dense, nvrtc_compiles_small_and_large_tiles) {
    struct subject batch = subject_of(large, BATCH), head = subject_of(small, HEAD);
    subject_compile(&head, subject_fallback(&head));
    subject_compile(&batch, subject_fallback(&batch));
    subject_compile(&batch, subject_index(&batch, ENTITY("[-1,16,8,1]", "[-1,16,8,1]", "[-1,8,2]")));
    subject_compile(&batch, subject_index(&batch, ENTITY("[-1,2,64,1]", "[-1,2,8,4]", "[-1,4,4]")));
    arena_free(batch.arena);
    arena_free(head.arena);
}

Test(autotvm_dense, a_small_batch_gives_what_the_evaluator_gives) {
    struct subject subject = subject_of(small, FEW);
    for (int64_t index = 0; index < subject.space->size; index++)
        host_check(small, subject.workload, &subject.target, subject.space, index);
    arena_free(subject.arena);
}

Test(autotvm_dense, a_large_batch_gives_what_the_evaluator_gives) {
    static const char *const keys[] = {MANY, ODD};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        struct subject subject = subject_of(large, keys[i]);
        subject_run(&subject, 3, 128);
        arena_free(subject.arena);
    }
}
