/* SPDX-License-Identifier: Apache-2.0 */
/* The same elements under another shape or in another order, and several tensors as one. */
#include <string.h>

#include "service/model/onnx_internal.h"

#define MAX_CONCAT 4096

static int lower_identity(struct onnx_call *call) {
    call->out[0] = call->in[0];
    return 0;
}

/* At inference nothing is dropped. */
static int lower_dropout(struct onnx_call *call) {
    double training = 0;
    onnx_attr_ignore(call, "ratio");
    onnx_attr_ignore(call, "seed");
    if (call->importer->opset >= 12 && onnx_input_number(call, 2, "training mode", &training))
        return -1;
    if (training != 0)
        return onnx_bad(call, "it is in training mode, which is not supported; export the model for inference.");
    call->out[0] = call->in[0];
    return 0;
}

static int lower_flatten(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape, flat = {2, {1, 1}};
    int64_t axis = 1;
    if (onnx_attr_int(call, "axis", &axis))
        return -1;
    if (axis < -x.rank || axis > x.rank)
        return onnx_bad(call, "axis %lld is outside its input of rank %d.", (long long)axis, x.rank);
    axis += axis < 0 ? x.rank : 0;
    for (int i = 0; i < x.rank; i++)
        flat.dim[i >= axis] *= x.dim[i];
    return onnx_emit_reshape(call, call->in[0], &flat, &call->out[0]);
}

/* ---- Reshape, Squeeze, Unsqueeze ---- */

/* Fills in the dimension that is -1, if there is one, so that `count` elements fit. */
static int infer_dim(const struct onnx_call *call, struct shape *shape, int64_t count) {
    int64_t known = 1;
    int unknown = -1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == -1 && unknown >= 0)
            return onnx_bad(call, "its shape has more than one -1.");
        if (shape->dim[i] == -1)
            unknown = i;
        else if (shape->dim[i] < 0)
            return onnx_bad(call, "its shape holds %lld.", (long long)shape->dim[i]);
        else if (__builtin_mul_overflow(known, shape->dim[i], &known))
            return onnx_bad(call, "its shape has too many elements.");
    }
    if (unknown >= 0)
        shape->dim[unknown] = known && count % known == 0 ? count / known : 0;
    return 0;
}

static int lower_reshape(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape, shape = {0};
    bool allow_zero = false;
    int64_t count = shape_count(&x);
    if (call->importer->opset >= 14 && onnx_attr_flag(call, "allowzero", &allow_zero))
        return -1;
    if (onnx_input_ints(call, 1, "shape", SHAPE_MAX_RANK, shape.dim, &shape.rank))
        return -1;
    const char *asked = onnx_shape_text(call, &shape);
    for (int i = 0; i < shape.rank && !allow_zero; i++) {
        if (shape.dim[i] == 0 && i >= x.rank)
            return onnx_bad(call, "its shape %s copies dimension %d, which its input of rank %d does not have.", asked,
                            i, x.rank);
        if (shape.dim[i] == 0)
            shape.dim[i] = x.dim[i];
    }
    if (infer_dim(call, &shape, count))
        return -1;
    int64_t made = 1;
    for (int i = 0; i < shape.rank; i++) {
        if (__builtin_mul_overflow(made, shape.dim[i], &made))
            return onnx_bad(call, "its shape %s has too many elements.", asked);
    }
    if (made != count)
        return onnx_bad(call, "%lld elements of shape %s do not fit the shape %s.", (long long)count,
                        onnx_shape_text(call, &x), asked);
    return onnx_emit_reshape(call, call->in[0], &shape, &call->out[0]);
}

/* Axes moved from an attribute to an input in opset 13. */
static int read_axes(struct onnx_call *call, int64_t axes[SHAPE_MAX_RANK], int *ret_count) {
    if (call->importer->opset >= 13)
        return onnx_input_ints(call, 1, "list of axes", SHAPE_MAX_RANK, axes, ret_count);
    if (call->n_in > 1)
        return onnx_bad(call, "it takes its axes as an attribute in opset %d, not as an input.", call->importer->opset);
    return onnx_attr_ints(call, "axes", SHAPE_MAX_RANK, axes, ret_count);
}

static int lower_squeeze(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape, out = {0};
    int64_t axes[SHAPE_MAX_RANK], mask;
    int count;
    if (read_axes(call, axes, &count) || onnx_axes(call, axes, count, x.rank, &mask))
        return -1;
    for (int i = 0; i < x.rank; i++) {
        bool drop = count < 0 ? x.dim[i] == 1 : mask >> i & 1;
        if (drop && x.dim[i] != 1)
            return onnx_bad(call, "dimension %d of its input is %lld; only 1 can be squeezed.", i, (long long)x.dim[i]);
        if (!drop)
            out.dim[out.rank++] = x.dim[i];
    }
    return onnx_emit_reshape(call, call->in[0], &out, &call->out[0]);
}

static int lower_unsqueeze(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape, out = {0};
    int64_t axes[SHAPE_MAX_RANK], mask;
    int count, from = 0;
    if (read_axes(call, axes, &count))
        return -1;
    if (count < 0)
        return onnx_bad(call, "it has no axes.");
    if (x.rank + count > SHAPE_MAX_RANK)
        return onnx_bad(call, "its result would have rank %d; at most %d is supported.", x.rank + count,
                        SHAPE_MAX_RANK);
    out.rank = x.rank + count;
    if (onnx_axes(call, axes, count, out.rank, &mask))
        return -1;
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = mask >> i & 1 ? 1 : x.dim[from++];
    return onnx_emit_reshape(call, call->in[0], &out, &call->out[0]);
}

