/* SPDX-License-Identifier: Apache-2.0 */
/* What a lowering works with: messages, inputs, attributes, and graph nodes that evaluate themselves when constant. */
#include "service/model/onnx_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/model/eval.h"

/* ---- Messages ---- */

static int fail_with(const struct onnx_call *call, enum error_class class, const char *code, const char *format,
                     va_list args) {
    char text[768];
    vsnprintf(text, sizeof text, format, args);
    return error_set(call->importer->error, class, code, call->name, "Node %.160s (%.60s): %s", call->name,
                     call->op->name, text);
}

int onnx_fail(const struct onnx_call *call, enum error_class class, const char *code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int result = fail_with(call, class, code, format, args);
    va_end(args);
    return result;
}

int onnx_bad(const struct onnx_call *call, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int result = fail_with(call, ERROR_INVALID, "unsupported-node", format, args);
    va_end(args);
    return result;
}

const char *onnx_shape_text(const struct onnx_call *call, const struct shape *shape) {
    const char *text = "";
    for (int i = 0; i < shape->rank; i++)
        text = arena_printf(call->importer->arena, "%s%s%lld", text, i ? ", " : "", (long long)shape->dim[i]);
    return arena_printf(call->importer->arena, "[%s]", text);
}

/* ---- Inputs ---- */

const struct value *onnx_input(const struct onnx_call *call, int i) {
    return i < call->n_in && call->in[i] >= 0 ? &call->importer->graph->values[call->in[i]] : NULL;
}

int onnx_need_float(const struct onnx_call *call, int i) {
    const struct value *value = onnx_input(call, i);
    if (value->dtype != DTYPE_F32)
        return onnx_bad(call, "input %d, %.100s, is %s; only floating-point numbers are supported here.", i,
                        value->name, dtype_name(value->dtype));
    if (shape_count(&value->shape) == 0)
        return onnx_bad(call, "input %d, %.100s, is empty.", i, value->name);
    return 0;
}

int onnx_need_constant(const struct onnx_call *call, int i, const char *what) {
    const struct value *value = onnx_input(call, i);
    if (!value)
        return onnx_bad(call, "input %d, the %s, is missing.", i, what);
    if (!value->data)
        return onnx_bad(call, "its %s, %.100s, is computed at run time; only a constant is supported.", what,
                        value->name);
    return 0;
}

static int constant_int(const struct value *value, int64_t i, int64_t *ret) {
    size_t at = value->splat ? 0 : (size_t)i;
    if (value->dtype == DTYPE_I64)
        *ret = ((const int64_t *)value->data)[at];
    else if (value->dtype == DTYPE_I32)
        *ret = ((const int32_t *)value->data)[at];
    else
        return -1;
    return 0;
}

int onnx_input_ints(const struct onnx_call *call, int i, const char *what, int max, int64_t *ret, int *ret_count) {
    *ret_count = -1;
    const struct value *value = onnx_input(call, i);
    if (!value)
        return 0;
    if (onnx_need_constant(call, i, what))
        return -1;
    int64_t count = shape_count(&value->shape);
    if (value->shape.rank > 1 || count > max)
        return onnx_bad(call, "its %s has shape %s; at most %d numbers in one dimension are supported.", what,
                        onnx_shape_text(call, &value->shape), max);
    for (int64_t j = 0; j < count; j++) {
        if (constant_int(value, j, &ret[j]))
            return onnx_bad(call, "its %s is %s; it must be int64.", what, dtype_name(value->dtype));
    }
    *ret_count = (int)count;
    return 0;
}

int onnx_input_number(const struct onnx_call *call, int i, const char *what, double *ret) {
    const struct value *value = onnx_input(call, i);
    if (!value)
        return 0;
    if (onnx_need_constant(call, i, what))
        return -1;
    if (shape_count(&value->shape) != 1)
        return onnx_bad(call, "its %s has shape %s; it must be one number.", what,
                        onnx_shape_text(call, &value->shape));
    int64_t whole;
    if (value->dtype == DTYPE_F32)
        *ret = *(const float *)value->data;
    else if (constant_int(value, 0, &whole) == 0)
        *ret = (double)whole;
    else
        *ret = value->dtype == DTYPE_I8 ? *(const int8_t *)value->data : *(const uint8_t *)value->data;
    if (isnan(*ret))
        return onnx_bad(call, "its %s is not a number (NaN).", what);
    return 0;
}

