/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_cuda.c: NVIDIA's cuDNN as a template: a configuration is one of the plans that its heuristics propose for the
 * convolution with bias, residual and activation fused, by its place in their order. The program's launch names the
 * plan (cudnn_conv.h); whether there is one of that number, and whether it works, turns out where it is run, for
 * neither the library nor a device is needed here. What a module with such a launch needs is the very same cuDNN.
 *
 * In FP16 the bias goes in as it is (f32), for which cuDNN compiles a kernel, or in halves, for which it has many made
 * already. Its first two proposals are tried before all else; of the others, some of which take a second to compile,
 * only those that the search comes to from there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cudnn_conv.h"
#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"
#include "gpu/template/conv2d_shape.h"
#include "gpu/template/embed.h"

EMBED(cudnn_cuda_source, "gpu/template/cudnn.cu");

#define MIN_SM 75
#define PLANS 8
#define FIRST_PLANS 2
#define BLOCK 256

enum { BIAS_AS_IT_IS, BIAS_HALF };

/* ---- workloads ---- */

static enum cudnn_type type_of(enum dtype dtype) {
    return dtype == DTYPE_F32 ? CUDNN_F32 : dtype == DTYPE_F16 ? CUDNN_F16 : CUDNN_NOTHING;
}

/* Those that are one operator of cuDNN's. */
static bool take_act(const struct epilogue *epilogue, struct cudnn_conv *ret) {
    ret->upper = INFINITY;
    switch (epilogue->act) {
    case ACT_NONE:
        ret->act = CUDNN_NONE;
        return true;
    case ACT_RELU:
    case ACT_LEAKY_RELU:
        ret->act = CUDNN_RELU;
        ret->slope = epilogue->act == ACT_RELU ? 0 : (float)epilogue->alpha;
        return true;
    case ACT_CLIP:
        ret->act = CUDNN_RELU;
        ret->upper = (float)epilogue->beta;
        return epilogue->alpha == 0 && epilogue->beta > 0 && isfinite(epilogue->beta);
    case ACT_SIGMOID:
        ret->act = CUDNN_SIGMOID;
        return true;
    case ACT_TANH:
        ret->act = CUDNN_TANH;
        return true;
    case ACT_SILU:
        ret->act = CUDNN_SILU;
        return true;
    default:
        return false;
    }
}

/* A dense layer is a 1×1 convolution whose images are its rows. */
static void take_shape(const struct workload *workload, const struct conv2d_shape *s, struct cudnn_conv *ret) {
    bool dense = workload->op == OP_DENSE;
    int64_t n = dense ? s->w : s->n, w = dense ? 1 : s->w, ow = dense ? 1 : s->ow;
    const int x[] = {(int)n, (int)s->c, (int)s->h, (int)w}, y[] = {(int)n, (int)s->k, (int)s->oh, (int)ow};
    const int taps[] = {(int)s->k, (int)s->cg, (int)s->kh, (int)s->kw};
    memcpy(ret->x, x, sizeof x);
    memcpy(ret->w, taps, sizeof taps);
    memcpy(ret->y, y, sizeof y);
    for (int i = 0; i < 4 && !dense; i++)
        ret->pad[i] = (int)workload->attr.conv.pad[i];
    ret->stride[0] = (int)s->sh;
    ret->stride[1] = (int)s->sw;
    ret->dilation[0] = (int)s->dh;
    ret->dilation[1] = (int)s->dw;
}

static bool conv_of(const struct workload *workload, struct conv2d_shape *s, struct cudnn_conv *ret) {
    *ret = (struct cudnn_conv){0};
    if (!conv2d_shape_of_any(workload, s) || !fits_int(s->n * s->h * s->w * s->c) ||
        !fits_int(s->n * s->oh * s->ow * s->k) || !fits_int(s->k * s->cg * s->kh * s->kw))
        return false;
    ret->type = type_of(workload->in[0].dtype);
    ret->nhwc = s->nhwc;
    ret->residual = s->residual_in >= 0;
    ret->bias = s->bias_in >= 0 ? type_of(workload->in[s->bias_in].dtype) : CUDNN_NOTHING;
    take_shape(workload, s, ret);
    return ret->type != CUDNN_NOTHING && workload->in[1].dtype == workload->in[0].dtype &&
           workload->out[0].dtype == workload->in[0].dtype &&
           (s->residual_in < 0 || workload->in[s->residual_in].dtype == workload->in[0].dtype) &&
           (s->bias_in < 0 || ret->bias == CUDNN_F32 || ret->bias == ret->type) && take_act(&workload->epilogue, ret);
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    struct cudnn_conv conv;
    int sm = strncmp(target->arch, "sm_", 3) == 0 ? (int)strtol(target->arch + 3, NULL, 10) : 0;
    return sm >= MIN_SM && conv_of(workload, &s, &conv);
}

