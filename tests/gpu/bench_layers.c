/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of four networks, side by side with cuDNN in one run: for each, the best configuration of our templates
 * and the best plan of cuDNN's, and what the hardware would allow.
 *
 *     bench_layers [--net resnet18|resnet50|vgg16|mobilenet-v2] [--batch 1] [--precision fp16|fp32] [--take 12]
 *                  [--compiled 0] [--shards 0] [--threads 0] [--seconds 0] [--each]
 *
 * --take: configurations of each template that serves the layer, from the top of its own estimate (what is only
 * searched by name is left out, and the plain kernel stands in where nothing else serves); --compiled: at most so many
 * of the proposals for a form of cuDNN's for which it compiles code (0: all); --shards, --threads: processes that share
 * the layers, for cuDNN compiles hardly more than two plans at a time in one, and threads of each (0: as the cores
 * are); --seconds: no layer begins later (0: no limit); --each: a line a measurement too.
 *
 * cuDNN's forms of a layer: NHWC and NCHW; the bare convolution, the one with bias, residual and activation fused, and
 * in FP16 that with the bias in f32, as ours has it. A dense layer is a 1×1 convolution. In FP32 cuDNN is held to f32:
 * no tensor cores. Every proposal of its heuristics that becomes a plan, runs and is right is timed; others are
 * counted. The least of all forms is cudnn_us, the bare convolution's too, which does less than ours.
 *
 * Both are timed like a trial: a graph of launches over sets of buffers in turn, up to 8 of twice the L2 cache
 * together, each with its own weights. All are verified on random numbers and looked at for two rounds; then the best
 * three of each side and kind are timed: the median of five repeats. One process at a time uses the GPU.
 *
 * Prints a JSON line a layer, then one a net and one of all: geometric means of cuDNN's time over ours, its best of all
 * forms and its best of those that do all that ours does. floor_us: a
 * graph's edge, and the larger of FLOPs (790 T/s; FP32 67) and bytes (7.4 TB/s, L2's). The GPU is a child's: when a
 * kernel faults or hangs, a line says which, and another child goes on behind it.
 */
#include <errno.h>
#include <fcntl.h>
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

#include "gpu/device/cuda_plan.h"
#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "gpu/template/embed.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "tests/gpu/layers.h"

EMBED(tools_source, "tests/gpu/bench_layers.cu");

enum {
    MOST_JOBS = 256,
    MOST_THREADS = 64,
    MOST_SETS = 8,
    MOST_FORMS = 6,
    MOST_PLANS = 160,
    MOST_CONTENDERS = MOST_FORMS * MOST_PLANS,
    MOST_SHARDS = 16,
    KINDS = 3,
    FINALISTS = 3,
    MOST_RUN = 8, /* launches of an execution */
    MOST_OWN = 4, /* buffers of each kind that a program has beside its operands */
    REPEATS = 5,
    LAYER_LIMIT_S = 90,
    BLOCK = 256,
    FAULT = 3,
    N_LAYERS = ARRAY_COUNT(layers),
};
#define REPEAT_S 1.5e-3
#define EDGE_S 0.76e-6
#define HALF_FLOPS 790e12
#define FLOAT_FLOPS 67e12
#define BYTES_A_S 7.4e12
#define LOOK_ROUNDS 2
#define HOPELESS_S 1e-3
#define HOPELESS 5

struct settings {
    int nets, batch, take, compiled, shards, threads, seconds;
    bool half, each;
};

/* Does the shard do the layer? */
static bool is_ours(const struct settings *settings, int shard, int layer) {
    int before = 0;
    for (int l = 0; l < layer; l++)
        before += (layers[l].nets & settings->nets) != 0;
    return (layers[layer].nets & settings->nets) && before % settings->shards == shard;
}

/* ---- workloads ---- */

static bool adds(const struct layer *layer) {
    return layer->after == ADD || layer->after == ADD_RELU;
}

static const char *act_text(const struct layer *layer) {
    return layer->after == RELU6                              ? " act=clip:0:6"
           : layer->after == RELU || layer->after == ADD_RELU ? " act=relu"
                                                              : "";
}

static int out_size(const struct layer *layer) {
    return layer->h == 0 ? 1 : (layer->h + 2 * layer->p - layer->r) / layer->s + 1;
}

static const char *key_of(const struct layer *l, const struct settings *settings, struct arena *arena) {
    const char *type = settings->half ? "f16" : "f32";
    int n = settings->batch, out = out_size(l);
    if (l->h == 0)
        return arena_printf(arena, "dense(%s:row:%dx%d, %s:row:%dx%d, f32:row:%d) -> %s:row:%dx%d bias%s", type, n,
                            l->c, type, l->k, l->c, l->k, type, n, l->k, act_text(l));
    const char *y = arena_printf(arena, "%s:nhwc:%dx%dx%dx%d", type, n, l->k, out, out);
    return arena_printf(arena,
                        "conv2d(%s:nhwc:%dx%dx%dx%d, %s:row:%dx%dx%dx%d, f32:row:%d%s%s) -> %s "
                        "{stride=%dx%d, dilation=1x1, pad=%dx%dx%dx%d, groups=%d} bias%s%s",
                        type, n, l->c, l->h, l->h, type, l->k, l->c / l->groups, l->r, l->r, l->k, adds(l) ? ", " : "",
                        adds(l) ? y : "", y, l->s, l->s, l->p, l->p, l->p, l->p, l->groups, adds(l) ? " residual" : "",
                        act_text(l));
}

static struct workload *workload_of(const struct layer *layer, const struct settings *settings, struct arena *arena) {
    struct workload *workload;
    struct error error;
    const char *key = key_of(layer, settings, arena);
    if (workload_parse(key, arena, &workload, &error) == 0)
        return workload;
    fprintf(stderr, "bench_layers: %s: %s\n", key, error.text);
    exit(1);
}

static double floor_s(const struct workload *workload, bool half) {
    double flops = half ? HALF_FLOPS : FLOAT_FLOPS;
    return EDGE_S + fmax((double)workload_flops(workload) / flops, (double)workload_bytes(workload) / BYTES_A_S);
}

