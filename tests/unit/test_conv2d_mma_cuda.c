/* SPDX-License-Identifier: Apache-2.0 */
/* Rendering, compiling, and the kernels' arithmetic on the host; tests/gpu runs them on a GPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "gpu/template/conv2d_mma.h"
#include "service/base/clock.h"
#include "service/base/rng.h"
#include "service/model/narrow.h"
#include "tests/unit/cubin_info.h"
#include "tests/unit/cuda_warps.h"

static const struct template *const template = &conv2d_mma_cuda;

#define CONV                                                                                                  \
    "conv2d(f16:nhwc:1x64x56x56, f16:row:64x64x3x3, f32:row:64, f16:nhwc:1x64x56x56) -> f16:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"
#define CONV_SMALL                                                                        \
    "conv2d(f16:nhwc:1x512x7x7, f16:row:512x512x3x3, f16:row:512) -> f16:nhwc:1x512x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu"
#define CONV_STEM                                                                          \
    "conv2d(f16:nhwc:1x3x224x224, f16:row:64x3x7x7, f32:row:64) -> f16:nhwc:1x64x112x112 " \
    "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu"
#define CONV_ODD                                                              \
    "conv2d(f16:nhwc:2x100x15x13, f16:row:17x100x3x1) -> f16:nhwc:2x17x8x13 " \
    "{stride=2x1, dilation=1x1, pad=1x0x1x0, groups=1} act=clip:0:6"
#define CONV_POINT                                                             \
    "conv2d(f16:nhwc:1x512x7x7, f16:row:2048x512x1x1) -> f16:nhwc:1x2048x7x7 " \
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}"

static const char *const keys[] = {CONV, CONV_SMALL, CONV_STEM, CONV_ODD, CONV_POINT};

/* The same of the other types. */
#define BF16_CONV                                                                                                 \
    "conv2d(bf16:nhwc:1x64x56x56, bf16:row:64x64x3x3, f32:row:64, bf16:nhwc:1x64x56x56) -> bf16:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"
#define BF16_STEM                                                                             \
    "conv2d(bf16:nhwc:1x3x224x224, bf16:row:64x3x7x7, f32:row:64) -> bf16:nhwc:1x64x112x112 " \
    "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu"
#define BF16_SMALL                                                                            \
    "conv2d(bf16:nhwc:1x512x7x7, bf16:row:512x512x3x3, bf16:row:512) -> bf16:nhwc:1x512x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu"
#define TF32_CONV                                                                                             \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu math=tf32"
#define TF32_STEM                                                                          \
    "conv2d(f32:nhwc:1x3x224x224, f32:row:64x3x7x7, f32:row:64) -> f32:nhwc:1x64x112x112 " \
    "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu math=tf32"
#define TF32_SMALL                                                                        \
    "conv2d(f32:nhwc:1x512x7x7, f32:row:512x512x3x3, f32:row:512) -> f32:nhwc:1x512x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=silu math=tf32"

static const char *const other_keys[] = {BF16_CONV, BF16_STEM, BF16_SMALL, TF32_CONV, TF32_STEM, TF32_SMALL};

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

static double estimate(const struct subject *subject, int64_t index) {
    return template->estimate(subject->workload, &subject->target, subject->space, index);
}

static int64_t fallback(const struct subject *subject) {
    int64_t index = template->fallback(subject->workload, &subject->target, subject->space);
    cr_assert(index >= 0 && index < subject->space->size);
    return index;
}

/* A configuration by its knobs' values. */
struct tiling {
    int64_t tile_p, tile_c, tile_k, warps, slices, stages, split_k, shapes;
};

static int64_t digit_of(const struct knob *knob, int64_t value) {
    for (int64_t c = 0; c < knob->n_candidates; c++)
        if (knob->values[c] == value)
            return c;
    cr_assert_fail("%s cannot be %lld", knob->name, (long long)value);
    return -1;
}

