/* SPDX-License-Identifier: Apache-2.0 */
/* Rendering, compiling, and the kernels' arithmetic on the host; tests/gpu runs them on a GPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "gpu/template/conv2d_wgmma.h"
#include "service/base/bfloat.h"
#include "service/base/clock.h"
#include "service/base/rng.h"
#include "tests/unit/cubin_info.h"
#include "tests/unit/cuda_warps.h"

static const struct template *const template = &conv2d_wgmma_cuda;

#define CONV                                                                                                     \
    "conv2d(f16:nhwc:32x64x56x56, f16:row:64x64x3x3, f32:row:64, f16:nhwc:32x64x56x56) -> f16:nhwc:32x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"
#define CONV_SMALL                                                                          \
    "conv2d(f16:nhwc:32x512x7x7, f16:row:512x512x3x3, f16:row:512) -> f16:nhwc:32x512x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu"
#define CONV_ODD                                                                 \
    "conv2d(f16:nhwc:20x104x35x33, f16:row:72x104x3x1) -> f16:nhwc:20x72x18x33 " \
    "{stride=2x1, dilation=1x1, pad=1x0x1x0, groups=1} act=clip:0:6"
#define CONV_POINT                                                               \
    "conv2d(f16:nhwc:32x512x7x7, f16:row:2048x512x1x1) -> f16:nhwc:32x2048x7x7 " \
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}"
#define CONV_LARGE                                                                              \
    "conv2d(f16:nhwc:32x256x56x56, f16:row:256x256x3x3, f32:row:256) -> f16:nhwc:32x256x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu"

#define CONV_STEM                                                                            \
    "conv2d(f16:nhwc:32x3x224x224, f16:row:64x3x7x7, f32:row:64) -> f16:nhwc:32x64x112x112 " \
    "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu"

#define CONV_BF16                                                                                                     \
    "conv2d(bf16:nhwc:32x64x56x56, bf16:row:64x64x3x3, bf16:row:64, bf16:nhwc:32x64x56x56) -> bf16:nhwc:32x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"

static const char *const keys[] = {CONV, CONV_SMALL, CONV_ODD, CONV_POINT, CONV_LARGE, CONV_STEM, CONV_BF16};

/* A workload on a target, with its space. */
struct subject {
    struct arena *arena;
    struct target target;
    struct workload *workload;
    struct space *space;
};

static bool served(const char *key, const char *arch, struct subject *ret) {
    struct error error = {0};
    *ret = (struct subject){.arena = arena_new(0)};
    cr_assert_eq(target_of_arch(arch, &ret->target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, ret->arena, &ret->workload, &error), 0, "%s\n%s", key, error.text);
    return template->serves(ret->workload, &ret->target);
}

/* On a Hopper of so many SMs: few, so that small workloads are large enough. */
static struct subject subject_on(const char *key, int units) {
    struct subject subject;
    served(key, "sm_90a", &subject);
    subject.target.units = units;
    cr_assert(template->serves(subject.workload, &subject.target), "%s", key);
    subject.space = template->space(subject.workload, &subject.target, subject.arena);
    return subject;
}

static struct subject subject_of(const char *key) {
    return subject_on(key, 132);
}

/* NULL where it cannot be; `refusal`, unless NULL, is then why. */
static struct program *render(const struct subject *subject, int64_t index, char **refusal) {
    struct program *program;
    struct error error = {0};
    if (template->render(subject->workload, &subject->target, subject->space, index, subject->arena, &program,
                         &error) == 0)
        return program;
    cr_assert_str_eq(error.code, "instantiation", "configuration %lld: %s", (long long)index, error.text);
    if (refusal)
        *refusal = arena_strdup(subject->arena, error.text);
    return NULL;
}

static double estimate(const struct subject *subject, int64_t index) {
    return template->estimate(subject->workload, &subject->target, subject->space, index);
}

static int64_t fallback(const struct subject *subject) {
    int64_t index = template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    return index;
}