/* ---- Transpose, Concat, Expand ---- */

static int lower_transpose(struct onnx_call *call) {
    int rank = onnx_input(call, 0)->shape.rank, count;
    int64_t perm[SHAPE_MAX_RANK], mask;
    if (onnx_attr_ints(call, "perm", SHAPE_MAX_RANK, perm, &count))
        return -1;
    for (int i = 0; i < rank && count < 0; i++)
        perm[i] = rank - 1 - i;
    if (count >= 0 && count != rank)
        return onnx_bad(call, "its perm lists %d dimensions; its input has rank %d.", count, rank);
    for (int i = 0; i < count; i++) {
        if (perm[i] < 0)
            return onnx_bad(call, "its perm holds %lld.", (long long)perm[i]);
    }
    if (onnx_axes(call, perm, count, rank, &mask))
        return -1;
    return onnx_emit_transpose(call, call->in[0], perm, &call->out[0]);
}

/* One more operand of a concatenation: alike but along the axis. Adds its extent. */
static int concat_add(const struct onnx_call *call, int i, int axis, struct shape *out, enum dtype dtype) {
    const struct value *value = onnx_input(call, i);
    if (!value)
        return onnx_bad(call, "input %d is missing.", i);
    if (value->dtype != dtype)
        return onnx_bad(call, "input %d is %s and input 0 %s; they must have one data type.", i,
                        dtype_name(value->dtype), dtype_name(dtype));
    struct shape part = value->shape;
    int64_t extent = part.rank == out->rank ? part.dim[axis] : 0;
    part.dim[axis] = out->dim[axis];
    if (!shape_equal(&part, out))
        return onnx_bad(call, "input %d of shape %s does not fit input 0 of shape %s along axis %d.", i,
                        onnx_shape_text(call, &value->shape), onnx_shape_text(call, &onnx_input(call, 0)->shape), axis);
    out->dim[axis] += extent;
    return 0;
}

static int lower_concat(struct onnx_call *call) {
    const struct value *first = onnx_input(call, 0);
    struct emit emit = {.op = OP_CONCAT, .dtype = first->dtype, .shape = first->shape};
    int64_t wanted = 0;
    int axis;
    if (!onnx_attr(call, "axis"))
        return onnx_bad(call, "it has no axis.");
    if (call->n_in > MAX_CONCAT)
        return onnx_bad(call, "it has %d inputs; at most %d are supported.", call->n_in, MAX_CONCAT);
    if (onnx_attr_int(call, "axis", &wanted) || onnx_axis(call, wanted, first->shape.rank, &axis))
        return -1;
    int *parts = arena_array(call->importer->arena, (size_t)call->n_in, sizeof *parts);
    for (int i = 0; i < call->n_in; i++) {
        if (i > 0 && concat_add(call, i, axis, &emit.shape, emit.dtype))
            return -1;
        if (onnx_input(call, i)->shape.dim[axis] > 0 || onnx_input(call, i)->data == NULL)
            parts[emit.n_in++] = call->in[i];
    }
    if (emit.n_in <= 1) { /* the others are empty */
        call->out[0] = emit.n_in ? parts[0] : call->in[0];
        return 0;
    }
    emit.many = parts;
    emit.attr.concat.axis = axis;
    return onnx_emit(call, &emit, &call->out[0]);
}

static int lower_expand(struct onnx_call *call) {
    const struct value *x = onnx_input(call, 0);
    struct emit emit = {.op = OP_EXPAND, .dtype = x->dtype, .n_in = 1, .in = {call->in[0]}};
    struct shape asked = {0}, own = x->shape;
    if (onnx_input_ints(call, 1, "shape", SHAPE_MAX_RANK, asked.dim, &asked.rank) ||
        onnx_check_shape(call, &asked, x->data != NULL) || onnx_broadcast(call, &own, &asked, &emit.shape))
        return -1;
    call->out[0] = call->in[0];
    return shape_equal(&own, &emit.shape) ? 0 : onnx_emit(call, &emit, &call->out[0]);
}

const struct onnx_op onnx_ops_shape[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"Identity", 1, ONNX_LATEST, 1, 1, 1, lower_identity, 0},
    {"Dropout", 7, 11, 1, 1, 2, lower_dropout, 0},
    {"Dropout", 12, ONNX_LATEST, 1, 3, 2, lower_dropout, 0},
    {"Flatten", 1, ONNX_LATEST, 1, 1, 1, lower_flatten, 0},
    {"Reshape", 5, ONNX_LATEST, 2, 2, 1, lower_reshape, 0},
    {"Squeeze", 1, ONNX_LATEST, 1, 2, 1, lower_squeeze, 0},
    {"Unsqueeze", 1, ONNX_LATEST, 1, 2, 1, lower_unsqueeze, 0},
    {"Transpose", 1, ONNX_LATEST, 1, 1, 1, lower_transpose, 0},
    {"Concat", 4, ONNX_LATEST, 1, ONNX_ANY, 1, lower_concat, 0},
    {"Expand", 8, ONNX_LATEST, 2, 2, 1, lower_expand, 0},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