static int64_t index_of(const struct subject *subject, const struct tiling *tiling) {
    const int64_t values[] = {tiling->tile_p, tiling->tile_c, tiling->tile_k,  tiling->warps,
                              tiling->slices, tiling->stages, tiling->split_k, tiling->shapes};
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

/* ---- rendering ---- */

static void check_launch(const struct launch *launch, const struct subject *subject, const struct program *program) {
    int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
    cr_assert(strstr(program->source, launch->entry), "there is no kernel %s", launch->entry);
    cr_assert(threads > 0 && threads <= subject->target.max_threads, "%lld threads", (long long)threads);
    cr_assert(launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[2] > 0);
    cr_assert(launch->grid[1] <= 65535 && launch->grid[2] <= 65535);
    cr_assert_leq(launch->shared_bytes, subject->target.shared_bytes);
    cr_assert_eq(launch->early, strtol(subject->target.arch + 3, NULL, 10) >= 90);
}

/* Every `step`th, from `first` on. Also: the estimate knows which cannot. */
static void check_renders(const char *key, const char *arch, int64_t first, int64_t step) {
    struct subject subject = subject_of(key, arch);
    int rendered = 0, all = 0;
    cr_assert_leq(subject.space->size, 5184);
    for (int64_t i = first; i < subject.space->size; i += step) {
        double seconds = estimate(&subject, i);
        struct program *program = render(&subject, i);
        cr_assert(isinf(seconds) || (seconds > 1e-6 && seconds < 1e-2), "%g", seconds);
        cr_assert(program || isinf(seconds), "configuration %lld of %s", (long long)i, key);
        for (int j = 0; program && j < program->n_run; j++)
            check_launch(&program->run[j], &subject, program);
        rendered += program != NULL;
        all++;
    }
    cr_assert_geq(rendered * 2, all, "%d of %d configurations of %s", rendered, all, key);
    arena_free(subject.arena);
}

Test(conv2d_mma_cuda, renders_every_configuration_or_says_why_not) {
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a"};
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++)
        check_renders(keys[k], archs[k], (int64_t)k, 3);
}

Test(conv2d_mma_cuda, renders_those_of_other_types_too) {
    static const char *const archs[] = {"sm_80", "sm_86", "sm_90a"};
    for (size_t k = 0; k < ARRAY_COUNT(other_keys); k++)
        check_renders(other_keys[k], archs[k % ARRAY_COUNT(archs)], (int64_t)k, 7);
}