/* A configuration by its knobs' values; the space's own order. */
struct tiling {
    int64_t tile_p, tile_c, groups, stages, split_k, ctas, stays, shapes, wide;
};

static int64_t digit_of(const struct knob *knob, int64_t value) {
    for (int64_t c = 0; c < knob->n_candidates; c++)
        if (knob->values[c] == value)
            return c;
    cr_assert_fail("%s cannot be %lld", knob->name, (long long)value);
    return -1;
}

static int64_t index_of(const struct subject *subject, const struct tiling *tiling) {
    const int64_t values[] = {tiling->tile_p,  tiling->tile_c, tiling->groups, tiling->wide,  tiling->stages,
                              tiling->split_k, tiling->ctas,   tiling->stays,  tiling->shapes};
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    cr_assert_eq(subject->space->n_knobs, (int)ARRAY_COUNT(values));
    for (int k = 0; k < subject->space->n_knobs; k++)
        digit[k] = digit_of(&subject->space->knobs[k], values[k]);
    return space_index(subject->space, digit);
}

/* A random configuration that can be. */
static int64_t random_index(const struct subject *subject, struct rng *rng) {
    int64_t index;
    cr_assert(isfinite(estimate(subject, fallback(subject))), "no configuration can be");
    do
        index = (int64_t)rng_below(rng, (uint64_t)subject->space->size);
    while (isinf(estimate(subject, index)));
    return index;
}

static char *describe(const struct subject *subject, int64_t index) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 16);
    buf_printf(&text, "configuration %lld:", (long long)index);
    for (int k = 0; k < subject->space->n_knobs; k++)
        buf_printf(&text, " %s %lld", subject->space->knobs[k].name,
                   (long long)space_value(subject->space, index, subject->space->knobs[k].name, 0));
    buf_puts(&text, " of ");
    workload_key(subject->workload, &text);
    return arena_strdup(subject->arena, buf_str(&text));
}

/* ---- rendering ---- */

static void check_launch(const struct subject *subject, const struct program *program) {
    const struct launch *launch = &program->run[program->n_run - 1];
    bool narrow = subject->workload->in[0].shape.dim[1] <= 4;
    cr_assert_eq(program->n_run, 1 + narrow);
    cr_assert_eq(program->n_scratch, narrow);
    cr_assert(strstr(program->source, launch->entry), "there is no kernel %s", launch->entry);
    cr_assert(launch->block[0] >= 256 && launch->block[0] % 128 == 0 && launch->block[0] <= 384);
    cr_assert(launch->grid[0] > 0 && launch->grid[1] == 1 && launch->grid[2] > 0 && launch->grid[2] <= 8);
    cr_assert_leq(launch->shared_bytes, subject->target.shared_bytes);
    cr_assert(launch->early);
}

/* Also: the estimate knows which cannot. */
Test(conv2d_wgmma_cuda, renders_every_configuration_or_says_why_not) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k]);
        int rendered = 0, all = 0;
        cr_assert_leq(subject.space->size, 32768);
        for (int64_t i = (int64_t)k; i < subject.space->size; i += 11) {
            double seconds = estimate(&subject, i);
            struct program *program = render(&subject, i, NULL);
            cr_assert(isinf(seconds) || (seconds > 1e-6 && seconds < 1e-2), "%g", seconds);
            cr_assert_eq(program != NULL, isfinite(seconds), "%s", describe(&subject, i));
            if (program)
                check_launch(&subject, program);
            rendered += program != NULL;
            all++;
        }
        cr_assert_geq(rendered * 12, all, "%d of %d configurations of %s", rendered, all, keys[k]);
        arena_free(subject.arena);
    }
}

static void check_served(const char *key, const char *arch, bool expected) {
    struct subject subject;
    cr_assert_eq(served(key, arch, &subject), expected, "%s on %s", key, arch);
    arena_free(subject.arena);
}

