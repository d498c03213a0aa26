/* SPDX-License-Identifier: Apache-2.0 */
/* Rendering and compiling only; tests/gpu runs the kernels. */
#include <criterion/criterion.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/rng.h"

static const struct template *const template = &conv2d_simt_cuda;

#define CONV_NHWC                                                                                             \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"
#define CONV_SMALL                                                                        \
    "conv2d(f32:nhwc:1x512x7x7, f32:row:512x512x3x3, f32:row:512) -> f32:nhwc:1x512x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu"
#define CONV_STEM                                                          \
    "conv2d(f32:nhwc:2x3x33x35, f32:row:17x3x7x5) -> f32:nhwc:2x17x16x13 " \
    "{stride=2x3, dilation=1x1, pad=2x3x2x3, groups=1} act=clip:0:6"
#define CONV_NCHW                                                                      \
    "conv2d(f32:row:2x24x15x15, f32:row:32x12x3x3, f32:row:32) -> f32:row:2x32x15x15 " \
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=2} bias act=erf"
#define DENSE "dense(f32:row:3x75, f32:row:110x75, f32:row:110, f32:row:3x110) -> f32:row:3x110 bias residual act=tanh"

static const char *const keys[] = {CONV_NHWC, CONV_SMALL, CONV_STEM, CONV_NCHW, DENSE};
static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a"};

/* A workload on a target, with its space. */
struct subject {
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct space *space;
};

static struct subject subject_of(const char *key, const char *arch) {
    struct subject subject = {.arena = arena_new(0)};
    struct error error = {0};
    cr_assert_eq(target_of_arch(arch, &subject.target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, subject.arena, &subject.workload, &error), 0, "%s\n%s", key, error.text);
    cr_assert(template->serves(subject.workload, &subject.target), "%s", key);
    subject.space = template->space(subject.workload, &subject.target, subject.arena);
    return subject;
}

static struct program *render(const struct subject *subject, int64_t index) {
    struct program *program;
    struct error error = {0};
    if (template->render(subject->workload, &subject->target, subject->space, index, subject->arena, &program,
                         &error) == 0)
        return program;
    cr_assert_str_eq(error.code, "instantiation", "configuration %lld: %s", (long long)index, error.text);
    return NULL;
}

static int64_t fallback(const struct subject *subject) {
    int64_t index = template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    return index;
}

/* ---- rendering ---- */

static void check_launch(const struct launch *launch, const struct subject *subject, int64_t index) {
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    cr_assert(strstr(render(subject, index)->source, launch->entry), "there is no kernel %s", launch->entry);
    cr_assert(threads > 0 && threads <= subject->target.max_threads, "%lld threads", (long long)threads);
    cr_assert(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[2] > 0);
    cr_assert(launch->grid[1] <= 65535 && launch->grid[2] <= 65535);
    cr_assert_leq(launch->shared_bytes, subject->target.shared_bytes);
}

Test(conv2d_simt_cuda, renders_every_configuration_or_says_why_not) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k], "sm_75");
        int rendered = 0;
        for (int64_t i = 0; i < subject.space->size; i++) {
            struct program *program = render(&subject, i);
            for (int j = 0; program && j < program->n_run; j++)
                check_launch(&program->run[j], &subject, i);
            rendered += program != NULL;
        }
        cr_assert_geq(rendered * 2, subject.space->size, "%d of %lld configurations of %s", rendered,
                      (long long)subject.space->size, keys[k]);
        arena_free(subject.arena);
    }
}

Test(conv2d_simt_cuda, splits_the_sum_of_a_small_image_over_the_multiprocessors) {
    struct subject subject = subject_of(CONV_SMALL, "sm_90a");
    struct program *program = render(&subject, fallback(&subject));
    cr_assert_not_null(program);
    cr_assert_eq(program->n_run, 2);
    cr_assert_eq(program->n_scratch, 1);
    const unsigned *grid = program->run[0].grid;
    cr_assert_geq(grid[0] * grid[1] * grid[2], (unsigned)subject.target.units);
    arena_free(subject.arena);
}

Test(conv2d_simt_cuda, leaves_half_precision_to_others) {
    struct target target;
    struct workload *workload;
    struct error error = {0};
    struct arena *arena = arena_new(0);
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse("dense(f16:row:3x75, f16:row:110x75) -> f16:row:3x110", arena, &workload, &error), 0,
                 "%s", error.text);
    cr_assert_not(template->serves(workload, &target));
    arena_free(arena);
}

/* ---- compiling ---- */

/* False where there is no NVRTC. */
static bool compile(const struct subject *subject, int64_t index) {
    struct program *program = render(subject, index);
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    if (!program)
        return true;
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        return false;
    cr_assert_eq(rc, 0, "configuration %lld for %s: %s", (long long)index, subject->target.arch, error.text);
    cr_assert_gt(code.len, 0);
    return true;
}

/* The fallback of every workload, and a random configuration of each, on one architecture. */
static void compile_for(const char *arch, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k], arch);
        bool possible = compile(&subject, fallback(&subject)) &&
                        compile(&subject, (int64_t)rng_below(&rng, (uint64_t)subject.space->size));
        arena_free(subject.arena);
        if (!possible)
            cr_skip_test("NVRTC is not here to compile with");
    }
}

Test(conv2d_simt_cuda, compiles_for_turing) {
    compile_for(archs[0], 75);
}

Test(conv2d_simt_cuda, compiles_for_ampere) {
    compile_for(archs[1], 80);
    compile_for(archs[2], 86);
}

Test(conv2d_simt_cuda, compiles_for_ada_and_hopper) {
    compile_for(archs[3], 89);
    compile_for(archs[4], 90);
}
