/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How good a template for the tensor cores is, and its estimate: for each convolution of ResNet-18, ResNet-50 and
 * VGG-16, in FP16 or BF16, the best configurations by the estimate and some from anywhere are compiled, verified on
 * random numbers, and timed.
 *
 *     bench_mma [--template conv2d_mma.cuda] [--net resnet18|resnet50|vgg16] [--batch 1] [--take 40] [--random 8]
 *               [--threads 0] [--limit 60] [--layer N] [--known] [--late] [--each] [--bf16]
 *
 * --take, --random: configurations from the top of the estimate's order, and from the rest; --threads: that compile
 * (0: one for each core); --limit: a layer's seconds; --layer: only the N-th; --known: only layers whose time with
 * cuDNN is known (in FP16); --late: no kernel begins before the one ahead has ended; --each: a line a configuration
 * too.
 *
 * Prints a JSON line a layer, then one with the geometric mean of cuDNN's time over ours where cuDNN's is known (an
 * H200's best engine plan for the bare convolution, in a graph). rank: 0 for the estimate's first choice, which
 * takes first_us; rank_share: of all configurations that can be, those that the estimate puts before the best one.
 * floor: a graph's edge, and the larger of FLOPs at 790 T/s and bytes at 7.4 TB/s. error: the largest, relative to the
 * largest output.
 *
 * Timed like a trial: a graph of launches over sets of buffers in turn, up to 8 of twice the L2 cache together. The GPU
 * is a child's: when a kernel faults or hangs, its layer's line says which, and another child goes on behind it.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/base/rng.h"

static const struct template *template = &conv2d_mma_cuda;

enum { MOST_JOBS = 512, MOST_THREADS = 64, MOST_SETS = 8, REPEATS = 5, BLOCK = 256, FAULT = 3 };
#define TOLERANCE 2e-3
#define TOLERANCE_BF16 1e-2
#define REPEAT_S 1.5e-3
#define EDGE_S 0.76e-6
#define FLOPS 790e12
#define BYTES_A_S 7.4e12

/* ---- layers ---- */

enum { R18 = 1, R50 = 2, VGG = 4 };

/* Square: channels, size, output channels, taps, stride, padding; cuDNN's µs at batch 1 and 32, where measured. */
static const struct layer {
    int nets, c, h, k, r, s, p;
    double cudnn_us[2];
} layers[] = {
    {R18 | R50, 3, 224, 64, 7, 2, 3, {12.8, 82.5}},
    {R18 | R50, 64, 56, 64, 3, 1, 1, {5.1, 24.3}},
    {R18, 64, 56, 128, 3, 2, 1, {0}},
    {R18, 64, 56, 128, 1, 2, 0, {0}},
    {R18 | R50, 128, 28, 128, 3, 1, 1, {8.6, 18.4}},
    {R18, 128, 28, 256, 3, 2, 1, {0}},
    {R18, 128, 28, 256, 1, 2, 0, {0}},
    {R18 | R50, 256, 14, 256, 3, 1, 1, {8.2, 16.9}},
    {R18, 256, 14, 512, 3, 2, 1, {0}},
    {R18, 256, 14, 512, 1, 2, 0, {0}},
    {R18 | R50, 512, 7, 512, 3, 1, 1, {12.4, 17.1}},
    {R50, 64, 56, 64, 1, 1, 0, {0}},
    {R50, 64, 56, 256, 1, 1, 0, {3.0, 21.9}},
    {R50, 256, 56, 64, 1, 1, 0, {0}},
    {R50, 256, 56, 128, 1, 1, 0, {0}},
    {R50, 128, 56, 128, 3, 2, 1, {0}},
    {R50, 128, 28, 512, 1, 1, 0, {0}},
    {R50, 256, 56, 512, 1, 2, 0, {0}},
    {R50, 512, 28, 128, 1, 1, 0, {0}},
    {R50, 512, 28, 256, 1, 1, 0, {0}},
    {R50, 256, 28, 256, 3, 2, 1, {0}},
    {R50, 256, 14, 1024, 1, 1, 0, {0}},
    {R50, 512, 28, 1024, 1, 2, 0, {0}},
    {R50, 1024, 14, 256, 1, 1, 0, {3.9, 8.1}},
    {R50, 1024, 14, 512, 1, 1, 0, {0}},
    {R50, 512, 14, 512, 3, 2, 1, {0}},
    {R50, 512, 7, 2048, 1, 1, 0, {4.5, 8.0}},
    {R50, 1024, 14, 2048, 1, 2, 0, {0}},
    {R50, 2048, 7, 512, 1, 1, 0, {0}},
    {VGG, 3, 224, 64, 3, 1, 1, {0}},
    {VGG, 64, 224, 64, 3, 1, 1, {0}},
    {VGG, 64, 112, 128, 3, 1, 1, {0}},
    {VGG, 128, 112, 128, 3, 1, 1, {0}},
    {VGG, 128, 56, 256, 3, 1, 1, {0}},
    {VGG, 256, 56, 256, 3, 1, 1, {11.1, 184}},
    {VGG, 256, 28, 512, 3, 1, 1, {0}},
    {VGG, 512, 28, 512, 3, 1, 1, {0}},
    {VGG, 512, 14, 512, 3, 1, 1, {0}},
};

struct settings {
    int nets, batch, take, random, threads, limit_s, layer;
    bool known, late, each, bf16;
};

/* At a batch size; 0: not known. */
static double cudnn_us_of(const struct layer *layer, int batch) {
    return batch == 1 ? layer->cudnn_us[0] : batch == 32 ? layer->cudnn_us[1] : 0;
}

static bool is_wanted(const struct layer *layer, const struct settings *settings) {
    return (layer->nets & settings->nets) && (settings->layer == 0 || layer == &layers[settings->layer - 1]) &&
           (!settings->known || cudnn_us_of(layer, settings->batch) > 0);
}

static struct workload *workload_of(const struct layer *layer, const struct settings *settings, struct arena *arena) {
    const char *type = settings->bf16 ? "bf16" : "f16";
    int batch = settings->batch;
    int out = (layer->h + 2 * layer->p - layer->r) / layer->s + 1;
    struct workload *workload;
    struct error error;
    const char *key =
        arena_printf(arena,
                     "conv2d(%s:nhwc:%dx%dx%dx%d, %s:row:%dx%dx%dx%d, f32:row:%d) -> "
                     "%s:nhwc:%dx%dx%dx%d {stride=%dx%d, dilation=1x1, pad=%dx%dx%dx%d, groups=1} "
                     "bias act=relu",
                     type, batch, layer->c, layer->h, layer->h, type, layer->k, layer->c, layer->r, layer->r, layer->k,
                     type, batch, layer->k, out, out, layer->s, layer->s, layer->p, layer->p, layer->p, layer->p);
    if (workload_parse(key, arena, &workload, &error) == 0)
        return workload;
    fprintf(stderr, "bench_mma: %s: %s\n", key, error.text);
    exit(1);
}

/* ---- what verifies: independent of the template ---- */

static const char tools_source[] =
    "typedef unsigned short u16;\n"
    "#if BF16\n"
    "static __device__ float wide(u16 h) { return __uint_as_float((unsigned)h << 16); }\n"
    "static __device__ u16 narrow(float f) { u16 h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; "
    "}\n"
    "#else\n"
    "static __device__ float wide(u16 h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h)); return f; }\n"
    "static __device__ u16 narrow(float f) { u16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; "
    "}\n"
    "#endif\n"
    "extern \"C\" __global__ void fill(u16 *to, int n, unsigned seed) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    unsigned h = (i + seed) * 0x9e3779b9u;\n"
    "    h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13; h *= 0xc2b2ae35u; h ^= h >> 16;\n"
    "    to[i] = narrow((int)h * (1.0f / 2147483648.0f));\n"
    "}\n"
    /* [K, C, R, S] to [R, S, C, K], so that neighbouring threads read neighbours. */
    "extern \"C\" __global__ void turn(const u16 *w, u16 *to, int n, int k, int c, int taps) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) to[(i % taps * c + i / taps % c) * k + i / taps / c] = w[i];\n"
    "}\n"
    "extern \"C\" __global__ void reference(const u16 *x, const u16 *w, const float *bias, float *y, int n, int h, int "
    "c,\n"
    "                                     int out, int k, int r, int s, int p) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    int channel = i % k, ox = i / k % out, oy = i / k / out % out, image = i / k / out / out;\n"
    "    float sum = 0;\n"
    "    for (int a = 0; a < r; a++)\n"
    "        for (int b = 0; b < r; b++) {\n"
    "            int iy = oy * s + a - p, ix = ox * s + b - p;\n"
    "            if (iy < 0 || iy >= h || ix < 0 || ix >= h) continue;\n"
    "            const u16 *from = x + ((size_t)(image * h + iy) * h + ix) * c, *weight = w + (a * r + b) * c * k + "
    "channel;\n"
    "            for (int e = 0; e < c; e++) sum += wide(from[e]) * wide(weight[e * k]);\n"
    "        }\n"
    "    sum += bias[channel];\n"
    "    y[i] = sum > 0 ? sum : 0;\n"
    "}\n"
    /* As integers, floats that are not negative have the same order, NaN the last. */
    "extern \"C\" __global__ void compare(const u16 *got, const float *expected, int *most, int n) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    float off = wide(got[i]) - expected[i];\n"
    "    atomicMax(&most[0], __float_as_int(off) & 0x7fffffff);\n"
    "    atomicMax(&most[1], __float_as_int(expected[i]));\n"
    "}\n";

/* ---- compiling ahead ---- */

struct job {
    int64_t index, rank; /* of a configuration; among those that can be, in the order of the estimate */
    double estimate_s;
    struct arena *arena;
    struct program *program;
    struct buf code;
    bool done, good;
    char text[256];
};

/* A layer's configurations. */
struct plan {
    struct arena *arena;
    struct workload *workload;
    struct space *space;
    struct job *jobs;
    int n_jobs, n_left;
    int64_t n_finite; /* configurations that can be */
};

struct shop {
    struct target target;
    struct settings settings;
    struct plan plans[ARRAY_COUNT(layers)];
    struct {
        int plan, job;
    } * queue;
    int n;
    atomic_int next;
    pthread_mutex_t mutex; /* of done and n_left, and of nothing else */
    pthread_cond_t ready;
};

struct ranked {
    double seconds;
    int64_t index;
};

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    int order = (x->seconds > y->seconds) - (x->seconds < y->seconds);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* The first `take` of the estimate's order, and `random` of the others. */
static void choose_jobs(struct plan *plan, const struct target *target, const struct settings *settings) {
    struct ranked *all = arena_array(plan->arena, (size_t)plan->space->size, sizeof *all);
    struct rng rng;
    int64_t n = 0;
    for (int64_t i = 0; i < plan->space->size; i++) {
        double seconds = template->estimate(plan->workload, target, plan->space, i);
        if (isfinite(seconds))
            all[n++] = (struct ranked){seconds, i};
    }
    qsort(all, (size_t)n, sizeof *all, compare_ranked);
    rng_seed(&rng, 7);
    plan->n_finite = n;
    plan->jobs = arena_array(plan->arena, MOST_JOBS, sizeof *plan->jobs);
    for (int j = 0; j < settings->take + settings->random; j++) {
        int64_t rank = j < settings->take ? j : settings->take + (int64_t)rng_below(&rng, (uint64_t)n);
        if (rank < n)
            plan->jobs[plan->n_jobs++] = (struct job){
                .index = all[rank].index, .rank = rank, .estimate_s = all[rank].seconds, .code = BUF_INIT(64 << 20)};
    }
    plan->n_left = plan->n_jobs;
}

static void build(const struct shop *shop, const struct plan *plan, struct job *job) {
    struct error error = {0};
    struct buf log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    job->arena = arena_new(0);
    job->good = template->render(plan->workload, &shop->target, plan->space, job->index, job->arena, &job->program,
                                 &error) == 0;
    job->good = job->good && device_cuda.compile(&shop->target, job->program->source, deadline_in_s(60), &job->code,
                                                 &log, &error) == 0;
    for (int i = 0; job->good && shop->settings.late && i < job->program->n_run; i++)
        job->program->run[i].early = false;
    if (!job->good)
        snprintf(job->text, sizeof job->text, "%.255s", error.text);
}

static void *build_all(void *data) {
    struct shop *shop = data;
    for (int i; (i = atomic_fetch_add(&shop->next, 1)) < shop->n;) {
        struct plan *plan = &shop->plans[shop->queue[i].plan];
        struct job *job = &plan->jobs[shop->queue[i].job];
        build(shop, plan, job);
        pthread_mutex_lock(&shop->mutex);
        job->done = true;
        if (--plan->n_left == 0)
            pthread_cond_broadcast(&shop->ready);
        pthread_mutex_unlock(&shop->mutex);
    }
    return NULL;
}

static void await_plan(struct shop *shop, const struct plan *plan) {
    pthread_mutex_lock(&shop->mutex);
    while (plan->n_left > 0)
        pthread_cond_wait(&shop->ready, &shop->mutex);
    pthread_mutex_unlock(&shop->mutex);
}

/* Plans the layers from `first` on, and starts the threads; all goes with the process. */
static void open_shop(struct shop *shop, int first) {
    const struct settings *settings = &shop->settings;
    long cores = settings->threads > 0 ? settings->threads : sysconf(_SC_NPROCESSORS_ONLN);
    pthread_mutex_init(&shop->mutex, NULL);
    pthread_cond_init(&shop->ready, NULL);
    shop->queue = calloc(ARRAY_COUNT(layers) * MOST_JOBS, sizeof *shop->queue);
    for (int l = first; shop->queue && l < (int)ARRAY_COUNT(layers); l++) {
        struct plan *plan = &shop->plans[l];
        if (!is_wanted(&layers[l], settings))
            continue;
        plan->arena = arena_new(0);
        plan->workload = workload_of(&layers[l], settings, plan->arena);
        if (!template->serves(plan->workload, &shop->target))
            continue;
        plan->space = template->space(plan->workload, &shop->target, plan->arena);
        choose_jobs(plan, &shop->target, settings);
        for (int j = 0; j < plan->n_jobs; j++) {
            shop->queue[shop->n].plan = l;
            shop->queue[shop->n++].job = j;
        }
    }
    for (long i = 0; i < (cores < MOST_THREADS ? cores : MOST_THREADS); i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, build_all, shop) == 0)
            pthread_detach(thread);
    }
}

