/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/rng.h"

static const struct template *const template = &conv2d_direct_cpu;

static struct target target_named(const char *arch) {
    struct target target;
    struct error error = {0};
    cr_assert_eq(target_of_arch(arch, &target, &error), 0, "%s", error.text);
    return target;
}

static struct workload *parse(struct arena *arena, const char *key) {
    struct workload *workload;
    struct error error = {0};
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s\n%s", key, error.text);
    return workload;
}

/* ---- the same by a plain loop ---- */

static float activate(const struct epilogue *epilogue, float x) {
    switch (epilogue->act) {
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_LEAKY_RELU:
        return x < 0 ? (float)epilogue->alpha * x : x;
    case ACT_CLIP:
        return fminf(fmaxf(x, (float)epilogue->alpha), (float)epilogue->beta);
    case ACT_SIGMOID:
        return 1 / (1 + expf(-x));
    case ACT_SILU:
        return x / (1 + expf(-x));
    case ACT_TANH:
        return tanhf(x);
    case ACT_HARD_SWISH:
        return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
    default:
        return x;
    }
}

/* The sum of one output; x is NHWC. */
static double sum_at(const struct workload *workload, float *const *in, const int64_t y[4]) {
    const struct conv_attr *attr = &workload->attr.conv;
    const int64_t *x = workload->in[0].shape.dim, *w = workload->in[1].shape.dim;
    int64_t group = y[1] / (w[0] / attr->groups);
    double sum = 0;
    for (int64_t i = 0; i < w[2]; i++) {
        for (int64_t j = 0; j < w[3]; j++) {
            int64_t row = y[2] * attr->stride[0] - attr->pad[0] + i * attr->dilation[0];
            int64_t column = y[3] * attr->stride[1] - attr->pad[1] + j * attr->dilation[1];
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3])
                continue;
            for (int64_t c = 0; c < w[1]; c++)
                sum += (double)in[0][((y[0] * x[2] + row) * x[3] + column) * x[1] + group * w[1] + c] *
                       (double)in[1][((y[1] * w[1] + c) * w[2] + i) * w[3] + j];
        }
    }
    return sum;
}

static double dense_at(const struct workload *workload, float *const *in, int64_t m, int64_t n) {
    int64_t k = workload->in[0].shape.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += (double)in[0][m * k + i] * (double)in[1][n * k + i];
    return sum;
}

static void check_outputs(const struct workload *workload, float *const *in, const float *out, const char *what) {
    const struct shape *shape = &workload->out[0].shape;
    bool dense = workload->op == OP_DENSE;
    int64_t channels = shape->dim[1], count = shape_count(shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t k = i % channels, pixel = i / channels;
        int64_t width = dense ? 1 : shape->dim[3], height = dense ? 1 : shape->dim[2];
        const int64_t at[4] = {pixel / width / height, k, pixel / width % height, pixel % width};
        double sum = dense ? dense_at(workload, in, pixel, k) : sum_at(workload, in, at);
        sum += workload->epilogue.bias ? (double)in[2][k] : 0;
        sum += workload->epilogue.residual ? (double)in[workload->n_in - 1][i] : 0;
        double right = (double)activate(&workload->epilogue, (float)sum);
        cr_assert(fabs((double)out[i] - right) <= 1e-5 * fmax(1, fabs(right)),
                  "output %lld (image %lld, channel %lld, row %lld, column %lld) is %g, not %g, in %s", (long long)i,
                  (long long)at[0], (long long)at[1], (long long)at[2], (long long)at[3], (double)out[i], right, what);
    }
}

/* ---- running ---- */

enum { GUARD = 64, MOST_BUFFERS = 8 };

struct bench {
    struct device *device;
    struct target target;
    uint64_t in[MOST_BUFFERS], out, prepared;
    struct device_code *code;
};

static void must(int rc, const struct error *error) {
    cr_assert_eq(rc, 0, "%s", error->text);
}