/* ---- what is made ahead: our programs compiled, cuDNN's plans built ---- */

/* One of our configurations. */
struct job {
    const struct template *template;
    struct space *space;
    int64_t index;
    struct arena *arena;
    struct program *program;
    struct buf code;
    bool good;
    char text[256];
};

enum kind { BARE, FUSED, FUSED_F32 };
static const char *const kind_names[] = {"bare", "fused", "fused, bias f32"};

/* One of cuDNN's forms of the layer. */
struct form {
    enum kind kind;
    struct cudnn_conv conv;
    struct cudnn_plans *plans;
    int n, n_built; /* proposals; plans */
    bool built[MOST_PLANS];
    double seconds;
    char text[256];
};

struct ahead {
    struct arena *arena;
    struct workload *workload;
    struct job *jobs;
    int n_jobs;
    struct form *forms;
    int n_forms, n_left;
};

struct shop {
    int shard;
    struct target target;
    struct settings settings;
    struct ahead ahead[N_LAYERS];
    struct {
        int layer, job; /* a form when below 0 */
    } * queue;
    int n;
    atomic_int next;
    int64_t deadline;
    pthread_mutex_t mutex; /* of n_left, and of nothing else */
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

/* The first `take` in the order of the template's estimate; without one, what it falls back on. */
static void take_jobs(struct ahead *ahead, const struct template *template, const struct target *target, int take) {
    struct space *space = template->space(ahead->workload, target, ahead->arena);
    struct ranked *all = arena_array(ahead->arena, (size_t)space->size, sizeof *all);
    int64_t n = 0;
    if (!template->estimate)
        all[n++] = (struct ranked){0, template->fallback(ahead->workload, target, space)};
    for (int64_t i = 0; template->estimate && i < space->size; i++) {
        double seconds = template->estimate(ahead->workload, target, space, i);
        if (isfinite(seconds))
            all[n++] = (struct ranked){seconds, i};
    }
    qsort(all, (size_t)n, sizeof *all, compare_ranked);
    for (int64_t i = 0; i < n && i < take && ahead->n_jobs < MOST_JOBS; i++)
        ahead->jobs[ahead->n_jobs++] =
            (struct job){.template = template, .space = space, .index = all[i].index, .code = BUF_INIT(64 << 20)};
}

static void choose_jobs(struct ahead *ahead, const struct target *target, int take) {
    const struct template *plain = template_plain(target);
    ahead->jobs = arena_array(ahead->arena, MOST_JOBS, sizeof *ahead->jobs);
    for (const struct template *const *t = template_builtin; *t; t++)
        if (*t != plain && !(*t)->by_name && !(*t)->library && strcmp((*t)->device, target->kind) == 0 &&
            (*t)->serves(ahead->workload, target))
            take_jobs(ahead, *t, target, take);
    if (ahead->n_jobs == 0)
        take_jobs(ahead, plain, target, take);
}

static struct cudnn_conv conv_of(const struct layer *l, const struct settings *settings, bool nhwc, enum kind kind) {
    int size = l->h ? l->h : 1, out = out_size(l), batch = settings->batch;
    struct cudnn_conv conv = {.type = settings->half ? CUDNN_F16 : CUDNN_F32,
                              .nhwc = nhwc,
                              .x = {batch, l->c, size, size},
                              .w = {l->k, l->c / l->groups, l->r, l->r},
                              .y = {batch, l->k, out, out},
                              .stride = {l->s, l->s},
                              .dilation = {1, 1},
                              .pad = {l->p, l->p, l->p, l->p},
                              .upper = l->after == RELU6 ? 6 : INFINITY};
    if (kind == BARE)
        return conv;
    conv.bias = kind == FUSED ? conv.type : CUDNN_F32;
    conv.residual = adds(l);
    conv.act = act_text(l)[0] ? CUDNN_RELU : CUDNN_NONE;
    return conv;
}

static void choose_forms(struct ahead *ahead, const struct layer *layer, const struct settings *settings) {
    ahead->forms = arena_array(ahead->arena, MOST_FORMS, sizeof *ahead->forms);
    for (int nchw = 0; nchw < 2; nchw++)
        for (int kind = BARE; kind <= (settings->half ? FUSED_F32 : FUSED); kind++)
            ahead->forms[ahead->n_forms++] =
                (struct form){.kind = (enum kind)kind, .conv = conv_of(layer, settings, !nchw, (enum kind)kind)};
}

static void build_job(const struct shop *shop, const struct ahead *ahead, struct job *job) {
    struct error error = {0};
    struct buf log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    job->arena = arena_new(0);
    job->good =
        job->template->render(ahead->workload, &shop->target, job->space, job->index, job->arena, &job->program,
                              &error) == 0 &&
        job->program->n_run <= MOST_RUN && job->program->n_prepared <= MOST_OWN &&
        job->program->n_scratch <= MOST_OWN &&
        device_cuda.compile(&shop->target, job->program->source, deadline_in_s(60), &job->code, &log, &error) == 0;
    if (!job->good)
        snprintf(job->text, sizeof job->text, "%.255s", error.text);
}

/* `cudnn`: the thread's own. */
static void build_form(const struct shop *shop, struct form *form, struct cudnn **cudnn) {
    int64_t begin = clock_now_ns();
    char reason[256];
    if ((!*cudnn && cudnn_open(cudnn, form->text, sizeof form->text) < 0) ||
        cudnn_plans_new(*cudnn, &form->conv, &form->plans, form->text, sizeof form->text) < 0)
        return;
    form->n = cudnn_plans_count(form->plans);
    form->n = form->n < MOST_PLANS ? form->n : MOST_PLANS;
    int left = shop->settings.compiled > 0 ? shop->settings.compiled : form->n;
    for (int i = 0; i < form->n && clock_now_ns() < shop->deadline; i++) {
        if (cudnn_plans_compiles(form->plans, i) && left-- <= 0)
            continue;
        form->built[i] = cudnn_plans_build(form->plans, i, reason, sizeof reason) == 0;
        form->n_built += form->built[i];
        if (!form->built[i])
            snprintf(form->text, sizeof form->text, "%s", reason);
    }
    form->seconds = (double)(clock_now_ns() - begin) / NS_PER_S;
}

static void *build_all(void *data) {
    struct shop *shop = data;
    struct cudnn *cudnn = NULL; /* goes with the process: its plans are used to the end */
    for (int i; (i = atomic_fetch_add(&shop->next, 1)) < shop->n && clock_now_ns() < shop->deadline;) {
        struct ahead *ahead = &shop->ahead[shop->queue[i].layer];
        int job = shop->queue[i].job;
        if (job >= 0)
            build_job(shop, ahead, &ahead->jobs[job]);
        else
            build_form(shop, &ahead->forms[-1 - job], &cudnn);
        pthread_mutex_lock(&shop->mutex);
        if (--ahead->n_left == 0)
            pthread_cond_broadcast(&shop->ready);
        pthread_mutex_unlock(&shop->mutex);
    }
    return NULL;
}

/* False when time runs out before. */
static bool await(struct shop *shop, const struct ahead *ahead) {
    pthread_mutex_lock(&shop->mutex);
    while (ahead->n_left > 0 && clock_now_ns() < shop->deadline) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&shop->ready, &shop->mutex, &until);
    }
    bool done = ahead->n_left == 0;
    pthread_mutex_unlock(&shop->mutex);
    return done;
}