static bool served(const char *key, const char *arch) {
    struct target target;
    struct workload *workload;
    struct error error = {0};
    struct arena *arena = arena_new(0);
    cr_assert_eq(target_of_arch(arch, &target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s\n%s", key, error.text);
    bool serves = template->serves(workload, &target);
    arena_free(arena);
    return serves;
}

Test(conv2d_mma_cuda, serves_convolutions_in_nhwc_only) {
    cr_assert(served(CONV, "sm_75"));
    cr_assert(served("conv2d(f16:nhwc:1x64x8x8, f16:row:64x32x3x3) -> f16:nhwc:1x64x8x8 "
                     "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=2}",
                     "sm_90a"));
    cr_assert_not(served("conv2d(f16:nhwc:1x64x8x8, f16:row:64x2x3x3) -> f16:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}",
                         "sm_90a"));
    cr_assert_not(served("conv2d(f32:nhwc:1x64x8x8, f32:row:64x64x3x3) -> f32:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                         "sm_90a"));
    cr_assert_not(served("conv2d(f16:row:1x64x8x8, f16:row:64x64x3x3) -> f16:row:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                         "sm_90a"));
    cr_assert(served("dense(f16:row:3x75, f16:row:110x75) -> f16:row:3x110", "sm_90a"));
    cr_assert_not(served(CONV, "x86-64-v3"));
}

/* Older devices have no such mma; f32 itself is not what a tensor core multiplies; and all are of one type. */
Test(conv2d_mma_cuda, serves_other_types_from_sm_80_on) {
    for (size_t k = 0; k < ARRAY_COUNT(other_keys); k++) {
        cr_assert(served(other_keys[k], "sm_80") && served(other_keys[k], "sm_89") && served(other_keys[k], "sm_90a"));
        cr_assert_not(served(other_keys[k], "sm_75"));
    }
    cr_assert_not(served("conv2d(bf16:nhwc:1x64x8x8, f16:row:64x64x3x3) -> bf16:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                         "sm_90a"));
    cr_assert_not(served("conv2d(f32:nhwc:1x64x8x8, f32:row:64x64x3x3) -> bf16:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} math=tf32",
                         "sm_90a"));
    cr_assert_not(served("conv2d(f32:row:1x64x8x8, f32:row:64x64x3x3) -> f32:row:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} math=tf32",
                         "sm_90a"));
}

/* ---- shapes as arguments ---- */

/* Channels in eights, none or some bound as activation: all else differs. */
static const char *const alike[] = {
    CONV,
    "conv2d(f16:nhwc:1x256x14x14, f16:row:256x256x3x3, f16:row:256) -> f16:nhwc:1x256x14x14 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=clip:0:6",
    "conv2d(f16:nhwc:7x64x31x29, f16:row:36x64x5x3) -> f16:nhwc:7x36x14x9 "
    "{stride=2x3, dilation=1x1, pad=1x0x0x0, groups=1}",
    CONV_POINT,
};

Test(conv2d_mma_cuda, with_shapes_as_arguments_one_source_serves_all_workloads) {
    const struct tiling tiling = {56, 64, 64, 4, 1, 3, 2, 0};
    struct subject first = subject_of(CONV, "sm_90a");
    const char *source = render(&first, index_of(&first, &tiling))->source;
    for (size_t i = 1; i < ARRAY_COUNT(alike); i++) {
        struct subject subject = subject_of(alike[i], "sm_90a");
        int64_t index = index_of(&subject, &tiling);
        cr_assert(template->banked(subject.space, index));
        cr_assert_str_eq(render(&subject, index)->source, source, "%s", alike[i]);
        arena_free(subject.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_mma_cuda, with_shapes_as_constants_each_workload_has_its_own_source) {
    const struct tiling tiling = {56, 64, 64, 4, 1, 3, 2, 1};
    struct subject first = subject_of(CONV, "sm_90a");
    const char *source = render(&first, index_of(&first, &tiling))->source;
    for (size_t i = 1; i < ARRAY_COUNT(alike); i++) {
        struct subject subject = subject_of(alike[i], "sm_90a");
        int64_t index = index_of(&subject, &tiling);
        cr_assert_not(template->banked(subject.space, index));
        cr_assert_str_neq(render(&subject, index)->source, source);
        arena_free(subject.arena);
    }
    arena_free(first.arena);
}

Test(conv2d_mma_cuda, the_shape_is_the_last_knob) {
    struct subject subject = subject_of(CONV, "sm_90a");
    const struct knob *last = &subject.space->knobs[subject.space->n_knobs - 1];
    cr_assert_str_eq(last->name, "shapes");
    cr_assert_eq(last->values[0], 0);
    cr_assert_eq(last->values[1], 1);
    arena_free(subject.arena);
}

/* ---- what is known without compiling ---- */

Test(conv2d_mma_cuda, a_small_image_is_split_over_a_cluster_and_a_batch_is_not) {
    struct subject small = subject_of(CONV_SMALL, "sm_90a");
    const struct program *program = render(&small, fallback(&small));
    cr_assert_eq(program->n_run, 1);
    cr_assert_eq(program->n_scratch, 0);
    cr_assert_gt(space_value(small.space, fallback(&small), "split_k", 0), 1);
    struct subject large = subject_of("conv2d(f16:nhwc:64x256x28x28, f16:row:256x256x3x3) -> f16:nhwc:64x256x28x28 "
                                      "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                                      "sm_90a");
    cr_assert_eq(space_value(large.space, fallback(&large), "split_k", 0), 1);
    arena_free(small.arena);
    arena_free(large.arena);
}

Test(conv2d_mma_cuda, the_fallback_is_the_best_of_the_estimate) {
    struct subject subject = subject_of(CONV, "sm_80");
    double best = estimate(&subject, fallback(&subject));
    for (int64_t i = 0; i < subject.space->size; i++)
        cr_assert_geq(estimate(&subject, i), best);
    arena_free(subject.arena);
}

/* The loops that are no rounding up multiply to the kernel's multiplications, or a little more. */
Test(conv2d_mma_cuda, its_loops_do_the_work_of_the_workload) {
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
            cr_assert(isinf(estimate(&subject, i)) || work * 2 >= (double)workload_flops(subject.workload));
            for (int a = 0; a < nest.n_accesses; a++)
                cr_assert_str_eq(nest.accesses[a].name, first.accesses[a].name);
        }
        arena_free(subject.arena);
    }
}

/* ---- banks of shared memory ---- */

/* PLACE of the kernel, as a number of 16 bytes. */
static int place(int chunks, int row, int chunk) {
    int rows_a_line = chunks < 8 ? 8 / chunks : 1;
    return row * chunks + (chunk ^ row / rows_a_line % (chunks < 8 ? chunks : 8));
}

/* Eight rows at one chunk (ldmatrix), and eight chunks in a row (a copy): each in its own 16 bytes of the 128. */
Test(conv2d_mma_cuda, tiles_are_read_and_written_without_conflicts_of_banks) {
    for (int chunks = 2; chunks <= 16; chunks *= 2) {
        bool taken[64 * 16] = {false};
        for (int i = 0; i < 64 * chunks; i++) {
            int at = place(chunks, i / chunks, i % chunks);
            cr_assert(at >= 0 && at < 64 * chunks && !taken[at]);
            taken[at] = true;
        }
        for (int row = 0; row < 64; row += 8)
            for (int chunk = 0; chunk < chunks; chunk++) {
                unsigned banks = 0;
                for (int r = 0; r < 8; r++)
                    banks |= 1u << place(chunks, row + r, chunk) % 8;
                cr_assert_eq(banks, 0xffu, "%d chunks, row %d, chunk %d", chunks, row, chunk);
            }
        for (int first = 0; first < 64 * chunks; first += 8) {
            unsigned banks = 0;
            for (int i = first; i < first + 8; i++)
                banks |= 1u << place(chunks, i / chunks, i % chunks) % 8;
            cr_assert_eq(banks, 0xffu, "%d chunks, from %d", chunks, first);
        }
    }
}

/* A warp's writes of its sums, as the kernel's put_sums: pairs of channels by half warps, or single ones by 32. */
Test(conv2d_mma_cuda, sums_are_written_without_conflicts_of_banks) {
    for (int channels = 16; channels <= 128; channels *= 2) {
        for (int lanes = 0; lanes < 32; lanes += 16) {
            unsigned banks = 0;
            for (int lane = lanes; lane < lanes + 16; lane++)
                banks |= 3u << (lane / 4 * (channels + 8) + lane % 4 * 2) % 32;
            cr_assert_eq(banks, 0xffffffffu, "pairs, %d channels", channels);
        }
        unsigned banks = 0;
        for (int lane = 0; lane < 32; lane++)
            banks |= 1u << (lane % 4 * 2 * (channels + 4) + lane / 4) % 32;
        cr_assert_eq(banks, 0xffffffffu, "single, %d channels", channels);
    }
}

/* ---- arithmetic, on the host ---- */

static double value_at(const struct operand *operand, const void *data, int64_t i) {
    if (operand->dtype == DTYPE_F32)
        return ((const float *)data)[i];
    return narrow_to_float(operand->dtype, ((const uint16_t *)data)[i]);
}

static void set_value(const struct operand *operand, void *data, int64_t i, float value) {
    if (operand->dtype == DTYPE_F32)
        ((float *)data)[i] = value;
    else
        ((uint16_t *)data)[i] = narrow_from_float(operand->dtype, value);
}

/* Element i of input 0 or 1, as it is multiplied. */
static double factor_at(const struct workload *w, int input, const void *const *in, int64_t i) {
    double value = value_at(&w->in[input], in[input], i);
    return w->tf32 ? tf32_from_float((float)value) : value;
}

/* Where an element of a rank-4 operand is. */
static int64_t offset(const struct operand *operand, int64_t n, int64_t c, int64_t y, int64_t x) {
    int64_t stride[SHAPE_MAX_RANK];
    operand_strides(operand, stride);
    return n * stride[0] + c * stride[1] + y * stride[2] + x * stride[3];
}

static double sum_at(const struct workload *w, const void *const *in, int64_t n, int64_t k, int64_t oy, int64_t ox) {
    const struct conv_attr *attr = &w->attr.conv;
    const int64_t *weight = w->in[1].shape.dim, *data = w->in[0].shape.dim;
    int64_t group = k / (weight[0] / attr->groups);
    double sum = 0;
    for (int64_t c = 0; c < weight[1]; c++)
        for (int64_t r = 0; r < weight[2]; r++)
            for (int64_t s = 0; s < weight[3]; s++) {
                int64_t y = oy * attr->stride[0] - attr->pad[0] + r * attr->dilation[0];
                int64_t x = ox * attr->stride[1] - attr->pad[1] + s * attr->dilation[1];
                if (y >= 0 && y < data[2] && x >= 0 && x < data[3])
                    sum += factor_at(w, 0, in, offset(&w->in[0], n, group * weight[1] + c, y, x)) *
                           factor_at(w, 1, in, offset(&w->in[1], k, c, r, s));
            }
    return sum;
}

static double act_of(const struct epilogue *epilogue, double x) {
    switch (epilogue->act) {
    case ACT_NONE:
        return x;
    case ACT_RELU:
        return x < 0 ? 0 : x;
    case ACT_CLIP:
        return x < epilogue->alpha ? epilogue->alpha : x > epilogue->beta ? epilogue->beta : x;
    default:
        cr_assert_fail("there is no such activation here");
        return 0;
    }
}

/*
 * Buffers between two pages that cannot be touched. The room before and behind (there: less than 128 bytes) is full of
 * NaNs, which nothing may overwrite.
 */
enum { PAGE = 4096, ALIGNED = 128 };

static size_t up_to(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

static void *new_buffer(size_t bytes) {
    size_t room = up_to(bytes + 1, PAGE);
    unsigned char *pages = mmap(NULL, room + 2 * (size_t)PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)pages, MAP_FAILED);
    cr_assert_eq(mprotect(pages + PAGE, room, PROT_READ | PROT_WRITE), 0);
    memset(pages + PAGE, 0xff, room);
    return pages + PAGE + room - up_to(bytes, ALIGNED);
}

static void check_margins(const void *buffer, size_t bytes, const char *what) {
    const unsigned char *data = buffer;
    size_t before = (uintptr_t)data % PAGE;
    for (size_t i = 1; i <= before; i++)
        cr_assert_eq(*(data - i), 0xff, "%s: a write before a buffer", what);
    for (size_t i = bytes; i < up_to(bytes, ALIGNED); i++)
        cr_assert_eq(data[i], 0xff, "%s: a write behind a buffer", what);
}

/* One of the floats that TF32 rounds to this one: from half a unit in the last place below, to just under half above.
 */
static float blurred(float value, struct rng *rng) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = value == 0 ? bits : bits - 0x1000 + (uint32_t)rng_below(rng, 0x2000);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Small enough that all sums are exact as halfs: most of the weights are 0. */
static void fill(const struct workload *w, int input, void *data, struct rng *rng) {
    const struct operand *operand = &w->in[input];
    int64_t depth = shape_count(&w->in[1].shape) / w->in[1].shape.dim[0];
    int64_t zeros = input == 1 ? 1 + depth / 128 : 1;
    for (int64_t i = 0; i < shape_count(&operand->shape); i++) {
        float value = rng_below(rng, (uint64_t)zeros) == 0 ? (float)rng_below(rng, 7) - 3 : 0;
        set_value(operand, data, i, w->tf32 && input < 2 ? blurred(value, rng) : value);
    }
}

/* As the output's type has it: the kernel's own sum is exact, and rounded once. */
static double stored(enum dtype dtype, double value) {
    return dtype_is_narrow(dtype) ? narrow_to_float(dtype, narrow_from_float(dtype, (float)value)) : value;
}

static void check_output(const struct workload *w, void *const *in, const void *out, const char *what) {
    const int64_t *y = w->out[0].shape.dim;
    const void *const *inputs = (const void *const *)in;
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t k = 0; k < y[1]; k++)
            for (int64_t i = 0; i < y[2] * y[3]; i++) {
                int64_t at = offset(&w->out[0], n, k, i / y[3], i % y[3]);
                double sum = sum_at(w, inputs, n, k, i / y[3], i % y[3]);
                sum += w->epilogue.bias ? value_at(&w->in[2], in[2], k) : 0;
                sum += w->epilogue.residual ? value_at(&w->in[w->n_in - 1], in[w->n_in - 1], at) : 0;
                sum = stored(w->out[0].dtype, act_of(&w->epilogue, sum));
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
    rng_seed(&rng, 11);
    for (int i = 0; i < w->n_in; i++) {
        memory[ARG_IN][i] = new_buffer(operand_bytes(&w->in[i]));
        fill(w, i, memory[ARG_IN][i], &rng);
    }
    /* Infinity shows in the outputs that see it, and in no other. */
    if (w->in[0].shape.dim[2] * w->in[0].shape.dim[3] > 30)
        set_value(&w->in[0], memory[ARG_IN][0], shape_count(&w->in[0].shape) / 2, INFINITY);
    memory[ARG_OUT][0] = new_buffer(operand_bytes(&w->out[0]));
    for (int i = 0; i < program->n_scratch; i++)
        memory[ARG_SCRATCH][i] = new_buffer(program->scratch_bytes[i]);
    for (int i = 0; i < program->n_prepared; i++)
        memory[ARG_PREPARED][i] = new_buffer(program->prepared_bytes[i]);
    if (program->run[0].early)
        warps_set_late(code, memory[ARG_IN][0], operand_bytes(&w->in[0]));
    warps_run(code, program, memory);
    check_output(w, memory[ARG_IN], memory[ARG_OUT][0], what);
    check_margins(memory[ARG_OUT][0], operand_bytes(&w->out[0]), what);
    for (int i = 0; i < program->n_scratch; i++)
        check_margins(memory[ARG_SCRATCH][i], program->scratch_bytes[i], what);
    for (int i = 0; i < program->n_prepared; i++)
        check_margins(memory[ARG_PREPARED][i], program->prepared_bytes[i], what);
}

static char *describe(const struct subject *subject, int64_t index) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 16);
    buf_printf(&text, "%s, configuration %lld:", subject->target.arch, (long long)index);
    for (int k = 0; k < subject->space->n_knobs; k++)
        buf_printf(&text, " %s %lld", subject->space->knobs[k].name,
                   (long long)space_value(subject->space, index, subject->space->knobs[k].name, 0));
    buf_puts(&text, " of ");
    workload_key(subject->workload, &text);
    return arena_strdup(subject->arena, buf_str(&text));
}

static void compile_for_host(const struct program *program, struct warps_code *ret) {
    if (!warps_compile(program, ret))
        cr_skip_test("clang is not here to compile with");
}

/* ---- random workloads and configurations ---- */

#ifndef ROUNDS
#define ROUNDS 4
#endif

static int64_t pick(struct rng *rng, const int64_t *list, size_t n) {
    return list[rng_below(rng, n)];
}

#define PICK(rng, ...) \
    pick(rng, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static int64_t outputs(int64_t size, int64_t pads, int64_t taps, int64_t dilation, int64_t stride) {
    int64_t room = size + pads - (taps - 1) * dilation - 1;
    return room < 0 ? 0 : room / stride + 1;
}

/* Odd channels, 1-pixel images, strides, dilation, uneven pads, batches, each kind of epilogue. */
static void random_key(const char *type, struct rng *rng, struct buf *ret) {
    static const char *const acts[] = {"", " act=relu", " act=clip:0:6"};
    int64_t groups = PICK(rng, 1, 1, 1, 1, 2), n = PICK(rng, 1, 1, 1, 2, 3), oh = 0, ow = 0;
    int64_t cg = groups > 1 ? PICK(rng, 16, 24, 20) : PICK(rng, 1, 3, 5, 8, 10, 16, 17, 24, 36, 64, 100);
    int64_t kg = groups > 1 ? PICK(rng, 16, 18, 33) : PICK(rng, 1, 5, 8, 17, 24, 32, 50, 70);
    int64_t h = 0, w = 0, kh = 0, kw = 0, sh = 0, sw = 0, dh = 0, dw = 0, pad[4] = {0};
    while (oh < 1 || ow < 1) {
        h = PICK(rng, 1, 2, 5, 7, 9, 12), w = PICK(rng, 1, 3, 6, 7, 11, 14);
        kh = PICK(rng, 1, 1, 2, 3, 5), kw = PICK(rng, 1, 1, 3, 3, 4);
        sh = PICK(rng, 1, 1, 2), sw = PICK(rng, 1, 1, 2, 3), dh = PICK(rng, 1, 1, 2), dw = PICK(rng, 1, 1, 3);
        for (int i = 0; i < 4; i++)
            pad[i] = PICK(rng, 0, 0, 1, 2);
        oh = outputs(h, pad[0] + pad[2], kh, dh, sh);
        ow = outputs(w, pad[1] + pad[3], kw, dw, sw);
    }
    bool bias = rng_below(rng, 2), residual = rng_below(rng, 2);
    long long k = (long long)(kg * groups), c = (long long)(cg * groups);
    buf_printf(ret, "conv2d(%s:nhwc:%lldx%lldx%lldx%lld, %s:row:%lldx%lldx%lldx%lld", type, (long long)n, c,
               (long long)h, (long long)w, type, k, (long long)cg, (long long)kh, (long long)kw);
    if (bias)
        buf_printf(ret, ", %s:row:%lld", rng_below(rng, 2) ? type : "f32", k);
    if (residual)
        buf_printf(ret, ", %s:nhwc:%lldx%lldx%lldx%lld", type, (long long)n, k, (long long)oh, (long long)ow);
    buf_printf(ret, ") -> %s:nhwc:%lldx%lldx%lldx%lld {stride=%lldx%lld, dilation=%lldx%lld, ", type, (long long)n, k,
               (long long)oh, (long long)ow, (long long)sh, (long long)sw, (long long)dh, (long long)dw);
    buf_printf(ret, "pad=%lldx%lldx%lldx%lld, groups=%lld}%s%s%s%s", (long long)pad[0], (long long)pad[1],
               (long long)pad[2], (long long)pad[3], (long long)groups, bias ? " bias" : "",
               residual ? " residual" : "", acts[rng_below(rng, 3)], strcmp(type, "f32") == 0 ? " math=tf32" : "");
}

static void check_random(uint64_t seed, const char *arch, const char *type) {
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct rng rng;
    struct warps_code code;
    rng_seed(&rng, seed);
    random_key(type, &rng, &key);
    struct subject subject = subject_of(buf_str(&key), arch);
    int64_t index = random_index(&subject, &rng);
    struct program *program = render(&subject, index);
    compile_for_host(program, &code);
    execute(&code, &subject, program, describe(&subject, index));
    dlclose(code.library);
    arena_free(subject.arena);
}

static const char *const emulated[] = {"sm_90a", "sm_75", "sm_80", "sm_90a"};

Test(conv2d_mma_cuda, random_configurations_compute_random_convolutions) {
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(i + 1, emulated[i % ARRAY_COUNT(emulated)], "f16");
}

static const char *const newer[] = {"sm_90a", "sm_80"};

Test(conv2d_mma_cuda, random_configurations_compute_in_bf16) {
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(i + 101, newer[i % ARRAY_COUNT(newer)], "bf16");
}

Test(conv2d_mma_cuda, random_configurations_compute_in_tf32) {
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(i + 201, newer[i % ARRAY_COUNT(newer)], "f32");
}

/* ---- some configurations, each for several workloads: with shapes as arguments they share the code ---- */

static void check_family(const char *arch, const struct tiling *tiling, const char *const *family, int n) {
    struct warps_code code;
    char *source = NULL;
    struct arena *arena = arena_new(0);
    for (int i = 0; i < n; i++) {
        struct subject subject = subject_of(family[i], arch);
        int64_t index = index_of(&subject, tiling);
        struct program *program = render(&subject, index);
        cr_assert_not_null(program, "%s", describe(&subject, index));
        if (!source) {
            source = arena_strdup(arena, program->source);
            compile_for_host(program, &code);
        }
        cr_assert_str_eq(program->source, source);
        execute(&code, &subject, program, describe(&subject, index));
        arena_free(subject.arena);
    }
    dlclose(code.library);
    arena_free(arena);
}

/* 49 pixels on the N side in a tile of 56, the sum over a cluster of 4 with two slices in each CTA. */
Test(conv2d_mma_cuda, a_cluster_adds_what_its_parts_summed) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x64x7x7, f16:row:40x64x3x3, f32:row:40, f16:nhwc:1x40x7x7) -> f16:nhwc:1x40x7x7 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:2x64x11x9, f16:row:36x64x5x3, f16:row:36) -> f16:nhwc:2x36x4x5 "
        "{stride=2x2, dilation=1x1, pad=1x1x0x1, groups=1} bias act=clip:0:6",
        "conv2d(f16:nhwc:1x320x1x49, f16:row:64x320x1x1) -> f16:nhwc:1x64x1x49 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}",
    };
    const struct tiling tiling = {56, 32, 64, 4, 2, 3, 4, 0};
    check_family("sm_90a", &tiling, family, (int)ARRAY_COUNT(family));
}

/* The same in TF32, whose tile of k has half as many elements, with pixels on either side of the mma. */
Test(conv2d_mma_cuda, in_tf32_patches_and_weights_are_rounded_to_the_nearest) {
    static const char *const family[] = {
        "conv2d(f32:nhwc:1x64x7x7, f32:row:40x64x3x3, f32:row:40, f32:nhwc:1x40x7x7) -> f32:nhwc:1x40x7x7 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu math=tf32",
        "conv2d(f32:nhwc:1x320x1x49, f32:row:64x320x1x1) -> f32:nhwc:1x64x1x49 "
        "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} math=tf32",
    };
    const struct tiling swapped = {56, 32, 32, 4, 2, 3, 4, 0}, straight = {32, 32, 32, 4, 1, 3, 2, 0};
    check_family("sm_90a", &swapped, family, (int)ARRAY_COUNT(family));
    check_family("sm_80", &straight, family, (int)ARRAY_COUNT(family));
}

/* Odd output channels, input channels in fours, and sums split without a cluster. */
Test(conv2d_mma_cuda, without_clusters_a_second_kernel_adds_the_parts) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x100x6x6, f16:row:35x100x3x3, f32:row:35, f16:nhwc:1x35x6x6) -> f16:nhwc:1x35x6x6 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f16:nhwc:1x36x9x9, f16:row:33x36x3x3) -> f16:nhwc:1x33x7x5 "
        "{stride=1x1, dilation=1x2, pad=0x0x0x0, groups=1}",
    };
    const struct tiling tiling = {32, 32, 32, 4, 1, 5, 2, 0};
    check_family("sm_86", &tiling, family, (int)ARRAY_COUNT(family));
}

