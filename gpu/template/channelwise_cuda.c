/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channelwise_cuda.c: the space of channelwise.cu: channels, columns and rows of a thread, threads of a block, and
 * whether the shape is in the source or in the arguments. Serves depthwise convolutions (with any number of outputs a
 * channel) and pools, in FP16 and FP32, NHWC and NCHW.
 */
#include "gpu/template/channelwise.h"

#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"

#define EARLY_SM 90
#define MOST_TAPS 1024 /* of a window */
#define MOST_KERNEL_WIDTH 64
#define MOST_HELD_TAPS 49 /* above, the rows of the window are a loop */
#define MOST_UNROLLED 640 /* products of a thread in straight code: beyond, a compile takes over a quarter second */
#define MAX_REGISTERS 208 /* as estimated: beyond, ptxas spills */

/* ---- workloads ---- */

static bool is_float(enum dtype dtype) {
    return dtype == DTYPE_F16 || dtype == DTYPE_F32;
}

/* One type for all but the bias, which may be FP32 beside FP16. */
static bool types_fit(const struct workload *workload, const struct conv2d_shape *s) {
    enum dtype dtype = workload->out[0].dtype;
    for (int i = 0; i < workload->n_in; i++)
        if (workload->in[i].dtype != dtype && !(i == s->bias_in && workload->in[i].dtype == DTYPE_F32))
            return false;
    return is_float(dtype);
}

static bool sizes_fit(const struct conv2d_shape *s) {
    return s->kh * s->kw <= MOST_TAPS && s->kw <= MOST_KERNEL_WIDTH && fits_int(s->n * s->h * s->w * s->c) &&
           fits_int(s->n * s->oh * s->ow * s->k) && s->kh * s->dh < 1 << 20 && s->kw * s->dw < 1 << 20 &&
           s->sh < 1 << 10 && s->sw < 1 << 10;
}

static bool take_conv(const struct workload *workload, struct channelwise *ret) {
    struct conv2d_shape *s = &ret->shape;
    if (workload->op != OP_CONV || !conv2d_shape_of_any(workload, s) || s->cg != 1 || s->groups == 1)
        return false;
    ret->half_bias = s->bias_in >= 0 && workload->in[s->bias_in].dtype == DTYPE_F16;
    return true;
}

static bool take_pool(const struct workload *workload, struct channelwise *ret) {
    const struct pool_attr *pool = &workload->attr.pool;
    const struct operand *in = &workload->in[0], *out = &workload->out[0];
    if (workload->op != OP_POOL || in->layout != out->layout || shape_count(&out->shape) == 0)
        return false;
    const int64_t *x = in->shape.dim, *y = out->shape.dim;
    ret->shape = (struct conv2d_shape){.n = x[0],
                                       .h = x[2],
                                       .w = x[3],
                                       .c = x[1],
                                       .oh = y[2],
                                       .ow = y[3],
                                       .k = y[1],
                                       .kh = pool->kernel[0],
                                       .kw = pool->kernel[1],
                                       .sh = pool->stride[0],
                                       .sw = pool->stride[1],
                                       .dh = pool->dilation[0],
                                       .dw = pool->dilation[1],
                                       .pad_h = pool->pad[0],
                                       .pad_w = pool->pad[1],
                                       .groups = x[1],
                                       .cg = 1,
                                       .kg = 1,
                                       .nhwc = in->layout == LAYOUT_NHWC,
                                       .bias_in = -1,
                                       .residual_in = -1};
    ret->kind = pool->kind == POOL_MAX ? CHANNELWISE_MAX : CHANNELWISE_AVERAGE;
    ret->count_h = x[2] + (pool->count_include_pad ? pool->pad[2] : 0);
    ret->count_w = x[3] + (pool->count_include_pad ? pool->pad[3] : 0);
    ret->count_top = pool->count_include_pad ? -pool->pad[0] : 0;
    ret->count_left = pool->count_include_pad ? -pool->pad[1] : 0;
    return true;
}

bool channelwise_shape(const struct workload *workload, struct channelwise *ret) {
    *ret = (struct channelwise){0};
    if (!take_conv(workload, ret) && !take_pool(workload, ret))
        return false;
    ret->half = workload->out[0].dtype == DTYPE_F16;
    return types_fit(workload, &ret->shape) && sizes_fit(&ret->shape);
}

static bool serves_conv(const struct workload *workload, const struct target *target) {
    struct channelwise it;
    (void)target;
    return channelwise_shape(workload, &it) && it.kind == CHANNELWISE_CONV;
}

static bool serves_pool(const struct workload *workload, const struct target *target) {
    struct channelwise it;
    (void)target;
    return channelwise_shape(workload, &it) && it.kind != CHANNELWISE_CONV;
}

/* ---- the space ---- */

/* Vectors of up to 16 bytes whose channels lie together and come from as many; single ones where nothing else can be.
 */
