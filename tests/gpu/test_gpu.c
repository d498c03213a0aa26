/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What needs a GPU: device_cuda itself, the plain kernels against the host's evaluator, measuring with all that can go
 * wrong on a GPU, and every CUDA template on the layers of networks, each configuration verified.
 *
 * A plain program without a test framework, so that it runs on hosts that have nothing but the driver and NVRTC:
 *     test_gpu [CONFIGURATIONS [TEMPLATE]]      how many of each template and workload to measure (default 8); one
 *                                               template's layers alone (for compute-sanitizer, say)
 * It is its own children (`test_gpu child build`, `child run`). Without a GPU it says so and succeeds.
 */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/measure/measure.h"
#include "gpu/template/template.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/rng.h"
#include "service/model/eval.h"

enum { MOST_TEMPLATES = 64, MOST_TRIALS = 256 };

/* ---- Reporting ---- */

struct tally {
    int passed, failed;
};

static void report(struct tally *tally, bool ok, const char *format, ...) PRINTF_LIKE(3, 4);
static void report(struct tally *tally, bool ok, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%s - ", ok ? "ok" : "not ok");
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
    va_end(args);
    tally->passed += ok;
    tally->failed += !ok;
}

/* ---- A template with faults ---- */

static const char relu_key[] = "unary(f32:row:1x1000) -> f32:row:1x1000 act=relu";

/* Stands for conditions nested so deeply that NVRTC takes minutes. */
static const char endless_source[] = "";

static const struct fault {
    const char *name, *body; /* no body: the process that renders it dies */
    unsigned shared_bytes;
    enum trial_error expected;
} faults[] = {
    {"a good kernel", "if (i < 1000) y[i] = fmaxf(x[i], 0);", 0, TRIAL_OK},
    {"a wrong answer", "if (i < 1000) y[i] = fmaxf(x[i], 0) + (i == 5);", 0, TRIAL_WRONG_ANSWER},
    {"a write past the output", "y[i] = i < 1000 ? fmaxf(x[i], 0) : 1;", 0, TRIAL_WRONG_ANSWER},
    {"an endless loop", "for (volatile int k = 0; k < 2; k = 0) ; y[i] = 0;", 0, TRIAL_RUN_TIMEOUT},
    {"an illegal address", "*(volatile int *)16 = i; y[i] = x[i];", 0, TRIAL_RUNTIME},
    {"a trap", "__trap(); y[i] = x[i];", 0, TRIAL_RUNTIME},
    {"code that is no CUDA", "this is not CUDA", 0, TRIAL_COMPILE_DEVICE},
    {"too much shared memory", "if (i < 1000) y[i] = fmaxf(x[i], 0);", 1 << 20, TRIAL_INSTANTIATION},
    {"a compiler that dies", NULL, 0, TRIAL_COMPILE_DEVICE},
    {"a compile that does not end", endless_source, 0, TRIAL_BUILD_TIMEOUT},
    {"the good kernel's twin", "if (i < 1000) y[i] = fmaxf(x[i], 0);", 0, TRIAL_OK},
    {"a good kernel again", "if (i < 1000) y[i] = x[i] > 0 ? x[i] : 0;", 0, TRIAL_OK},
};

static bool fault_serves(const struct workload *workload, const struct target *target) {
    (void)target;
    return workload->op == OP_UNARY && shape_count(&workload->out[0].shape) == 1000;
}

static struct space *fault_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    (void)workload, (void)target;
    int64_t values[ARRAY_COUNT(faults)];
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++)
        values[i] = (int64_t)i;
    struct space *space = space_new(arena);
    space_choice(space, "fault", values, ARRAY_COUNT(faults));
    return space;
}

static int64_t fault_fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return 0;
}

static const char *nest_conditions(struct arena *arena) {
    static const char condition[] = "if (x[0] > 1) ";
    enum { DEPTH = 100000 };
    size_t len = sizeof condition - 1;
    char *text = arena_alloc(arena, DEPTH * len + sizeof "y[0] = 1;");
    for (int i = 0; i < DEPTH; i++)
        memcpy(text + i * len, condition, len);
    memcpy(text + DEPTH * len, "y[0] = 1;", sizeof "y[0] = 1;");
    return text;
}

static int fault_render(const struct workload *workload, const struct target *target, const struct space *space,
                        int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)workload, (void)target, (void)space, (void)error;
    static const char frame[] = "extern \"C\" __global__ void relu(const float *x, float *y) {\n"
                                "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    %s\n}\n";
    const char *body = faults[index].body;
    if (!body)
        raise(SIGKILL);
    if (body == endless_source)
        body = nest_conditions(arena);
    struct program *program = arena_alloc(arena, sizeof *program);
    struct launch *launch = arena_alloc(arena, sizeof *launch);
    *launch = (struct launch){.entry = "relu",
                              .n_args = 2,
                              .args = {{ARG_IN, 0}, {ARG_OUT, 0}},
                              .grid = {4, 1, 1},
                              .block = {256, 1, 1},
                              .shared_bytes = faults[index].shared_bytes};
    *program = (struct program){.source = arena_printf(arena, frame, body), .run = launch, .n_run = 1};
    *ret = program;
    return 0;
}

static const struct template faulty = {"faulty.cuda",  1,           "cuda", fault_serves, fault_space,
                                       fault_fallback, fault_render};

/* The faulty one, then the built-in ones. */
static void all_templates(const struct template *ret[MOST_TEMPLATES]) {
    int n = 0;
    ret[n++] = &faulty;
    for (const struct template *const *t = template_builtin; *t && n < MOST_TEMPLATES - 1; t++)
        ret[n++] = *t;
    ret[n] = NULL;
}