/* Warps of one block of eight channels, the last of them at the end of the last stage. */
Test(conv2d_mma_cuda, a_warp_may_have_an_odd_number_of_blocks) {
    static const char *const family[] = {
        "conv2d(f16:nhwc:1x16x4x4, f16:row:32x16x3x3, f32:row:32) -> f16:nhwc:1x32x4x4 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
    };
    const struct tiling tiling = {16, 32, 32, 4, 1, 3, 1, 0};
    check_family("sm_90a", &tiling, family, (int)ARRAY_COUNT(family));
}

/* The same source, so whatever else is known of convolutions holds. */
Test(conv2d_mma_cuda, a_dense_layer_is_a_convolution_of_images_of_one_pixel) {
    struct subject dense = subject_of("dense(f16:row:20x100, f16:row:36x100, f16:row:36, f16:row:20x36) "
                                      "-> f16:row:20x36 bias residual act=relu",
                                      "sm_90a");
    struct subject conv =
        subject_of("conv2d(f16:nhwc:20x100x1x1, f16:row:36x100x1x1, f16:row:36, f16:nhwc:20x36x1x1) "
                   "-> f16:nhwc:20x36x1x1 {stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} bias residual act=relu",
                   "sm_90a");
    struct warps_code code;
    struct program *program = render(&dense, fallback(&dense));
    cr_assert_str_eq(program->source, render(&conv, fallback(&conv))->source);
    compile_for_host(program, &code);
    execute(&code, &conv, program, "a dense layer");
    dlclose(code.library);
    arena_free(dense.arena);
    arena_free(conv.arena);
}

