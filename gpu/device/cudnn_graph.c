/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution as a graph of cuDNN's operators: the convolution, then an addition of the residual, one of the bias,
 * and the activation, each where there is one; what lies between two of them is virtual and f32. That is the order in
 * which cuDNN's own fused engines have them.
 */
#include <math.h>

#include "gpu/device/cudnn_backend.h"

enum { MOST_OPS = 4, ALIGNMENT = 16, FIRST_VIRTUAL = 100 };

/* ---- descriptors ---- */

static void note(struct dnn_set *set, unsigned status, const char *what) {
    if (status == 0 || set->status != 0)
        return;
    set->status = status;
    set->what = what;
}

void *dnn_new(struct dnn_set *set, unsigned kind, const char *what) {
    void *item = NULL;
    if (set->status != 0)
        return NULL;
    if (set->n == DNN_MOST) {
        note(set, 4003, what); /* as if there were no more memory */
        return NULL;
    }
    note(set, set->api->cudnnBackendCreateDescriptor(kind, &item), what);
    if (set->status != 0)
        return NULL;
    set->items[set->n++] = item;
    return item;
}

void dnn_put(struct dnn_set *set, void *item, unsigned attribute, unsigned type, int64_t n, const void *values) {
    if (set->status == 0)
        note(set, set->api->cudnnBackendSetAttribute(item, attribute, type, n, values), "Describing a convolution");
}