Test(conv2d_wgmma_cuda, serves_large_convolutions_of_halfs_in_nhwc_on_hopper) {
    check_served(CONV, "sm_90a", true);
    check_served(CONV_BF16, "sm_90a", true);
    check_served(CONV, "sm_80", false);
    check_served(CONV, "sm_100a", false);
    check_served(CONV, "x86-64-v3", false);
    check_served("conv2d(f16:nhwc:32x64x28x28, f16:row:64x32x3x3) -> f16:nhwc:32x64x28x28 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=2}",
                 "sm_90a", false);
    check_served(CONV_STEM, "sm_90a", true);
    check_served("conv2d(f16:nhwc:1x64x16x16, f16:row:64x64x3x3) -> f16:nhwc:1x64x16x16 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
    check_served("conv2d(f16:nhwc:32x3x224x224, f16:row:64x3x3x3) -> f16:nhwc:32x64x224x224 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
    check_served("conv2d(f16:nhwc:32x68x28x28, f16:row:64x68x3x3) -> f16:nhwc:32x64x28x28 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
    check_served("conv2d(f16:nhwc:32x64x28x28, f16:row:66x64x3x3) -> f16:nhwc:32x66x28x28 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
    check_served("conv2d(f32:nhwc:32x64x28x28, f32:row:64x64x3x3) -> f32:nhwc:32x64x28x28 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
    check_served("conv2d(f16:row:32x64x28x28, f16:row:64x64x3x3) -> f16:row:32x64x28x28 "
                 "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                 "sm_90a", false);
}

/* ---- shapes as arguments ---- */

/* Channels in 64s, none or some bound as activation: all else differs. */
static const char *const alike[] = {
    CONV,
    CONV_LARGE,
    CONV_POINT,
    "conv2d(f16:nhwc:70x64x31x29, f16:row:72x64x5x3) -> f16:nhwc:70x72x14x9 "
    "{stride=2x3, dilation=1x1, pad=1x0x0x0, groups=1}",
};

static void check_sources(int shapes, bool same) {
    const struct tiling tiling = {128, 64, 2, 3, 1, 1, 1, shapes};
    struct subject first = subject_of(alike[0]);
    const char *source = render(&first, index_of(&first, &tiling), NULL)->source;
    for (size_t i = 1; i < ARRAY_COUNT(alike); i++) {
        struct subject subject = subject_of(alike[i]);
        int64_t index = index_of(&subject, &tiling);
        struct program *program = render(&subject, index, NULL);
        cr_assert_not_null(program, "%s", alike[i]);
        cr_assert_eq(template->banked(subject.space, index), same);
        cr_assert_eq(strcmp(program->source, source) == 0, same, "%s", alike[i]);
        arena_free(subject.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_wgmma_cuda, with_shapes_as_arguments_one_source_serves_all_workloads) {
    check_sources(0, true);
}

Test(conv2d_wgmma_cuda, with_shapes_as_constants_each_workload_has_its_own_source) {
    check_sources(1, false);
}

/* ---- what is known without compiling ---- */

/* 6272 pixels and 256 channels: 132 tiles of 96 × 128, one for each SM. */
Test(conv2d_wgmma_cuda, some_tile_gives_every_sm_its_share) {
    struct subject subject = subject_of("conv2d(f16:nhwc:32x256x14x14, f16:row:256x256x3x3) -> f16:nhwc:32x256x14x14 "
                                        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}");
    const struct tiling tiling = {96, 128, 2, 4, 1, 1, 0, 1};
    cr_assert_eq(subject.target.units, 132);
    cr_assert_eq(render(&subject, index_of(&subject, &tiling), NULL)->run[0].grid[0], 132);
    arena_free(subject.arena);
}

Test(conv2d_wgmma_cuda, the_fallback_is_the_best_of_the_estimate) {
    struct subject subject = subject_of(CONV);
    double best = estimate(&subject, fallback(&subject));
    for (int64_t i = subject.space->size / 2; i < subject.space->size; i++)
        cr_assert_geq(estimate(&subject, i), best);
    arena_free(subject.arena);
}

/* The loops that are no rounding up multiply to the kernel's multiplications, or a little more. */
Test(conv2d_wgmma_cuda, its_loops_do_the_work_of_the_workload) {
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct subject subject = subject_of(keys[k]);
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
            cr_assert(isinf(estimate(&subject, i)) || work * 2 >= (double)workload_flops(subject.workload));
            for (int a = 0; a < nest.n_accesses; a++)
                cr_assert_str_eq(nest.accesses[a].name, first.accesses[a].name);
        }
        arena_free(subject.arena);
    }
}

/* ---- arithmetic, on the host ---- */

static uint16_t bits_of(enum dtype dtype, float value) {
    if (dtype == DTYPE_BF16)
        return bfloat_from_float(value);
    const _Float16 half = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static double value_at(const struct operand *operand, const void *data, int64_t i) {
    _Float16 half;
    if (operand->dtype == DTYPE_F32)
        return ((const float *)data)[i];
    if (operand->dtype == DTYPE_BF16)
        return bfloat_to_float(((const uint16_t *)data)[i]);
    memcpy(&half, (const uint16_t *)data + i, sizeof half);
    return (double)half;
}

/* Where an element of a rank-4 operand is. */
static int64_t offset(const struct operand *operand, int64_t n, int64_t c, int64_t y, int64_t x) {
    int64_t stride[SHAPE_MAX_RANK];
    operand_strides(operand, stride);
    return n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3];
}

static double sum_at(const struct workload *w, void *const *in, int64_t n, int64_t k, int64_t oy, int64_t ox) {
    const struct conv_attr *attr = &w->attr.conv;
    const int64_t *weight = w->in[1].shape.dim, *data = w->in[0].shape.dim;
    double sum = 0;
    for (int64_t r = 0; r < weight[2]; r++)
        for (int64_t s = 0; s < weight[3]; s++) {
            int64_t y = oy * attr->stride[0] - attr->pad[0] + r * attr->dilation[0],
                    x = ox * attr->stride[1] - attr->pad[1] + s * attr->dilation[1];
            for (int64_t c = 0; c < data[1] && y >= 0 && y < data[2] && x >= 0 && x < data[3]; c++)
                sum += value_at(&w->in[0], in[0], offset(&w->in[0], n, c, y, x)) *
                       value_at(&w->in[1], in[1], offset(&w->in[1], k, c, r, s));
        }
    return sum;
}

static double act_of(const struct epilogue *epilogue, double x) {
    if (epilogue->act == ACT_RELU)
        return x < 0 ? 0 : x;
    cr_assert_eq(epilogue->act == ACT_NONE || epilogue->act == ACT_CLIP, true, "there is no such activation here");
    return epilogue->act == ACT_NONE ? x
           : x < epilogue->alpha     ? epilogue->alpha
           : x > epilogue->beta      ? epilogue->beta
                                     : x;
}

/* Behind each buffer lie NaNs, which nothing may overwrite. */
enum { MARGIN = 4096 };

static void *new_buffer(const struct subject *subject, size_t bytes) {
    unsigned char *data = arena_alloc(subject->arena, bytes + 2 * (size_t)MARGIN);
    memset(data, 0xff, bytes + 2 * (size_t)MARGIN);
    uintptr_t aligned = ((uintptr_t)data + MARGIN / 2 + 127) / 128 * 128;
    return data + (aligned - (uintptr_t)data);
}

static void check_margins(const void *buffer, size_t bytes, const char *what) {
    const unsigned char *data = buffer;
    for (size_t i = 1; i <= MARGIN / 2; i++) {
        cr_assert_eq(*(data - i), 0xff, "%s: a write before a buffer", what);
        cr_assert_eq(data[bytes + i - 1], 0xff, "%s: a write behind a buffer", what);
    }
}

/* Small enough that all sums are exact as halfs: most of the weights are 0. */
static void fill(const struct operand *operand, void *data, int64_t zeros, struct rng *rng) {
    for (int64_t i = 0; i < shape_count(&operand->shape); i++) {
        float value = rng_below(rng, (uint64_t)zeros) == 0 ? (float)rng_below(rng, 7) - 3 : 0;
        if (operand->dtype == DTYPE_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = bits_of(operand->dtype, value);
    }
}

static void check_output(const struct workload *w, void *const *in, const void *out, const char *what) {
    const int64_t *y = w->out[0].shape.dim;
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t k = 0; k < y[1]; k++)
            for (int64_t i = 0; i < y[2] * y[3]; i++) {
                int64_t at = offset(&w->out[0], n, k, i / y[3], i % y[3]);
                double sum = sum_at(w, in, n, k, i / y[3], i % y[3]);
                sum += w->epilogue.bias ? value_at(&w->in[2], in[2], k) : 0;
                sum += w->epilogue.residual ? value_at(&w->in[w->n_in - 1], in[w->n_in - 1], at) : 0;
                sum = act_of(&w->epilogue, sum);
                double got = value_at(&w->out[0], out, at);
                cr_assert(got == sum || (isnan(got) && isnan(sum)), "%s: at %lld %lld %lld: %g instead of %g", what,
                          (long long)n, (long long)k, (long long)i, got, sum);
            }
}

static void execute(const struct warps_code *code, const struct subject *subject, const struct program *program,
                    const char *what) {
    const struct workload *w = subject->workload;
    struct rng rng;
    void *memory[ARG_VALUE][8] = {{NULL}};
    int64_t depth = shape_count(&w->in[1].shape) / w->in[1].shape.dim[0];
    rng_seed(&rng, 11);
    for (int i = 0; i < w->n_in; i++) {
        memory[ARG_IN][i] = new_buffer(subject, operand_bytes(&w->in[i]));
        fill(&w->in[i], memory[ARG_IN][i], i == 1 ? 1 + depth / 128 : 1, &rng);
    }
    /* Infinity shows in the outputs that see it, and in no other. */
    ((uint16_t *)memory[ARG_IN][0])[shape_count(&w->in[0].shape) / 2] = bits_of(w->in[0].dtype, INFINITY);
    memory[ARG_OUT][0] = new_buffer(subject, operand_bytes(&w->out[0]));
    for (int i = 0; i < program->n_scratch; i++)
        memory[ARG_SCRATCH][i] = new_buffer(subject, program->scratch_bytes[i]);
    memory[ARG_PREPARED][0] = new_buffer(subject, program->prepared_bytes[0]);
    warps_set_late(code, memory[ARG_IN][0], operand_bytes(&w->in[0]));
    warps_run(code, program, memory);
    check_output(w, memory[ARG_IN], memory[ARG_OUT][0], what);
    check_margins(memory[ARG_OUT][0], operand_bytes(&w->out[0]), what);
    check_margins(memory[ARG_PREPARED][0], program->prepared_bytes[0], what);
    for (int i = 0; i < program->n_scratch; i++)
        check_margins(memory[ARG_SCRATCH][i], program->scratch_bytes[i], what);
}

/* One compile for several workloads; `units`: SMs of the device, few so that CTAs stay for several tiles. */
static void check_family(const struct tiling *tiling, int units, const char *const *family, int n) {
    struct warps_code code = {0};
    char *source = NULL;
    struct arena *arena = arena_new(0);
    for (int i = 0; i < n; i++) {
        struct subject subject = subject_on(family[i], units);
        char *refusal = NULL;
        int64_t index = index_of(&subject, tiling);
        struct program *program = render(&subject, index, &refusal);
        cr_assert_not_null(program, "%s: %s", describe(&subject, index), refusal);
        if (!source) {
            source = arena_strdup(arena, program->source);
            if (!warps_compile(program, &code))
                cr_skip_test("clang is not here to compile with");
        }
        cr_assert_str_eq(program->source, source);
        execute(&code, &subject, program, describe(&subject, index));
        arena_free(subject.arena);
    }
    dlclose(code.library);
    arena_free(arena);
}

/* Tiles that end in the middle of an image, and channels that end in the middle of a tile. */
Test(conv2d_wgmma_cuda, two_warpgroups_share_the_channels) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x64x9x9, f16:row:136x64x3x3, f32:row:136, f16:nhwc:1x136x9x9) -> f16:nhwc:1x136x9x9 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:2x64x11x9, f16:row:136x64x5x3, f16:row:136) -> f16:nhwc:2x136x4x5 "
        "{stride=2x2, dilation=1x1, pad=1x1x0x1, groups=1} bias act=clip:0:6",
        "conv2d(f16:nhwc:1x128x1x49, f16:row:136x128x1x1) -> f16:nhwc:1x136x1x49 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
    };
    const struct tiling tiling = {64, 128, 2, 3, 1, 1, 0, 0};
    check_family(&tiling, 2, family, (int)ARRAY_COUNT(family));
}

/* Input channels that are no multiple of 64, a stage fewer than steps, two CTAs for four tiles. */
Test(conv2d_wgmma_cuda, two_warpgroups_share_the_pixels_of_tile_after_tile) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x40x15x15, f16:row:64x40x3x3, f32:row:64, f16:nhwc:1x64x15x15) -> f16:nhwc:1x64x15x15 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:3x72x9x9, f16:row:32x72x2x2) -> f16:nhwc:3x32x9x8 "
        "{stride=1x1, dilation=1x1, pad=1x0x0x0, groups=1}",
    };
    const struct tiling tiling = {64, 64, 2, 2, 1, 1, 1, 0};
    check_family(&tiling, 2, family, (int)ARRAY_COUNT(family));
}

