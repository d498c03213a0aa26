/* SPDX-License-Identifier: Apache-2.0 */
/* Operators along axes: reductions, global pools, softmax. */
#include "service/model/onnx_internal.h"

static int emit_reduce(struct onnx_call *call, enum reduce_kind kind, int64_t axes, bool keep) {
    const struct value *x = onnx_input(call, 0);
    struct emit emit = {.op = OP_REDUCE, .dtype = x->dtype, .shape = x->shape, .n_in = 1, .in = {call->in[0]}};
    struct shape dropped = {0};
    int reduced;
    emit.attr.reduce.kind = kind;
    emit.attr.reduce.axes = axes;
    for (int i = 0; i < emit.shape.rank; i++) {
        if (emit.shape.dim[i] == 0)
            return onnx_bad(call, "its input is empty.");
        if (axes >> i & 1)
            emit.shape.dim[i] = 1;
        else
            dropped.dim[dropped.rank++] = emit.shape.dim[i];
    }
    if (onnx_emit(call, &emit, &reduced))
        return -1;
    return onnx_emit_reshape(call, reduced, keep ? &emit.shape : &dropped, &call->out[0]);
}

/* An integer mean would have to be rounded, so it is not taken. */
static int need_reducible(const struct onnx_call *call) {
    enum dtype dtype = onnx_input(call, 0)->dtype;
    bool whole = dtype == DTYPE_I32 || dtype == DTYPE_I64;
    return whole && call->op->param != REDUCE_MEAN ? 0 : onnx_need_float(call, 0);
}

/* Axes moved from an attribute to an input: in opset 13 for ReduceSum, in 18 for the others. */
static int reduce_axes(struct onnx_call *call, int64_t axes[SHAPE_MAX_RANK], int *ret_count, bool *ret_noop) {
    int opset = call->importer->opset;
    if (opset >= (call->op->param == REDUCE_SUM ? 13 : 18)) {
        return onnx_input_ints(call, 1, "list of axes", SHAPE_MAX_RANK, axes, ret_count) ||
                       onnx_attr_flag(call, "noop_with_empty_axes", ret_noop)
                   ? -1
                   : 0;
    }
    if (call->n_in > 1)
        return onnx_bad(call, "it takes its axes as an attribute in opset %d, not as an input.", opset);
    return onnx_attr_ints(call, "axes", SHAPE_MAX_RANK, axes, ret_count);
}

static int lower_reduce(struct onnx_call *call) {
    int rank = onnx_input(call, 0)->shape.rank, count;
    int64_t axes[SHAPE_MAX_RANK], mask;
    bool keep = true, noop = false;
    if (need_reducible(call) || onnx_attr_flag(call, "keepdims", &keep) || reduce_axes(call, axes, &count, &noop) ||
        onnx_axes(call, axes, count, rank, &mask))
        return -1;
    if (count <= 0 && noop) {
        call->out[0] = call->in[0];
        return 0;
    }
    if (count <= 0)
        mask = ((int64_t)1 << rank) - 1;
    return emit_reduce(call, (enum reduce_kind)call->op->param, mask, keep);
}

static int lower_global_pool(struct onnx_call *call) {
    int rank = onnx_input(call, 0)->shape.rank;
    if (onnx_need_float(call, 0))
        return -1;
    if (rank < 3)
        return onnx_bad(call, "its input has rank %d; it needs at least 3.", rank);
    return emit_reduce(call, (enum reduce_kind)call->op->param, ((int64_t)1 << rank) - 4, true);
}

static int emit_softmax(struct onnx_call *call, int value, int axis, int *ret) {
    const struct value *x = &call->importer->graph->values[value];
    struct emit emit = {.op = OP_SOFTMAX, .dtype = DTYPE_F32, .shape = x->shape, .n_in = 1, .in = {value}};
    emit.attr.softmax.axis = axis;
    emit.attr.softmax.log = call->op->param;
    return onnx_emit(call, &emit, ret);
}

static int softmax_axis(struct onnx_call *call, int64_t fallback, int *ret) {
    int64_t axis = fallback;
    if (onnx_need_float(call, 0) || onnx_attr_int(call, "axis", &axis))
        return -1;
    if (onnx_input(call, 0)->shape.rank == 0)
        return onnx_bad(call, "its input is a scalar.");
    return onnx_axis(call, axis, onnx_input(call, 0)->shape.rank, ret);
}

static int lower_softmax(struct onnx_call *call) {
    int axis;
    if (softmax_axis(call, -1, &axis))
        return -1;
    return emit_softmax(call, call->in[0], axis, &call->out[0]);
}

/* Before opset 13: over all dimensions from `axis` on, taken as one. */
static int lower_softmax_flat(struct onnx_call *call) {
    int axis, wide = 0, last, matrix, done;
    struct shape x = onnx_input(call, 0)->shape, flat = {2, {1, 1}};
    if (softmax_axis(call, 1, &axis))
        return -1;
    last = axis;
    for (int i = 0; i < x.rank; i++) {
        flat.dim[i >= axis] *= x.dim[i];
        if (i >= axis && x.dim[i] != 1) {
            wide++;
            last = i;
        }
    }
    if (wide <= 1) /* one dimension has all the elements */
        return emit_softmax(call, call->in[0], last, &call->out[0]);
    if (onnx_emit_reshape(call, call->in[0], &flat, &matrix) || emit_softmax(call, matrix, 1, &done))
        return -1;
    return onnx_emit_reshape(call, done, &x, &call->out[0]);
}

const struct onnx_op onnx_ops_reduce[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"ReduceMean", 1, ONNX_LATEST, 1, 2, 1, lower_reduce, REDUCE_MEAN},
    {"ReduceMax", 1, ONNX_LATEST, 1, 2, 1, lower_reduce, REDUCE_MAX},
    {"ReduceSum", 1, ONNX_LATEST, 1, 2, 1, lower_reduce, REDUCE_SUM},
    {"GlobalAveragePool", 1, ONNX_LATEST, 1, 1, 1, lower_global_pool, REDUCE_MEAN},
    {"GlobalMaxPool", 1, ONNX_LATEST, 1, 1, 1, lower_global_pool, REDUCE_MAX},
    {"Softmax", 1, 12, 1, 1, 1, lower_softmax_flat, 0},
    {"Softmax", 13, ONNX_LATEST, 1, 1, 1, lower_softmax, 0},
    {"LogSoftmax", 1, 12, 1, 1, 1, lower_softmax_flat, 1},
    {"LogSoftmax", 13, ONNX_LATEST, 1, 1, 1, lower_softmax, 1},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