/* ---- The device ---- */

/* An open GPU and the outcome so far: the first error ends what follows. */
struct gpu {
    struct device_info info;
    struct device *device;
    struct error error;
};

static struct device_code *load(struct gpu *gpu, const char *source) {
    CLEANUP(buf_release) struct buf code = BUF_INIT(64 << 20), log = BUF_INIT(1 << 20);
    struct device_code *loaded = NULL;
    int rc = device_cuda.compile(&gpu->info.target, source, deadline_in_s(60), &code, &log, &gpu->error);
    buf_release(&log);
    return rc == 0 && device_cuda.load(gpu->device, code.data, code.len, &loaded, &gpu->error) == 0 ? loaded : NULL;
}

static bool run(struct gpu *gpu, struct device_code *code, struct launch launch, uint64_t address, int count,
                double *seconds) {
    launch.n_args = 1;
    struct device_call call = {&launch, code, {address}};
    return device_cuda.run(gpu->device, &call, 1, count, seconds, &gpu->error) == 0;
}

static void test_memory(struct gpu *gpu, struct tally *tally) {
    enum { N = 1 << 20 };
    uint32_t *host = malloc(N * sizeof *host);
    uint64_t at = 0;
    bool ok = host && device_cuda.alloc(gpu->device, N * sizeof *host, &at, &gpu->error) == 0;
    for (uint32_t i = 0; ok && i < N; i++)
        host[i] = i * 2654435761u;
    ok = ok && at % 256 == 0 && device_cuda.write(gpu->device, at, host, N * sizeof *host, &gpu->error) == 0 &&
         device_cuda.fill(gpu->device, at + 400, 0x7fc00000, 25, &gpu->error) == 0;
    if (ok)
        memset(host, 0, N * sizeof *host);
    ok = ok && device_cuda.read(gpu->device, host, at, N * sizeof *host, &gpu->error) == 0;
    for (uint32_t i = 0; ok && i < N; i++)
        ok = host[i] == (i >= 100 && i < 125 ? 0x7fc00000 : i * 2654435761u);
    report(tally, ok, "memory keeps what is written and filled %s", ok ? "" : gpu->error.text);
    device_cuda.free(gpu->device, at);
    free(host);
}

static int read_int(struct gpu *gpu, uint64_t at) {
    int value = -1;
    return device_cuda.read(gpu->device, &value, at, sizeof value, &gpu->error) == 0 ? value : -1;
}

static void test_counts(struct gpu *gpu, struct tally *tally) {
    static const struct launch once = {.entry = "count", .grid = {1, 1, 1}, .block = {1, 1, 1}};
    struct device_code *code = load(gpu, "extern \"C\" __global__ void count(int *n) { n[0] += 1; }");
    uint64_t at = 0;
    double seconds = 0;
    bool ok = code && device_cuda.alloc(gpu->device, 256, &at, &gpu->error) == 0 &&
              device_cuda.fill(gpu->device, at, 0, 1, &gpu->error) == 0 && run(gpu, code, once, at, 7, NULL);
    report(tally, ok && read_int(gpu, at) == 7, "seven untimed runs are seven %s", ok ? "" : gpu->error.text);
    for (int count = 1; count <= 1000; count = count * 3 + 1) {
        device_cuda.fill(gpu->device, at, 0, 1, &gpu->error);
        ok = run(gpu, code, once, at, count, &seconds);
        int did = read_int(gpu, at);
        report(tally, ok && did > count && did <= 2 * count + 1 && seconds > 0,
               "%d timed runs are at least that, and %d with the warm-up: %.2f us each %s", count, did,
               seconds / count * 1e6, ok ? "" : gpu->error.text);
    }
    device_cuda.unload(gpu->device, code);
    device_cuda.free(gpu->device, at);
}

/* A kernel that spins for 50 µs by the global timer must be timed so. */
static void test_timing(struct gpu *gpu, struct tally *tally) {
    static const struct launch once = {.entry = "spin", .grid = {1, 1, 1}, .block = {32, 1, 1}};
    struct device_code *code = load(
        gpu, "__device__ unsigned long long now() { unsigned long long t; "
             "asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(t)); return t; }\n"
             "extern \"C\" __global__ void spin(int *n) { auto t = now(); while (now() - t < 50000) ; n[0] = 1; }");
    uint64_t at = 0;
    double seconds = 0;
    bool ok =
        code && device_cuda.alloc(gpu->device, 256, &at, &gpu->error) == 0 && run(gpu, code, once, at, 100, &seconds);
    double us = seconds / 100 * 1e6;
    report(tally, ok && us > 45 && us < 60, "a kernel of 50 us is timed as %.2f us %s", us, ok ? "" : gpu->error.text);
    double repeats[5] = {0};
    struct launch launch = once;
    launch.n_args = 1;
    struct device_call call = {&launch, code, {at}};
    ok = ok && device_cuda.time(gpu->device, &call, 1, 10, 5, repeats, &gpu->error) == 0;
    for (int i = 0; i < 5; i++) {
        us = repeats[i] / 10 * 1e6;
        report(tally, ok && us > 45 && us < 60, "and in repeat %d of 5 as %.2f us %s", i, us,
               ok ? "" : gpu->error.text);
    }
    device_cuda.unload(gpu->device, code);
    device_cuda.free(gpu->device, at);
}