static void enqueue(struct shop *shop, int layer, int job) {
    shop->queue[shop->n].layer = layer;
    shop->queue[shop->n++].job = job;
    shop->ahead[layer].n_left++;
}

/* Plans the layers from `first` on, and starts the threads; all goes with the process. */
static void open_shop(struct shop *shop, int first) {
    const struct settings *settings = &shop->settings;
    pthread_mutex_init(&shop->mutex, NULL);
    pthread_cond_init(&shop->ready, NULL);
    shop->queue = calloc((size_t)N_LAYERS * (MOST_JOBS + MOST_FORMS), sizeof *shop->queue);
    for (int l = first; shop->queue && l < N_LAYERS; l++) {
        struct ahead *ahead = &shop->ahead[l];
        if (!is_ours(settings, shop->shard, l))
            continue;
        ahead->arena = arena_new(0);
        ahead->workload = workload_of(&layers[l], settings, ahead->arena);
        choose_jobs(ahead, &shop->target, settings->take);
        choose_forms(ahead, &layers[l], settings);
        for (int f = 0; f < ahead->n_forms; f++)
            enqueue(shop, l, -1 - f);
        for (int j = 0; j < ahead->n_jobs; j++)
            enqueue(shop, l, j);
    }
    for (int i = 0; i < settings->threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, build_all, shop) == 0)
            pthread_detach(thread);
    }
}

/* ---- on the GPU ---- */

/* What one execution works on; index 1: the same numbers in NCHW, and weights as cuDNN has them with it. */
struct set {
    uint64_t x[2], w[2], residual[2], y;
};

/* An open GPU with the tools; the buffers of one layer. */
struct gpu {
    struct device *device;
    struct device_code *tools;
    struct buf tools_code;
    struct error error;
    char refusal[256]; /* the last error that was only a candidate's */
    int n_sets;
    struct set sets[MOST_SETS];
    uint64_t bias, own_bias, raw, full, spread, most; /* bias: f32; in the layer's own type */
    size_t number;                                    /* bytes of one */
    uint64_t blocks[MOST_SETS * 8 + 8];
    int n_blocks;
};

