/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/conv2d_shape.h"

#include "service/model/narrow.h"

static bool is_nhwc(const struct operand *operand) {
    return operand->layout == LAYOUT_NHWC || operand->shape.rank == 2;
}

static bool is_nchw(const struct operand *operand) {
    return operand->layout == LAYOUT_ROW && operand->shape.rank == 4;
}

/* Do all activations (input, output, residual) lie in the same way? */
static bool layouts_agree(const struct workload *workload, bool (*lies)(const struct operand *)) {
    return lies(&workload->in[0]) && lies(&workload->out[0]) &&
           (!workload->epilogue.residual || lies(&workload->in[workload->n_in - 1]));
}

static bool all_f32(const struct workload *workload) {
    for (int i = 0; i < workload->n_in; i++) {
        if (workload->in[i].dtype != DTYPE_F32)
            return false;
    }
    return workload->out[0].dtype == DTYPE_F32;
}

static void take_conv(const struct workload *workload, struct conv2d_shape *ret) {
    const struct conv_attr *attr = &workload->attr.conv;
    const int64_t *x = workload->in[0].shape.dim, *w = workload->in[1].shape.dim, *y = workload->out[0].shape.dim;
    *ret = (struct conv2d_shape){
        .n = x[0],
        .h = x[2],
        .w = x[3],
        .c = x[1],
        .oh = y[2],
        .ow = y[3],
        .k = y[1],
        .kh = w[2],
        .kw = w[3],
        .sh = attr->stride[0],
        .sw = attr->stride[1],
        .dh = attr->dilation[0],
        .dw = attr->dilation[1],
        .pad_h = attr->pad[0],
        .pad_w = attr->pad[1],
        .groups = attr->groups,
    };
}

static void take_dense(const struct workload *workload, struct conv2d_shape *ret) {
    const int64_t *x = workload->in[0].shape.dim, *y = workload->out[0].shape.dim;
    *ret = (struct conv2d_shape){
        .n = 1,
        .h = 1,
        .w = x[0],
        .c = x[1],
        .oh = 1,
        .ow = y[0],
        .k = y[1],
        .kh = 1,
        .kw = 1,
        .sh = 1,
        .sw = 1,
        .dh = 1,
        .dw = 1,
        .groups = 1,
    };
}

bool conv2d_shape_of(const struct workload *workload, struct conv2d_shape *ret) {
    return conv2d_shape_of_any(workload, ret) && all_f32(workload);
}

bool conv2d_shape_of_any(const struct workload *workload, struct conv2d_shape *ret) {
    if ((workload->op != OP_CONV && workload->op != OP_DENSE) ||
        workload->in[0].shape.rank != (workload->op == OP_CONV ? 4 : 2))
        return false;
    bool nhwc = layouts_agree(workload, is_nhwc);
    if (!nhwc && !layouts_agree(workload, is_nchw))
        return false;
    if (workload->op == OP_CONV)
        take_conv(workload, ret);
    else
        take_dense(workload, ret);
    if (shape_count(&workload->out[0].shape) == 0 || shape_count(&workload->in[1].shape) == 0)
        return false;
    ret->nhwc = nhwc;
    ret->cg = ret->c / ret->groups;
    ret->kg = ret->k / ret->groups;
    ret->epilogue = workload->epilogue;
    ret->bias_in = workload->epilogue.bias ? 2 : -1;
    ret->residual_in = workload->epilogue.residual ? workload->n_in - 1 : -1;
    return true;
}

void conv2d_shape_flatten(struct conv2d_shape *shape) {
    bool pointwise = shape->kh == 1 && shape->kw == 1 && shape->sh == 1 && shape->sw == 1 && shape->pad_h == 0 &&
                     shape->pad_w == 0 && shape->oh == shape->h && shape->ow == shape->w;
    if (!pointwise)
        return;
    int64_t images = shape->nhwc ? shape->n : 1; /* NCHW has the channels between one image's pixels and the next's */
    shape->w = shape->ow = images * shape->h * shape->w;
    shape->h = shape->oh = 1;
    shape->n /= images;
}

void conv2d_add_args(const struct conv2d_shape *shape, struct launch *launch) {
    launch->args[launch->n_args++] = (struct arg){ARG_IN, 0};
    launch->args[launch->n_args++] = (struct arg){ARG_OUT, 0};
    if (shape->bias_in >= 0)
        launch->args[launch->n_args++] = (struct arg){ARG_IN, shape->bias_in};
    if (shape->residual_in >= 0)
        launch->args[launch->n_args++] = (struct arg){ARG_IN, shape->residual_in};
}

static bool is_nhwc_of(enum dtype dtype, const struct operand *operand) {
    return operand->dtype == dtype && is_nhwc(operand);
}

/* All are of the first one's type; a bias may be f32. */
static bool types_fit(const struct workload *workload, const struct conv2d_shape *s) {
    const struct operand *in = workload->in;
    enum dtype dtype = in[0].dtype;
    return (dtype_is_narrow(dtype) || (dtype == DTYPE_F32 && workload->tf32)) && is_nhwc_of(dtype, &in[0]) &&
           in[1].dtype == dtype && is_nhwc_of(dtype, &workload->out[0]) &&
           (s->bias_in < 0 || in[s->bias_in].dtype == DTYPE_F32 || in[s->bias_in].dtype == dtype) &&
           (s->residual_in < 0 || is_nhwc_of(dtype, &in[s->residual_in]));
}

bool conv2d_tensor_shape(const struct workload *workload, struct conv2d_shape *ret) {
    if (!conv2d_shape_of_any(workload, ret) || !types_fit(workload, ret))
        return false;
    conv2d_shape_flatten(ret);
    return true;
}