static void compile(struct bench *bench, const char *source) {
    struct buf code = BUF_INIT(1 << 26), log = BUF_INIT(1 << 20);
    struct error error = {0};
    must(device_cpu.compile(&bench->target, source, deadline_in_s(60), &code, &log, &error), &error);
    must(device_cpu.load(bench->device, code.data, code.len, &bench->code, &error), &error);
    buf_release(&code);
    buf_release(&log);
}

static void launch(struct bench *bench, const struct launch *launch) {
    struct device_call call = {.launch = launch, .code = bench->code};
    struct error error = {0};
    for (int i = 0; i < launch->n_args; i++) {
        struct arg arg = launch->args[i];
        call.args[i] = arg.kind == ARG_IN ? bench->in[arg.index] : arg.kind == ARG_OUT ? bench->out : bench->prepared;
    }
    must(device_cpu.run(bench->device, &call, 1, 1, NULL, &error), &error);
}

/* Small integers, whose sums FP32 holds exactly. */
static float *fill(struct arena *arena, struct rng *rng, const struct operand *operand) {
    int64_t count = shape_count(&operand->shape);
    float *data = arena_array(arena, (size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)rng_below(rng, 9) - 4;
    return data;
}

/* The output lies between two guards of NaN, and is NaN before. */
static void run_and_check(struct bench *bench, const struct workload *workload, const struct program *program,
                          struct arena *arena, struct rng *rng, const char *what) {
    float *in[MOST_BUFFERS] = {0};
    struct error error = {0};
    size_t count = (size_t)shape_count(&workload->out[0].shape);
    float *out = arena_array(arena, count + 2 * GUARD, sizeof *out);
    uint64_t block;
    for (int i = 0; i < workload->n_in; i++) {
        size_t bytes = operand_bytes(&workload->in[i]);
        in[i] = fill(arena, rng, &workload->in[i]);
        must(device_cpu.alloc(bench->device, bytes, &bench->in[i], &error), &error);
        must(device_cpu.write(bench->device, bench->in[i], in[i], bytes, &error), &error);
    }
    must(device_cpu.alloc(bench->device, program->prepared_bytes[0], &bench->prepared, &error), &error);
    must(device_cpu.alloc(bench->device, (count + 2 * GUARD) * 4, &block, &error), &error);
    must(device_cpu.fill(bench->device, block, 0x7fffffff, count + 2 * GUARD, &error), &error);
    bench->out = block + GUARD * 4;
    compile(bench, program->source);
    launch(bench, program->prepare);
    launch(bench, program->run);
    must(device_cpu.read(bench->device, out, block, (count + 2 * GUARD) * 4, &error), &error);
    for (size_t i = 0; i < GUARD; i++)
        cr_assert(isnan(out[i]) && isnan(out[GUARD + count + i]), "written beyond the output in %s", what);
    check_outputs(workload, in, out + GUARD, what);
}

/* Renders one configuration, runs it and compares. */
static void check(const char *key, int64_t (*choose)(const struct space *space, struct rng *rng), uint64_t seed) {
    struct arena *arena = arena_new(0);
    struct bench bench = {0};
    struct device_info info;
    struct program *program;
    struct error error = {0};
    struct rng rng;
    rng_seed(&rng, seed);
    must(device_cpu.describe(0, &info, &error), &error);
    must(device_cpu.open(0, &bench.device, &error), &error);
    bench.target = info.target;
    struct workload *workload = parse(arena, key);
    cr_assert(template->serves(workload, &bench.target), "%s", key);
    struct space *space = template->space(workload, &bench.target, arena);
    int64_t index = choose ? choose(space, &rng) : template->fallback(workload, &bench.target, space);
    must(template->render(workload, &bench.target, space, index, arena, &program, &error), &error);
    run_and_check(&bench, workload, program, arena, &rng,
                  arena_printf(arena, "%s, configuration %lld of %lld", key, (long long)index, (long long)space->size));
    device_cpu.close(bench.device);
    arena_free(arena);
}

static int64_t choose_any(const struct space *space, struct rng *rng) {
    return (int64_t)rng_below(rng, (uint64_t)space->size);
}

/* The last candidate of every knob. */
static int64_t choose_last(const struct space *space, struct rng *rng) {
    (void)rng;
    return space->size - 1;
}

/* ---- convolutions ---- */

static int64_t within(struct rng *rng, int64_t low, int64_t high) {
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low + 1));
}

