/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a tensor and what lies around it: Slice, Split, Gather, Pad. */
#include <string.h>

#include "service/model/onnx_internal.h"

#define MAX_SPLIT 4096
#define FAR ((int64_t)1 << 41) /* past every dimension */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* ---- Slice ---- */

struct ranges {
    int64_t start[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK], axis[SHAPE_MAX_RANK], step[SHAPE_MAX_RANK];
    int n_start, n_end, n_axis, n_step; /* -1: absent */
};

static int ranges_of_attributes(struct onnx_call *call, struct ranges *ranges) {
    ranges->n_step = -1;
    if (onnx_attr_ints(call, "starts", SHAPE_MAX_RANK, ranges->start, &ranges->n_start) ||
        onnx_attr_ints(call, "ends", SHAPE_MAX_RANK, ranges->end, &ranges->n_end) ||
        onnx_attr_ints(call, "axes", SHAPE_MAX_RANK, ranges->axis, &ranges->n_axis))
        return -1;
    return 0;
}

static int ranges_of_inputs(struct onnx_call *call, struct ranges *ranges) {
    if (onnx_input_ints(call, 1, "list of starts", SHAPE_MAX_RANK, ranges->start, &ranges->n_start) ||
        onnx_input_ints(call, 2, "list of ends", SHAPE_MAX_RANK, ranges->end, &ranges->n_end) ||
        onnx_input_ints(call, 3, "list of axes", SHAPE_MAX_RANK, ranges->axis, &ranges->n_axis) ||
        onnx_input_ints(call, 4, "list of steps", SHAPE_MAX_RANK, ranges->step, &ranges->n_step))
        return -1;
    return 0;
}

/* Python's slices: out-of-range ends are clamped, negative ones count from the end. Where, and how many. */
static void slice_extent(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *ret_start,
                         int64_t *ret_count) {
    start += start < 0 ? dim : 0;
    end += end < 0 ? dim : 0;
    if (dim == 0) {
        start = 0;
        *ret_count = 0;
    } else if (step > 0) {
        start = clamp(start, 0, dim);
        end = clamp(end, 0, dim);
        *ret_count = end > start ? (end - start + step - 1) / step : 0;
    } else {
        start = clamp(start, 0, dim - 1);
        end = clamp(end, -1, dim - 1);
        *ret_count = start > end ? (start - end - step - 1) / -step : 0;
    }
    *ret_start = start;
}

static int emit_slice(struct onnx_call *call, struct emit *emit, const struct shape *x, int *ret) {
    *ret = emit->in[0];
    bool all = shape_equal(&emit->shape, x);
    for (int i = 0; i < x->rank; i++)
        all &= emit->attr.slice.step[i] == 1;
    return all ? 0 : onnx_emit(call, emit, ret);
}

static struct emit whole_slice(const struct onnx_call *call) {
    const struct value *x = onnx_input(call, 0);
    struct emit emit = {.op = OP_SLICE, .dtype = x->dtype, .shape = x->shape, .n_in = 1, .in = {call->in[0]}};
    for (int i = 0; i < x->shape.rank; i++)
        emit.attr.slice.step[i] = 1;
    return emit;
}

static int lower_slice(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape;
    struct ranges ranges;
    struct emit emit = whole_slice(call);
    int64_t mask;
    if (call->op->param ? ranges_of_inputs(call, &ranges) : ranges_of_attributes(call, &ranges))
        return -1;
    int n = ranges.n_start;
    if (n < 0 || ranges.n_end != n || (ranges.n_axis >= 0 && ranges.n_axis != n) ||
        (ranges.n_step >= 0 && ranges.n_step != n) || n > x.rank)
        return onnx_bad(call, "its starts, ends, axes and steps are not lists of one length, at most %d.", x.rank);
    if (onnx_axes(call, ranges.axis, ranges.n_axis, x.rank, &mask))
        return -1;
    for (int i = 0; i < n; i++) {
        int axis = i;
        int64_t step = ranges.n_step < 0 ? 1 : clamp(ranges.step[i], -FAR, FAR);
        if (ranges.n_axis >= 0 && onnx_axis(call, ranges.axis[i], x.rank, &axis))
            return -1;
        if (step == 0)
            return onnx_bad(call, "its step along axis %d is 0.", axis);
        slice_extent(x.dim[axis], ranges.start[i], ranges.end[i], step, &emit.attr.slice.start[axis],
                     &emit.shape.dim[axis]);
        emit.attr.slice.step[axis] = step;
    }
    return emit_slice(call, &emit, &x, &call->out[0]);
}

