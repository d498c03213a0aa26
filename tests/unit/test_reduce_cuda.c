/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, global pools and softmax: rendering, compiling, and the kernel's arithmetic on the host. */
#define WARPS_LAUNCHES "\nLAUNCH(reduce, 1)\n"
#include "tests/unit/cuda_check.h"

#define GLOBAL "reduce(f16:nhwc:1x512x7x7) -> f16:nhwc:1x512x1x1 {kind=mean, axes=12}"
#define PLANES "reduce(f32:row:2x512x7x7) -> f32:row:2x512x1x1 {kind=mean, axes=12}"
#define WINDOW                                      \
    "pool(f16:nhwc:2x24x7x5) -> f16:nhwc:2x24x1x1 " \
    "{kind=average, kernel=7x5, stride=1x1, dilation=1x1, pad=0x0x0x0, count_include_pad=0}"
#define CLASSES "softmax(f16:row:1x1000) -> f16:row:1x1000 {axis=1, log=0}"
#define PIXELS "softmax(f32:row:2x21x10x10) -> f32:row:2x21x10x10 {axis=1, log=1}"

static const char *const keys[] = {GLOBAL, PLANES, WINDOW, CLASSES, PIXELS};

Test(reduce_cuda, renders_every_configuration_or_says_why_not) {
    static const char *const archs[] = {"sm_90a", "sm_80", "sm_86", "sm_90a", "sm_75"};
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++)
        check_space(&reduce_cuda, keys[k], archs[k]);
}

Test(reduce_cuda, serves_lines_of_neighbours_in_memory) {
    cr_assert(served(&reduce_cuda, "reduce(f32:row:4x5x6) -> f32:row:1x1x1 {kind=sum, axes=7}", "sm_75"));
    cr_assert(served(&reduce_cuda, "softmax(f32:nhwc:2x5x3x7) -> f32:nhwc:2x5x3x7 {axis=1, log=0}", "sm_75"));
    cr_assert_not(served(&reduce_cuda, "reduce(f32:row:4x5x6) -> f32:row:1x5x1 {kind=sum, axes=5}", "sm_75"));
    cr_assert_not(served(&reduce_cuda, "reduce(i32:row:4x5) -> i32:row:4x1 {kind=sum, axes=2}", "sm_75"));
    cr_assert_not(served(&reduce_cuda,
                         "pool(f16:nhwc:1x24x7x7) -> f16:nhwc:1x24x3x3 "
                         "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=0x0x0x0, count_include_pad=0}",
                         "sm_90a"));
}

Test(reduce_cuda, its_loops_do_the_work_of_the_workload) {
    check_nest(&reduce_cuda, GLOBAL, "sm_90a", 512.0 * 49);
    check_nest(&reduce_cuda, CLASSES, "sm_90a", 1000);
}

/* ---- arithmetic, on the host ---- */

#ifndef ROUNDS
#define ROUNDS 12
#endif

static void random_lines(struct rng *rng, struct buf *ret) {
    static const char *const kinds[] = {"mean", "max", "sum"};
    const char *type = rng_below(rng, 2) ? "f16" : "f32", *layout = rng_below(rng, 2) ? "nhwc" : "row";
    long long n = PICK(rng, 1, 2, 3), c = PICK(rng, 2, 3, 8, 20, 32), h = PICK(rng, 1, 2, 7), w = PICK(rng, 1, 5, 8);
    long long length = PICK(rng, 2, 3, 10, 33, 100, 1000, 1024, 2050);
    switch (rng_below(rng, 5)) {
    case 0:
        buf_printf(ret, "softmax(%s:row:%lldx%lld) -> %s:row:%lldx%lld {axis=1, log=%d}", type, n, length, type, n,
                   length, (int)rng_below(rng, 2));
        return;
    case 1:
        buf_printf(ret, "softmax(%s:%s:%lldx%lldx%lldx%lld) -> %s:%s:%lldx%lldx%lldx%lld {axis=1, log=%d}", type,
                   layout, n, c, h, w, type, layout, n, c, h, w, (int)rng_below(rng, 2));
        return;
    case 2:
        buf_printf(ret, "reduce(%s:row:%lldx%lld) -> %s:row:%lldx1 {kind=%s, axes=2}", type, n, length, type, n,
                   kinds[rng_below(rng, 3)]);
        return;
    case 3:
        buf_printf(ret, "pool(%s:%s:%lldx%lldx%lldx%lld) -> %s:%s:%lldx%lldx1x1 ", type, layout, n, c, h + 1, w, type,
                   layout, n, c);
        buf_printf(ret, "{kind=%s, kernel=%lldx%lld, stride=1x1, dilation=1x1, pad=0x0x0x0, count_include_pad=0}",
                   rng_below(rng, 2) ? "max" : "average", h + 1, w);
        return;
    default:
        buf_printf(ret, "reduce(%s:%s:%lldx%lldx%lldx%lld) -> %s:%s:%lldx%lldx1x1 {kind=%s, axes=12}", type, layout, n,
                   c, h + 1, w, type, layout, n, c, kinds[rng_below(rng, 3)]);
    }
}

Test(reduce_cuda, random_configurations_compute_random_lines) {
    static const char *const archs[] = {"sm_90a", "sm_75", "sm_90a"};
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(&reduce_cuda, random_lines, i + 1, archs[i % ARRAY_COUNT(archs)]);
}

/* The fallbacks, as networks have them. */
Test(reduce_cuda, computes_what_networks_end_with) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(&reduce_cuda, keys[k], "sm_90a");
        check_on_host(&subject, fallback(&subject));
        arena_free(subject.arena);
    }
}

/* A line longer than its threads keep is read again; one of several warps meets in shared memory. */
Test(reduce_cuda, long_lines_are_read_again) {
    struct subject subject =
        subject_of(&reduce_cuda, "softmax(f32:row:2x3000) -> f32:row:2x3000 {axis=1, log=0}", "sm_90a");
    int64_t index = with_knob(&subject, with_knob(&subject, fallback(&subject), "ways", 64), "vec", 4);
    cr_assert(strstr(render(&subject, index)->source, "#define HELD 0"));
    check_on_host(&subject, index);
    arena_free(subject.arena);
}

/* ---- compiling ---- */

Test(reduce_cuda, compiles_for_hopper) {
    compile_for(&reduce_cuda, "sm_90a", GLOBAL);
    compile_for(&reduce_cuda, "sm_90a", CLASSES);
}

Test(reduce_cuda, compiles_for_other_architectures) {
    compile_for(&reduce_cuda, "sm_75", PLANES);
    compile_for(&reduce_cuda, "sm_80", PIXELS);
    compile_for(&reduce_cuda, "sm_89", CLASSES);
}
