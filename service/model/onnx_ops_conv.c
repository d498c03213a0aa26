/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools, and the normalisations that go with them. */
#include <math.h>
#include <string.h>

#include "service/model/onnx_window.h"

/* ---- Conv, ConvTranspose ---- */

/* The operands of a convolution as images, checked as far as both kinds agree. */
struct conv {
    struct window window;
    int64_t groups;
    int x, w;
    struct shape x_shape, w_shape; /* rank 4 */
};

static int conv_groups(struct onnx_call *call, struct conv *conv) {
    conv->groups = 1;
    if (onnx_attr_int(call, "group", &conv->groups))
        return -1;
    int64_t groups = conv->groups, channels = conv->x_shape.dim[1];
    if (groups < 1 || channels % groups)
        return onnx_bad(call, "its %lld groups do not divide its %lld input channels.", (long long)groups,
                        (long long)channels);
    return 0;
}

static int conv_kernel(struct onnx_call *call, struct conv *conv) {
    for (int i = 0; i < 2; i++) {
        int64_t size = conv->w_shape.dim[2 + i];
        if (onnx_attr(call, "kernel_shape") && conv->window.kernel[i] != size)
            return onnx_bad(call, "its kernel_shape does not agree with its weights of shape %s.",
                            onnx_shape_text(call, &onnx_input(call, 1)->shape));
        if (size > ONNX_MAX_WINDOW)
            return onnx_bad(call, "its kernel has size %lld; at most %d is supported.", (long long)size,
                            ONNX_MAX_WINDOW);
        conv->window.kernel[i] = size;
    }
    return 0;
}

static int conv_read(struct onnx_call *call, struct conv *conv) {
    struct graph *graph = call->importer->graph;
    int rank = onnx_input(call, 0)->shape.rank;
    if (onnx_need_float(call, 0) || onnx_need_float(call, 1) || onnx_need_constant(call, 1, "weight") ||
        window_read(call, rank - 2, &conv->window) || window_read_dilations(call, &conv->window))
        return -1;
    if (onnx_input(call, 1)->shape.rank != rank)
        return onnx_bad(call, "its weights have rank %d and its input rank %d.", onnx_input(call, 1)->shape.rank, rank);
    if (onnx_check_shape(call, &onnx_input(call, 1)->shape, false))
        return -1;
    if (window_to_image(call, call->in[0], &conv->x) || window_to_image(call, call->in[1], &conv->w))
        return -1;
    conv->x_shape = graph->values[conv->x].shape;
    conv->w_shape = graph->values[conv->w].shape;
    return conv_groups(call, conv) || conv_kernel(call, conv) ? -1 : 0;
}

static int conv_emit(struct onnx_call *call, const struct conv *conv, enum op op, int64_t channels, int64_t height,
                     int64_t width) {
    struct emit emit = {.op = op, .dtype = DTYPE_F32, .n_in = 2, .in = {conv->x, conv->w}};
    emit.shape = (struct shape){4, {conv->x_shape.dim[0], channels, height, width}};
    emit.attr.conv.groups = conv->groups;
    memcpy(emit.attr.conv.stride, conv->window.stride, sizeof emit.attr.conv.stride);
    memcpy(emit.attr.conv.dilation, conv->window.dilation, sizeof emit.attr.conv.dilation);
    memcpy(emit.attr.conv.pad, conv->window.pad, sizeof emit.attr.conv.pad);
    const struct value *bias = onnx_input(call, 2);
    if (bias) {
        if (onnx_need_float(call, 2) || onnx_need_constant(call, 2, "bias"))
            return -1;
        if (bias->shape.rank != 1 || bias->shape.dim[0] != channels)
            return onnx_bad(call, "its bias has shape %s; it must have one number for each of %lld output channels.",
                            onnx_shape_text(call, &bias->shape), (long long)channels);
        emit.epilogue.bias = true;
        emit.in[emit.n_in++] = call->in[2];
    }
    int image;
    if (onnx_emit(call, &emit, &image))
        return -1;
    return window_from_image(call, image, conv->window.spatial, &call->out[0]);
}

