/* SPDX-License-Identifier: Apache-2.0 */
/* Where constants come from, what shapes are made of, and what only constants can be put through. */
#include <math.h>
#include <string.h>

#include "service/model/onnx_internal.h"

/* ---- Constant ---- */

static int constant_of_tensor(struct onnx_call *call, const Onnx__AttributeProto *attr, struct value *ret) {
    if (!attr->t)
        return onnx_bad(call, "its attribute %s is not a tensor.", attr->name);
    struct onnx_tensor tensor = onnx_tensor_of(attr->t);
    const char *what = arena_printf(call->importer->arena, "Node %.160s (%s): its tensor", call->name, call->op->name);
    if (onnx_tensor_value(&tensor, what, call->importer->arena, ret, call->importer->error)) {
        struct error *error = call->importer->error; /* add the node, keep the rest */
        return error_set(error, error->class, error->code, call->name, "%s", error->text);
    }
    return 0;
}

/* The attributes other than `value`: numbers as they stand in the message. */
static int constant_of_numbers(struct onnx_call *call, struct value *ret) {
    static const char *const names[] = {"value_float", "value_int", "value_floats", "value_ints"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const Onnx__AttributeProto *attr = onnx_attr(call, names[i]);
        if (!attr)
            continue;
        *ret = (struct value){.dtype = i % 2 ? DTYPE_I64 : DTYPE_F32};
        ret->shape.rank = i >= 2;
        ret->shape.dim[0] = i < 2 ? 0 : (int64_t)(i == 2 ? attr->n_floats : attr->n_ints);
        const void *places[] = {&attr->f, &attr->i, attr->floats, attr->ints};
        ret->data = places[i] ? places[i] : "";
        return 0;
    }
    return onnx_bad(call, "it has no value of a supported kind (value, value_float, value_int, value_floats, "
                          "value_ints).");
}

static int lower_constant(struct onnx_call *call) {
    const Onnx__AttributeProto *attr = onnx_attr(call, "value");
    struct value value;
    if (attr ? constant_of_tensor(call, attr, &value) : constant_of_numbers(call, &value))
        return -1;
    struct graph *graph = call->importer->graph;
    call->out[0] = graph_add_value(graph, call->name, value.dtype, &value.shape);
    graph->values[call->out[0]].data = value.data;
    return 0;
}

static int lower_constant_of_shape(struct onnx_call *call) {
    const Onnx__AttributeProto *attr = onnx_attr(call, "value");
    static const float zero = 0;
    struct value value = {.dtype = DTYPE_F32, .data = &zero};
    struct shape shape = {0};
    void *data;
    if ((attr && constant_of_tensor(call, attr, &value)) || onnx_need_constant(call, 0, "shape") ||
        onnx_input_ints(call, 0, "shape", SHAPE_MAX_RANK, shape.dim, &shape.rank))
        return -1;
    if (shape_count(&value.shape) != 1)
        return onnx_bad(call, "its value has shape %s; it must be one number.", onnx_shape_text(call, &value.shape));
    if (onnx_add_constant(call, value.dtype, &shape, true, &call->out[0], &data))
        return -1;
    memcpy(data, value.data, dtype_size(value.dtype));
    return 0;
}

/* ---- Shape, Cast ---- */

static int lower_shape(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape;
    int64_t start = 0, end = x.rank;
    void *data;
    if (call->importer->opset >= 15 && (onnx_attr_int(call, "start", &start) || onnx_attr_int(call, "end", &end)))
        return -1;
    start += start < 0 ? x.rank : 0;
    end += end < 0 ? x.rank : 0;
    start = start < 0 ? 0 : start;
    end = end > x.rank ? x.rank : end;
    struct shape out = {1, {end > start ? end - start : 0}};
    if (onnx_add_constant(call, DTYPE_I64, &out, false, &call->out[0], &data))
        return -1;
    memcpy(data, x.dim + (out.dim[0] ? start : 0), (size_t)out.dim[0] * sizeof x.dim[0]);
    return 0;
}

static int lower_cast(struct onnx_call *call) {
    int64_t to = 0;
    enum dtype dtype;
    struct error why;
    onnx_attr_ignore(call, "saturate"); /* of 8-bit floats */
    if (onnx_attr_int(call, "to", &to))
        return -1;
    if (onnx_dtype(to < 0 || to > 1000 ? 0 : (int32_t)to, "Its result", &dtype, &why))
        return onnx_bad(call, "%s", why.text);
    return onnx_emit_cast(call, call->in[0], dtype, &call->out[0]);
}