/* Our own process must not pass for another, and asking must cost little. */
static void test_watch(struct gpu *gpu, struct tally *tally) {
    enum { TIMES = 100 };
    struct device_state state;
    device_cuda.watch(gpu->device, true, &state);
    int64_t begin = clock_now_ns();
    for (int i = 0; i < TIMES; i++)
        device_cuda.watch(gpu->device, false, &state);
    double quick_us = (double)(clock_now_ns() - begin) / TIMES / 1e3;
    begin = clock_now_ns();
    device_cuda.watch(gpu->device, true, &state);
    report(tally, quick_us < 2000 && state.other_processes <= 0,
           "a look at the device takes %.0f us, a full one %.0f us: %d MHz, throttled by %#x, %d other processes",
           quick_us, (double)(clock_now_ns() - begin) / 1e3, state.sm_clock_mhz, (unsigned)state.throttle_reasons,
           state.other_processes);
}

static void test_shared(struct gpu *gpu, struct tally *tally) {
    int words = (int)(gpu->info.target.shared_bytes / 4);
    const struct launch most = {
        .entry = "last", .grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = (unsigned)words * 4};
    char source[256];
    snprintf(source, sizeof source,
             "extern \"C\" __global__ void last(int *n) { extern __shared__ int s[]; s[%d] = 42; n[0] = s[%d]; }",
             words - 1, words - 1);
    struct device_code *code = load(gpu, source);
    uint64_t at = 0;
    bool ok = code && device_cuda.alloc(gpu->device, 256, &at, &gpu->error) == 0 && run(gpu, code, most, at, 1, NULL);
    report(tally, ok && read_int(gpu, at) == 42, "all %d bytes of shared memory can be used %s", words * 4,
           ok ? "" : gpu->error.text);
    device_cuda.unload(gpu->device, code);
    device_cuda.free(gpu->device, at);
}

static void test_refusals(struct gpu *gpu, struct tally *tally) {
    static const struct launch large = {.entry = "f", .grid = {1, 1, 1}, .block = {1024, 1, 1}};
    static const struct launch unknown = {.entry = "g", .grid = {1, 1, 1}, .block = {1, 1, 1}};
    /* 128 registers a thread and 1024 threads are more than a multiprocessor has */
    struct device_code *code = load(
        gpu, "extern \"C\" __global__ void __launch_bounds__(512, 1) f(float *n) { float a[100]; int t = threadIdx.x;\n"
             "#pragma unroll\nfor (int i = 0; i < 100; i++) a[i] = n[i * t];\n__syncthreads();\n"
             "#pragma unroll\nfor (int i = 0; i < 100; i++) n[i * t + 1] = a[i] * a[99 - i]; }");
    uint64_t at = 0;
    bool ok = code && device_cuda.alloc(gpu->device, 1 << 20, &at, &gpu->error) == 0;
    report(tally, ok && !run(gpu, code, large, at, 1, NULL) && strcmp(gpu->error.code, "out-of-resources") == 0,
           "too many registers are refused: %s", gpu->error.text);
    report(tally, !run(gpu, code, unknown, at, 1, NULL) && gpu->error.class == ERROR_DEVICE,
           "a kernel that is not there is refused: %s", gpu->error.text);
    report(tally, !load(gpu, "extern \"C\" __global__ void f() { nonsense; }") && strstr(gpu->error.text, "nonsense"),
           "what NVRTC refuses comes with its words");
    uint64_t much;
    report(tally,
           device_cuda.alloc(gpu->device, (size_t)1 << 50, &much, &gpu->error) < 0 &&
               strcmp(gpu->error.code, "out-of-memory") == 0,
           "too much memory is refused: %s", gpu->error.text);
    device_cuda.unload(gpu->device, code);
    device_cuda.free(gpu->device, at);
}

/* ---- Plain kernels against the evaluator ---- */

