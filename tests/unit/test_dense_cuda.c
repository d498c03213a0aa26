/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers of few samples: rendering, compiling, and the kernel's arithmetic on the host. */
#define WARPS_LAUNCHES "\nLAUNCH(dense, PARTS)\n"
#include "tests/unit/cuda_check.h"

#define VGG "dense(f16:row:1x25088, f16:row:4096x25088, f32:row:4096) -> f16:row:1x4096 bias act=relu"
#define RESNET "dense(f16:row:1x512, f16:row:1000x512, f32:row:1000) -> f16:row:1x1000 bias"
#define FLOATS "dense(f32:row:3x2048, f32:row:1000x2048, f32:row:1000) -> f32:row:3x1000 bias act=relu"
#define EIGHT "dense(f16:row:8x4096, f16:row:1000x4096, f16:row:1000) -> f16:row:8x1000 bias act=silu"
#define ODD \
    "dense(f16:row:5x75, f16:row:110x75, f16:row:110, f16:row:5x110) -> f16:row:5x110 bias residual act=clip:0:6"

static const char *const keys[] = {VGG, RESNET, FLOATS, EIGHT, ODD};

Test(dense_cuda, renders_every_configuration_or_says_why_not) {
    static const char *const archs[] = {"sm_90a", "sm_80", "sm_86", "sm_90a", "sm_75"};
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++)
        check_space(&dense_cuda, keys[k], archs[k]);
}

Test(dense_cuda, serves_dense_layers_of_few_samples) {
    cr_assert(served(&dense_cuda, EIGHT, "sm_75"));
    cr_assert_not(served(&dense_cuda, "dense(f16:row:9x75, f16:row:110x75) -> f16:row:9x110", "sm_90a"));
    cr_assert_not(served(&dense_cuda, "dense(f32:row:1x75, f16:row:110x75) -> f32:row:1x110", "sm_90a"));
}

/* Enough on their way to keep memory busy, on each SM: 32 KB; and SMs with about as much to do as others. */
Test(dense_cuda, the_fallback_keeps_memory_busy) {
    struct subject subject = subject_of(&dense_cuda, VGG, "sm_90a");
    int64_t index = fallback(&subject);
    const struct launch *launch = &render(&subject, index)->run[0];
    int64_t blocks = (int64_t)launch->grid[0] * launch->grid[2], units = subject.target.units;
    int64_t step = 512 * space_value(subject.space, index, "rows", 0) * space_value(subject.space, index, "unroll", 0);
    int64_t each = blocks / units, warps = launch->block[0] / 32;
    cr_assert_geq(each * warps * step, 32768, "%s", describe(&subject, index));
    cr_assert_geq(blocks * 100, (blocks + units - 1) / units * units * 90, "%s", describe(&subject, index));
    arena_free(subject.arena);
}

Test(dense_cuda, with_shapes_as_arguments_one_source_serves_all_sizes) {
    struct subject first = subject_of(&dense_cuda, VGG, "sm_90a");
    struct subject other = subject_of(
        &dense_cuda, "dense(f16:row:1x2048, f16:row:77x2048, f32:row:77) -> f16:row:1x77 bias act=clip:0:6", "sm_90a");
    int64_t a = with_knob(&first, 0, "unroll", 2), b = with_knob(&other, 0, "unroll", 2);
    cr_assert(dense_cuda.banked(first.space, a));
    cr_assert_str_eq(render(&first, a)->source, render(&other, b)->source);
    cr_assert_str_neq(render(&first, with_knob(&first, a, "shapes", 1))->source,
                      render(&other, with_knob(&other, b, "shapes", 1))->source);
    arena_free(first.arena);
    arena_free(other.arena);
}

Test(dense_cuda, its_loops_do_the_work_of_the_workload) {
    check_nest(&dense_cuda, VGG, "sm_90a", 4096.0 * 25088);
    check_nest(&dense_cuda, ODD, "sm_75", 5.0 * 110 * 75);
}

/* ---- arithmetic, on the host ---- */

#ifndef ROUNDS
#define ROUNDS 10
#endif

/* Sizes that divide by nothing and by much, any epilogue. */
static void random_dense(struct rng *rng, struct buf *ret) {
    static const char *const acts[] = {"", " act=relu", " act=clip:0:6", " act=silu"};
    const char *type = rng_below(rng, 3) ? "f16" : "f32";
    long long m = PICK(rng, 1, 1, 2, 3, 5, 7, 8), n = PICK(rng, 1, 3, 10, 37, 64, 101);
    long long k = PICK(rng, 1, 7, 75, 130, 256, 516, 1000, 2048, 3001);
    bool bias = rng_below(rng, 2), residual = rng_below(rng, 2);
    buf_printf(ret, "dense(%s:row:%lldx%lld, %s:row:%lldx%lld", type, m, k, type, n, k);
    if (bias)
        buf_printf(ret, ", %s:row:%lld", rng_below(rng, 2) ? type : "f32", n);
    if (residual)
        buf_printf(ret, ", %s:row:%lldx%lld", type, m, n);
    buf_printf(ret, ") -> %s:row:%lldx%lld%s%s%s", type, m, n, bias ? " bias" : "", residual ? " residual" : "",
               acts[rng_below(rng, ARRAY_COUNT(acts))]);
}

Test(dense_cuda, random_configurations_compute_random_layers) {
    static const char *const archs[] = {"sm_90a", "sm_75", "sm_90a"};
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(&dense_cuda, random_dense, i + 1, archs[i % ARRAY_COUNT(archs)]);
}

/* The first CTA of four adds what all of them and their warps have. */
Test(dense_cuda, a_cluster_adds_what_its_parts_summed) {
    struct subject subject = subject_of(
        &dense_cuda, "dense(f16:row:3x4100, f16:row:13x4100, f16:row:13) -> f16:row:3x13 bias act=relu", "sm_90a");
    int64_t index = with_knob(&subject, fallback(&subject), "split_k", 4);
    index = with_knob(&subject, with_knob(&subject, index, "k_warps", 2), "warps", 4);
    index = with_knob(&subject, with_knob(&subject, index, "unroll", 2), "rows", 4);
    check_on_host(&subject, index);
    arena_free(subject.arena);
}

/* ---- compiling ---- */

Test(dense_cuda, compiles_for_hopper) {
    compile_for(&dense_cuda, "sm_90a", VGG);
    compile_for(&dense_cuda, "sm_90a", EIGHT);
}

Test(dense_cuda, compiles_for_other_architectures) {
    compile_for(&dense_cuda, "sm_75", RESNET);
    compile_for(&dense_cuda, "sm_80", FLOATS);
    compile_for(&dense_cuda, "sm_89", ODD);
}
