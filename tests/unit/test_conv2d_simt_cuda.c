/* SPDX-License-Identifier: Apache-2.0 */
/* Rendering and compiling only; tests/gpu runs the kernels. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/rng.h"
#include "tests/unit/cubin_info.h"

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

/* ---- shapes as arguments ---- */

/* NHWC, channels in fours, none or some bound as activation: all else differs. */
static const char *const alike[] = {
    CONV_NHWC,
    "conv2d(f32:nhwc:1x256x14x14, f32:row:256x256x3x3, f32:row:256) -> f32:nhwc:1x256x14x14 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=clip:0:6",
    "conv2d(f32:nhwc:7x64x31x29, f32:row:130x64x5x3) -> f32:nhwc:7x130x14x9 "
    "{stride=2x3, dilation=1x1, pad=1x0x0x0, groups=1}",
    "conv2d(f32:nhwc:1x512x7x7, f32:row:2048x512x1x1, f32:nhwc:1x2048x7x7) -> f32:nhwc:1x2048x7x7 "
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} residual act=relu",
    "conv2d(f32:nhwc:2x128x20x20, f32:row:256x32x3x3) -> f32:nhwc:2x256x20x20 "
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=4}",
    "conv2d(f32:nhwc:32x256x56x56, f32:row:128x256x1x1, f32:row:128) -> f32:nhwc:32x128x28x28 "
    "{stride=2x2, dilation=1x1, pad=0x0x0x0, groups=1} bias",
    "conv2d(f32:nhwc:3x76x65x1, f32:row:71x76x3x1) -> f32:nhwc:3x71x65x1 "
    "{stride=1x1, dilation=1x1, pad=1x0x1x0, groups=1}",
    "dense(f32:row:128x4096, f32:row:1000x4096, f32:row:1000) -> f32:row:128x1000 bias act=relu",
};

struct knob_value {
    const char *knob;
    int64_t value;
};

/* The configuration with these values; the fallback's, for other knobs. */
static int64_t index_with(const struct subject *subject, const struct knob_value *values, size_t n) {
    const struct space *space = subject->space;
    int64_t digit[SPACE_MAX_KNOBS];
    size_t found = 0;
    space_digits(space, fallback(subject), digit);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < space->n_knobs; k++)
            for (int64_t c = 0; strcmp(space->knobs[k].name, values[i].knob) == 0 && c < space->knobs[k].n_candidates;
                 c++)
                if (space->knobs[k].values[c] == values[i].value) {
                    digit[k] = c;
                    found++;
                }
    cr_assert_eq(found, n, "a knob has no such value");
    return space_index(space, digit);
}

/* Tiles of 64 × 64 × 16 and 4 × 4 sums a thread. */
static int64_t tiling(const struct subject *subject, int64_t split, int64_t constants) {
    const struct knob_value values[] = {{"tile_p", 64}, {"tile_c", 64},     {"tile_k", 16},
                                        {"sums", 16},   {"split_k", split}, {"shapes", constants}};
    return index_with(subject, values, ARRAY_COUNT(values));
}