static const char *const plain_keys[] = {
    "conv2d(f32:nhwc:2x6x9x8, f32:row:10x6x3x3, f32:row:10) -> f32:nhwc:2x10x9x8 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
    "conv2d(f32:row:1x6x9x8, f32:row:10x3x3x2, f32:row:10, f32:row:1x10x4x8) -> f32:row:1x10x4x8 "
    "{stride=2x1, dilation=1x2, pad=0x1x1x1, groups=2} bias residual act=clip:-0.5:0.75",
    "conv2d(f32:nhwc:1x32x9x9, f32:row:32x1x3x3) -> f32:nhwc:1x32x9x9 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}",
    "conv2d_transpose(f32:nhwc:1x6x4x5, f32:row:6x4x3x3, f32:row:8) -> f32:nhwc:1x8x8x10 "
    "{stride=2x2, dilation=1x1, pad=1x1x0x0, groups=2} bias act=leaky-relu:0.1",
    "dense(f32:row:5x333, f32:row:9x333, f32:row:9, f32:row:5x9) -> f32:row:5x9 bias residual act=tanh",
    "matmul(f32:row:2x3x4x5, f32:row:3x5x6) -> f32:row:2x3x4x6",
    "pool(f32:nhwc:2x150x7x7) -> f32:nhwc:2x150x4x4 "
    "{kind=max, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "pool(f32:row:1x8x7x9) -> f32:row:1x8x4x5 "
    "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=1}",
    "lrn(f32:nhwc:1x9x3x4) -> f32:nhwc:1x9x3x4 {size=5, alpha=0.5, beta=0.75, bias=1}",
    "reduce(f32:nhwc:2x200x7x6) -> f32:nhwc:2x200x1x1 {kind=mean, axes=12}",
    "reduce(f32:row:2x3x40x50) -> f32:row:2x3x1x1 {kind=max, axes=12}",
    "softmax(f32:row:2x1000) -> f32:row:2x1000 {axis=1, log=0}",
    "softmax(f32:row:2x5x3x50) -> f32:row:2x5x3x50 {axis=1, log=1}",
    "affine(f32:nhwc:2x5x3x4, f32:row:5, f32:row:5) -> f32:nhwc:2x5x3x4 act=sigmoid",
    "binary(f32:nhwc:2x6x3x4, f32:row:1x6x1x1) -> f32:nhwc:2x6x3x4 {kind=mul}",
    "binary(f32:row:4x1, f32:row:3x1x5) -> f32:row:3x4x5 {kind=sub} act=hard-swish",
    "unary(f32:row:3x700) -> f32:row:3x700 act=silu",
    "unary(f32:row:3x700) -> f32:row:3x700 act=erf",
    "reshape(f32:nhwc:2x3x4x5) -> f32:row:2x60",
    "transpose(f32:row:2x3x4x5) -> f32:row:4x2x5x3 {perm=2x0x3x1}",
    "concat(f32:nhwc:2x3x4x5, f32:nhwc:2x1x4x5, f32:nhwc:2x70x4x5) -> f32:nhwc:2x74x4x5 {axis=1}",
    "slice(f32:nhwc:2x6x9x5) -> f32:nhwc:1x3x4x5 {start=1x2x8x0, step=1x1x-2x1}",
    "pad(f32:nhwc:1x3x4x5) -> f32:nhwc:1x3x9x9 {mode=reflect, value=0, before=0x0x3x1}",
    "expand(f32:row:4x1) -> f32:row:3x4x5",
    "copy(f32:row:2x3x40x50) -> f32:nhwc:2x3x40x50",
    "resize(f32:nhwc:1x8x5x4) -> f32:nhwc:1x8x10x12 "
    "{mode=nearest, coordinates=half-pixel, rounding=round-prefer-floor, scale=1x1x2x3}",
    "resize(f32:row:1x3x5x4) -> f32:row:1x3x9x9 "
    "{mode=linear, coordinates=align-corners, rounding=round-prefer-floor, scale=1x1x1.8x2.25}",
};

/* Where element `i` of the logical order lies in memory. */
static int64_t place(const struct operand *operand, int64_t i) {
    int64_t stride[SHAPE_MAX_RANK], at = 0;
    operand_strides(operand, stride);
    for (int d = operand->shape.rank - 1; d >= 0; d--) {
        at += i % operand->shape.dim[d] * stride[d];
        i /= operand->shape.dim[d];
    }
    return at;
}

/* The workload's inputs in logical order, uniform in [-4, 4), and what the evaluator makes of them. */
static int evaluate(const struct workload *w, struct arena *arena, float **ret_in, struct value *ret_out,
                    struct error *error) {
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, w->op, "node", w->n_in, 1);
    struct rng rng;
    rng_seed(&rng, 7);
    node->attr = w->attr;
    node->epilogue = w->epilogue;
    for (int i = 0; i < w->n_in; i++) {
        int64_t n = shape_count(&w->in[i].shape);
        ret_in[i] = arena_array(arena, (size_t)n, sizeof(float));
        for (int64_t k = 0; k < n; k++)
            ret_in[i][k] = (float)(rng_unit(&rng) * 8 - 4);
        node->in[i] = graph_add_value(graph, "x", DTYPE_F32, &w->in[i].shape);
        graph->values[node->in[i]].data = ret_in[i];
    }
    node->out[0] = graph_add_value(graph, "y", DTYPE_F32, &w->out[0].shape);
    return eval_node(graph, node, arena, ret_out, error);
}

/* Allocates a buffer of floats on the GPU with an operand's elements, given in logical order, or NaN. */
static int put(struct gpu *gpu, const struct operand *operand, const float *logical, struct arena *arena,
               uint64_t *ret) {
    int64_t n = shape_count(&operand->shape);
    float *memory = arena_array(arena, (size_t)n, sizeof *memory);
    for (int64_t i = 0; i < n; i++)
        memory[place(operand, i)] = logical ? logical[i] : NAN;
    if (device_cuda.alloc(gpu->device, (size_t)n * sizeof *memory, ret, &gpu->error) < 0)
        return -1;
    return device_cuda.write(gpu->device, *ret, memory, (size_t)n * sizeof *memory, &gpu->error);
}

/* Runs all launches of a program (prepare first) on the buffers. */
static int execute(struct gpu *gpu, const struct program *program, struct device_code *code, const uint64_t *in,
                   uint64_t out, struct arena *arena) {
    uint64_t *prepared = arena_array(arena, (size_t)program->n_prepared + 1, sizeof *prepared);
    uint64_t *scratch = arena_array(arena, (size_t)program->n_scratch + 1, sizeof *scratch);
    for (int i = 0; i < program->n_prepared; i++)
        if (device_cuda.alloc(gpu->device, program->prepared_bytes[i], &prepared[i], &gpu->error) < 0)
            return -1;
    for (int i = 0; i < program->n_scratch; i++)
        if (device_cuda.alloc(gpu->device, program->scratch_bytes[i], &scratch[i], &gpu->error) < 0)
            return -1;
    const uint64_t *lists[] = {[ARG_IN] = in, [ARG_OUT] = &out, [ARG_SCRATCH] = scratch, [ARG_PREPARED] = prepared};
    for (int i = 0; i < program->n_prepare + program->n_run; i++) {
        const struct launch *launch =
            i < program->n_prepare ? &program->prepare[i] : &program->run[i - program->n_prepare];
        struct device_call call = {.launch = launch, .code = code};
        for (int a = 0; a < launch->n_args; a++) {
            const struct arg *arg = &launch->args[a];
            call.args[a] = arg->kind == ARG_VALUE ? (uint32_t)arg->index : lists[arg->kind][arg->index];
        }
        if (device_cuda.run(gpu->device, &call, 1, 1, NULL, &gpu->error) < 0)
            return -1;
    }
    return 0;
}

