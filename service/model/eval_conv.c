/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions and matrix products. A convolution goes by tiles: a few output channels of one group by a run of output
 * pixels. For each input channel and tap, the input elements under that run are gathered once (zeros where there are
 * none), then added to each channel's sums with its weight: the gather knows strides, pads and dilation, and is all
 * that a transposed convolution does differently.
 */
#include <stdlib.h>
#include <string.h>

#include "service/model/eval_internal.h"

#define TILE_CHANNELS 16
#define TILE_PIXELS 512

/* ---- Convolutions ---- */

struct conv {
    const struct eval *eval;
    const struct conv_attr *attr;
    const struct value *x, *w, *bias, *residual; /* bias, residual: NULL when absent */
    bool transposed;
    int64_t in_channels, out_channels; /* of one group */
    int64_t in[2], out[2], taps[2];    /* height and width */
    int64_t channel_tiles, pixel_tiles;
};

struct tile {
    int64_t image, group, first_channel, first_pixel; /* channel within the group */
    int channels, pixels;
    double sum[TILE_CHANNELS][TILE_PIXELS];
    double gathered[TILE_PIXELS];
};

/* Where along dimension d the input lies for output position `out` and tap; -1 where there is none. */
static int64_t source(const struct conv *conv, int d, int64_t out, int64_t tap) {
    int64_t stride = conv->attr->stride[d], at = tap * conv->attr->dilation[d], pad = conv->attr->pad[d];
    if (conv->transposed) {
        int64_t scaled = out + pad - at;
        if (scaled < 0 || scaled % stride)
            return -1;
        return scaled / stride < conv->in[d] ? scaled / stride : -1;
    }
    int64_t in = out * stride - pad + at;
    return in >= 0 && in < conv->in[d] ? in : -1;
}

/* `count` output columns of one row, from `column` on; `row` is where the input's row starts. */
static void gather_row(const struct conv *conv, double *to, int64_t row, int64_t column, int64_t count, int64_t s) {
    if (conv->transposed) {
        for (int64_t i = 0; i < count; i++) {
            int64_t in = source(conv, 1, column + i, s);
            to[i] = in < 0 ? 0 : (double)eval_float(conv->x, row + in);
        }
        return;
    }
    const float *x = (const float *)conv->x->data + (conv->x->splat ? 0 : row);
    int64_t stride = conv->attr->stride[1], step = !conv->x->splat;
    int64_t in = column * stride - conv->attr->pad[1] + s * conv->attr->dilation[1];
    for (int64_t i = 0; i < count; i++, in += stride)
        to[i] = in >= 0 && in < conv->in[1] ? (double)x[in * step] : 0;
}

static void gather(const struct conv *conv, struct tile *tile, int64_t channel, int64_t r, int64_t s) {
    int64_t width = conv->out[1], groups = conv->attr->groups;
    int64_t plane = ((tile->image * groups + tile->group) * conv->in_channels + channel) * conv->in[0];
    int64_t row = tile->first_pixel / width, column = tile->first_pixel % width;
    for (int64_t i = 0, count; i < tile->pixels; i += count, row++, column = 0) {
        int64_t in_row = source(conv, 0, row, r);
        count = width - column < tile->pixels - i ? width - column : tile->pixels - i;
        if (in_row >= 0)
            gather_row(conv, tile->gathered + i, (plane + in_row) * conv->in[1], column, count, s);
        else
            memset(tile->gathered + i, 0, (size_t)count * sizeof *tile->gathered);
    }
}

static int64_t weight_at(const struct conv *conv, int64_t group, int64_t out, int64_t in, int64_t r, int64_t s) {
    int64_t pair = conv->transposed ? (group * conv->in_channels + in) * conv->out_channels + out
                                    : (group * conv->out_channels + out) * conv->in_channels + in;
    return (pair * conv->taps[0] + r) * conv->taps[1] + s;
}

/* In whole blocks, so that the compiler can use vectors; what lies past `count` is never read again. */
static void accumulate(double *restrict sum, const double *restrict x, double weight, int count) {
    for (int i = 0; i < count; i += 8) {
        for (int j = 0; j < 8; j++)
            sum[i + j] += weight * x[i + j];
    }
}

static void finish(const struct conv *conv, const struct tile *tile) {
    int64_t pixels = conv->out[0] * conv->out[1];
    for (int k = 0; k < tile->channels; k++) {
        int64_t channel = tile->group * conv->out_channels + tile->first_channel + k;
        int64_t at = (tile->image * conv->attr->groups * conv->out_channels + channel) * pixels + tile->first_pixel;
        double bias = conv->bias ? (double)eval_float(conv->bias, channel) : 0;
        for (int i = 0; i < tile->pixels; i++) {
            double sum = tile->sum[k][i] + bias;
            sum += conv->residual ? (double)eval_float(conv->residual, at + i) : 0;
            ((float *)conv->eval->data)[at + i] = (float)eval_act(&conv->eval->node->epilogue, sum);
        }
    }
}