/* A random shape with everything odd about it. */
static void random_key(struct rng *rng, struct buf *ret) {
    static const char *const acts[] = {"",          " act=relu", " act=leaky-relu:0.125", " act=clip:0:6",
                                       " act=silu", " act=tanh", " act=sigmoid",          " act=hard-swish"};
    int64_t groups = within(rng, 0, 3) ? 1 : 2, n = within(rng, 1, 2);
    int64_t c = groups * within(rng, 2, 21), k = groups * within(rng, 8, 40), kernel[2], dilation[2], image[2], out[2];
    int64_t stride[2], pad[4];
    for (int i = 0; i < 2; i++) {
        kernel[i] = within(rng, 1, 4);
        dilation[i] = within(rng, 1, 2);
        stride[i] = within(rng, 1, 3);
        pad[i] = within(rng, 0, 3);
        pad[i + 2] = within(rng, 0, 3);
        image[i] = within(rng, dilation[i] * (kernel[i] - 1) + 1, 21);
        out[i] = (image[i] + pad[i] + pad[i + 2] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
    }
    bool bias = within(rng, 0, 2) != 0, residual = within(rng, 0, 1) != 0;
    buf_printf(ret, "conv2d(f32:nhwc:%lldx%lldx%lldx%lld, f32:row:%lldx%lldx%lldx%lld", (long long)n, (long long)c,
               (long long)image[0], (long long)image[1], (long long)k, (long long)(c / groups), (long long)kernel[0],
               (long long)kernel[1]);
    if (bias)
        buf_printf(ret, ", f32:row:%lld", (long long)k);
    for (int i = 0; i < 1 + residual; i++)
        buf_printf(ret, "%sf32:nhwc:%lldx%lldx%lldx%lld", i < residual ? ", " : ") -> ", (long long)n, (long long)k,
                   (long long)out[0], (long long)out[1]);
    buf_printf(ret, " {stride=%lldx%lld, dilation=%lldx%lld, pad=%lldx%lldx%lldx%lld, groups=%lld}%s%s%s",
               (long long)stride[0], (long long)stride[1], (long long)dilation[0], (long long)dilation[1],
               (long long)pad[0], (long long)pad[1], (long long)pad[2], (long long)pad[3], (long long)groups,
               bias ? " bias" : "", residual ? " residual" : "", acts[within(rng, 0, ARRAY_COUNT(acts) - 1)]);
}

static void check_random(uint64_t first_seed, int count) {
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)count; seed++) {
        struct buf key = BUF_INIT(4096);
        struct rng rng;
        rng_seed(&rng, seed);
        random_key(&rng, &key);
        check(buf_str(&key), choose_any, seed);
        buf_release(&key);
    }
}

Test(conv2d_direct_cpu, equals_a_plain_loop_on_random_shapes_and_configurations) {
    check_random(100, 10);
}

Test(conv2d_direct_cpu, equals_a_plain_loop_on_more_random_shapes_and_configurations) {
    check_random(200, 10);
}

#define CONV_56                                                                                               \
    "conv2d(f32:nhwc:1x32x56x56, f32:row:64x32x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"
#define CONV_STEM                                                                      \
    "conv2d(f32:nhwc:1x3x64x64, f32:row:64x3x7x7, f32:row:64) -> f32:nhwc:1x64x32x32 " \
    "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu"
#define CONV_POINTWISE                                                   \
    "conv2d(f32:nhwc:2x24x9x9, f32:row:40x24x1x1) -> f32:nhwc:2x40x9x9 " \
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} act=clip:0:6"
#define CONV_ONE_PIXEL                                                          \
    "conv2d(f32:nhwc:1x5x1x1, f32:row:7x5x3x3, f32:row:7) -> f32:nhwc:1x7x1x1 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias"