/* The largest difference over the largest expected magnitude. */
static double difference(const struct operand *out, const float *memory, const struct value *expected) {
    const float *data = expected->data;
    double largest = 1e-30, worst = 0;
    for (int64_t i = 0; i < shape_count(&out->shape); i++) {
        double want = data[expected->splat ? 0 : i], got = memory[place(out, i)];
        double apart = want == got ? 0 : fabs(want - got);
        worst = apart <= worst ? worst : apart; /* a NaN stays */
        if (isnan(apart))
            return INFINITY;
        largest = isfinite(want) && fabs(want) > largest ? fabs(want) : largest;
    }
    return worst / largest;
}

static double plain_difference(struct gpu *gpu, const char *key, struct arena *arena) {
    struct workload *w;
    struct program *program;
    struct value expected;
    float *in[16];
    uint64_t at[16], out;
    const struct template *plain = template_plain(&gpu->info.target);
    if (workload_parse(key, arena, &w, &gpu->error) < 0 || w->n_in > 16 ||
        evaluate(w, arena, in, &expected, &gpu->error) < 0)
        return INFINITY;
    struct space *space = plain->space(w, &gpu->info.target, arena);
    if (plain->render(w, &gpu->info.target, space, 0, arena, &program, &gpu->error) < 0)
        return INFINITY;
    struct device_code *code = load(gpu, program->source);
    for (int i = 0; i < w->n_in; i++)
        if (put(gpu, &w->in[i], in[i], arena, &at[i]) < 0)
            return INFINITY;
    float *got = arena_alloc(arena, operand_bytes(&w->out[0]));
    if (!code || put(gpu, &w->out[0], NULL, arena, &out) < 0 || execute(gpu, program, code, at, out, arena) < 0 ||
        device_cuda.read(gpu->device, got, out, operand_bytes(&w->out[0]), &gpu->error) < 0)
        return INFINITY;
    device_cuda.unload(gpu->device, code);
    return difference(&w->out[0], got, &expected);
}

static void test_plain(struct gpu *gpu, struct tally *tally) {
    for (size_t i = 0; i < ARRAY_COUNT(plain_keys); i++) {
        struct arena *arena = arena_new(0);
        gpu->error = (struct error){0};
        double apart = plain_difference(gpu, plain_keys[i], arena);
        report(tally, apart < 1e-5, "plain %.90s: %.1e from the evaluator %s", plain_keys[i], apart, gpu->error.text);
        arena_free(arena);
    }
}

/* ---- Measuring ---- */

static void test_faults(struct measurer *measurer, struct tally *tally) {
    struct trial trials[ARRAY_COUNT(faults)] = {0};
    struct measure_options options = measure_defaults;
    struct arena *arena = arena_new(0);
    struct workload *workload = NULL;
    struct error error = {0};
    options.timeout_s = 4;
    options.build_timeout_s = 10;
    for (size_t i = 0; i < ARRAY_COUNT(faults); i++)
        trials[i] = (struct trial){.template = &faulty, .index = (int64_t)i};
    int rc = workload_parse(relu_key, arena, &workload, &error);
    if (rc == 0)
        rc = measurer_run(measurer, workload, &options, trials, ARRAY_COUNT(faults), NULL, &error);
    report(tally, rc == 0, "faulty kernels are measured %s", error.text);
    for (size_t i = 0; rc == 0 && i < ARRAY_COUNT(faults); i++)
        report(tally, trials[i].error_no == faults[i].expected, "%s gives %s: %.200s", faults[i].name,
               trial_error_name(trials[i].error_no), trials[i].error_text);
    arena_free(arena);
}

/* One far above its bound is cut short; what is measured comes with the device's state. */
static void test_circumstances(struct measurer *measurer, struct tally *tally) {
    struct trial trials[2] = {{.template = &faulty, .bound_s = 1e-9}, {.template = &faulty, .bound_s = 1}};
    struct arena *arena = arena_new(0);
    struct workload *workload = NULL;
    struct error error = {0};
    int rc = workload_parse(relu_key, arena, &workload, &error);
    if (rc == 0)
        rc = measurer_run(measurer, workload, &measure_defaults, trials, 2, NULL, &error);
    report(tally, rc == 0 && trials[0].n_costs == 1 && (trials[0].flags & TRIAL_CUT_SHORT),
           "a trial above its bound is cut short %s", error.text);
    report(tally, rc == 0 && trials[1].n_costs == measure_defaults.repeat && !(trials[1].flags & TRIAL_CUT_SHORT),
           "one below is not");
    report(tally, rc == 0 && trials[1].state.sm_clock_mhz != 0,
           "the state comes with it: %d MHz, flags %u, measured again %d times, load %.2f verify %.2f time %.2f ms",
           trials[1].state.sm_clock_mhz, trials[1].flags, trials[1].again, trials[1].load_s * 1e3,
           trials[1].verify_s * 1e3, trials[1].time_s * 1e3);
    arena_free(arena);
}