/* ---- Attributes ---- */

enum { ATTR_FLOAT = 1, ATTR_INT = 2, ATTR_STRING = 3, ATTR_FLOATS = 6, ATTR_INTS = 7 };

const Onnx__AttributeProto *onnx_attr(struct onnx_call *call, const char *name) {
    for (size_t i = 0; i < call->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attr = call->proto->attribute[i];
        if (attr->name && strcmp(attr->name, name) == 0) {
            call->attr_read |= (uint64_t)1 << i;
            return attr;
        }
    }
    return NULL;
}

void onnx_attr_ignore(struct onnx_call *call, const char *name) {
    (void)onnx_attr(call, name);
}

/* Very old files leave the type out. */
static int need_type(const struct onnx_call *call, const Onnx__AttributeProto *attr, int type, bool present,
                     const char *what) {
    if ((attr->has_type && attr->type != type) || !present)
        return onnx_bad(call, "its attribute %s is not %s.", attr->name, what);
    return 0;
}

int onnx_attr_int(struct onnx_call *call, const char *name, int64_t *ret) {
    const Onnx__AttributeProto *attr = onnx_attr(call, name);
    if (!attr)
        return 0;
    if (need_type(call, attr, ATTR_INT, attr->has_i || attr->has_type, "an integer"))
        return -1;
    *ret = attr->i;
    return 0;
}

int onnx_attr_float(struct onnx_call *call, const char *name, double *ret) {
    const Onnx__AttributeProto *attr = onnx_attr(call, name);
    if (!attr)
        return 0;
    if (need_type(call, attr, ATTR_FLOAT, attr->has_f || attr->has_type, "a floating-point number"))
        return -1;
    if (!isfinite(attr->f))
        return onnx_bad(call, "its attribute %s is not a finite number.", name);
    *ret = attr->f;
    return 0;
}

int onnx_attr_ints(struct onnx_call *call, const char *name, int max, int64_t *ret, int *ret_count) {
    const Onnx__AttributeProto *attr = onnx_attr(call, name);
    *ret_count = -1;
    if (!attr)
        return 0;
    if (need_type(call, attr, ATTR_INTS, true, "a list of integers"))
        return -1;
    if (attr->n_ints > (size_t)max)
        return onnx_bad(call, "its attribute %s lists %zu numbers; at most %d are supported.", name, attr->n_ints, max);
    for (size_t i = 0; i < attr->n_ints; i++)
        ret[i] = attr->ints[i];
    *ret_count = (int)attr->n_ints;
    return 0;
}

int onnx_attr_text(struct onnx_call *call, const char *name, const char **ret) {
    const Onnx__AttributeProto *attr = onnx_attr(call, name);
    if (!attr)
        return 0;
    if (need_type(call, attr, ATTR_STRING, attr->has_s || attr->has_type, "a text"))
        return -1;
    *ret = attr->s.data ? arena_strndup(call->importer->arena, (const char *)attr->s.data, attr->s.len) : "";
    return 0;
}

int onnx_attr_flag(struct onnx_call *call, const char *name, bool *ret) {
    int64_t value = *ret;
    if (onnx_attr_int(call, name, &value))
        return -1;
    if (value != 0 && value != 1)
        return onnx_bad(call, "its attribute %s is %lld; it must be 0 or 1.", name, (long long)value);
    *ret = value;
    return 0;
}

int onnx_attr_choice(struct onnx_call *call, const char *name, const char *const *names, const char *fallback,
                     int *ret) {
    const char *text = fallback;
    if (onnx_attr_text(call, name, &text))
        return -1;
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    return onnx_bad(call, "its attribute %s is \"%.100s\", which is not supported.", name, text);
}

/* ---- Shapes ---- */

int onnx_axis(const struct onnx_call *call, int64_t axis, int rank, int *ret) {
    if (axis < -rank || axis >= rank)
        return onnx_bad(call, "axis %lld is outside its input of rank %d.", (long long)axis, rank);
    *ret = (int)(axis < 0 ? axis + rank : axis);
    return 0;
}