static int lower_conv(struct onnx_call *call) {
    struct conv conv;
    int64_t out[2];
    if (conv_read(call, &conv))
        return -1;
    int64_t filters = conv.w_shape.dim[0], channels = conv.x_shape.dim[1];
    if (conv.w_shape.dim[1] != channels / conv.groups || filters % conv.groups)
        return onnx_bad(call, "its weights of shape %s do not fit %lld input channels in %lld groups.",
                        onnx_shape_text(call, &onnx_input(call, 1)->shape), (long long)channels,
                        (long long)conv.groups);
    for (int i = 0; i < 2; i++) {
        if (window_count(call, &conv.window, i, conv.x_shape.dim[2 + i], false, &out[i]))
            return -1;
    }
    return conv_emit(call, &conv, OP_CONV, filters, out[0], out[1]);
}

/* Resolves auto_pad and output_shape into pads; what is left over is the output's size. */
static int transpose_size(const struct onnx_call *call, struct window *window, int i, int64_t in, int64_t wanted,
                          int64_t output_padding, int64_t *ret) {
    bool same = window->auto_pad == AUTO_PAD_SAME_UPPER || window->auto_pad == AUTO_PAD_SAME_LOWER;
    int64_t stride = window->stride[i], dilation = window->dilation[i];
    int64_t whole = stride * (in - 1) + output_padding + window_extent(window, i);
    if (output_padding >= (stride > dilation ? stride : dilation) && output_padding > 0)
        return onnx_bad(call, "its output_padding of %lld is not less than its stride or dilation.",
                        (long long)output_padding);
    if (!wanted && same)
        wanted = in * stride;
    if (wanted > whole)
        return onnx_bad(call, "its output would have %lld elements along the %s, more than the %lld that it computes.",
                        (long long)wanted, i ? "width" : "height", (long long)whole);
    if (wanted)
        window_split_pad(window, i, whole - wanted, window->auto_pad == AUTO_PAD_SAME_UPPER);
    *ret = whole - window->pad[i] - window->pad[2 + i];
    if (*ret < 1)
        return onnx_bad(call, "its padding leaves nothing along the %s.", i ? "width" : "height");
    if (window->pad[i] > ONNX_MAX_WINDOW || window->pad[2 + i] > ONNX_MAX_WINDOW)
        return onnx_bad(call, "its padding along the %s is more than %d.", i ? "width" : "height", ONNX_MAX_WINDOW);
    return 0;
}

static int lower_conv_transpose(struct onnx_call *call) {
    struct conv conv;
    int64_t output_padding[2] = {0, 0}, wanted[2] = {0, 0}, out[2];
    if (conv_read(call, &conv) || window_read_list(call, "output_padding", conv.window.spatial, 0, output_padding) ||
        window_read_list(call, "output_shape", conv.window.spatial, 1, wanted))
        return -1;
    if (conv.w_shape.dim[0] != conv.x_shape.dim[1])
        return onnx_bad(call, "its weights of shape %s do not fit %lld input channels.",
                        onnx_shape_text(call, &onnx_input(call, 1)->shape), (long long)conv.x_shape.dim[1]);
    for (int i = 0; i < 2; i++) {
        if (transpose_size(call, &conv.window, i, conv.x_shape.dim[2 + i], wanted[i], output_padding[i], &out[i]))
            return -1;
    }
    return conv_emit(call, &conv, OP_CONV_TRANSPOSE, conv.w_shape.dim[1] * conv.groups, out[0], out[1]);
}

/* ---- MaxPool, AveragePool ---- */