/* ---- on the GPU ---- */

/* An open GPU with the tools; the buffers of one layer. */
struct gpu {
    struct device *device;
    struct device_code *tools;
    struct error error;
    char refusal[256]; /* the last error that was only a configuration's */
    int n_sets;
    uint64_t x[MOST_SETS], y[MOST_SETS], w, bias, turned, expected, most;
};

/* What became of a configuration. */
struct outcome {
    double seconds, error; /* the least of the repeats */
    bool good;
};

static uint64_t take(struct gpu *gpu, size_t bytes) {
    uint64_t address = 0;
    if (gpu->error.class == ERROR_NONE && device_cuda.alloc(gpu->device, bytes, &address, &gpu->error) < 0)
        return 0;
    return address;
}

static void run_tool(struct gpu *gpu, const char *entry, int64_t threads, const uint64_t *args, int n_args) {
    struct launch launch = {.entry = entry,
                            .n_args = n_args,
                            .grid = {(unsigned)((threads + BLOCK - 1) / BLOCK), 1, 1},
                            .block = {BLOCK, 1, 1}};
    struct device_call call = {.launch = &launch, .code = gpu->tools};
    memcpy(call.args, args, (size_t)n_args * sizeof *args);
    if (gpu->error.class == ERROR_NONE)
        (void)!device_cuda.run(gpu->device, &call, 1, 1, NULL, &gpu->error);
}

