/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that look at a neighbourhood or along an axis: pools, reductions, softmax, batch norm, LRN. */
#include <math.h>

#include "service/model/eval_internal.h"

/* ---- Pools ---- */

/* A window's maximum or sum, the taps in the input, and those in the input and its declared padding. */
struct pooled {
    double max, sum;
    int64_t inside, padded;
};

static struct pooled pool_window(const struct eval *eval, int64_t plane, int64_t row, int64_t column) {
    const struct pool_attr *pool = &eval->node->attr.pool;
    const struct value *x = eval->in[0];
    int64_t height = x->shape.dim[2], width = x->shape.dim[3];
    int64_t top = row * pool->stride[0] - pool->pad[0], left = column * pool->stride[1] - pool->pad[1];
    struct pooled pooled = {.max = -INFINITY};
    for (int64_t r = 0; r < pool->kernel[0]; r++) {
        for (int64_t s = 0; s < pool->kernel[1]; s++) {
            int64_t h = top + r * pool->dilation[0], w = left + s * pool->dilation[1];
            pooled.padded += h < height + pool->pad[2] && w < width + pool->pad[3];
            if (h < 0 || h >= height || w < 0 || w >= width)
                continue;
            double value = eval_float(x, (plane * height + h) * width + w);
            pooled.inside++;
            pooled.sum += value;
            pooled.max = value > pooled.max ? value : pooled.max;
        }
    }
    return pooled;
}

int eval_pool(const struct eval *eval) {
    const struct pool_attr *pool = &eval->node->attr.pool;
    const int64_t *dim = eval->shape.dim;
    float *out = eval->data;
    if (eval_need_float(eval, 1))
        return -1;
    for (int64_t plane = 0; plane < dim[0] * dim[1]; plane++) {
        for (int64_t row = 0; row < dim[2]; row++) {
            for (int64_t column = 0; column < dim[3]; column++) {
                struct pooled pooled = pool_window(eval, plane, row, column);
                int64_t count = pool->count_include_pad ? pooled.padded : pooled.inside;
                *out++ = (float)(pool->kind == POOL_MAX ? pooled.max : pooled.sum / (double)count);
            }
        }
    }
    return 0;
}

/* ---- Reductions ---- */

/* Over `inner` elements from `walk` on; integers exactly. */
static double reduce_floats(const struct eval *eval, struct walk walk, int64_t inner) {
    const float *x = eval->in[0]->data;
    double sum = 0, max = -INFINITY;
    for (int64_t i = 0; i < inner; i++, walk_next(&walk)) {
        double value = x[walk.offset[0]];
        sum += value;
        max = value > max ? value : max;
    }
    switch (eval->node->attr.reduce.kind) {
    case REDUCE_MAX:
        return max;
    case REDUCE_MEAN:
        return sum / (double)inner;
    default:
        return sum;
    }
}

static int64_t reduce_ints(const struct eval *eval, struct walk walk, int64_t inner) {
    uint64_t sum = 0;
    int64_t max = INT64_MIN;
    for (int64_t i = 0; i < inner; i++, walk_next(&walk)) {
        int64_t value = eval_int(eval->in[0], walk.offset[0]);
        sum += (uint64_t)value;
        max = value > max ? value : max;
    }
    return eval->node->attr.reduce.kind == REDUCE_MAX ? max : (int64_t)sum;
}