/* Rows of 7 or 3 taps with 3 or 1 channels; constants, so that each has its own compile. */
Test(conv2d_wgmma_cuda, few_channels_are_padded_to_four) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x3x30x31, f16:row:64x3x7x7, f32:row:64) -> f16:nhwc:1x64x15x16 "
        "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu",
        "conv2d(f16:nhwc:3x1x12x20, f16:row:40x1x4x3) -> f16:nhwc:3x40x10x10 "
        "{stride=1x2, dilation=1x1, pad=1x1x0x0, groups=1}",
    };
    const struct tiling tiling = {64, 64, 1, 3, 1, 1, 0, 1};
    check_family(&tiling, 2, family, 1);
    check_family(&tiling, 2, family + 1, 1);
}

/* One warpgroup with two times 64 channels, the sum over k in two parts, 40 pixels: an odd number of eights. */
Test(conv2d_wgmma_cuda, a_cluster_adds_what_its_parts_summed) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x64x8x10, f16:row:128x64x3x3, f16:row:128, f16:nhwc:1x128x8x10) -> f16:nhwc:1x128x8x10 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
    };
    const struct tiling tiling = {40, 128, 1, 3, 2, 1, 0, 0};
    check_family(&tiling, 2, family, (int)ARRAY_COUNT(family));
}