static void fill(struct gpu *gpu, uint64_t to, int64_t halfs, unsigned seed) {
    const uint64_t args[] = {to, (uint64_t)halfs, seed};
    run_tool(gpu, "fill", halfs, args, 3);
}

/* Buffers, numbers, and what the outputs should be. */
static void open_layer(struct gpu *gpu, const struct layer *layer, const struct workload *workload,
                       const struct target *target) {
    const struct operand *x = &workload->in[0], *w = &workload->in[1], *y = &workload->out[0];
    int64_t n_x = shape_count(&x->shape), n_w = shape_count(&w->shape), n_y = shape_count(&y->shape);
    int64_t sets = 2 * target->cache_bytes / (2 * (n_x + n_w + n_y));
    gpu->refusal[0] = '\0';
    gpu->n_sets = sets < 1 ? 1 : sets > MOST_SETS ? MOST_SETS : (int)sets;
    for (int i = 0; i < gpu->n_sets; i++) {
        gpu->x[i] = take(gpu, (size_t)n_x * 2);
        gpu->y[i] = take(gpu, (size_t)n_y * 2);
        fill(gpu, gpu->x[i], n_x, 1);
    }
    gpu->w = take(gpu, (size_t)n_w * 2);
    gpu->turned = take(gpu, (size_t)n_w * 2);
    gpu->bias = take(gpu, (size_t)layer->k * 4);
    gpu->expected = take(gpu, (size_t)n_y * 4);
    gpu->most = take(gpu, 8);
    fill(gpu, gpu->w, n_w, 0x40000000);
    float *bias = calloc((size_t)layer->k, sizeof *bias);
    for (int i = 0; bias && i < layer->k; i++)
        bias[i] = (float)(i % 17) / 4 - 2;
    if (bias && gpu->error.class == ERROR_NONE)
        (void)!device_cuda.write(gpu->device, gpu->bias, bias, (size_t)layer->k * sizeof *bias, &gpu->error);
    free(bias);
    const uint64_t turn[] = {gpu->w,
                             gpu->turned,
                             (uint64_t)n_w,
                             (uint64_t)layer->k,
                             (uint64_t)layer->c,
                             (uint64_t)layer->r * (uint64_t)layer->r};
    const uint64_t reference[] = {gpu->x[0],          gpu->turned,        gpu->bias,          gpu->expected,
                                  (uint64_t)n_y,      (uint64_t)layer->h, (uint64_t)layer->c, (uint64_t)y->shape.dim[2],
                                  (uint64_t)layer->k, (uint64_t)layer->r, (uint64_t)layer->s, (uint64_t)layer->p};
    run_tool(gpu, "turn", n_w, turn, 6);
    run_tool(gpu, "reference", n_y, reference, 12);
}