static uint64_t take(struct gpu *gpu, size_t bytes) {
    uint64_t address = 0;
    if (gpu->error.class != ERROR_NONE || device_cuda.alloc(gpu->device, bytes, &address, &gpu->error) < 0)
        return 0;
    gpu->blocks[gpu->n_blocks++] = address;
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

static void fill(struct gpu *gpu, uint64_t to, int64_t n, unsigned seed) {
    const uint64_t args[] = {to, (uint64_t)n, seed};
    run_tool(gpu, "fill", n, args, 3);
}

static void turn(struct gpu *gpu, uint64_t from, uint64_t to, int64_t n, int64_t rows, int64_t columns) {
    const uint64_t args[] = {from, to, (uint64_t)n, (uint64_t)rows, (uint64_t)columns};
    run_tool(gpu, "turn", n, args, 5);
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Weights index 0 are [K, C, R, S], as NCHW has them, index 1 [K, R, S, C]; activations the other way round. */
static void open_set(struct gpu *gpu, const struct layer *l, struct set *set, int64_t n_x, int64_t n_w, int64_t n_y) {
    int64_t taps = (int64_t)l->r * l->r, size = l->h ? l->h : 1, out = out_size(l);
    set->y = take(gpu, (size_t)n_y * gpu->number);
    for (int i = 0; i < 2; i++) {
        set->x[i] = take(gpu, (size_t)n_x * gpu->number);
        set->w[i] = take(gpu, (size_t)n_w * gpu->number);
        set->residual[i] = adds(l) ? take(gpu, (size_t)n_y * gpu->number) : 0;
    }
    fill(gpu, set->x[0], n_x, 1);
    turn(gpu, set->x[0], set->x[1], n_x, size * size, l->c);
    fill(gpu, set->w[0], n_w, 0x40000000);
    turn(gpu, set->w[0], set->w[1], n_w, l->c / l->groups, taps);
    if (!adds(l))
        return;
    fill(gpu, set->residual[0], n_y, 0x50000000);
    turn(gpu, set->residual[0], set->residual[1], n_y, out * out, l->k);
}

static void open_bias(struct gpu *gpu, int k) {
    float *bias = calloc((size_t)k, sizeof *bias);
    gpu->bias = take(gpu, (size_t)k * sizeof *bias);
    gpu->own_bias = take(gpu, (size_t)k * gpu->number);
    for (int i = 0; bias && i < k; i++)
        bias[i] = (float)(i % 17) / 4 - 2;
    if (bias && gpu->error.class == ERROR_NONE)
        (void)!device_cuda.write(gpu->device, gpu->bias, bias, (size_t)k * sizeof *bias, &gpu->error);
    free(bias);
    const uint64_t args[] = {gpu->bias, gpu->own_bias, (uint64_t)k};
    run_tool(gpu, "convert", k, args, 3);
}

static void run_reference(struct gpu *gpu, const struct layer *l, int64_t n_w, int64_t n_y) {
    int64_t size = l->h ? l->h : 1, cg = l->c / l->groups;
    float lower = act_text(l)[0] ? 0 : -INFINITY, upper = l->after == RELU6 ? 6 : INFINITY;
    const uint64_t spread[] = {gpu->sets[0].w[0], gpu->spread,  (uint64_t)n_w,
                               (uint64_t)l->k,    (uint64_t)cg, (uint64_t)l->r * (uint64_t)l->r};
    const uint64_t args[] = {gpu->sets[0].x[0],
                             gpu->spread,
                             gpu->bias,
                             gpu->sets[0].residual[0],
                             gpu->raw,
                             gpu->full,
                             (uint64_t)n_y,
                             (uint64_t)size,
                             (uint64_t)l->c,
                             (uint64_t)cg,
                             (uint64_t)out_size(l),
                             (uint64_t)l->k,
                             (uint64_t)l->r,
                             (uint64_t)l->s,
                             (uint64_t)l->p,
                             bits_of(lower),
                             bits_of(upper)};
    run_tool(gpu, "spread", n_w, spread, 6);
    run_tool(gpu, "reference", n_y, args, 17);
}

/* Buffers, numbers, and what the outputs should be. */
static void open_layer(struct gpu *gpu, const struct layer *l, const struct workload *workload,
                       const struct target *target) {
    int64_t n_x = shape_count(&workload->in[0].shape), n_w = shape_count(&workload->in[1].shape);
    int64_t n_y = shape_count(&workload->out[0].shape);
    int64_t sets = 2 * target->cache_bytes / workload_bytes(workload);
    gpu->refusal[0] = '\0';
    gpu->n_blocks = 0;
    gpu->n_sets = sets < 1 ? 1 : sets > MOST_SETS ? MOST_SETS : (int)sets;
    for (int i = 0; i < gpu->n_sets; i++)
        open_set(gpu, l, &gpu->sets[i], n_x, n_w, n_y);
    gpu->spread = take(gpu, (size_t)n_w * gpu->number);
    gpu->raw = take(gpu, (size_t)n_y * 4);
    gpu->full = take(gpu, (size_t)n_y * 4);
    gpu->most = take(gpu, 8);
    open_bias(gpu, l->k);
    run_reference(gpu, l, n_w, n_y);
}

static void close_layer(struct gpu *gpu) {
    while (gpu->n_blocks > 0)
        device_cuda.free(gpu->device, gpu->blocks[--gpu->n_blocks]);
}

/* What became of a candidate. */
struct outcome {
    double seconds, error;
    bool good;
};

/* A candidate with its calls bound for each set. */
struct candidate {
    struct device_code *code;
    uint64_t prepared[MOST_SETS][MOST_OWN], scratch[MOST_OWN]; /* 0: not there */
    struct launch launch;                                      /* a plan's */
    char entry[CUDNN_ENTRY_MAX];
    struct device_call calls[MOST_RUN * MOST_SETS];
    int n_run;
    bool nchw, raw;
    double tolerance, once_s; /* by the host's clock, when it was verified */
};

/* On an output full of NaNs; the largest error relative to the largest output, -1 when it does not run. */
static double verify(struct gpu *gpu, const struct layer *l, struct candidate *candidate, int64_t n) {
    float most[2] = {NAN, 0};
    int out = out_size(l);
    const uint64_t args[] = {gpu->sets[0].y, candidate->raw ? gpu->raw : gpu->full,
                             gpu->most,      (uint64_t)n,
                             (uint64_t)l->k, candidate->nchw ? (uint64_t)out * (uint64_t)out : 0};
    if (device_cuda.fill(gpu->device, gpu->sets[0].y, 0xffffffffu, (size_t)n * gpu->number / 4, &gpu->error) < 0 ||
        device_cuda.fill(gpu->device, gpu->most, 0, 2, &gpu->error) < 0)
        return -1;
    int64_t begin = clock_now_ns();
    if (device_cuda.run(gpu->device, candidate->calls, candidate->n_run, 1, NULL, &gpu->error) < 0)
        return -1;
    candidate->once_s = (double)(clock_now_ns() - begin) / NS_PER_S;
    run_tool(gpu, "compare", n, args, 6);
    if (gpu->error.class != ERROR_NONE || device_cuda.read(gpu->device, most, gpu->most, sizeof most, &gpu->error) < 0)
        return -1;
    return isnan(most[0]) ? INFINITY : (double)most[0] / (double)most[1];
}

static int compare_doubles(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Seconds of one execution, by a short look, or with `look` (from that) the median of the repeats. */
static double time_calls(struct gpu *gpu, const struct candidate *candidate, double look) {
    int n_calls = gpu->n_sets * candidate->n_run, repeats = look > 0 ? REPEATS : 1, rounds = LOOK_ROUNDS;
    double seconds[REPEATS];
    if (look > 0) {
        double wanted = ceil(REPEAT_S / (look * gpu->n_sets) / 8) * 8;
        rounds = wanted < 1 ? 1 : wanted > 4096 ? 4096 : (int)wanted;
    }
    if (device_cuda.time(gpu->device, candidate->calls, n_calls, rounds, repeats, seconds, &gpu->error) < 0)
        return NAN;
    qsort(seconds, (size_t)repeats, sizeof seconds[0], compare_doubles);
    return seconds[repeats / 2] / rounds / gpu->n_sets;
}

/* Whether there is no error, or the GPU still works, so that the error was its candidate's alone. */
static bool is_well(struct gpu *gpu) {
    struct error error = gpu->error;
    if (error.class == ERROR_NONE)
        return true;
    gpu->error = (struct error){0};
    fill(gpu, gpu->sets[0].y, 2, 0);
    bool well = gpu->error.class == ERROR_NONE;
    if (well)
        snprintf(gpu->refusal, sizeof gpu->refusal, "%.255s", error.text);
    else
        gpu->error = error;
    return well;
}

static void give_back(struct gpu *gpu, const uint64_t own[MOST_OWN]) {
    for (int i = 0; i < MOST_OWN; i++)
        if (own[i])
            device_cuda.free(gpu->device, own[i]);
}

static void discard(struct gpu *gpu, const struct candidate *candidate) {
    if (candidate->code)
        device_cuda.unload(gpu->device, candidate->code);
    for (int s = 0; s < gpu->n_sets; s++)
        give_back(gpu, candidate->prepared[s]);
    give_back(gpu, candidate->scratch);
}

/* ---- ours ---- */

static void bind(const struct gpu *gpu, const struct candidate *candidate, const struct launch *launch, int s,
                 struct device_call *ret) {
    const struct set *set = &gpu->sets[s];
    const uint64_t in[] = {set->x[0], set->w[0], gpu->bias, set->residual[0]};
    *ret = (struct device_call){.launch = launch, .code = candidate->code};
    for (int a = 0; a < launch->n_args; a++) {
        const struct arg *arg = &launch->args[a];
        ret->args[a] = arg->kind == ARG_IN         ? in[arg->index]
                       : arg->kind == ARG_OUT      ? set->y
                       : arg->kind == ARG_SCRATCH  ? candidate->scratch[arg->index]
                       : arg->kind == ARG_PREPARED ? candidate->prepared[s][arg->index]
                                                   : (uint32_t)arg->index;
    }
}

/* Of a candidate's own; not the layer's. */
static uint64_t take_own(struct gpu *gpu, size_t bytes) {
    uint64_t address = take(gpu, bytes);
    gpu->n_blocks -= address != 0;
    return address;
}

static void take_each(struct gpu *gpu, const size_t *bytes, int n, uint64_t ret[MOST_OWN]) {
    for (int i = 0; i < n; i++)
        ret[i] = take_own(gpu, bytes[i]);
}

static void prepare(struct gpu *gpu, const struct job *job, bool half, struct candidate *ret) {
    const struct program *program = job->program;
    *ret = (struct candidate){.n_run = program->n_run, .tolerance = half ? 2e-3 : 2e-5};
    if (device_cuda.load(gpu->device, job->code.data, job->code.len, &ret->code, &gpu->error) < 0)
        return;
    take_each(gpu, program->scratch_bytes, program->n_scratch, ret->scratch);
    for (int s = 0; s < gpu->n_sets && gpu->error.class == ERROR_NONE; s++) {
        struct device_call call;
        take_each(gpu, program->prepared_bytes, program->n_prepared, ret->prepared[s]);
        for (int i = 0; i < program->n_prepare && gpu->error.class == ERROR_NONE; i++) {
            bind(gpu, ret, &program->prepare[i], s, &call);
            (void)!device_cuda.run(gpu->device, &call, 1, 1, NULL, &gpu->error);
        }
        for (int i = 0; i < program->n_run; i++)
            bind(gpu, ret, &program->run[i], s, &ret->calls[s * program->n_run + i]);
    }
}

/* ---- cuDNN's ---- */

static void bind_plan(const struct gpu *gpu, const struct form *form, struct candidate *candidate) {
    bool nchw = candidate->nchw;
    for (int s = 0; s < gpu->n_sets; s++) {
        const struct set *set = &gpu->sets[s];
        struct device_call *call = &candidate->calls[s];
        int n = 0;
        *call = (struct device_call){.launch = &candidate->launch, .code = candidate->code};
        call->args[n++] = set->x[nchw];
        call->args[n++] = set->w[!nchw];
        if (form->conv.bias != CUDNN_NOTHING)
            call->args[n++] = form->kind == FUSED_F32 ? gpu->bias : gpu->own_bias;
        if (form->conv.residual)
            call->args[n++] = set->residual[nchw];
        call->args[n++] = set->y;
    }
}

static void prepare_plan(struct gpu *gpu, struct form *form, int plan, bool half, struct candidate *ret) {
    *ret = (struct candidate){
        .n_run = 1, .nchw = !form->conv.nhwc, .raw = form->kind == BARE, .tolerance = half ? 5e-3 : 1e-3};
    cudnn_entry_print(&form->conv, plan, 0, ret->entry);
    ret->launch = (struct launch){.entry = ret->entry, .n_args = cudnn_conv_args(&form->conv)};
    if (device_cuda.load(gpu->device, gpu->tools_code.data, gpu->tools_code.len, &ret->code, &gpu->error) < 0 ||
        cuda_plan_lend(gpu->device, ret->code, ret->entry, form->plans, plan, &gpu->error) < 0)
        return;
    bind_plan(gpu, form, ret);
}

/* ---- a layer ---- */

struct result {
    double ours_s, cudnn_s, fused_s, floor_s; /* fused: cuDNN's, of those that do what ours does. 0: not known */
};

/* What parent and children all see. */
struct shared {
    struct result results[N_LAYERS];
    bool late; /* time ran out */
    struct progress {
        int layer; /* the first that is not done */
        char doing[512];
    } shards[MOST_SHARDS];
};

/* A configuration of ours, or a plan of a form of cuDNN's. */
struct contender {
    const struct job *job; /* NULL: the plan */
    struct form *form;
    int plan;
    double seconds, error; /* 0: not right, or not timed any more */
};

/* One side of a layer. */
struct side {
    struct contender contenders[MOST_CONTENDERS];
    int n, n_right, n_wrong, n_failed;
    struct contender best[KINDS], *first; /* of each kind, and of all; NULL: none */
};

static enum kind kind_of(const struct contender *contender) {
    return contender->form ? contender->form->kind : BARE;
}

static struct json_object *knobs_json(const struct job *job) {
    struct json_object *object = json_object_new_object();
    for (int k = 0; k < job->space->n_knobs; k++)
        json_add_int(object, job->space->knobs[k].name,
                     space_value(job->space, job->index, job->space->knobs[k].name, 0));
    return object;
}

static void describe(const struct contender *contender, char *ret, size_t size) {
    if (contender->form) {
        snprintf(ret, size, "cudnn %s, %s, %s", contender->form->conv.nhwc ? "nhwc" : "nchw",
                 kind_names[contender->form->kind], cudnn_plans_text(contender->form->plans, contender->plan));
        return;
    }
    struct json_object *knobs CLEANUP(json_put_p) = knobs_json(contender->job);
    snprintf(ret, size, "%s %s", contender->job->template->name, json_text(knobs, NULL));
}

static void print_each(const char *what, const struct contender *contender) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(object, "what", what);
    json_add_double(object, "us", contender->seconds * 1e6);
    json_add_double(object, "error", contender->error);
    puts(json_text(object, NULL));
}

/* Verified and looked at, no closer when it took much longer than `least`; or, with a look, timed. */
static void measure(struct gpu *gpu, const struct shop *shop, int l, struct contender *contender, double least) {
    static struct candidate candidate;
    bool half = shop->settings.half;
    double look = contender->seconds;
    contender->seconds = 0;
    if (contender->form)
        prepare_plan(gpu, contender->form, contender->plan, half, &candidate);
    else
        prepare(gpu, contender->job, half, &candidate);
    if (gpu->error.class == ERROR_NONE && look == 0)
        contender->error = verify(gpu, &layers[l], &candidate, shape_count(&shop->ahead[l].workload->out[0].shape));
    if (gpu->error.class == ERROR_NONE && contender->error < candidate.tolerance)
        contender->seconds =
            candidate.once_s > HOPELESS_S + HOPELESS * least ? candidate.once_s : time_calls(gpu, &candidate, look);
    if (gpu->error.class != ERROR_NONE)
        contender->seconds = 0;
    if (is_well(gpu))
        discard(gpu, &candidate);
}

static void look_at_all(struct gpu *gpu, const struct shop *shop, int l, struct side *side, char doing[512]) {
    double least = INFINITY;
    for (int i = 0; i < side->n && gpu->error.class == ERROR_NONE; i++) {
        struct contender *contender = &side->contenders[i];
        contender->error = -1; /* not known */
        describe(contender, doing, 512);
        measure(gpu, shop, l, contender, least);
        if (contender->seconds > 0 && contender->seconds < least)
            least = contender->seconds;
        side->n_right += contender->seconds > 0;
        side->n_wrong += contender->seconds == 0 && contender->error >= 0;
        side->n_failed += contender->seconds == 0 && !(contender->error >= 0);
        if (shop->settings.each)
            print_each(doing, contender);
    }
}

/* The fastest of a kind at a look that was not taken before; NULL when there is none. */
static struct contender *next_finalist(struct side *side, enum kind kind, const bool *taken) {
    struct contender *next = NULL;
    for (int i = 0; i < side->n; i++) {
        struct contender *contender = &side->contenders[i];
        if (contender->seconds > 0 && !taken[i] && kind_of(contender) == kind &&
            (!next || contender->seconds < next->seconds))
            next = contender;
    }
    return next;
}

static void time_finalists(struct gpu *gpu, const struct shop *shop, int l, struct side *side, char doing[512]) {
    bool taken[MOST_CONTENDERS] = {0};
    for (int turn = 0; turn < KINDS * FINALISTS && gpu->error.class == ERROR_NONE; turn++) {
        int kind = turn / FINALISTS;
        struct contender *finalist = next_finalist(side, (enum kind)kind, taken), *best = &side->best[kind];
        if (!finalist)
            continue;
        taken[finalist - side->contenders] = true;
        describe(finalist, doing, 512);
        measure(gpu, shop, l, finalist, INFINITY);
        if (finalist->seconds > 0 && (best->seconds == 0 || finalist->seconds < best->seconds))
            *best = *finalist;
        if (best->seconds > 0 && (!side->first || best->seconds < side->first->seconds))
            side->first = best;
    }
}

static void run_side(struct gpu *gpu, const struct shop *shop, int l, struct side *side, char doing[512]) {
    look_at_all(gpu, shop, l, side, doing);
    time_finalists(gpu, shop, l, side, doing);
}

static void add_jobs(const struct ahead *ahead, struct side *side) {
    for (int j = 0; j < ahead->n_jobs; j++)
        if (ahead->jobs[j].good)
            side->contenders[side->n++] = (struct contender){.job = &ahead->jobs[j]};
    side->n_failed = ahead->n_jobs - side->n;
}

static void add_plans(const struct ahead *ahead, struct side *side) {
    for (int f = 0; f < ahead->n_forms; f++) {
        struct form *form = &ahead->forms[f];
        for (int i = 0; i < form->n; i++)
            if (form->built[i])
                side->contenders[side->n++] = (struct contender){.form = form, .plan = i};
        side->n_failed += form->n - form->n_built;
    }
}

static void add_us(struct json_object *object, const char *name, double seconds) {
    if (seconds > 0)
        json_add_double(object, name, round(seconds * 1e9) / 1e3);
}

static void add_ours(struct json_object *object, const struct side *side) {
    const struct contender *best = side->first;
    if (best) {
        add_us(object, "ours_us", best->seconds);
        json_add_string(object, "template", best->job->template->name);
        json_add(object, "knobs", knobs_json(best->job));
        json_add_double(object, "error", best->error);
    }
    json_add_int(object, "ran", side->n_right);
    json_add_int(object, "wrong", side->n_wrong);
    json_add_int(object, "failed", side->n_failed);
}

static void add_cudnn(struct json_object *object, const struct ahead *ahead, const struct side *side) {
    const struct contender *best = side->first;
    const char *why = NULL;
    double seconds = 0;
    for (int f = 0; f < ahead->n_forms; f++) {
        seconds += ahead->forms[f].seconds;
        why = ahead->forms[f].text[0] ? ahead->forms[f].text : why;
    }
    if (best) {
        add_us(object, "cudnn_us", best->seconds);
        json_add_string(object, "cudnn_layout", best->form->conv.nhwc ? "nhwc" : "nchw");
        json_add_string(object, "cudnn_graph", kind_names[best->form->kind]);
        json_add_string(object, "plan", cudnn_plans_text(best->form->plans, best->plan));
        json_add_int(object, "plan_rank", best->plan);
        add_us(object, "cudnn_bare_us", side->best[BARE].seconds);
        add_us(object, "cudnn_fused_us", side->best[FUSED].seconds);
        add_us(object, "cudnn_fused_f32_us", side->best[FUSED_F32].seconds);
        json_add_double(object, "cudnn_error", best->error);
    }
    json_add_int(object, "cudnn_ran", side->n_right);
    json_add_int(object, "cudnn_wrong", side->n_wrong);
    json_add_int(object, "cudnn_failed", side->n_failed);
    json_add_double(object, "cudnn_build_s", round(seconds * 1e3) / 1e3);
    if (why)
        json_add_string(object, "cudnn_why", why);
}

static void print_layer(const struct ahead *ahead, const struct side *ours, const struct side *cudnn,
                        const struct result *result, const struct gpu *gpu, const char *doing) {
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 12);
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    workload_key(ahead->workload, &key);
    json_add_string(object, "workload", buf_str(&key));
    add_us(object, "floor_us", result->floor_s);
    add_ours(object, ours);
    add_cudnn(object, ahead, cudnn);
    if (ours->first)
        json_add_double(object, "of_floor", round(result->ours_s / result->floor_s * 1e3) / 1e3);
    if (ours->first && cudnn->first)
        json_add_double(object, "ratio", round(result->cudnn_s / result->ours_s * 1e3) / 1e3);
    if (gpu->refusal[0])
        json_add_string(object, "refusal", gpu->refusal);
    if (gpu->error.class != ERROR_NONE) {
        json_add_string(object, "fault", gpu->error.text);
        json_add_string(object, "at", doing);
    }
    puts(json_text(object, NULL));
    fflush(stdout);
}

/* The better of the kinds with all of the layer in them; 0: neither ran. */
static double fused_s(const struct side *side) {
    double a = side->best[FUSED].seconds, b = side->best[FUSED_F32].seconds;
    return a == 0 || (b > 0 && b < a) ? b : a;
}

static void bench_layer(struct gpu *gpu, const struct shop *shop, int l, struct shared *shared) {
    const struct ahead *ahead = &shop->ahead[l];
    char *doing = shared->shards[shop->shard].doing;
    static struct side ours, cudnn;
    ours = cudnn = (struct side){0};
    add_jobs(ahead, &ours);
    add_plans(ahead, &cudnn);
    alarm(LAYER_LIMIT_S);
    open_layer(gpu, &layers[l], ahead->workload, &shop->target);
    run_side(gpu, shop, l, &cudnn, doing);
    run_side(gpu, shop, l, &ours, doing);
    alarm(0);
    shared->results[l] = (struct result){ours.first ? ours.first->seconds : 0, cudnn.first ? cudnn.first->seconds : 0,
                                         fused_s(&cudnn), floor_s(ahead->workload, shop->settings.half)};
    print_layer(ahead, &ours, &cudnn, &shared->results[l], gpu, doing);
}

/* ---- processes ---- */

static int open_gpu(struct gpu *gpu, const struct target *target, bool half) {
    struct buf log CLEANUP(buf_release) = BUF_INIT(1 << 20), source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    gpu->tools_code = (struct buf)BUF_INIT(64 << 20);
    gpu->number = half ? 2 : 4;
    buf_printf(&source, "#define HALF %d\n%s", half, tools_source);
    if (device_cuda.open(0, &gpu->device, &gpu->error) < 0 ||
        device_cuda.compile(target, buf_str(&source), deadline_in_s(60), &gpu->tools_code, &log, &gpu->error) < 0)
        return -1;
    return device_cuda.load(gpu->device, gpu->tools_code.data, gpu->tools_code.len, &gpu->tools, &gpu->error);
}

/* One process at a time has the GPU; the lock goes with the process. */
static void lock_gpu(int fd, bool locked) {
    struct flock lock = {.l_type = locked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
    while (fcntl(fd, F_SETLKW, &lock) < 0 && errno == EINTR)
        ;
}

static int bench_layers(struct gpu *gpu, struct shop *shop, int lock, struct shared *shared) {
    int *layer = &shared->shards[shop->shard].layer;
    for (; *layer < N_LAYERS; ++*layer) {
        int l = *layer;
        if (!is_ours(&shop->settings, shop->shard, l))
            continue;
        bool ready = await(shop, &shop->ahead[l]);
        lock_gpu(lock, true);
        if (!ready || clock_now_ns() >= shop->deadline) {
            shared->late = true;
            *layer = N_LAYERS;
            return 0;
        }
        bench_layer(gpu, shop, l, shared);
        if (gpu->error.class != ERROR_NONE) {
            ++*layer;
            return FAULT;
        }
        close_layer(gpu);
        lock_gpu(lock, false);
    }
    return 0;
}

/* Exit status: 0 all layers done, FAULT: one of them spoilt the GPU, 1: nothing works. */
static int child(const struct settings *settings, int shard, int64_t deadline, int lock, struct shared *shared) {
    static struct shop shop;
    static struct gpu gpu;
    struct device_info info;
    shop.shard = shard;
    shop.settings = *settings;
    shop.deadline = deadline;
    if (device_cuda.describe(0, &info, &gpu.error) < 0 || open_gpu(&gpu, &info.target, settings->half) < 0) {
        fprintf(stderr, "bench_layers: %s\n", gpu.error.text);
        return 1;
    }
    shop.target = info.target;
    open_shop(&shop, shared->shards[shard].layer); /* NVRTC's first compile may have no other beside it */
    return bench_layers(&gpu, &shop, lock, shared);
}

/* A shard's layers, by one child after another. */
static int run_shard(const struct settings *settings, int shard, int64_t deadline, int lock, struct shared *shared) {
    struct progress *progress = &shared->shards[shard];
    while (progress->layer < N_LAYERS) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(settings, shard, deadline, lock, shared));
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 1))
            return 1;
        if (WIFSIGNALED(status)) {
            struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
            json_add_int(object, "layer", progress->layer);
            json_add_int(object, "signal", WTERMSIG(status));
            json_add_string(object, "at", progress->doing);
            puts(json_text(object, NULL));
            fflush(stdout);
            progress->layer++;
        }
    }
    return 0;
}