static void choose_vec(struct space *space, const struct channelwise *it) {
    static const int64_t all[] = {8, 4, 2, 1};
    const struct conv2d_shape *s = &it->shape;
    int64_t values[ARRAY_COUNT(all)], n = 0;
    for (size_t i = it->half ? 0 : 1; i < ARRAY_COUNT(all); i++) {
        bool wide = s->nhwc && s->c == s->k && s->c % all[i] == 0;
        if (all[i] == 1 ? n == 0 || s->kw > 11 : wide)
            values[n++] = all[i];
    }
    space_choice(space, "vec", values, n);
}

/* Sevens: the images of most networks are 7, 14, 28, 56 or 112 wide. */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t columns[] = {1, 2, 4, 7, 8}, rows[] = {1, 2, 4}, threads[] = {64, 128, 256},
                         shapes[] = {ARGUMENTS, CONSTANTS};
    struct channelwise it;
    struct space *space = space_new(arena);
    channelwise_shape(workload, &it);
    (void)target;
    choose_vec(space, &it);
    cuda_choose_up_to(space, "tile_x", columns, ARRAY_COUNT(columns), it.shape.ow);
    cuda_choose_up_to(space, "tile_y", rows, ARRAY_COUNT(rows), it.shape.oh);
    space_choice(space, "threads", threads, ARRAY_COUNT(threads));
    space_choice(space, "shapes", shapes, ARRAY_COUNT(shapes));
    return space;
}

/* The best by the estimate, with the shape as constants; the first of equals. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    return cuda_best_estimated(channelwise_estimate, workload, target, space, space->size / 2);
}

/* ---- a configuration ---- */

/* Inputs that are read along one dimension: those that no output wants are not. */
static int64_t reads_of(int64_t outputs, int64_t stride, int64_t taps, int64_t dilation) {
    int64_t span = (outputs - 1) * stride + (taps - 1) * dilation + 1;
    return span < outputs * taps ? span : outputs * taps;
}

/* Sums, weights that are held, a row of the input (of a wide window: as floats), and places. */
static int64_t registers_of(const struct channelwise *t) {
    int64_t words = ceil_div(t->vec * (t->half ? 2 : 4), 4), taps = t->rolled ? t->shape.kw : t->shape.kh * t->shape.kw;
    int64_t weights = t->kind == CHANNELWISE_CONV ? taps * words : 0;
    int64_t row = t->columns * (t->shape.kw > 11 ? t->vec : words);
    return t->tx * t->ty * t->vec + weights + row + t->columns / 2 + 2 * t->vec + 24;
}

struct channelwise channelwise_of(const struct workload *workload, const struct target *target,
                                  const struct space *space, int64_t index) {
    struct channelwise t;
    channelwise_shape(workload, &t);
    const struct conv2d_shape *s = &t.shape;
    t.vec = space_value(space, index, "vec", 0);
    t.tx = space_value(space, index, "tile_x", 0);
    t.ty = space_value(space, index, "tile_y", 0);
    t.threads = space_value(space, index, "threads", 0);
    t.constants = space_value(space, index, "shapes", 0) == CONSTANTS;
    t.early = cuda_sm(target) >= EARLY_SM;
    t.rolled = s->kh * s->kw > MOST_HELD_TAPS || s->kh * s->kw * t.tx * t.ty * t.vec > MOST_UNROLLED;
    t.vectors = s->k / t.vec;
    t.tiles_x = ceil_div(s->ow, t.tx);
    t.tiles_y = ceil_div(s->oh, t.ty);
    t.items = s->n * t.vectors * t.tiles_x * t.tiles_y;
    t.rows = t.rolled ? s->kh * t.ty : reads_of(t.ty, s->sh, s->kh, s->dh);
    t.columns = reads_of(t.tx, s->sw, s->kw, s->dw);
    t.registers = registers_of(&t);
    return t;
}

int channelwise_check(const struct channelwise *t, const struct target *target, struct error *error) {
    int64_t unrolled = (t->rolled ? 1 : t->shape.kh) * t->shape.kw * t->tx * t->ty * t->vec;
    if (t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block are too many.",
                         (long long)t->threads);
    if (t->registers > MAX_REGISTERS || t->registers * t->threads > target->registers)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread needs about %lld registers.",
                         (long long)t->registers);
    if (unrolled > MOST_UNROLLED)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread's code has %lld products.",
                         (long long)unrolled);
    return 0;
}

const struct template depthwise_cuda = {
    .name = "depthwise.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves_conv,
    .space = make_space,
    .fallback = fallback,
    .render = channelwise_render,
    .dtypes = DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_F16),
    .estimate = channelwise_estimate,
    .nest = channelwise_nest,
    .banked = cuda_banked,
};

const struct template pool_cuda = {
    .name = "pool.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves_pool,
    .space = make_space,
    .fallback = fallback,
    .render = channelwise_render,
    .dtypes = DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_F16),
    .estimate = channelwise_estimate,
    .nest = channelwise_nest,
    .banked = cuda_banked,
};