static void close_layer(struct gpu *gpu) {
    for (int i = 0; i < gpu->n_sets; i++) {
        device_cuda.free(gpu->device, gpu->x[i]);
        device_cuda.free(gpu->device, gpu->y[i]);
    }
    const uint64_t rest[] = {gpu->w, gpu->turned, gpu->bias, gpu->expected, gpu->most};
    for (size_t i = 0; i < ARRAY_COUNT(rest); i++)
        device_cuda.free(gpu->device, rest[i]);
}

/* A configuration loaded, with weights prepared for each set. */
struct loaded {
    const struct program *program;
    struct device_code *code;
    uint64_t prepared[MOST_SETS], scratch;
};

static void bind(const struct gpu *gpu, const struct loaded *loaded, const struct launch *launch, int set,
                 struct device_call *ret) {
    *ret = (struct device_call){.launch = launch, .code = loaded->code};
    for (int a = 0; a < launch->n_args; a++) {
        const struct arg *arg = &launch->args[a];
        const uint64_t in[] = {gpu->x[set], gpu->w, gpu->bias};
        ret->args[a] = arg->kind == ARG_IN         ? in[arg->index]
                       : arg->kind == ARG_OUT      ? gpu->y[set]
                       : arg->kind == ARG_SCRATCH  ? loaded->scratch
                       : arg->kind == ARG_PREPARED ? loaded->prepared[set]
                                                   : (uint32_t)arg->index;
    }
}