/* Says so when there is none. Asked in a child: CUDA does not outlive a fork. */
static bool has_gpu(void) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        struct error error;
        if (device_cuda.count(&error) > 0)
            _exit(0);
        printf("{\"skipped\": \"%s\"}\n", error.code);
        fflush(stdout);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int run_shards(const struct settings *settings, int64_t deadline, struct shared *shared) {
    int lock = memfd_create("bench_layers", MFD_CLOEXEC), bad = lock < 0, status = 0;
    for (int shard = 0; !bad && shard < settings->shards; shard++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_shard(settings, shard, deadline, lock, shared));
        bad |= pid < 0;
    }
    while (wait(&status) > 0)
        bad |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return bad;
}

/* ---- the sums ---- */

struct sums {
    int n, n_compared, n_fused;           /* layers measured; known on both sides; with a fused plan */
    int n_slower, n_slower_fused, n_near; /* than cuDNN's best; than its best fused; within 2 floors */
    double log_ratio, log_fused, log_floor;
};

static void sum_up(const struct shared *shared, int nets, struct sums *ret) {
    for (int l = 0; l < N_LAYERS; l++) {
        const struct result *r = &shared->results[l];
        if (!(layers[l].nets & nets) || r->ours_s == 0)
            continue;
        ret->n++;
        ret->n_near += r->ours_s <= 2 * r->floor_s;
        ret->log_floor += log(r->ours_s / r->floor_s);
        if (r->cudnn_s == 0)
            continue;
        ret->n_compared++;
        ret->n_slower += r->ours_s > r->cudnn_s;
        ret->log_ratio += log(r->cudnn_s / r->ours_s);
        if (r->fused_s == 0)
            continue;
        ret->n_fused++;
        ret->n_slower_fused += r->ours_s > r->fused_s;
        ret->log_fused += log(r->fused_s / r->ours_s);
    }
}