/* ---- Equal, Where: only of constants, as shapes are computed with them ---- */

/* The offset of element i of a result in an operand that is broadcast to it. */
static size_t broadcast_offset(const struct value *operand, const struct shape *out, int64_t i) {
    size_t offset = 0, stride = 1;
    if (operand->splat)
        return 0;
    for (int d = out->rank - 1, own = operand->shape.rank - 1; d >= 0; d--, own--) {
        int64_t at = i % out->dim[d];
        i /= out->dim[d];
        if (own < 0)
            break;
        offset += operand->shape.dim[own] == 1 ? 0 : (size_t)at * stride;
        stride *= (size_t)operand->shape.dim[own];
    }
    return offset;
}

static int all_constant(const struct onnx_call *call, struct shape *ret) {
    struct shape out = {0};
    for (int i = 0; i < call->n_in; i++) {
        if (onnx_need_constant(call, i, "input") || onnx_broadcast(call, &out, &onnx_input(call, i)->shape, &out))
            return -1;
    }
    *ret = out;
    return 0;
}

/* Takes the elements of a result out of the work that constants may cost. */
static int take_work(const struct onnx_call *call, const struct shape *shape) {
    int64_t count = shape_count(shape);
    if (count > call->importer->work_left)
        return onnx_fail(call, ERROR_LIMIT, "constants-too-slow",
                         "its inputs are all constant, but evaluating it at import takes too long; fold it before.");
    call->importer->work_left -= count;
    return 0;
}

static bool equal_at(const struct value *a, size_t at_a, const struct value *b, size_t at_b) {
    size_t size = dtype_size(a->dtype);
    if (a->dtype == DTYPE_F32)
        return ((const float *)a->data)[at_a] == ((const float *)b->data)[at_b];
    return memcmp((const char *)a->data + at_a * size, (const char *)b->data + at_b * size, size) == 0;
}

static int lower_equal(struct onnx_call *call) {
    struct shape out;
    void *data;
    if (all_constant(call, &out))
        return -1;
    if (onnx_input(call, 0)->dtype != onnx_input(call, 1)->dtype)
        return onnx_bad(call, "its inputs have different data types.");
    if (onnx_add_constant(call, DTYPE_BOOL, &out, false, &call->out[0], &data) || take_work(call, &out))
        return -1;
    const struct value *a = onnx_input(call, 0), *b = onnx_input(call, 1);
    for (int64_t i = 0; i < shape_count(&out); i++)
        ((uint8_t *)data)[i] = equal_at(a, broadcast_offset(a, &out, i), b, broadcast_offset(b, &out, i));
    return 0;
}

static int lower_where(struct onnx_call *call) {
    struct shape out;
    void *data;
    if (all_constant(call, &out))
        return -1;
    enum dtype dtype = onnx_input(call, 1)->dtype;
    if (onnx_input(call, 0)->dtype != DTYPE_BOOL || onnx_input(call, 2)->dtype != dtype)
        return onnx_bad(call, "its condition is not bool, or its choices have different data types.");
    if (onnx_add_constant(call, dtype, &out, false, &call->out[0], &data) || take_work(call, &out))
        return -1;
    const struct value *condition = onnx_input(call, 0);
    size_t size = dtype_size(dtype);
    for (int64_t i = 0; i < shape_count(&out); i++) {
        bool first = ((const uint8_t *)condition->data)[broadcast_offset(condition, &out, i)];
        const struct value *from = onnx_input(call, first ? 1 : 2);
        memcpy((char *)data + (size_t)i * size, (const char *)from->data + broadcast_offset(from, &out, i) * size,
               size);
    }
    return 0;
}

const struct onnx_op onnx_ops_constant[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"Constant", 1, ONNX_LATEST, 0, 0, 1, lower_constant, 0},
    {"ConstantOfShape", 9, ONNX_LATEST, 1, 1, 1, lower_constant_of_shape, 0},
    {"Shape", 1, ONNX_LATEST, 1, 1, 1, lower_shape, 0},
    {"Cast", 6, ONNX_LATEST, 1, 1, 1, lower_cast, 0},
    {"Equal", 7, ONNX_LATEST, 2, 2, 1, lower_equal, 0},
    {"Where", 9, ONNX_LATEST, 3, 3, 1, lower_where, 0},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