/* In four parts, which finish two pieces of 16 pixels × 64 channels each, the last none; in eight. */
Test(conv2d_wgmma_cuda, a_cluster_may_have_more_parts) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x128x4x10, f16:row:72x128x3x3, f16:row:72, f16:nhwc:1x72x4x10) -> f16:nhwc:1x72x4x10 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
    };
    static const char *const deep[] = {
        "conv2d(f16:nhwc:1x256x4x10, f16:row:72x256x3x3, f16:row:72) -> f16:nhwc:1x72x4x10 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
    };
    const struct tiling four = {40, 128, 1, 3, 4, 1, 0, 0}, eight = {64, 128, 1, 3, 8, 1, 0, 1};
    check_family(&four, 2, family, 1);
    check_family(&eight, 2, deep, 1);
}

/* More tiles than warpgroups, an odd number for some CTA; fewer stages than steps, more, and as many. */
Test(conv2d_wgmma_cuda, two_warpgroups_take_tiles_in_turn) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x64x13x13, f16:row:72x64x3x3, f32:row:72, f16:nhwc:1x72x13x13) -> f16:nhwc:1x72x13x13 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:3x64x9x9, f16:row:64x64x1x1, f16:row:64, f16:nhwc:3x64x9x9) -> f16:nhwc:3x64x9x9 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} bias residual",
        "conv2d(f16:nhwc:1x128x9x15, f16:row:128x128x1x1) -> f16:nhwc:1x128x9x15 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
    };
    static const struct tiling two = {64, 64, 2, 2, 1, 1, 2, 0}, four = {32, 64, 2, 4, 1, 1, 2, 0};
    check_family(&two, 2, family, (int)ARRAY_COUNT(family));
    check_family(&four, 2, family, (int)ARRAY_COUNT(family));
}