static void print_sums(const struct shared *shared, const struct settings *settings, int nets, const char *name,
                       double seconds) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    struct sums sums = {0};
    sum_up(shared, nets & settings->nets, &sums);
    json_add_string(object, "net", name);
    json_add_string(object, "precision", settings->half ? "fp16" : "fp32");
    json_add_int(object, "batch", settings->batch);
    json_add_int(object, "layers", sums.n);
    json_add_int(object, "compared", sums.n_compared);
    if (sums.n_compared > 0)
        json_add_double(object, "geometric_mean_ratio", round(exp(sums.log_ratio / sums.n_compared) * 1e3) / 1e3);
    if (sums.n_fused > 0)
        json_add_double(object, "geometric_mean_fused_ratio", round(exp(sums.log_fused / sums.n_fused) * 1e3) / 1e3);
    if (sums.n > 0)
        json_add_double(object, "geometric_mean_of_floor", round(exp(sums.log_floor / sums.n) * 1e3) / 1e3);
    json_add_int(object, "within_2_floors", sums.n_near);
    json_add_int(object, "slower_than_cudnn", sums.n_slower);
    json_add_int(object, "slower_than_fused", sums.n_slower_fused);
    if (seconds > 0) {
        json_add_bool(object, "out_of_time", shared->late);
        json_add_double(object, "seconds", round(seconds * 10) / 10);
    }
    puts(json_text(object, NULL));
}