#define CONV(n, c, h, k, r, s, oh, p, layout) CONV_OF("f32", n, c, h, k, r, s, oh, p, layout)
#define HALVES(n, c, h, k, r, s, oh, p) CONV_OF("f16", n, c, h, k, r, s, oh, p, "nhwc")
#define BFLOATS(n, c, h, k, r, s, oh, p) CONV_OF("bf16", n, c, h, k, r, s, oh, p, "nhwc")
#define TF32(n, c, h, k, r, s, oh, p) CONV_OF("f32", n, c, h, k, r, s, oh, p, "nhwc") " math=tf32"
#define CONV_OF(dtype, n, c, h, k, r, s, oh, p, layout)                                                               \
    "conv2d(" dtype ":" layout ":" #n "x" #c "x" #h "x" #h ", " dtype ":row:" #k "x" #c "x" #r "x" #r ", f32:row:" #k \
    ") -> " dtype ":" layout ":" #n "x" #k "x" #oh "x" #oh " {stride=" #s "x" #s ", dilation=1x1, pad=" #p "x" #p     \
    "x" #p "x" #p ", groups=1} bias act=relu"

#define DEPTHWISE(dtype, n, c, h, r, s, oh, p, layout)                                                            \
    "conv2d(" dtype ":" layout ":" #n "x" #c "x" #h "x" #h ", " dtype ":row:" #c "x1x" #r "x" #r ", f32:row:" #c  \
    ") -> " dtype ":" layout ":" #n "x" #c "x" #oh "x" #oh " {stride=" #s "x" #s ", dilation=1x1, pad=" #p "x" #p \
    "x" #p "x" #p ", groups=" #c "} bias act=clip:0:6"