void dnn_put_item(struct dnn_set *set, void *item, unsigned attribute, void *value) {
    dnn_put(set, item, attribute, DNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void dnn_finish(struct dnn_set *set, void *item, const char *what) {
    if (set->status == 0)
        note(set, set->api->cudnnBackendFinalize(item), what);
}

void dnn_free(struct dnn_set *set) {
    while (set->n > 0)
        set->api->cudnnBackendDestroyDescriptor(set->items[--set->n]);
}

static void put_int(struct dnn_set *set, void *item, unsigned attribute, int64_t value) {
    dnn_put(set, item, attribute, DNN_TYPE_INT64, 1, &value);
}

static void put_pair(struct dnn_set *set, void *item, unsigned attribute, const int values[2]) {
    const int64_t wide[] = {values[0], values[1]};
    dnn_put(set, item, attribute, DNN_TYPE_INT64, 2, wide);
}

static void put_type(struct dnn_set *set, void *item, unsigned attribute, enum cudnn_type type) {
    unsigned number = type == CUDNN_F16 ? DNN_DATA_HALF : DNN_DATA_FLOAT;
    dnn_put(set, item, attribute, DNN_TYPE_DATA_TYPE, 1, &number);
}

/* ---- the graph ---- */

static void *tensor(struct dnn_set *set, const int dim[4], bool nhwc, enum cudnn_type type, int64_t id) {
    void *item = dnn_new(set, DNN_BACKEND_TENSOR_DESCRIPTOR, "Making a tensor");
    const int64_t c = dim[1], h = dim[2], w = dim[3], dims[] = {dim[0], c, h, w};
    const int64_t inner[] = {c * h * w, 1, w * c, c}, outer[] = {c * h * w, h * w, w, 1};
    bool is_virtual = id >= FIRST_VIRTUAL;
    put_type(set, item, DNN_ATTR_TENSOR_DATA_TYPE, type);
    dnn_put(set, item, DNN_ATTR_TENSOR_DIMENSIONS, DNN_TYPE_INT64, 4, dims);
    dnn_put(set, item, DNN_ATTR_TENSOR_STRIDES, DNN_TYPE_INT64, 4, nhwc ? inner : outer);
    put_int(set, item, DNN_ATTR_TENSOR_UNIQUE_ID, id);
    put_int(set, item, DNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
    if (is_virtual)
        dnn_put(set, item, DNN_ATTR_TENSOR_IS_VIRTUAL, DNN_TYPE_BOOLEAN, 1, &is_virtual);
    dnn_finish(set, item, "Finishing a tensor");
    return item;
}

static void *convolution(struct dnn_set *set, const struct cudnn_conv *conv, void *x, void *w, void *y) {
    void *item = dnn_new(set, DNN_BACKEND_CONVOLUTION_DESCRIPTOR, "Making a convolution");
    const unsigned mode = DNN_CROSS_CORRELATION;
    const float one = 1, zero = 0;
    put_type(set, item, DNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_F32);
    dnn_put(set, item, DNN_ATTR_CONVOLUTION_CONV_MODE, DNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    put_pair(set, item, DNN_ATTR_CONVOLUTION_DILATIONS, conv->dilation);
    put_pair(set, item, DNN_ATTR_CONVOLUTION_FILTER_STRIDES, conv->stride);
    put_pair(set, item, DNN_ATTR_CONVOLUTION_PRE_PADDINGS, conv->pad);
    put_pair(set, item, DNN_ATTR_CONVOLUTION_POST_PADDINGS, conv->pad + 2);
    put_int(set, item, DNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    dnn_finish(set, item, "Finishing a convolution");
    void *op = dnn_new(set, DNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "Making a convolution's operator");
    dnn_put_item(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, item);
    dnn_put_item(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    dnn_put_item(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    dnn_put_item(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    dnn_put(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, DNN_TYPE_FLOAT, 1, &one);
    dnn_put(set, op, DNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, DNN_TYPE_FLOAT, 1, &zero);
    dnn_finish(set, op, "Finishing a convolution's operator");
    return op;
}

/* y = x + b, or with b NULL y = the activation of x. */
static void *pointwise(struct dnn_set *set, const struct cudnn_conv *conv, void *x, void *b, void *y) {
    static const unsigned modes[CUDNN_ACTS] = {0, DNN_POINTWISE_RELU_FWD, DNN_POINTWISE_SIGMOID_FWD,
                                               DNN_POINTWISE_TANH_FWD, DNN_POINTWISE_SWISH_FWD};
    void *item = dnn_new(set, DNN_BACKEND_POINTWISE_DESCRIPTOR, "Making an operator");
    unsigned mode = b ? DNN_POINTWISE_ADD : modes[conv->act];
    const double upper = (double)conv->upper, slope = (double)conv->slope;
    dnn_put(set, item, DNN_ATTR_POINTWISE_MODE, DNN_TYPE_POINTWISE_MODE, 1, &mode);
    put_type(set, item, DNN_ATTR_POINTWISE_MATH_PREC, CUDNN_F32);
    if (mode == DNN_POINTWISE_RELU_FWD && isfinite(upper))
        dnn_put(set, item, DNN_ATTR_POINTWISE_RELU_UPPER_CLIP, DNN_TYPE_DOUBLE, 1, &upper);
    if (mode == DNN_POINTWISE_RELU_FWD && slope != 0)
        dnn_put(set, item, DNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, DNN_TYPE_DOUBLE, 1, &slope);
    dnn_finish(set, item, "Finishing an operator");
    void *op = dnn_new(set, DNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "Making a pointwise operator");
    dnn_put_item(set, op, DNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, item);
    dnn_put_item(set, op, DNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        dnn_put_item(set, op, DNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    dnn_put_item(set, op, DNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    dnn_finish(set, op, "Finishing a pointwise operator");
    return op;
}

/* The convolution and what follows it; gives their number. */
static int chain(struct dnn_set *set, const struct cudnn_conv *conv, void *ops[MOST_OPS]) {
    int left = (conv->bias != CUDNN_NOTHING) + conv->residual + (conv->act != CUDNN_NONE), n = 0;
    const int vector[] = {1, conv->y[1], 1, 1};
    int64_t id = 0, y_id = cudnn_conv_args(conv) - 1, residual_id = y_id - 1;
    void *x = tensor(set, conv->x, conv->nhwc, conv->type, id++);
    void *w = tensor(set, conv->w, conv->nhwc, conv->type, id++);
    void *addends[2] = {0};
    int n_addends = 0;
    if (conv->residual)
        addends[n_addends++] = tensor(set, conv->y, conv->nhwc, conv->type, residual_id);
    if (conv->bias != CUDNN_NOTHING)
        addends[n_addends++] = tensor(set, vector, conv->nhwc, conv->bias, id);
    void *y = tensor(set, conv->y, conv->nhwc, left ? CUDNN_F32 : conv->type, left ? FIRST_VIRTUAL : y_id);
    ops[n++] = convolution(set, conv, x, w, y);
    for (int i = 0; i < left; i++) {
        bool last = i == left - 1;
        void *next = tensor(set, conv->y, conv->nhwc, last ? conv->type : CUDNN_F32, last ? y_id : FIRST_VIRTUAL + n);
        ops[n++] = pointwise(set, conv, y, i < n_addends ? addends[i] : NULL, next);
        y = next;
    }
    return n;
}

void *dnn_graph(struct dnn_set *set, const struct cudnn *cudnn, const struct cudnn_conv *conv) {
    void *ops[MOST_OPS];
    int n = chain(set, conv, ops);
    void *graph = dnn_new(set, DNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "Making a graph");
    dnn_put(set, graph, DNN_ATTR_OPERATIONGRAPH_HANDLE, DNN_TYPE_HANDLE, 1, &cudnn->handle);
    dnn_put(set, graph, DNN_ATTR_OPERATIONGRAPH_OPS, DNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    dnn_finish(set, graph, "Finishing a graph");
    return graph;
}