int onnx_axes(const struct onnx_call *call, const int64_t *axes, int count, int rank, int64_t *ret_mask) {
    int64_t mask = 0;
    for (int i = 0; i < count; i++) {
        int axis;
        if (onnx_axis(call, axes[i], rank, &axis))
            return -1;
        if (mask >> axis & 1)
            return onnx_bad(call, "axis %d is given twice.", axis);
        mask |= (int64_t)1 << axis;
    }
    *ret_mask = mask;
    return 0;
}

int onnx_check_shape(const struct onnx_call *call, const struct shape *shape, bool constant) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) {
        int64_t dim = shape->dim[i];
        if (dim < 0 || (dim == 0 && !constant))
            return onnx_bad(call, "dimension %d of its result would be %lld; a dimension is at least 1.", i,
                            (long long)dim);
        if (__builtin_mul_overflow(count, dim, &count) || count > ONNX_MAX_ELEMENTS)
            return onnx_fail(call, ERROR_LIMIT, "tensor-too-large",
                             "its result would have more than 2^40 elements, the most that is supported.");
    }
    return 0;
}

int onnx_broadcast(const struct onnx_call *call, const struct shape *a, const struct shape *b, struct shape *ret) {
    struct shape out = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < out.rank; i++) {
        int at_a = i - (out.rank - a->rank), at_b = i - (out.rank - b->rank);
        int64_t da = at_a < 0 ? 1 : a->dim[at_a], db = at_b < 0 ? 1 : b->dim[at_b];
        if (da != db && da != 1 && db != 1)
            return onnx_bad(call, "shapes %s and %s cannot be broadcast together.", onnx_shape_text(call, a),
                            onnx_shape_text(call, b));
        out.dim[i] = da == 1 ? db : da;
    }
    *ret = out;
    return 0;
}

/* ---- Emission ---- */

static const char *value_name(const struct onnx_call *call) {
    const struct importer *importer = call->importer;
    return arena_printf(importer->arena, "%s.%d", call->name, importer->graph->n_values);
}

/* Takes `count` elements out of what evaluated constants may hold together, splats at their full size. */
static int take_constant(const struct onnx_call *call, enum dtype dtype, const struct shape *shape) {
    struct importer *importer = call->importer;
    size_t bytes = (size_t)shape_count(shape) * dtype_size(dtype);
    if (bytes > importer->constant_left)
        return onnx_fail(call, ERROR_LIMIT, "constants-too-large",
                         "its constant result of shape %s takes %zu bytes; of what evaluated constants may take "
                         "together %zu are left.",
                         onnx_shape_text(call, shape), bytes, importer->constant_left);
    importer->constant_left -= bytes;
    return 0;
}

int onnx_add_constant(struct onnx_call *call, enum dtype dtype, const struct shape *shape, bool splat, int *ret_value,
                      void **ret_data) {
    struct importer *importer = call->importer;
    if (onnx_check_shape(call, shape, true) || take_constant(call, dtype, shape))
        return -1;
    size_t count = splat ? 1 : (size_t)shape_count(shape);
    void *data = arena_try_alloc(importer->arena, count * dtype_size(dtype));
    if (!data)
        return onnx_fail(call, ERROR_LIMIT, "out-of-memory", "there is not enough memory for its constant result.");
    int value = graph_add_value(importer->graph, value_name(call), dtype, shape);
    importer->graph->values[value].data = data;
    importer->graph->values[value].splat = splat;
    *ret_value = value;
    *ret_data = data;
    return 0;
}

/* Operations for one element of the result; more than one where elements are summed up. */
static int64_t work_per_element(const struct graph *graph, const struct node *node) {
    const struct shape *x = &graph->values[node->in[0]].shape;
    const struct shape *w = node->n_in > 1 ? &graph->values[node->in[1]].shape : NULL;
    switch (node->op) {
    case OP_CONV:
        return w->dim[1] * w->dim[2] * w->dim[3];
    case OP_CONV_TRANSPOSE:
        return w->dim[0] * w->dim[2] * w->dim[3];
    case OP_DENSE:
    case OP_MATMUL:
        return x->dim[x->rank - 1];
    case OP_POOL:
        return node->attr.pool.kernel[0] * node->attr.pool.kernel[1];
    case OP_LRN:
        return node->attr.lrn.size;
    case OP_REDUCE:
    case OP_SOFTMAX: {
        const struct shape *out = &graph->values[node->out[0]].shape;
        int64_t results = shape_count(out), inputs = shape_count(x);
        return results && inputs > results ? inputs / results : 2;
    }
    default:
        return 1;
    }
}