/* Zeros between lines: one, two, or none but what each line's own last outputs would need; lines that end beyond the
 * image; channels that are no multiple of 64. */
Test(conv2d_wgmma_cuda, a_step_may_be_a_row_of_taps) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:2x64x5x9, f16:row:72x64x3x3, f32:row:72, f16:nhwc:2x72x5x9) -> f16:nhwc:2x72x5x9 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:2x64x9x12, f16:row:72x64x2x3, f16:row:72) -> f16:nhwc:2x72x4x10 "
        "{stride=2x1, dilation=1x1, pad=0x0x0x0, groups=1} bias",
        "conv2d(f16:nhwc:1x64x6x10, f16:row:72x64x3x3) -> f16:nhwc:1x72x6x12 "
        "{stride=1x1, dilation=1x1, pad=1x2x1x2, groups=1}",
        "conv2d(f16:nhwc:1x64x8x10, f16:row:64x64x3x3) -> f16:nhwc:1x64x8x9 "
        "{stride=1x1, dilation=1x1, pad=1x0x1x1, groups=1}",
        "conv2d(f16:nhwc:1x64x8x10, f16:row:64x64x3x3) -> f16:nhwc:1x64x8x9 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x0, groups=1}",
    };
    static const char *const apart[] = {"conv2d(f16:nhwc:1x104x11x11, f16:row:64x104x3x3) -> f16:nhwc:1x64x11x11 "
                                        "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=1}"};
    static const struct tiling one = {64, 64, 1, 2, 1, 1, 0, 0, 1}, two = {64, 64, 2, 3, 1, 1, 1, 0, 1},
                               constants = {32, 64, 1, 3, 1, 1, 0, 1, 1};
    check_family(&one, 2, family, (int)ARRAY_COUNT(family));
    check_family(&two, 2, family, 2);
    check_family(&constants, 2, family, 1);
    check_family(&one, 2, apart, 1);
}