/* ---- Split ---- */

/* Parts of the same size, the last one smaller where that does not come out even (opset 18). */
static int even_parts(const struct onnx_call *call, int64_t dim, int64_t parts, int64_t *ret) {
    int64_t size = (dim + parts - 1) / parts;
    if (dim % parts && call->importer->opset < 18)
        return onnx_bad(call, "%lld does not divide into %lld equal parts.", (long long)dim, (long long)parts);
    for (int64_t i = 0; i < parts; i++)
        ret[i] = i < parts - 1 ? size : dim - size * (parts - 1);
    return 0;
}

static int split_parts(struct onnx_call *call, int64_t dim, int64_t *ret) {
    int count = -1, opset = call->importer->opset;
    int64_t parts = call->n_out;
    if (opset < 13 && call->n_in > 1)
        return onnx_bad(call, "it takes its parts as an attribute in opset %d, not as an input.", opset);
    if (opset < 13 ? onnx_attr_ints(call, "split", MAX_SPLIT, ret, &count)
                   : onnx_input_ints(call, 1, "list of parts", MAX_SPLIT, ret, &count))
        return -1;
    if (opset >= 18 && onnx_attr_int(call, "num_outputs", &parts))
        return -1;
    if ((count >= 0 && count != call->n_out) || parts != call->n_out)
        return onnx_bad(call, "it has %d outputs, but is to be split into %d parts.", call->n_out,
                        count >= 0 ? count : (int)clamp(parts, -1, MAX_SPLIT));
    return count >= 0 ? 0 : even_parts(call, dim, parts, ret);
}

static int lower_split(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape;
    int64_t wanted = 0, at = 0;
    int axis;
    if (onnx_attr_int(call, "axis", &wanted) || onnx_axis(call, wanted, x.rank, &axis))
        return -1;
    if (call->n_out > MAX_SPLIT)
        return onnx_bad(call, "it has %d outputs; at most %d are supported.", call->n_out, MAX_SPLIT);
    int64_t *parts = arena_array(call->importer->arena, MAX_SPLIT, sizeof *parts);
    if (split_parts(call, x.dim[axis], parts))
        return -1;
    for (int i = 0; i < call->n_out; i++) {
        struct emit emit = whole_slice(call);
        if (parts[i] < 1 || parts[i] > x.dim[axis] - at)
            return onnx_bad(call, "its part %d has %lld of %lld along axis %d.", i, (long long)parts[i],
                            (long long)x.dim[axis], axis);
        emit.attr.slice.start[axis] = at;
        emit.shape.dim[axis] = parts[i];
        at += parts[i];
        if (emit_slice(call, &emit, &x, &call->out[i]))
            return -1;
    }
    if (at != x.dim[axis])
        return onnx_bad(call, "its parts add up to %lld of %lld along axis %d.", (long long)at, (long long)x.dim[axis],
                        axis);
    return 0;
}

/* ---- Gather ---- */

static int64_t index_at(const struct value *indices, int64_t i) {
    size_t at = indices->splat ? 0 : (size_t)i;
    return indices->dtype == DTYPE_I64 ? ((const int64_t *)indices->data)[at] : ((const int32_t *)indices->data)[at];
}