/* ---- compiling ---- */

/* What was compiled has the parameters that the launch passes: pointers and 32-bit values, each in its place. */
static void check_params(const struct buf *code, const struct launch *launch) {
    int bytes[CUBIN_MOST_PARAMS];
    cr_assert_eq(cubin_params(code, launch->entry, bytes), launch->n_args, "%s", launch->entry);
    for (int i = 0; i < launch->n_args; i++)
        cr_assert_eq(bytes[i], launch->args[i].kind == ARG_VALUE ? 4 : 8, "argument %d of %s", i, launch->entry);
}

static void check_code(const struct buf *code, const struct subject *subject, const struct program *program,
                       int64_t index) {
    struct cubin_info info = cubin_info_of(code);
    const struct conv2d_mma mma = conv2d_mma_of(subject->workload, &subject->target, subject->space, index);
    cr_assert(info.registers > 16 && info.registers <= 255, "%d registers", info.registers);
    cr_assert_leq(info.registers, mma.registers + 24, "%d registers, not %lld: %s", info.registers,
                  (long long)mma.registers, describe(subject, index));
    /* SiLU's division calls a subroutine, and ptxas spills a register or two for one more block an SM. */
    cr_assert_leq(info.frame, 64, "%s spills %d bytes", describe(subject, index), info.frame);
    for (int i = 0; i < program->n_prepare; i++)
        check_params(code, &program->prepare[i]);
    for (int i = 0; i < program->n_run; i++)
        check_params(code, &program->run[i]);
}