Test(conv2d_wgmma_cuda, wide_steps_go_with_parts_and_with_turns) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x128x9x9, f16:row:72x128x3x3, f32:row:72, f16:nhwc:1x72x9x9) -> f16:nhwc:1x72x9x9 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
    };
    static const struct tiling parts = {64, 128, 2, 3, 4, 1, 0, 1, 1}, turns = {64, 64, 2, 2, 1, 1, 2, 0, 1};
    check_family(&parts, 2, family, 1);
    check_family(&turns, 2, family, 1);
}

/* Halfs everywhere, so that BF16 shows where only the instructions differ. */
Test(conv2d_wgmma_cuda, computes_in_bf16) {
    static const char *const family[] = {
        "conv2d(bf16:nhwc:1x64x9x9, bf16:row:136x64x3x3, bf16:row:136, bf16:nhwc:1x136x9x9) -> bf16:nhwc:1x136x9x9 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(bf16:nhwc:1x128x1x49, bf16:row:136x128x1x1) -> bf16:nhwc:1x136x1x49 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
    };
    static const char *const stem[] = {
        "conv2d(bf16:nhwc:1x3x30x31, bf16:row:64x3x7x7, f32:row:64) -> bf16:nhwc:1x64x15x16 "
        "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu"};
    const struct tiling tiling = {64, 128, 2, 3, 1, 1, 0, 0}, narrow = {64, 64, 1, 3, 1, 1, 0, 1};
    check_family(&tiling, 2, family, (int)ARRAY_COUNT(family));
    check_family(&narrow, 2, stem, 1);
}