Test(conv2d_simt_cuda, with_shapes_as_arguments_one_source_serves_all_workloads) {
    struct subject first = subject_of(alike[0], "sm_90a");
    const char *parts = render(&first, tiling(&first, 4, 0))->source;
    const char *whole = render(&first, tiling(&first, 1, 0))->source;
    cr_assert_str_neq(parts, whole);
    for (size_t i = 1; i < ARRAY_COUNT(alike); i++) {
        struct subject subject = subject_of(alike[i], "sm_90a");
        int64_t split = i % 2 ? 2 : 4; /* how many parts does not matter either */
        cr_assert(template->banked(subject.space, tiling(&subject, split, 0)));
        cr_assert_str_eq(render(&subject, tiling(&subject, split, 0))->source, parts, "%s", alike[i]);
        cr_assert_str_eq(render(&subject, tiling(&subject, 1, 0))->source, whole, "%s", alike[i]);
        arena_free(subject.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_simt_cuda, with_shapes_as_constants_each_workload_has_its_own_source) {
    struct subject first = subject_of(alike[0], "sm_90a");
    for (size_t i = 1; i < ARRAY_COUNT(alike); i++) {
        struct subject subject = subject_of(alike[i], "sm_90a");
        int64_t index = tiling(&subject, 1, 1);
        cr_assert_not(template->banked(subject.space, index));
        cr_assert_str_neq(render(&subject, index)->source, render(&first, tiling(&first, 1, 1))->source);
        arena_free(subject.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_simt_cuda, layouts_and_odd_channels_have_sources_of_their_own) {
    const char *const others[] = {CONV_STEM, CONV_NCHW};
    const struct knob_value values[] = {{"tile_p", 32}, {"tile_c", 32}, {"tile_k", 16},
                                        {"sums", 16},   {"split_k", 1}, {"shapes", 0}};
    struct subject first = subject_of(CONV_NHWC, "sm_90a");
    const char *source = render(&first, index_with(&first, values, ARRAY_COUNT(values)))->source;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct subject other = subject_of(others[i], "sm_90a");
        cr_assert_str_neq(render(&other, index_with(&other, values, ARRAY_COUNT(values)))->source, source);
        arena_free(other.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_simt_cuda, the_shape_is_the_last_knob) {
    struct subject subject = subject_of(CONV_NHWC, "sm_90a");
    const struct knob *last = &subject.space->knobs[subject.space->n_knobs - 1];
    cr_assert_str_eq(last->name, "shapes");
    cr_assert_eq(last->values[0], 0);
    cr_assert_eq(last->values[1], 1);
    arena_free(subject.arena);
}

/* ---- what is known without compiling ---- */

static double estimate(const struct subject *subject, int64_t index) {
    return template->estimate(subject->workload, &subject->target, subject->space, index);
}

Test(conv2d_simt_cuda, what_cannot_be_rendered_is_estimated_to_last_for_ever) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k], "sm_90a");
        int endless = 0;
        for (int64_t i = 0; i < subject.space->size; i++) {
            double seconds = estimate(&subject, i);
            endless += isinf(seconds);
            cr_assert(isinf(seconds) || (seconds > 1e-6 && seconds < 1e-3), "%g", seconds);
            cr_assert(render(&subject, i) || isinf(seconds), "configuration %lld of %s", (long long)i, keys[k]);
        }
        cr_assert(endless > 0 && endless < subject.space->size);
        arena_free(subject.arena);
    }
}

/* Measured on an H200: 12.4 to 13.1 µs, 13.5 µs, 199 µs. */
Test(conv2d_simt_cuda, estimates_lie_near_what_was_measured) {
    const struct {
        const char *key;
        double seconds;
    } known[] = {{CONV_NHWC, 12.8e-6},
                 {CONV_SMALL, 13.5e-6},
                 {"conv2d(f32:nhwc:32x64x56x56, f32:row:64x64x3x3) -> f32:nhwc:32x64x56x56 "
                  "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                  199e-6}};
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        struct subject subject = subject_of(known[i].key, "sm_90a");
        double seconds = estimate(&subject, fallback(&subject));
        cr_assert(seconds > 0.7 * known[i].seconds && seconds < 1.4 * known[i].seconds, "%g instead of %g", seconds,
                  known[i].seconds);
        arena_free(subject.arena);
    }
}

Test(conv2d_simt_cuda, a_small_image_is_estimated_to_gain_from_a_split_and_a_batch_is_not) {
    struct subject small = subject_of(CONV_SMALL, "sm_90a");
    cr_assert_lt(estimate(&small, tiling(&small, 16, 1)) * 2, estimate(&small, tiling(&small, 1, 1)));
    struct subject large = subject_of("conv2d(f32:nhwc:64x256x28x28, f32:row:256x256x3x3) -> f32:nhwc:64x256x28x28 "
                                      "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                                      "sm_90a");
    cr_assert_gt(estimate(&large, tiling(&large, 16, 1)), estimate(&large, tiling(&large, 1, 1)));
    arena_free(small.arena);
    arena_free(large.arena);
}

/* The loops that are no rounding up multiply to the kernel's multiplications, or a little more. */
Test(conv2d_simt_cuda, its_loops_do_the_work_of_the_workload) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k], "sm_90a");
        struct loop_nest first, nest;
        template->nest(subject.workload, &subject.target, subject.space, 0, &first);
        for (int64_t i = 0; i < subject.space->size; i += 7) {
            double work = 1;
            template->nest(subject.workload, &subject.target, subject.space, i, &nest);
            cr_assert_eq(nest.n_loops, first.n_loops);
            cr_assert_eq(nest.n_accesses, first.n_accesses);
            for (int l = 0; l < nest.n_loops; l++) {
                cr_assert_gt(nest.loops[l].extent, 0);
                cr_assert_eq(nest.loops[l].kind, first.loops[l].kind);
                work *= (double)nest.loops[l].extent;
            }
            cr_assert_geq(work * 2, (double)workload_flops(subject.workload));
            for (int a = 0; a < nest.n_accesses; a++)
                cr_assert_str_eq(nest.accesses[a].name, first.accesses[a].name);
        }
        arena_free(subject.arena);
    }
}

/* ---- compiling ---- */

/* What was compiled has the parameters that the launch passes: pointers and 32-bit values, each in its place. */
static void check_params(const struct buf *code, const struct launch *launch) {
    int bytes[CUBIN_MOST_PARAMS];
    cr_assert_eq(cubin_params(code, launch->entry, bytes), launch->n_args, "%s", launch->entry);
    for (int i = 0; i < launch->n_args; i++)
        cr_assert_eq(bytes[i], launch->args[i].kind == ARG_VALUE ? 4 : 8, "argument %d of %s", i, launch->entry);
}

static void check_code(const struct buf *code, const struct program *program, int64_t index) {
    struct cubin_info info = cubin_info_of(code);
    cr_assert(info.registers > 16 && info.registers <= 255, "%d registers", info.registers);
    /* ptxas spills a register or two for one more block an SM. */
    cr_assert_leq(info.frame, 64, "configuration %lld spills %d bytes", (long long)index, info.frame);
    for (int i = 0; i < program->n_prepare; i++)
        check_params(code, &program->prepare[i]);
    for (int i = 0; i < program->n_run; i++)
        check_params(code, &program->run[i]);
}

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
    check_code(&code, program, index);
    return true;
}

/* The fallback with shapes as arguments; `more`: as constants too, and a random configuration. */
static void compile_for(const char *arch, const char *key, bool more) {
    struct subject subject = subject_of(key, arch);
    struct rng rng;
    rng_seed(&rng, 90);
    int64_t best = fallback(&subject), half = subject.space->size / 2;
    bool possible = compile(&subject, best - half);
    if (possible && more)
        possible =
            compile(&subject, best) && compile(&subject, (int64_t)rng_below(&rng, (uint64_t)subject.space->size));
    arena_free(subject.arena);
    if (!possible)
        cr_skip_test("NVRTC is not here to compile with");
}

Test(conv2d_simt_cuda, compiles_for_hopper) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++)
        compile_for("sm_90a", keys[k], k % 2 == 1); /* one of each layout */
}

Test(conv2d_simt_cuda, compiles_for_other_architectures) {
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_89"};
    for (size_t a = 0; a < ARRAY_COUNT(archs); a++)
        compile_for(archs[a], keys[a], false);
}
