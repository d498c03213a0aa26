/* SPDX-License-Identifier: Apache-2.0 */
/* Resize: each dimension's positions are worked out once, then every element is sampled. */
#include <math.h>
#include <stdlib.h>

#include "service/model/eval_internal.h"

/* Position i of an output dimension lies between elements low and high of the input, `share` of the way. */
struct between {
    int64_t low, high;
    double share;
};

static double coordinate(const struct resize_attr *resize, int64_t i, double scale, int64_t in, int64_t out) {
    switch ((enum resize_coordinates)resize->coordinates) {
    case RESIZE_HALF_PIXEL:
        return ((double)i + 0.5) / scale - 0.5;
    case RESIZE_PYTORCH_HALF_PIXEL:
        return out > 1 ? ((double)i + 0.5) / scale - 0.5 : 0;
    case RESIZE_ASYMMETRIC:
        return (double)i / scale;
    case RESIZE_ALIGN_CORNERS:
        return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    }
    return 0;
}

static double rounded(const struct resize_attr *resize, double x) {
    switch ((enum resize_rounding)resize->rounding) {
    case RESIZE_ROUND_PREFER_FLOOR:
        return ceil(x - 0.5);
    case RESIZE_ROUND_PREFER_CEIL:
        return floor(x + 0.5);
    case RESIZE_FLOOR:
        return floor(x);
    case RESIZE_CEIL:
        return ceil(x);
    }
    return x;
}

static double within(double x, int64_t count) {
    return x < 0 ? 0 : x > (double)(count - 1) ? (double)(count - 1) : x;
}

static struct between locate(const struct resize_attr *resize, int64_t i, double scale, int64_t in, int64_t out) {
    double x = coordinate(resize, i, scale, in, out);
    if (resize->mode == RESIZE_NEAREST) {
        int64_t nearest = (int64_t)within(rounded(resize, x), in);
        return (struct between){nearest, nearest, 0};
    }
    x = within(x, in);
    int64_t low = (int64_t)x;
    return (struct between){low, low + 1 < in ? low + 1 : low, x - (double)low};
}

/* Of the sub-tensor at `offset`, of dimensions d and on. */
static double sample(const struct eval *eval, struct between *const *between, const int64_t *at, const int64_t *stride,
                     int d, int64_t offset) {
    if (d == eval->shape.rank)
        return (double)((const float *)eval->in[0]->data)[offset];
    struct between b = between[d][at[d]];
    double low = sample(eval, between, at, stride, d + 1, offset + b.low * stride[d]);
    if (b.share == 0)
        return low;
    return low + b.share * (sample(eval, between, at, stride, d + 1, offset + b.high * stride[d]) - low);
}

int eval_resize(const struct eval *eval) {
    const struct resize_attr *resize = &eval->node->attr.resize;
    struct between *between[SHAPE_MAX_RANK] = {0};
    int64_t stride[SHAPE_MAX_RANK];
    struct walk walk;
    bool memory = true;
    if (eval_need_float(eval, 1))
        return -1;
    eval_strides(eval->in[0], stride);
    for (int d = 0; d < eval->shape.rank; d++) {
        int64_t in = eval->in[0]->shape.dim[d], out = eval->shape.dim[d];
        between[d] = calloc((size_t)out, sizeof *between[d]);
        memory &= between[d] != NULL;
        for (int64_t i = 0; i < out && between[d]; i++)
            between[d][i] = locate(resize, i, resize->scale[d], in, out);
    }
    walk_init(&walk, &eval->shape, 0);
    for (int64_t i = 0; memory && i < shape_count(&eval->shape); i++, walk_next(&walk))
        ((float *)eval->data)[i] = (float)sample(eval, between, walk.at, stride, 0, 0);
    for (int d = 0; d < eval->shape.rank; d++)
        free(between[d]);
    return memory ? 0
                  : error_set(eval->error, ERROR_LIMIT, "out-of-memory", eval->node->name,
                              "There is not enough memory to evaluate a resize.");
}