static void prepare(struct gpu *gpu, const struct job *job, struct loaded *ret) {
    *ret = (struct loaded){.program = job->program};
    if (device_cuda.load(gpu->device, job->code.data, job->code.len, &ret->code, &gpu->error) < 0)
        return;
    if (job->program->n_scratch > 0)
        ret->scratch = take(gpu, job->program->scratch_bytes[0]);
    for (int s = 0; s < gpu->n_sets && gpu->error.class == ERROR_NONE; s++) {
        struct device_call call;
        ret->prepared[s] = take(gpu, job->program->prepared_bytes[0]);
        bind(gpu, ret, &job->program->prepare[0], s, &call);
        if (gpu->error.class == ERROR_NONE)
            (void)!device_cuda.run(gpu->device, &call, 1, 1, NULL, &gpu->error);
    }
}

static void discard(struct gpu *gpu, struct loaded *loaded) {
    if (loaded->code)
        device_cuda.unload(gpu->device, loaded->code);
    for (int s = 0; s < gpu->n_sets; s++)
        if (loaded->prepared[s])
            device_cuda.free(gpu->device, loaded->prepared[s]);
    if (loaded->scratch)
        device_cuda.free(gpu->device, loaded->scratch);
}

/* Runs the calls of the first set on an output full of NaNs; the largest error relative to the largest output. */
static double verify(struct gpu *gpu, const struct workload *workload, const struct device_call *calls, int n_run) {
    int64_t n = shape_count(&workload->out[0].shape);
    float most[2] = {NAN, 0};
    const uint64_t args[] = {gpu->y[0], gpu->expected, gpu->most, (uint64_t)n};
    if (device_cuda.fill(gpu->device, gpu->y[0], 0xffffffffu, (size_t)n / 2, &gpu->error) < 0 ||
        device_cuda.fill(gpu->device, gpu->most, 0, 2, &gpu->error) < 0 ||
        device_cuda.run(gpu->device, calls, n_run, 1, NULL, &gpu->error) < 0)
        return NAN;
    run_tool(gpu, "compare", n, args, 4);
    if (gpu->error.class == ERROR_NONE && device_cuda.read(gpu->device, most, gpu->most, sizeof most, &gpu->error) == 0)
        return (double)most[0] / (double)most[1];
    return NAN;
}