/* ---- compiling ---- */

/* What was compiled has the parameters that the launch passes: pointers and 32-bit values, each in its place. */
static void check_params(const struct buf *code, const struct launch *launch) {
    int bytes[CUBIN_MOST_PARAMS];
    cr_assert_eq(cubin_params(code, launch->entry, bytes), launch->n_args, "%s", launch->entry);
    for (int i = 0; i < launch->n_args; i++)
        cr_assert_eq(bytes[i], launch->args[i].kind == ARG_VALUE ? 4 : 8, "argument %d of %s", i, launch->entry);
}

/* The log must be empty: there ptxas says when it makes products wait for one another. */
static void compile(const struct subject *subject, int64_t index) {
    char *refusal = NULL;
    struct program *program = render(subject, index, &refusal);
    cr_assert_not_null(program, "%s: %s", describe(subject, index), refusal);
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    const struct conv2d_wgmma t = conv2d_wgmma_of(subject->workload, &subject->target, subject->space, index);
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        cr_skip_test("NVRTC is not here to compile with");
    cr_assert_eq(rc, 0, "%s: %s", describe(subject, index), error.text);
    cr_assert_str_empty(buf_str(&log), "%s: %s", describe(subject, index), buf_str(&log));
    struct cubin_info info = cubin_info_of(&code);
    cr_assert(info.registers > 16 && info.registers <= t.cap, "%d registers", info.registers);
    cr_assert_leq(info.frame, 64, "%s spills %d bytes", describe(subject, index), info.frame);
    check_params(&code, &program->prepare[0]);
    for (int i = 0; i < program->n_run; i++)
        check_params(&code, &program->run[i]);
}

static void compile_for(const char *key, const struct tiling *tiling, int n) {
    struct subject subject = subject_of(key);
    for (int i = 0; i < n; i++)
        compile(&subject, index_of(&subject, &tiling[i]));
    arena_free(subject.arena);
}

/* The most registers and the most shared memory, CTAs that stay and clusters, both arrangements. */
Test(conv2d_wgmma_cuda, compiles_without_spills_or_products_that_wait) {
    static const struct tiling large[] = {{256, 128, 2, 3, 1, 1, 1, 1},
                                          {192, 128, 2, 4, 1, 1, 0, 0},
                                          {128, 128, 2, 4, 1, 1, 2, 0},
                                          {192, 64, 1, 3, 1, 1, 0, 1, 1}},
                               small[] = {{128, 128, 2, 4, 4, 1, 0, 0}, {104, 128, 1, 6, 8, 1, 0, 1}};
    compile_for(CONV_LARGE, large, (int)ARRAY_COUNT(large));
    compile_for(CONV_SMALL, small, (int)ARRAY_COUNT(small));
}

Test(conv2d_wgmma_cuda, compiles_two_blocks_for_an_sm) {
    static const struct tiling tiling[] = {{192, 64, 1, 2, 1, 2, 0, 1}, {128, 64, 1, 3, 1, 2, 0, 0}};
    compile_for(CONV, tiling, (int)ARRAY_COUNT(tiling));
}

Test(conv2d_wgmma_cuda, compiles_the_fallback_and_some_other) {
    static const char *const some[] = {CONV_ODD, CONV_POINT, CONV_STEM, CONV_BF16};
    for (size_t k = 0; k < ARRAY_COUNT(some); k++) {
        struct subject subject = subject_of(some[k]);
        struct rng rng;
        rng_seed(&rng, k);
        compile(&subject, k % 2 ? random_index(&subject, &rng) : fallback(&subject));
        arena_free(subject.arena);
    }
}