/* A window that touches no element of the input has no maximum and no mean. */
static bool all_touch(const struct window *window, int i, int64_t in, int64_t count) {
    int64_t stride = window->stride[i], dilation = window->dilation[i], pad = window->pad[i];
    for (int64_t n = 0; n < count && n * stride < pad; n++) {
        int64_t start = n * stride - pad, tap = (-start + dilation - 1) / dilation;
        if (tap >= window->kernel[i] || start + tap * dilation >= in)
            return false;
    }
    return (count - 1) * stride - pad < in;
}

static int pool_read(struct onnx_call *call, enum pool_kind kind, struct window *window, struct pool_attr *attr,
                     bool *ceil_mode) {
    int opset = call->importer->opset;
    bool include_pad = false;
    if (onnx_need_float(call, 0) || window_read(call, onnx_input(call, 0)->shape.rank - 2, window))
        return -1;
    if (!onnx_attr(call, "kernel_shape"))
        return onnx_bad(call, "it has no kernel_shape.");
    if (opset >= 10 && onnx_attr_flag(call, "ceil_mode", ceil_mode))
        return -1;
    if (opset >= (kind == POOL_MAX ? 10 : 19) && window_read_dilations(call, window))
        return -1;
    if (kind == POOL_AVERAGE && onnx_attr_flag(call, "count_include_pad", &include_pad))
        return -1;
    if (kind == POOL_MAX)
        onnx_attr_ignore(call, "storage_order"); /* of the second output */
    attr->kind = kind;
    attr->count_include_pad = include_pad;
    return 0;
}

static int lower_pool(struct onnx_call *call) {
    struct window window;
    struct emit emit = {.op = OP_POOL, .dtype = DTYPE_F32, .n_in = 1};
    bool ceil_mode = false;
    int image;
    if (pool_read(call, (enum pool_kind)call->op->param, &window, &emit.attr.pool, &ceil_mode) ||
        window_to_image(call, call->in[0], &emit.in[0]))
        return -1;
    emit.shape = call->importer->graph->values[emit.in[0]].shape;
    for (int i = 0; i < 2; i++) {
        int64_t in = emit.shape.dim[2 + i], count;
        if (window_count(call, &window, i, in, ceil_mode, &count))
            return -1;
        if (!all_touch(&window, i, in, count))
            return onnx_bad(call, "its pads are so large that a window along the %s lies in padding only.",
                            i ? "width" : "height");
        emit.shape.dim[2 + i] = count;
        emit.attr.pool.kernel[i] = window.kernel[i];
        emit.attr.pool.stride[i] = window.stride[i];
        emit.attr.pool.dilation[i] = window.dilation[i];
        emit.attr.pool.pad[i] = window.pad[i];
        emit.attr.pool.pad[2 + i] = window.pad[2 + i];
    }
    if (onnx_emit(call, &emit, &image))
        return -1;
    return window_from_image(call, image, window.spatial, &call->out[0]);
}

/* ---- BatchNormalization, LRN ---- */

static int norm_mode(struct onnx_call *call) {
    bool spatial = true, training = false;
    onnx_attr_ignore(call, "momentum"); /* of training */
    if (call->importer->opset < 9 && onnx_attr_flag(call, "spatial", &spatial))
        return -1;
    if (call->importer->opset >= 14 && onnx_attr_flag(call, "training_mode", &training))
        return -1;
    if (!spatial)
        return onnx_bad(call, "spatial=0, statistics for each activation, is not supported.");
    if (training || (call->importer->opset < 14 && call->n_out > 1))
        return onnx_bad(call, "it is in training mode, which is not supported; export the model for inference.");
    return 0;
}

static double channel_number(const struct value *value, size_t i) {
    return ((const float *)value->data)[value->splat ? 0 : i];
}