static double time_calls(struct gpu *gpu, const struct device_call *calls, int n_calls) {
    double seconds[REPEATS], least = INFINITY;
    if (device_cuda.time(gpu->device, calls, n_calls, 8, 1, seconds, &gpu->error) < 0)
        return NAN;
    double wanted = ceil(REPEAT_S / (seconds[0] / 8) / 8) * 8;
    int count = wanted < 8 ? 8 : wanted > 4096 ? 4096 : (int)wanted;
    if (device_cuda.time(gpu->device, calls, n_calls, count, REPEATS, seconds, &gpu->error) < 0)
        return NAN;
    for (int i = 0; i < REPEATS; i++)
        least = fmin(least, seconds[i] / count);
    return least;
}

/* Whether there is no error, or the GPU still works, so that the error was its configuration's alone. */
static bool is_well(struct gpu *gpu) {
    struct error error = gpu->error;
    if (error.class == ERROR_NONE)
        return true;
    gpu->error = (struct error){0};
    fill(gpu, gpu->y[0], 2, 0);
    bool well = gpu->error.class == ERROR_NONE;
    if (well)
        snprintf(gpu->refusal, sizeof gpu->refusal, "%.255s", error.text);
    else
        gpu->error = error;
    return well;
}

static struct outcome measure(struct gpu *gpu, const struct workload *workload, const struct job *job) {
    struct outcome outcome = {NAN, NAN, false};
    struct device_call calls[2 * MOST_SETS];
    struct loaded loaded;
    int n_run = job->program->n_run;
    prepare(gpu, job, &loaded);
    for (int s = 0; s < gpu->n_sets; s++)
        for (int i = 0; i < n_run; i++)
            bind(gpu, &loaded, &job->program->run[i], s, &calls[s * n_run + i]);
    if (gpu->error.class == ERROR_NONE)
        outcome.error = verify(gpu, workload, calls, n_run);
    double tolerance = workload->in[0].dtype == DTYPE_BF16 ? TOLERANCE_BF16 : TOLERANCE;
    if (gpu->error.class == ERROR_NONE && outcome.error < tolerance)
        outcome.seconds = time_calls(gpu, calls, gpu->n_sets * n_run) / gpu->n_sets;
    outcome.good = outcome.seconds > 0;
    if (is_well(gpu))
        discard(gpu, &loaded);
    return outcome;
}

/* ---- a layer ---- */

/* What parent and child both see. */
struct progress {
    int layer; /* the first that is not done */
    double log_sum;
    int n_known;
    char doing[512];
};

static double floor_s(const struct workload *workload) {
    return EDGE_S + fmax((double)workload_flops(workload) / FLOPS, (double)workload_bytes(workload) / BYTES_A_S);
}

static struct json_object *knobs_json(const struct plan *plan, int64_t index) {
    struct json_object *object = json_object_new_object();
    for (int k = 0; k < plan->space->n_knobs; k++)
        json_add_int(object, plan->space->knobs[k].name,
                     space_value(plan->space, index, plan->space->knobs[k].name, 0));
    return object;
}

static void describe(const struct plan *plan, const struct job *job, char *ret, size_t size) {
    struct json_object *knobs CLEANUP(json_put_p) = knobs_json(plan, job->index);
    snprintf(ret, size, "%s", json_text(knobs, NULL));
}

static void add_best(struct json_object *object, const struct plan *plan, const struct job *best,
                     const struct outcome *outcome) {
    json_add_double(object, "best_us", outcome->seconds * 1e6);
    json_add(object, "knobs", knobs_json(plan, best->index));
    json_add_double(object, "estimate_us", best->estimate_s * 1e6);
    json_add_int(object, "rank", best->rank);
    json_add_double(object, "rank_share", (double)best->rank / (double)plan->n_finite);
    json_add_double(object, "error", outcome->error);
}

static void print_layer(const struct layer *layer, const struct plan *plan, const struct job *best,
                        const struct outcome *outcomes, struct json_object *object, struct progress *progress,
                        int batch) {
    double cudnn_us = plan->workload->in[0].dtype == DTYPE_F16 ? cudnn_us_of(layer, batch) : 0;
    if (best) {
        double us = outcomes[best - plan->jobs].seconds * 1e6;
        add_best(object, plan, best, &outcomes[best - plan->jobs]);
        if (outcomes[0].good)
            json_add_double(object, "first_us", outcomes[0].seconds * 1e6);
        if (cudnn_us > 0) {
            json_add_double(object, "cudnn_us", cudnn_us);
            json_add_double(object, "speedup", cudnn_us / us);
            progress->log_sum += log(cudnn_us / us);
            progress->n_known++;
        }
    }
    puts(json_text(object, NULL));
    fflush(stdout);
}