static const char *const tuned_keys[] = {
    CONV(1, 3, 224, 64, 7, 2, 112, 3, "nhwc"),
    CONV(1, 64, 56, 64, 3, 1, 56, 1, "nhwc"),
    CONV(1, 64, 56, 128, 3, 2, 28, 1, "nhwc"),
    CONV(1, 64, 56, 128, 1, 2, 28, 0, "nhwc"),
    CONV(1, 128, 28, 128, 3, 1, 28, 1, "nhwc"),
    CONV(1, 256, 14, 256, 3, 1, 14, 1, "nhwc"),
    CONV(1, 512, 7, 512, 3, 1, 7, 1, "nhwc"),
    CONV(1, 256, 14, 512, 3, 2, 7, 1, "nhwc"),
    CONV(1, 256, 14, 256, 3, 1, 14, 1, "row"),
    CONV(1, 64, 56, 64, 3, 1, 56, 1, "row"),
    CONV(32, 64, 56, 64, 3, 1, 56, 1, "nhwc"),
    CONV(2, 17, 23, 13, 3, 2, 12, 1, "nhwc"), /* nothing divides anything */
    CONV(2, 17, 23, 13, 5, 1, 23, 2, "row"),
    HALVES(1, 3, 224, 64, 7, 2, 112, 3),
    HALVES(1, 64, 56, 64, 3, 1, 56, 1),
    HALVES(1, 64, 56, 128, 1, 2, 28, 0),
    HALVES(1, 512, 7, 512, 3, 1, 7, 1),
    HALVES(1, 2048, 7, 512, 1, 1, 7, 0),
    HALVES(32, 64, 56, 64, 3, 1, 56, 1),
    HALVES(2, 17, 23, 13, 5, 1, 23, 2),
    HALVES(1, 512, 1, 30, 3, 1, 1, 1), /* an image of one pixel */
    HALVES(32, 128, 28, 128, 3, 1, 28, 1),
    HALVES(32, 512, 7, 2048, 1, 1, 7, 0),
    HALVES(8, 104, 35, 72, 3, 2, 18, 1), /* channels in eights, no tile that is full */
    "conv2d(f16:nhwc:8x256x14x14, f16:row:256x256x3x3, f16:row:256, f16:nhwc:8x256x14x14) -> f16:nhwc:8x256x14x14 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=silu",
    "conv2d(f16:nhwc:1x64x56x56, f16:row:64x64x3x3, f16:row:64, f16:nhwc:1x64x56x56) -> f16:nhwc:1x64x56x56 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
    "conv2d(f16:nhwc:1x64x28x28, f16:row:128x16x3x3, f32:row:128) -> f16:nhwc:1x128x28x28 "
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=4} bias act=clip:0:6",
    BFLOATS(1, 3, 224, 64, 7, 2, 112, 3),
    BFLOATS(1, 64, 56, 64, 3, 1, 56, 1),
    BFLOATS(1, 512, 7, 512, 3, 1, 7, 1),
    BFLOATS(32, 64, 56, 64, 3, 1, 56, 1),
    BFLOATS(2, 17, 23, 13, 5, 1, 23, 2),
    "conv2d(bf16:nhwc:1x64x56x56, bf16:row:64x64x3x3, bf16:row:64, bf16:nhwc:1x64x56x56) -> bf16:nhwc:1x64x56x56 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=silu",
    TF32(1, 3, 224, 64, 7, 2, 112, 3),
    TF32(1, 64, 56, 64, 3, 1, 56, 1),
    TF32(1, 64, 56, 128, 1, 2, 28, 0),
    TF32(1, 512, 7, 512, 3, 1, 7, 1),
    TF32(1, 2048, 7, 512, 1, 1, 7, 0),
    TF32(32, 64, 56, 64, 3, 1, 56, 1),
    TF32(2, 17, 23, 13, 5, 1, 23, 2),
    TF32(1, 510, 9, 30, 3, 1, 9, 1), /* channels in pairs */
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu math=tf32",
    "conv2d(f32:nhwc:1x64x28x28, f32:row:128x16x3x3, f32:row:128) -> f32:nhwc:1x128x28x28 "
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=4} bias act=clip:0:6 math=tf32",
    "dense(f32:row:32x2048, f32:row:1000x2048, f32:row:1000) -> f32:row:32x1000 bias math=tf32",
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
    "conv2d(f32:nhwc:1x32x28x28, f32:row:64x8x3x3, f32:row:64) -> f32:nhwc:1x64x28x28 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4} bias act=clip:0:6",
    "conv2d(f32:nhwc:1x96x56x56, f32:row:96x1x3x3, f32:row:96) -> f32:nhwc:1x96x28x28 "
    "{stride=2x2, dilation=1x1, pad=1x1x1x1, groups=96} bias act=clip:0:6",
    "conv2d(f32:nhwc:1x32x28x28, f32:row:32x32x3x3) -> f32:nhwc:1x32x28x28 "
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=1}",
    "conv2d(f32:row:1x32x28x28, f32:row:64x8x3x3, f32:row:64) -> f32:row:1x64x28x28 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4} bias act=clip:0:6",
    "conv2d(f32:row:1x96x56x56, f32:row:96x1x3x3, f32:row:96) -> f32:row:1x96x28x28 "
    "{stride=2x2, dilation=1x1, pad=1x1x1x1, groups=96} bias act=clip:0:6",
    "dense(f32:row:64x48, f32:row:64x48, f32:row:64, f32:row:64x64) -> f32:row:64x64 bias residual act=relu",
    "dense(f32:row:1x512, f32:row:1000x512, f32:row:1000) -> f32:row:1x1000 bias",
    "dense(f32:row:32x2048, f32:row:1000x2048, f32:row:1000) -> f32:row:32x1000 bias",
    /* MobileNet-v2's depthwise layers, and others */
    DEPTHWISE("f16", 1, 32, 112, 3, 1, 112, 1, "nhwc"),
    DEPTHWISE("f16", 1, 96, 112, 3, 2, 56, 1, "nhwc"),
    DEPTHWISE("f16", 1, 144, 56, 3, 1, 56, 1, "nhwc"),
    DEPTHWISE("f16", 1, 384, 14, 3, 1, 14, 1, "nhwc"),
    DEPTHWISE("f16", 1, 960, 7, 3, 1, 7, 1, "nhwc"),
    DEPTHWISE("f16", 32, 32, 112, 3, 1, 112, 1, "nhwc"),
    DEPTHWISE("f32", 1, 960, 7, 3, 1, 7, 1, "nhwc"),
    DEPTHWISE("f16", 2, 33, 19, 5, 2, 10, 2, "nhwc"),
    DEPTHWISE("f16", 1, 64, 28, 31, 1, 28, 15, "nhwc"),
    DEPTHWISE("f32", 2, 33, 19, 5, 2, 10, 2, "row"),
    "conv2d(f16:nhwc:1x24x20x20, f16:row:48x1x3x3, f16:row:48, f16:nhwc:1x48x20x20) -> f16:nhwc:1x48x20x20 "
    "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=24} bias residual act=silu",
    "dense(f16:row:1x512, f16:row:1000x512, f32:row:1000) -> f16:row:1x1000 bias",
    "dense(f16:row:1x25088, f16:row:4096x25088, f32:row:4096) -> f16:row:1x4096 bias act=relu",
    "dense(f16:row:8x4096, f16:row:1000x4096, f16:row:1000, f16:row:8x1000) -> f16:row:8x1000 bias residual",
    "dense(f16:row:32x2048, f16:row:1000x2048, f32:row:1000) -> f16:row:32x1000 bias",
    "dense(f16:row:3x75, f16:row:110x75) -> f16:row:3x110 act=relu",
    "dense(f32:row:5x1023, f32:row:77x1023, f32:row:77) -> f32:row:5x77 bias",
    "pool(f16:nhwc:1x64x112x112) -> f16:nhwc:1x64x56x56 "
    "{kind=max, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "pool(f16:nhwc:1x64x224x224) -> f16:nhwc:1x64x112x112 "
    "{kind=max, kernel=2x2, stride=2x2, dilation=1x1, pad=0x0x0x0, count_include_pad=0}",
    "pool(f32:row:1x192x35x35) -> f32:row:1x192x35x35 "
    "{kind=average, kernel=3x3, stride=1x1, dilation=1x1, pad=1x1x1x1, count_include_pad=1}",
    "reduce(f16:nhwc:1x512x7x7) -> f16:nhwc:1x512x1x1 {kind=mean, axes=12}",
    "reduce(f16:nhwc:32x1280x7x7) -> f16:nhwc:32x1280x1x1 {kind=mean, axes=12}",
    "reduce(f32:row:2x513x7x7) -> f32:row:2x513x1x1 {kind=mean, axes=12}",
    "softmax(f16:row:1x1000) -> f16:row:1x1000 {axis=1, log=0}",
    "softmax(f32:row:3x3001) -> f32:row:3x3001 {axis=1, log=1}",
    "softmax(f32:row:2x21x33x31) -> f32:row:2x21x33x31 {axis=1, log=0}",
};

/* The fallback and random others, n in all. */
static int choose_trials(const struct template *template, const struct workload *workload, const struct target *target,
                         int n, struct trial *ret) {
    struct arena *arena = arena_new(0);
    struct space *space = template->space(workload, target, arena);
    struct rng rng;
    rng_seed(&rng, 11);
    n = space->size < n ? (int)space->size : n;
    for (int i = 0; i < n; i++)
        ret[i] = (struct trial){.template = template,
                                .index = space->size == n ? i
                                         : i == 0         ? template->fallback(workload, target, space)
                                                          : (int64_t)rng_below(&rng, (uint64_t)space->size)};
    arena_free(arena);
    return n;
}