/* out = x × scale / √(var + ε) + (shift - mean × scale / √(var + ε)) */
static int lower_batch_norm(struct onnx_call *call) {
    static const char *const names[] = {"input", "scale", "bias", "mean", "variance"};
    const struct value *v[5] = {onnx_input(call, 0)};
    double epsilon = 1e-5f;
    if (norm_mode(call) || onnx_attr_float(call, "epsilon", &epsilon) || onnx_need_float(call, 0))
        return -1;
    struct shape x = v[0]->shape;
    if (x.rank < 2)
        return onnx_bad(call, "its input has rank %d; it needs at least 2.", x.rank);
    bool splat = true;
    for (int i = 1; i < 5; i++) {
        v[i] = onnx_input(call, i);
        if (onnx_need_constant(call, i, names[i]) || onnx_need_float(call, i))
            return -1;
        if (v[i]->shape.rank != 1 || v[i]->shape.dim[0] != x.dim[1])
            return onnx_bad(call, "its %s has shape %s; it must have one number for each of %lld channels.", names[i],
                            onnx_shape_text(call, &v[i]->shape), (long long)x.dim[1]);
        splat &= v[i]->splat;
    }
    struct shape per_channel = {1, {x.dim[1]}};
    struct emit emit = {.op = OP_AFFINE, .dtype = DTYPE_F32, .shape = x, .n_in = 3, .in = {call->in[0]}};
    void *scale, *shift;
    if (onnx_add_constant(call, DTYPE_F32, &per_channel, splat, &emit.in[1], &scale) ||
        onnx_add_constant(call, DTYPE_F32, &per_channel, splat, &emit.in[2], &shift))
        return -1;
    for (int i = 1; i < 5; i++)
        v[i] = onnx_input(call, i);
    for (size_t i = 0; i < (splat ? 1 : (size_t)x.dim[1]); i++) {
        double factor = channel_number(v[1], i) / sqrt(channel_number(v[4], i) + epsilon);
        ((float *)scale)[i] = (float)factor;
        ((float *)shift)[i] = (float)(channel_number(v[2], i) - channel_number(v[3], i) * factor);
    }
    return onnx_emit(call, &emit, &call->out[0]);
}

static int lower_lrn(struct onnx_call *call) {
    struct emit emit = {.op = OP_LRN, .dtype = DTYPE_F32, .n_in = 1, .in = {call->in[0]}};
    struct lrn_attr *lrn = &emit.attr.lrn;
    lrn->alpha = 1e-4f;
    lrn->beta = 0.75;
    lrn->bias = 1;
    if (onnx_need_float(call, 0) || onnx_attr_int(call, "size", &lrn->size) ||
        onnx_attr_float(call, "alpha", &lrn->alpha) || onnx_attr_float(call, "beta", &lrn->beta) ||
        onnx_attr_float(call, "bias", &lrn->bias))
        return -1;
    if (lrn->size < 1 || lrn->size > ONNX_MAX_WINDOW)
        return onnx_bad(call, "its size is %lld; it must lie between 1 and %d.", (long long)lrn->size, ONNX_MAX_WINDOW);
    emit.shape = onnx_input(call, 0)->shape;
    if (emit.shape.rank != 4)
        return onnx_bad(call, "its input has rank %d; only 4 is supported.", emit.shape.rank);
    return onnx_emit(call, &emit, &call->out[0]);
}

const struct onnx_op onnx_ops_conv[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"Conv", 1, ONNX_LATEST, 2, 3, 1, lower_conv, 0},
    {"ConvTranspose", 1, ONNX_LATEST, 2, 3, 1, lower_conv_transpose, 0},
    {"MaxPool", 1, 7, 1, 1, 1, lower_pool, POOL_MAX},
    {"MaxPool", 8, ONNX_LATEST, 1, 1, 2, lower_pool, POOL_MAX},
    {"AveragePool", 7, ONNX_LATEST, 1, 1, 1, lower_pool, POOL_AVERAGE},
    {"BatchNormalization", 7, ONNX_LATEST, 5, 5, 5, lower_batch_norm, 0},
    {"LRN", 1, ONNX_LATEST, 1, 1, 1, lower_lrn, 0},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