static void print_each(const struct plan *plan, const struct job *job, const struct outcome *outcome) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add(object, "knobs", knobs_json(plan, job->index));
    json_add_int(object, "rank", job->rank);
    json_add_double(object, "estimate_us", job->estimate_s * 1e6);
    json_add_double(object, "us", outcome->good ? outcome->seconds * 1e6 : -1);
    json_add_double(object, "error", isnan(outcome->error) ? -1 : outcome->error);
    puts(json_text(object, NULL));
}

/* Measures a layer's configurations until the GPU is spoilt; the fastest of those that are right, or NULL. */
static const struct job *measure_all(struct gpu *gpu, const struct plan *plan, bool each, struct outcome *outcomes,
                                     struct progress *progress) {
    const struct job *best = NULL;
    for (int j = 0; j < plan->n_jobs && gpu->error.class == ERROR_NONE; j++) {
        const struct job *job = &plan->jobs[j];
        if (!job->good)
            continue;
        describe(plan, job, progress->doing, sizeof progress->doing);
        outcomes[j] = measure(gpu, plan->workload, job);
        if (each)
            print_each(plan, job, &outcomes[j]);
        if (outcomes[j].good && (!best || outcomes[j].seconds < outcomes[best - plan->jobs].seconds))
            best = job;
    }
    return best;
}

static void add_counts(struct json_object *object, const struct gpu *gpu, const struct plan *plan,
                       const struct outcome *outcomes, const struct progress *progress) {
    int n_right = 0, n_built = 0;
    const char *text = NULL;
    for (int j = 0; j < plan->n_jobs; j++) {
        n_built += plan->jobs[j].good;
        n_right += outcomes[j].good;
        text = plan->jobs[j].good ? text : plan->jobs[j].text;
    }
    json_add_int(object, "sets", gpu->n_sets);
    json_add_int(object, "right", n_right);
    json_add_int(object, "wrong_or_not_run", n_built - n_right);
    json_add_int(object, "not_built", plan->n_jobs - n_built);
    if (text)
        json_add_string(object, "build_error", text);
    if (gpu->refusal[0])
        json_add_string(object, "refusal", gpu->refusal);
    if (gpu->error.class != ERROR_NONE) {
        json_add_string(object, "fault", gpu->error.text);
        json_add_string(object, "at", progress->doing);
    }
}

static void bench_layer(struct gpu *gpu, struct shop *shop, int l, struct progress *progress) {
    struct plan *plan = &shop->plans[l];
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 12);
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    struct outcome outcomes[MOST_JOBS] = {0};
    await_plan(shop, plan);
    workload_key(plan->workload, &key);
    json_add_string(object, "workload", buf_str(&key));
    json_add_double(object, "floor_us", floor_s(plan->workload) * 1e6);
    alarm((unsigned)shop->settings.limit_s);
    open_layer(gpu, &layers[l], plan->workload, &shop->target);
    const struct job *best = measure_all(gpu, plan, shop->settings.each, outcomes, progress);
    add_counts(object, gpu, plan, outcomes, progress);
    print_layer(&layers[l], plan, best, outcomes, object, progress, shop->settings.batch);
    alarm(0);
}

/* ---- processes ---- */

static int open_gpu(struct gpu *gpu, const struct target *target, bool bf16) {
    char source[sizeof tools_source + 32];
    snprintf(source, sizeof source, "#define BF16 %d\n%s", bf16, tools_source);
    struct buf code CLEANUP(buf_release) = BUF_INIT(64 << 20), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (device_cuda.open(0, &gpu->device, &gpu->error) < 0 ||
        device_cuda.compile(target, source, deadline_in_s(60), &code, &log, &gpu->error) < 0)
        return -1;
    return device_cuda.load(gpu->device, code.data, code.len, &gpu->tools, &gpu->error);
}