/* No configuration may give a wrong answer or fail but for being impossible; at least one must run. */
static void judge(const struct trial *trials, int n, const struct template *template, const struct workload *workload,
                  const char *key, double seconds, struct tally *tally) {
    int bad = 0, good = 0;
    double best = 1e9;
    for (int i = 0; i < n; i++) {
        const struct trial *trial = &trials[i];
        good += trial->error_no == TRIAL_OK;
        best = trial_cost(trial) < best ? trial_cost(trial) : best;
        if (trial->error_no == TRIAL_OK || trial->error_no == TRIAL_INSTANTIATION)
            continue;
        bad++;
        printf("#   configuration %lld: %s: %.300s\n", (long long)trial->index, trial_error_name(trial->error_no),
               trial->error_text);
    }
    report(tally, good > 0 && bad == 0,
           "%s: %d of %d run, first %.1f us, best %.1f us, %.0f GFLOP/s, %.1f trials/s: %.100s", template->name, good,
           n, trial_cost(&trials[0]) * 1e6, best * 1e6, (double)workload_flops(workload) / best / 1e9, n / seconds,
           key);
}

static void test_template(struct measurer *measurer, const struct template *template, const char *key, int n,
                          struct tally *tally) {
    static struct trial trials[MOST_TRIALS];
    const struct target *target = &measurer_device(measurer)->target;
    struct arena *arena = arena_new(0);
    struct workload *workload;
    struct error error = {0};
    if (workload_parse(key, arena, &workload, &error) < 0) {
        report(tally, false, "%s: %s", key, error.text);
    } else if (template->serves(workload, target)) {
        n = choose_trials(template, workload, target, n, trials);
        int64_t begin = clock_now_ns();
        if (measurer_run(measurer, workload, &measure_defaults, trials, n, NULL, &error) < 0)
            report(tally, false, "%s: %s: %s", template->name, key, error.text);
        else
            judge(trials, n, template, workload, key, (double)(clock_now_ns() - begin) / NS_PER_S, tally);
    }
    arena_free(arena);
}

/* only: NULL for all that is to be measured. */
static void test_measuring(int n, const char *only, struct tally *tally) {
    const struct template *templates[MOST_TEMPLATES];
    char folder[] = "/tmp/warptune-gpu-XXXXXX";
    struct measurer *measurer;
    struct error error = {0};
    all_templates(templates);
    struct measurer_config config = {.kind = "cuda", .cache_dir = mkdtemp(folder), .templates = templates};
    if (!config.cache_dir || measurer_new(&config, &measurer, &error) < 0) {
        report(tally, false, "measuring cannot begin: %s", error.text);
        return;
    }
    if (!only) {
        test_faults(measurer, tally);
        test_circumstances(measurer, tally);
    }
    for (int t = 1; templates[t]; t++) { /* those of a library: test_cudnn */
        if (strcmp(templates[t]->device, "cuda") != 0 || templates[t]->library ||
            (only && strcmp(templates[t]->name, only) != 0))
            continue;
        for (size_t i = 0; i < ARRAY_COUNT(tuned_keys); i++)
            test_template(measurer, templates[t], tuned_keys[i], n, tally);
    }
    measurer_free(measurer);
    report(tally, file_remove_tree(folder, &error) == 0, "the code cache can be removed %s", error.text);
}

static void test_device(struct gpu *gpu, struct tally *tally) {
    test_memory(gpu, tally);
    test_counts(gpu, tally);
    test_timing(gpu, tally);
    test_watch(gpu, tally);
    test_shared(gpu, tally);
    test_refusals(gpu, tally);
    test_plain(gpu, tally);
}

int main(int argc, char **argv) {
    const struct template *templates[MOST_TEMPLATES];
    struct tally tally = {0};
    struct gpu gpu = {0};
    struct device_state state;
    all_templates(templates);
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(templates) : runner_child_main(templates);
    if (device_cuda.count(&gpu.error) == 0) {
        printf("# skipped: %s\n0 passed, 0 failed\n", gpu.error.text);
        return 0;
    }
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 8;
    const char *only = argc > 2 ? argv[2] : NULL;
    if (device_cuda.describe(0, &gpu.info, &gpu.error) < 0 || device_cuda.state(0, &state, &gpu.error) < 0 ||
        device_cuda.open(0, &gpu.device, &gpu.error) < 0) {
        printf("not ok - %s\n0 passed, 1 failed\n", gpu.error.text);
        return 1;
    }
    printf("# %s, %s, driver %s, %s, %.1f TFLOP/s, %.0f GB/s, %s\n", gpu.info.key, gpu.info.uuid, gpu.info.driver,
           gpu.info.compiler, gpu.info.peak_flops / 1e12, gpu.info.peak_bytes_per_s / 1e9, gpu.info.target.arch);
    printf("# L2 %lld, shared %lld, clocks %d and %d MHz, %d C, %d W, %lld bytes used, %d others\n",
           (long long)gpu.info.target.cache_bytes, (long long)gpu.info.target.shared_bytes, state.sm_clock_mhz,
           state.memory_clock_mhz, state.temperature_c, state.power_w, (long long)state.memory_used_bytes,
           state.other_processes);
    if (!only)
        test_device(&gpu, &tally);
    device_cuda.close(gpu.device);
    test_measuring(n < 1 ? 1 : n > MOST_TRIALS ? MOST_TRIALS : (int)n, only, &tally);
    printf("%d passed, %d failed\n", tally.passed, tally.failed);
    return tally.failed > 0;
}