/* Constant indices as int64, none negative. */
static int plain_indices(struct onnx_call *call, int64_t dim, int *ret) {
    const struct value *indices = onnx_input(call, 1);
    struct shape shape = indices->shape;
    void *data;
    if (onnx_add_constant(call, DTYPE_I64, &shape, indices->splat, ret, &data))
        return -1;
    indices = onnx_input(call, 1);
    for (int64_t i = 0; i < (indices->splat ? 1 : shape_count(&shape)); i++) {
        int64_t index = index_at(indices, i);
        if (index < -dim || index >= dim)
            return onnx_bad(call, "index %lld is outside a dimension of %lld.", (long long)index, (long long)dim);
        ((int64_t *)data)[i] = index < 0 ? index + dim : index;
    }
    return 0;
}

/* One constant index is a slice. */
static int gather_one(struct onnx_call *call, int axis, int indices, const struct shape *out) {
    struct emit emit = whole_slice(call);
    struct shape x = emit.shape;
    int slice;
    emit.attr.slice.start[axis] = *(const int64_t *)call->importer->graph->values[indices].data;
    emit.shape.dim[axis] = 1;
    return emit_slice(call, &emit, &x, &slice) || onnx_emit_reshape(call, slice, out, &call->out[0]) ? -1 : 0;
}

static int lower_gather(struct onnx_call *call) {
    const struct value *x = onnx_input(call, 0), *picked = onnx_input(call, 1);
    struct shape from = x->shape, by = picked->shape;
    struct emit emit = {.op = OP_GATHER, .dtype = x->dtype, .n_in = 2, .in = {call->in[0], call->in[1]}};
    int64_t wanted = 0;
    int axis;
    bool constant = picked->data != NULL;
    if (onnx_attr_int(call, "axis", &wanted) || onnx_axis(call, wanted, from.rank, &axis))
        return -1;
    if (picked->dtype != DTYPE_I64 && picked->dtype != DTYPE_I32)
        return onnx_bad(call, "its indices are %s; they must be int32 or int64.", dtype_name(picked->dtype));
    if (from.rank - 1 + by.rank > SHAPE_MAX_RANK)
        return onnx_bad(call, "its result would have rank %d; at most %d is supported.", from.rank - 1 + by.rank,
                        SHAPE_MAX_RANK);
    for (int i = 0; i < axis; i++)
        emit.shape.dim[emit.shape.rank++] = from.dim[i];
    for (int i = 0; i < by.rank; i++)
        emit.shape.dim[emit.shape.rank++] = by.dim[i];
    for (int i = axis + 1; i < from.rank; i++)
        emit.shape.dim[emit.shape.rank++] = from.dim[i];
    emit.attr.gather.axis = axis;
    if (constant && plain_indices(call, from.dim[axis], &emit.in[1]))
        return -1;
    if (constant && shape_count(&by) == 1)
        return gather_one(call, axis, emit.in[1], &emit.shape);
    return onnx_emit(call, &emit, &call->out[0]);
}

/* ---- Pad ---- */

struct pads {
    int64_t list[2 * SHAPE_MAX_RANK]; /* before each axis, then after each */
    int64_t axes[SHAPE_MAX_RANK];
    int n_list, n_axes;
    double value;
};

static int pads_of_attributes(struct onnx_call *call, struct pads *pads) {
    pads->n_axes = -1;
    return onnx_attr_ints(call, "pads", 2 * SHAPE_MAX_RANK, pads->list, &pads->n_list) ||
                   onnx_attr_float(call, "value", &pads->value)
               ? -1
               : 0;
}

static int pads_of_inputs(struct onnx_call *call, struct pads *pads) {
    pads->n_axes = -1;
    if (call->importer->opset < 18 && call->n_in > 3)
        return onnx_bad(call, "it has a list of axes, which Pad does not have in opset %d.", call->importer->opset);
    return onnx_input_ints(call, 1, "list of pads", 2 * SHAPE_MAX_RANK, pads->list, &pads->n_list) ||
                   onnx_input_number(call, 2, "value", &pads->value) ||
                   onnx_input_ints(call, 3, "list of axes", SHAPE_MAX_RANK, pads->axes, &pads->n_axes)
               ? -1
               : 0;
}