static void conv_tile(const void *data, int64_t i) {
    const struct conv *conv = data;
    struct tile tile;
    tile.first_pixel = i % conv->pixel_tiles * TILE_PIXELS;
    i /= conv->pixel_tiles;
    tile.first_channel = i % conv->channel_tiles * TILE_CHANNELS;
    i /= conv->channel_tiles;
    tile.group = i % conv->attr->groups;
    tile.image = i / conv->attr->groups;
    int64_t channels = conv->out_channels - tile.first_channel, pixels = conv->out[0] * conv->out[1] - tile.first_pixel;
    tile.channels = (int)(channels < TILE_CHANNELS ? channels : TILE_CHANNELS);
    tile.pixels = (int)(pixels < TILE_PIXELS ? pixels : TILE_PIXELS);
    memset(tile.sum, 0, sizeof tile.sum);
    memset(tile.gathered, 0, sizeof tile.gathered);
    for (int64_t c = 0; c < conv->in_channels; c++) {
        for (int64_t r = 0; r < conv->taps[0]; r++) {
            for (int64_t s = 0; s < conv->taps[1]; s++) {
                gather(conv, &tile, c, r, s);
                for (int k = 0; k < tile.channels; k++) {
                    int64_t at = weight_at(conv, tile.group, tile.first_channel + k, c, r, s);
                    accumulate(tile.sum[k], tile.gathered, (double)eval_float(conv->w, at), tile.pixels);
                }
            }
        }
    }
    finish(conv, &tile);
}

int eval_conv(const struct eval *eval) {
    const struct node *node = eval->node;
    if (eval_need_float(eval, node->n_in))
        return -1;
    const int64_t *x = eval->in[0]->shape.dim, *w = eval->in[1]->shape.dim;
    int64_t groups = node->attr.conv.groups;
    struct conv conv = {.eval = eval,
                        .attr = &node->attr.conv,
                        .x = eval->in[0],
                        .w = eval->in[1],
                        .bias = node->epilogue.bias ? eval->in[2] : NULL,
                        .residual = node->epilogue.residual ? eval->in[node->n_in - 1] : NULL,
                        .transposed = node->op == OP_CONV_TRANSPOSE,
                        .in_channels = x[1] / groups,
                        .out_channels = eval->shape.dim[1] / groups,
                        .in = {x[2], x[3]},
                        .out = {eval->shape.dim[2], eval->shape.dim[3]},
                        .taps = {w[2], w[3]}};
    conv.channel_tiles = (conv.out_channels + TILE_CHANNELS - 1) / TILE_CHANNELS;
    conv.pixel_tiles = (conv.out[0] * conv.out[1] + TILE_PIXELS - 1) / TILE_PIXELS;
    eval_parallel(eval->shape.dim[0] * groups * conv.channel_tiles * conv.pixel_tiles, conv_tile, &conv);
    return 0;
}

/* ---- Matrix products ---- */

/* Sum of a[i × step_a] × b[i × step_b]; four sums at once, for their latency. */
static double dot(const float *a, int64_t step_a, const float *b, int64_t step_b, int64_t count) {
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int j = 0; j < 4; j++)
            sum[j] += (double)a[(i + j) * step_a] * (double)b[(i + j) * step_b];
    }
    for (; i < count; i++)
        sum[0] += (double)a[i * step_a] * (double)b[i * step_b];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

static const float *floats(const struct value *value, int64_t at) {
    return (const float *)value->data + (value->splat ? 0 : at);
}

static void dense_column(const void *data, int64_t n) {
    const struct eval *eval = data;
    const struct epilogue *epilogue = &eval->node->epilogue;
    const struct value *x = eval->in[0], *w = eval->in[1];
    int64_t rows = eval->shape.dim[0], columns = eval->shape.dim[1], depth = w->shape.dim[1];
    for (int64_t m = 0; m < rows; m++) {
        double sum = dot(floats(x, m * depth), !x->splat, floats(w, n * depth), !w->splat, depth);
        sum += epilogue->bias ? (double)eval_float(eval->in[2], n) : 0;
        sum += epilogue->residual ? (double)eval_float(eval->in[eval->node->n_in - 1], m * columns + n) : 0;
        ((float *)eval->data)[m * columns + n] = (float)eval_act(epilogue, sum);
    }
}

int eval_dense(const struct eval *eval) {
    if (eval_need_float(eval, eval->node->n_in))
        return -1;
    eval_parallel(eval->shape.dim[1], dense_column, eval);
    return 0;
}

/* Each matrix of the batch: the walk gives where its operands start. */
int eval_matmul(const struct eval *eval) {
    if (eval_need_float(eval, 2))
        return -1;
    int rank = eval->shape.rank;
    int64_t rows = eval->shape.dim[rank - 2], columns = eval->shape.dim[rank - 1];
    int64_t depth = eval->in[0]->shape.dim[eval->in[0]->shape.rank - 1];
    struct value a = *eval->in[0], b = *eval->in[1];
    struct shape batch = eval->shape;
    struct walk walk;
    batch.rank = rank - 2;
    walk_init(&walk, &batch, 2);
    a.shape.rank -= 2;
    b.shape.rank -= 2;
    walk_broadcast(&walk, 0, &a);
    walk_broadcast(&walk, 1, &b);
    float *out = eval->data;
    for (int64_t i = 0; i < shape_count(&batch); i++, walk_next(&walk)) {
        const float *left = floats(&a, walk.offset[0] * rows * depth);
        const float *right = floats(&b, walk.offset[1] * depth * columns);
        for (int64_t m = 0; m < rows; m++) {
            for (int64_t n = 0; n < columns; n++)
                *out++ = (float)dot(left + (a.splat ? 0 : m * depth), !a.splat, right + (b.splat ? 0 : n),
                                    b.splat ? 0 : columns, depth);
        }
    }
    return 0;
}