#define CONV_ALL_PADDING                                               \
    "conv2d(f32:nhwc:1x4x2x2, f32:row:16x4x2x2) -> f32:nhwc:1x16x7x7 " \
    "{stride=1x1, dilation=1x1, pad=3x3x3x3, groups=1}"
#define DENSE_1 "dense(f32:row:1x75, f32:row:110x75, f32:row:110) -> f32:row:1x110 bias"
#define DENSE_33 \
    "dense(f32:row:33x20, f32:row:48x20, f32:row:48, f32:row:33x48) -> f32:row:33x48 bias residual act=relu"

Test(conv2d_direct_cpu, equals_a_plain_loop_with_the_fallback_configuration) {
    static const char *const keys[] = {CONV_56, CONV_STEM, CONV_POINTWISE, CONV_ONE_PIXEL, CONV_ALL_PADDING, DENSE_1};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        check(keys[i], NULL, i);
}

Test(conv2d_direct_cpu, equals_a_plain_loop_with_extreme_configurations) {
    static const char *const keys[] = {CONV_56, CONV_STEM, CONV_POINTWISE, CONV_ONE_PIXEL, DENSE_33};
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        check(keys[i], choose_last, i);
}

/* ---- without running ---- */

static bool served(const char *key) {
    struct target target = target_named("x86-64-v4");
    struct arena *arena = arena_new(0);
    bool yes = template->serves(parse(arena, key), &target);
    arena_free(arena);
    return yes;
}

Test(conv2d_direct_cpu, serves_channels_last_fp32_convolutions_and_dense_layers) {
    cr_assert(served(CONV_56));
    cr_assert(served(DENSE_1));
}

Test(conv2d_direct_cpu, leaves_other_layouts_types_and_depthwise_to_others) {
    cr_assert_not(served("conv2d(f32:row:1x32x8x8, f32:row:64x32x1x1) -> f32:row:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}"));
    cr_assert_not(served("conv2d(f16:nhwc:1x32x8x8, f16:row:64x32x1x1) -> f16:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1}"));
    cr_assert_not(served("conv2d(f32:nhwc:1x32x8x8, f32:row:32x1x3x3) -> f32:nhwc:1x32x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}"));
}

Test(conv2d_direct_cpu, renders_every_configuration_for_every_architecture) {
    static const char *const archs[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "armv8-a"};
    static const char *const keys[] = {CONV_STEM, CONV_POINTWISE, DENSE_1};
    for (size_t a = 0; a < ARRAY_COUNT(archs); a++) {
        struct target target = target_named(archs[a]);
        for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
            struct arena *arena = arena_new(0);
            struct workload *workload = parse(arena, keys[k]);
            struct space *space = template->space(workload, &target, arena);
            int64_t fallback = template->fallback(workload, &target, space);
            cr_assert(fallback >= 0 && fallback < space->size);
            for (int64_t i = 0; i < space->size; i += 1 + space->size / 100) {
                struct program *program;
                struct error error = {0};
                must(template->render(workload, &target, space, i, arena, &program, &error), &error);
                cr_assert_gt(program->run->items, 0);
            }
            arena_free(arena);
        }
    }
}

Test(conv2d_direct_cpu, renders_the_same_text_twice) {
    struct target target = target_named("x86-64-v4");
    struct arena *arena = arena_new(0);
    struct workload *workload = parse(arena, CONV_56);
    struct space *space = template->space(workload, &target, arena);
    struct program *a, *b;
    struct error error = {0};
    must(template->render(workload, &target, space, 7, arena, &a, &error), &error);
    must(template->render(workload, &target, space, 7, arena, &b, &error), &error);
    cr_assert_str_eq(a->source, b->source);
    cr_assert_eq(a->prepared_bytes[0], b->prepared_bytes[0]);
    arena_free(arena);
}