static int pad_dim(const struct onnx_call *call, struct emit *emit, int axis, int64_t before, int64_t after) {
    int64_t dim = emit->shape.dim[axis];
    if (before < -ONNX_MAX_ELEMENTS || before > ONNX_MAX_ELEMENTS || after < -ONNX_MAX_ELEMENTS ||
        after > ONNX_MAX_ELEMENTS)
        return onnx_bad(call, "its pads along axis %d are more than 2^40.", axis);
    if (dim + before < 0 || dim + after < 0 || dim + before + after < 0)
        return onnx_bad(call, "its pads of %lld and %lld crop more than the %lld along axis %d.", (long long)before,
                        (long long)after, (long long)dim, axis);
    if (emit->attr.pad.mode == PAD_REFLECT && (before >= dim || after >= dim))
        return onnx_bad(call, "its pads of %lld and %lld reflect more than the %lld along axis %d.", (long long)before,
                        (long long)after, (long long)dim, axis);
    if (emit->attr.pad.mode == PAD_EDGE && dim == 0)
        return onnx_bad(call, "its input is empty along axis %d.", axis);
    emit->attr.pad.before[axis] = before;
    emit->shape.dim[axis] = dim + before + after;
    return 0;
}

static int lower_pad(struct onnx_call *call) {
    static const char *const modes[] = {
        [PAD_CONSTANT] = "constant", [PAD_REFLECT] = "reflect", [PAD_EDGE] = "edge", NULL};
    const struct value *x = onnx_input(call, 0);
    struct shape own = x->shape;
    struct emit emit = {.op = OP_PAD, .dtype = x->dtype, .shape = own, .n_in = 1, .in = {call->in[0]}};
    struct pads pads = {0};
    int mode = 0;
    int64_t mask;
    if (onnx_attr_choice(call, "mode", modes, "constant", &mode) ||
        (call->op->param ? pads_of_inputs(call, &pads) : pads_of_attributes(call, &pads)) ||
        onnx_axes(call, pads.axes, pads.n_axes, own.rank, &mask))
        return -1;
    int n = pads.n_axes < 0 ? own.rank : pads.n_axes;
    bool any = false;
    if (pads.n_list != 2 * n)
        return onnx_bad(call, "it has %d pads; %d axes need %d.", pads.n_list, n, 2 * n);
    emit.attr.pad.mode = mode;
    emit.attr.pad.value = pads.value;
    for (int i = 0; i < n; i++) {
        int axis = i;
        if ((pads.n_axes >= 0 && onnx_axis(call, pads.axes[i], own.rank, &axis)) ||
            pad_dim(call, &emit, axis, pads.list[i], pads.list[n + i]))
            return -1;
        any |= pads.list[i] || pads.list[n + i];
    }
    call->out[0] = call->in[0];
    return any ? onnx_emit(call, &emit, &call->out[0]) : 0;
}

const struct onnx_op onnx_ops_slice[] = {
    /* name, opsets, inputs, outputs, lowering, parameter (1: arguments are inputs) */
    {"Slice", 1, 9, 1, 1, 1, lower_slice, 0},
    {"Slice", 10, ONNX_LATEST, 3, 5, 1, lower_slice, 1},
    {"Split", 2, ONNX_LATEST, 1, 2, ONNX_ANY, lower_split, 0},
    {"Gather", 1, ONNX_LATEST, 2, 2, 1, lower_gather, 0},
    {"Pad", 2, 10, 1, 1, 1, lower_pad, 0},
    {"Pad", 11, ONNX_LATEST, 2, 4, 1, lower_pad, 1},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