/* Exit status: 0 all layers done, FAULT: one of them spoilt the GPU, 1: nothing works. */
static int child(const struct settings *settings, struct progress *progress) {
    static struct shop shop;
    struct gpu gpu = {0};
    struct device_info info;
    shop.settings = *settings;
    if (device_cuda.count(&gpu.error) == 0) {
        printf("{\"skipped\": \"%s\"}\n", gpu.error.code);
        fflush(stdout);
        progress->layer = (int)ARRAY_COUNT(layers);
        return 0;
    }
    if (device_cuda.describe(0, &info, &gpu.error) < 0) {
        fprintf(stderr, "bench_mma: %s\n", gpu.error.text);
        return 1;
    }
    shop.target = info.target;
    if (open_gpu(&gpu, &shop.target, settings->bf16) < 0) {
        fprintf(stderr, "bench_mma: %s\n", gpu.error.text);
        return 1;
    }
    open_shop(&shop, progress->layer); /* NVRTC's first compile may have no other beside it */
    while (progress->layer < (int)ARRAY_COUNT(layers)) {
        int l = progress->layer;
        bool served = shop.plans[l].space != NULL;
        if (served)
            bench_layer(&gpu, &shop, l, progress);
        progress->layer++;
        if (gpu.error.class != ERROR_NONE)
            return FAULT;
        if (served)
            close_layer(&gpu);
    }
    return 0;
}

static int run_children(const struct settings *settings, struct progress *progress) {
    while (progress->layer < (int)ARRAY_COUNT(layers)) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(settings, progress));
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 1))
            return 1;
        if (WIFSIGNALED(status)) {
            printf("{\"layer\": %d, \"fault\": \"signal %d\", \"at\": %s}\n", progress->layer, WTERMSIG(status),
                   progress->doing[0] ? progress->doing : "null");
            fflush(stdout);
            progress->layer++;
        }
    }
    return 0;
}

static bool read_net(const char *name, int *ret) {
    static const char *const names[] = {"resnet18", "resnet50", "vgg16"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = 1 << i;
            return true;
        }
    return false;
}

/* What an option's value is written to, or NULL. */
static int *number_of(const char *option, struct settings *settings) {
    return strcmp(option, "--batch") == 0     ? &settings->batch
           : strcmp(option, "--take") == 0    ? &settings->take
           : strcmp(option, "--random") == 0  ? &settings->random
           : strcmp(option, "--threads") == 0 ? &settings->threads
           : strcmp(option, "--limit") == 0   ? &settings->limit_s
           : strcmp(option, "--layer") == 0   ? &settings->layer
                                              : NULL;
}

static bool *flag_of(const char *option, struct settings *settings) {
    return strcmp(option, "--known") == 0  ? &settings->known
           : strcmp(option, "--late") == 0 ? &settings->late
           : strcmp(option, "--each") == 0 ? &settings->each
           : strcmp(option, "--bf16") == 0 ? &settings->bf16
                                           : NULL;
}

static bool read_template(const char *name) {
    template = template_find(template_builtin, name);
    return template && strcmp(template->device, "cuda") == 0 && template->estimate;
}

static bool read_settings(int argc, char **argv, struct settings *ret) {
    *ret = (struct settings){.nets = R18 | R50 | VGG, .batch = 1, .take = 40, .random = 8, .limit_s = 60};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *number = number_of(argv[i], ret);
        bool *flag = flag_of(argv[i], ret);
        if (flag) {
            *flag = true;
            continue;
        }
        if (number)
            *number = (int)strtol(value, NULL, 10);
        else if ((strcmp(argv[i], "--net") != 0 || !read_net(value, &ret->nets)) &&
                 (strcmp(argv[i], "--template") != 0 || !read_template(value)))
            return false;
        i++;
    }
    return ret->batch > 0 && ret->take > 0 && ret->random >= 0 && ret->take + ret->random <= MOST_JOBS &&
           ret->limit_s > 0 && ret->layer >= 0 && ret->layer <= (int)ARRAY_COUNT(layers);
}

int main(int argc, char **argv) {
    struct settings settings;
    int64_t begin = clock_now_ns();
    if (!read_settings(argc, argv, &settings)) {
        fputs("usage: bench_mma [--template NAME] [--net resnet18|resnet50|vgg16] [--batch N] [--take N] [--random N] "
              "[--threads N] [--limit SECONDS] [--layer N] [--known] [--late] [--each] [--bf16]\n",
              stderr);
        return 2;
    }
    struct progress *progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED || run_children(&settings, progress) != 0)
        return 1;
    printf("{\"known\": %d, \"geometric_mean_speedup\": %.4g, \"seconds\": %.1f}\n", progress->n_known,
           progress->n_known > 0 ? exp(progress->log_sum / progress->n_known) : 0.0,
           (double)(clock_now_ns() - begin) / NS_PER_S);
    return 0;
}