static void compile(const struct subject *subject, int64_t index) {
    struct program *program = render(subject, index);
    struct buf code CLEANUP(buf_release) = BUF_INIT(1 << 26), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    int rc = device_cuda.compile(&subject->target, program->source, deadline_in_s(60), &code, &log, &error);
    if (rc < 0 && strcmp(error.code, "no-nvrtc") == 0)
        cr_skip_test("NVRTC is not here to compile with");
    cr_assert_eq(rc, 0, "%s: %s", describe(subject, index), error.text);
    cr_assert_str_empty(buf_str(&log));
    check_code(&code, subject, program, index);
}

/* The fallback and a random configuration. */
static void compile_for(const char *arch, const char *key) {
    struct subject subject = subject_of(key, arch);
    struct rng rng;
    rng_seed(&rng, 9);
    compile(&subject, fallback(&subject));
    compile(&subject, random_index(&subject, &rng));
    arena_free(subject.arena);
}

Test(conv2d_mma_cuda, compiles_for_hopper) {
    compile_for("sm_90a", CONV);
    compile_for("sm_90a", CONV_SMALL);
    compile_for("sm_90a", CONV_STEM);
}

Test(conv2d_mma_cuda, compiles_for_other_architectures) {
    static const char *const archs[] = {"sm_75", "sm_80", "sm_89", "sm_100a"};
    for (size_t a = 0; a < ARRAY_COUNT(archs); a++)
        compile_for(archs[a], keys[a]);
}

Test(conv2d_mma_cuda, compiles_for_bf16) {
    compile_for("sm_90a", BF16_CONV);
    compile_for("sm_80", BF16_STEM);
    compile_for("sm_89", BF16_SMALL);
}

Test(conv2d_mma_cuda, compiles_for_tf32) {
    compile_for("sm_90a", TF32_CONV);
    compile_for("sm_90a", TF32_SMALL);
    compile_for("sm_80", TF32_STEM);
    compile_for("sm_89", TF32_SMALL);
}