/* The last node, whose inputs are all constant, becomes its result. */
static int fold(struct onnx_call *call) {
    struct importer *importer = call->importer;
    struct graph *graph = importer->graph;
    struct node *node = &graph->nodes[--graph->n_nodes];
    struct value *out = &graph->values[node->out[0]];
    int64_t work = shape_count(&out->shape);
    if (node->op != OP_RESHAPE && take_constant(call, out->dtype, &out->shape))
        return -1;
    if (node->op == OP_RESHAPE || eval_is_splat(graph, node))
        work = 0;
    else if (__builtin_mul_overflow(work, work_per_element(graph, node), &work) || work > importer->work_left)
        return onnx_fail(call, ERROR_LIMIT, "constants-too-slow",
                         "its inputs are all constant, but evaluating it at import takes too long; fold it before.");
    importer->work_left -= work;
    struct value result;
    struct error why;
    if (eval_node(graph, node, importer->arena, &result, &why))
        return onnx_fail(call, why.class, why.code, "it cannot be evaluated: %s", why.text);
    out->data = result.data;
    out->splat = result.splat;
    return 0;
}

int onnx_emit(struct onnx_call *call, const struct emit *emit, int *ret) {
    struct graph *graph = call->importer->graph;
    const int *in = emit->many ? emit->many : emit->in;
    bool constant = true;
    for (int i = 0; i < emit->n_in; i++)
        constant &= graph->values[in[i]].data != NULL;
    if (onnx_check_shape(call, &emit->shape, constant))
        return -1;
    int out = graph_add_value(graph, value_name(call), emit->dtype, &emit->shape);
    struct node *node = graph_add_node(graph, emit->op, call->name, emit->n_in, 1);
    if (emit->n_in)
        memcpy(node->in, in, (size_t)emit->n_in * sizeof *in);
    node->out[0] = out;
    node->attr = emit->attr;
    node->epilogue = emit->epilogue;
    *ret = out;
    return constant ? fold(call) : 0;
}

int onnx_emit_reshape(struct onnx_call *call, int value, const struct shape *shape, int *ret) {
    const struct value *x = &call->importer->graph->values[value];
    if (shape_equal(&x->shape, shape)) {
        *ret = value;
        return 0;
    }
    struct emit emit = {.op = OP_RESHAPE, .dtype = x->dtype, .shape = *shape, .n_in = 1, .in = {value}};
    return onnx_emit(call, &emit, ret);
}

int onnx_emit_transpose(struct onnx_call *call, int value, const int64_t *perm, int *ret) {
    const struct value *x = &call->importer->graph->values[value];
    struct emit emit = {.op = OP_TRANSPOSE, .dtype = x->dtype, .shape = x->shape, .n_in = 1, .in = {value}};
    bool moves = false;
    for (int i = 0; i < x->shape.rank; i++) {
        emit.attr.transpose.perm[i] = perm[i];
        emit.shape.dim[i] = x->shape.dim[perm[i]];
        moves |= perm[i] != i;
    }
    *ret = value;
    return moves ? onnx_emit(call, &emit, ret) : 0;
}

int onnx_emit_binary(struct onnx_call *call, enum binary kind, int a, int b, int *ret) {
    const struct value *va = &call->importer->graph->values[a], *vb = &call->importer->graph->values[b];
    if (va->dtype != vb->dtype)
        return onnx_bad(call, "its inputs are %s and %s; they must have one data type.", dtype_name(va->dtype),
                        dtype_name(vb->dtype));
    struct emit emit = {.op = OP_BINARY, .dtype = va->dtype, .n_in = 2, .in = {a, b}, .attr.binary.kind = kind};
    if (onnx_broadcast(call, &va->shape, &vb->shape, &emit.shape))
        return -1;
    return onnx_emit(call, &emit, ret);
}

int onnx_emit_cast(struct onnx_call *call, int value, enum dtype dtype, int *ret) {
    const struct value *x = &call->importer->graph->values[value];
    struct emit emit = {.op = OP_CAST, .dtype = dtype, .shape = x->shape, .n_in = 1, .in = {value}};
    *ret = value;
    return x->dtype == dtype ? 0 : onnx_emit(call, &emit, ret);
}