static bool read_net(const char *name, int *ret) {
    for (int i = 0; i < N_NETS; i++)
        if (strcmp(name, net_names[i]) == 0) {
            *ret = 1 << i;
            return true;
        }
    return false;
}

static bool read_precision(const char *name, bool *ret_half) {
    *ret_half = strcmp(name, "fp16") == 0;
    return *ret_half || strcmp(name, "fp32") == 0;
}

static bool read_settings(int argc, char **argv, struct settings *ret) {
    *ret = (struct settings){.nets = ALL_NETS, .batch = 1, .take = 12, .half = true};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int *number = strcmp(argv[i], "--batch") == 0      ? &ret->batch
                      : strcmp(argv[i], "--take") == 0     ? &ret->take
                      : strcmp(argv[i], "--compiled") == 0 ? &ret->compiled
                      : strcmp(argv[i], "--shards") == 0   ? &ret->shards
                      : strcmp(argv[i], "--threads") == 0  ? &ret->threads
                      : strcmp(argv[i], "--seconds") == 0  ? &ret->seconds
                                                           : NULL;
        if (strcmp(argv[i], "--each") == 0) {
            ret->each = true;
            continue;
        }
        if (number)
            *number = (int)strtol(value, NULL, 10);
        else if (!(strcmp(argv[i], "--net") == 0 && read_net(value, &ret->nets)) &&
                 !(strcmp(argv[i], "--precision") == 0 && read_precision(value, &ret->half)))
            return false;
        i++;
    }
    return ret->batch > 0 && ret->take > 0 && ret->compiled >= 0 && ret->seconds >= 0;
}