/* Two walks over the input: the outer one by the kept dimensions, the inner one by those reduced. */
int eval_reduce(const struct eval *eval) {
    const struct value *x = eval->in[0];
    bool whole = x->dtype == DTYPE_I64 || x->dtype == DTYPE_I32;
    struct shape kept = x->shape, reduced = x->shape;
    struct walk outer, inner;
    int64_t stride[SHAPE_MAX_RANK];
    if (!whole && eval_need_float(eval, 1))
        return -1;
    eval_strides(x, stride);
    for (int i = 0; i < x->shape.rank; i++) {
        if (eval->node->attr.reduce.axes >> i & 1)
            kept.dim[i] = 1;
        else
            reduced.dim[i] = 1;
    }
    walk_init(&outer, &kept, 1);
    walk_init(&inner, &reduced, 1);
    for (int i = 0; i < x->shape.rank; i++)
        outer.stride[0][i] = inner.stride[0][i] = stride[i];
    for (int64_t i = 0; i < shape_count(&kept); i++, walk_next(&outer)) {
        inner.offset[0] = outer.offset[0];
        if (whole)
            eval_set_int(eval, i, reduce_ints(eval, inner, shape_count(&reduced)));
        else
            ((float *)eval->data)[i] = (float)reduce_floats(eval, inner, shape_count(&reduced));
    }
    return 0;
}

/* `count` elements, `step` apart: e^(x - max) / Σ, or x - max - log Σ. */
static void softmax_line(const struct eval *eval, int64_t first, int64_t step, int64_t count) {
    const struct value *x = eval->in[0];
    float *out = eval->data;
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        max = fmax(max, (double)eval_float(x, first + i * step));
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)eval_float(x, first + i * step) - max);
    for (int64_t i = 0; i < count; i++) {
        double shifted = (double)eval_float(x, first + i * step) - max;
        out[first + i * step] = (float)(eval->node->attr.softmax.log ? shifted - log(sum) : exp(shifted) / sum);
    }
}

int eval_softmax(const struct eval *eval) {
    int64_t outer = 1, inner = 1, axis = eval->node->attr.softmax.axis;
    if (eval_need_float(eval, 1))
        return -1;
    for (int i = 0; i < eval->shape.rank; i++) {
        outer *= i < axis ? eval->shape.dim[i] : 1;
        inner *= i > axis ? eval->shape.dim[i] : 1;
    }
    int64_t count = eval->shape.dim[axis];
    for (int64_t i = 0; i < outer * inner; i++)
        softmax_line(eval, i / inner * count * inner + i % inner, inner, count);
    return 0;
}

/* ---- By channel ---- */

static int64_t plane_size(const struct shape *shape) {
    int64_t size = 1;
    for (int i = 2; i < shape->rank; i++)
        size *= shape->dim[i];
    return size;
}

int eval_affine(const struct eval *eval) {
    int64_t size = plane_size(&eval->shape), channels = eval->shape.dim[1];
    float *out = eval->data;
    if (eval_need_float(eval, 3))
        return -1;
    for (int64_t i = 0; i < shape_count(&eval->shape); i++) {
        int64_t channel = i / size % channels;
        double y = (double)eval_float(eval->in[0], i) * (double)eval_float(eval->in[1], channel) +
                   (double)eval_float(eval->in[2], channel);
        out[i] = (float)eval_act(&eval->node->epilogue, y);
    }
    return 0;
}

/* x / (bias + alpha / size × Σ x² over `size` channels around)^beta */
int eval_lrn(const struct eval *eval) {
    const struct lrn_attr *lrn = &eval->node->attr.lrn;
    int64_t size = plane_size(&eval->shape), channels = eval->shape.dim[1];
    int64_t before = (lrn->size - 1) / 2, after = lrn->size / 2;
    float *out = eval->data;
    if (eval_need_float(eval, 1))
        return -1;
    for (int64_t i = 0; i < shape_count(&eval->shape); i++) {
        int64_t channel = i / size % channels;
        double sum = 0;
        for (int64_t c = channel - before; c <= channel + after; c++) {
            if (c < 0 || c >= channels)
                continue;
            double x = eval_float(eval->in[0], i + (c - channel) * size);
            sum += x * x;
        }
        double divisor = pow(lrn->bias + lrn->alpha / (double)lrn->size * sum, lrn->beta);
        out[i] = (float)((double)eval_float(eval->in[0], i) / divisor);
    }
    return 0;
}