/* ---- the space ---- */

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t kinds[] = {BIAS_AS_IT_IS, BIAS_HALF};
    struct space *space = space_new(arena);
    struct conv2d_shape s;
    struct cudnn_conv conv;
    int64_t plans[PLANS];
    (void)target;
    for (int i = 0; i < PLANS; i++)
        plans[i] = i;
    space_choice(space, "plan", plans, PLANS);
    space_choice(space, "bias", kinds,
                 conv_of(workload, &s, &conv) && conv.type == CUDNN_F16 && conv.bias == CUDNN_F32 ? 2 : 1);
    return space;
}

/* cuDNN's first. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload, (void)target, (void)space;
    return 0;
}

/* An order, and no time: nothing is known of a plan but its place. */
static double estimate(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index) {
    int64_t plan = space_value(space, index, "plan", 0);
    (void)workload, (void)target;
    return (double)(plan + 1) * (plan < FIRST_PLANS ? 1e-9 : 1);
}

/* ---- rendering ---- */

struct rendering {
    struct arena *arena;
    struct program *program;
};

static void add_arg(struct launch *launch, enum arg_kind kind, int64_t index) {
    launch->args[launch->n_args++] = (struct arg){kind, (int)index};
}

/* A launch that prepares a buffer of its own; the buffer's argument. */
static struct arg add_prepare(struct rendering *r, const char *entry, int in, int64_t n, size_t bytes, int64_t channels,
                              int64_t taps) {
    struct program *program = r->program;
    struct launch *launch = &program->prepare[program->n_prepare++];
    *launch =
        (struct launch){.entry = entry, .grid = {(unsigned)((n + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
    program->prepared_bytes[program->n_prepared] = (size_t)n * bytes;
    add_arg(launch, ARG_IN, in);
    add_arg(launch, ARG_PREPARED, program->n_prepared);
    add_arg(launch, ARG_VALUE, n);
    if (taps > 0) {
        add_arg(launch, ARG_VALUE, channels);
        add_arg(launch, ARG_VALUE, taps);
    }
    return (struct arg){ARG_PREPARED, program->n_prepared++};
}

/* Weights lie as they are but for NHWC with both channels and taps. */
static struct arg weights(struct rendering *r, const struct conv2d_shape *s, const struct cudnn_conv *conv) {
    int64_t taps = s->kh * s->kw, n = s->k * s->cg * taps;
    if (!conv->nhwc || s->cg == 1 || taps == 1)
        return (struct arg){ARG_IN, 1};
    return conv->type == CUDNN_F16 ? add_prepare(r, "cudnn_turn_16", 1, n, 2, s->cg, taps)
                                   : add_prepare(r, "cudnn_turn_32", 1, n, 4, s->cg, taps);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct program *program = arena_alloc(arena, sizeof *program);
    struct rendering r = {arena, program};
    struct conv2d_shape s = {0};
    struct cudnn_conv conv;
    char entry[CUDNN_ENTRY_MAX];
    (void)target, (void)error;
    conv_of(workload, &s, &conv);
    program->source = cudnn_cuda_source;
    program->prepare = arena_array(arena, 2, sizeof *program->prepare);
    program->prepared_bytes = arena_array(arena, 2, sizeof *program->prepared_bytes);
    program->run = arena_array(arena, 1, sizeof *program->run);
    program->n_run = 1;
    struct launch *launch = &program->run[0];
    *launch = (struct launch){.grid = {1, 1, 1}, .block = {1, 1, 1}};
    add_arg(launch, ARG_IN, 0);
    launch->args[launch->n_args++] = weights(&r, &s, &conv);
    if (space_value(space, index, "bias", 0) == BIAS_HALF) {
        conv.bias = CUDNN_F16;
        launch->args[launch->n_args++] = add_prepare(&r, "cudnn_narrow", s.bias_in, s.k, 2, 0, 0);
    } else if (s.bias_in >= 0) {
        add_arg(launch, ARG_IN, s.bias_in);
    }
    if (s.residual_in >= 0)
        add_arg(launch, ARG_IN, s.residual_in);
    add_arg(launch, ARG_OUT, 0);
    cudnn_entry_print(&conv, (int)space_value(space, index, "plan", 0), 0, entry);
    launch->entry = arena_strdup(arena, entry);
    *ret = program;
    return 0;
}

const struct template cudnn_cuda = {
    .name = "cudnn.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = render,
    .dtypes = DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_F16),
    .library = "cuDNN",
    .estimate = estimate,
};