static int between(long n, int least, int most) {
    return n < least ? least : n > most ? most : (int)n;
}

static void fill_in(struct settings *settings) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    settings->shards = between(settings->shards > 0 ? settings->shards : cores / 4, 1, MOST_SHARDS);
    settings->threads = between(settings->threads > 0 ? settings->threads : cores / settings->shards, 1, MOST_THREADS);
}

int main(int argc, char **argv) {
    struct settings settings;
    int64_t begin = clock_now_ns();
    if (!read_settings(argc, argv, &settings)) {
        fputs("usage: bench_layers [--net resnet18|resnet50|vgg16|mobilenet-v2] [--batch N] [--precision fp16|fp32] "
              "[--take N] [--compiled N] [--shards N] [--threads N] [--seconds N] [--each]\n",
              stderr);
        return 2;
    }
    if (!has_gpu())
        return 0;
    fill_in(&settings);
    int64_t deadline = settings.seconds > 0 ? deadline_in_s(settings.seconds) : DEADLINE_NEVER;
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || run_shards(&settings, deadline, shared) != 0)
        return 1;
    for (int i = 0; i < N_NETS; i++)
        if (settings.nets & 1 << i)
            print_sums(shared, &settings, 1 << i, net_names[i], 0);
    print_sums(shared, &settings, ALL_NETS, "all", (double)(clock_now_ns() - begin) / NS_PER_S);
    return 0;
}
