/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize and its predecessor Upsample. The output's size is the input's times a scale, rounded down, or given; the
 * coordinates are computed with the scale as given. Sizes multiply in single precision, as the other readers do it.
 */
#include <math.h>
#include <string.h>

#include "service/model/onnx_internal.h"

#define MAX_SCALE 65536.0

static const char *const coordinate_names[] = {[RESIZE_HALF_PIXEL] = "half_pixel",
                                               [RESIZE_PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
                                               [RESIZE_ASYMMETRIC] = "asymmetric",
                                               [RESIZE_ALIGN_CORNERS] = "align_corners",
                                               NULL};
static const char *const rounding_names[] = {[RESIZE_ROUND_PREFER_FLOOR] = "round_prefer_floor",
                                             [RESIZE_ROUND_PREFER_CEIL] = "round_prefer_ceil",
                                             [RESIZE_FLOOR] = "floor",
                                             [RESIZE_CEIL] = "ceil",
                                             NULL};
static const char *const mode_names[] = {[RESIZE_NEAREST] = "nearest", [RESIZE_LINEAR] = "linear", NULL};

static struct emit resize_of(const struct onnx_call *call) {
    const struct value *x = onnx_input(call, 0);
    struct emit emit = {.op = OP_RESIZE, .dtype = x->dtype, .shape = x->shape, .n_in = 1, .in = {call->in[0]}};
    for (int i = 0; i < x->shape.rank; i++)
        emit.attr.resize.scale[i] = 1;
    return emit;
}

static int set_scale(const struct onnx_call *call, struct emit *emit, int axis, float scale) {
    int64_t dim = emit->shape.dim[axis];
    if (!(scale > 0) || scale > MAX_SCALE)
        return onnx_bad(call, "its scale along axis %d is %g; it must be positive and at most %g.", axis, (double)scale,
                        MAX_SCALE);
    emit->attr.resize.scale[axis] = scale;
    emit->shape.dim[axis] = (int64_t)floorf((float)dim * scale);
    return 0;
}

/* Scales as floats in the message or in a constant of one dimension. */
static int set_scales(struct onnx_call *call, struct emit *emit, const float *scales, size_t step, size_t count,
                      const int64_t *axes, int n_axes) {
    int expected = n_axes < 0 ? emit->shape.rank : n_axes;
    if (count != (size_t)expected)
        return onnx_bad(call, "it has %zu scales; %d are needed.", count, expected);
    for (int i = 0; i < expected; i++) {
        int axis = i;
        if ((n_axes >= 0 && onnx_axis(call, axes[i], emit->shape.rank, &axis)) ||
            set_scale(call, emit, axis, scales[(size_t)i * step]))
            return -1;
    }
    return 0;
}

static int set_scales_of_input(struct onnx_call *call, struct emit *emit, int i, const int64_t *axes, int n_axes) {
    if (onnx_need_constant(call, i, "list of scales") || onnx_need_float(call, i))
        return -1;
    const struct value *scales = onnx_input(call, i);
    if (scales->shape.rank != 1)
        return onnx_bad(call, "its scales have shape %s; they must be a list.", onnx_shape_text(call, &scales->shape));
    return set_scales(call, emit, scales->data, !scales->splat, (size_t)scales->shape.dim[0], axes, n_axes);
}

static int set_sizes(struct onnx_call *call, struct emit *emit, const int64_t *sizes, int count, const int64_t *axes,
                     int n_axes) {
    int expected = n_axes < 0 ? emit->shape.rank : n_axes;
    if (count != expected)
        return onnx_bad(call, "it has %d sizes; %d are needed.", count, expected);
    for (int i = 0; i < count; i++) {
        int axis = i;
        if (n_axes >= 0 && onnx_axis(call, axes[i], emit->shape.rank, &axis))
            return -1;
        if (sizes[i] < 1 || sizes[i] > ONNX_MAX_ELEMENTS)
            return onnx_bad(call, "its size along axis %d is %lld.", axis, (long long)sizes[i]);
        emit->attr.resize.scale[axis] = (double)sizes[i] / (double)emit->shape.dim[axis];
        emit->shape.dim[axis] = sizes[i];
    }
    return 0;
}

/*
 * With scales that do not come out even, readers disagree on what the output's length is in these coordinates: the
 * whole number of elements, or the product.
 */
static int check_ambiguous(const struct onnx_call *call, const struct emit *emit) {
    const struct shape *x = &onnx_input(call, 0)->shape;
    enum resize_coordinates coordinates = (enum resize_coordinates)emit->attr.resize.coordinates;
    for (int i = 0; i < x->rank; i++) {
        double length = (double)x->dim[i] * emit->attr.resize.scale[i];
        bool depends = coordinates == RESIZE_ALIGN_CORNERS ||
                       (coordinates == RESIZE_PYTORCH_HALF_PIXEL && emit->shape.dim[i] == 1);
        if (depends && fabs(length - (double)emit->shape.dim[i]) > 1e-3)
            return onnx_bad(call,
                            "scaling the %lld along axis %d by %g gives no whole number, which %s leaves undefined; "
                            "give sizes instead of scales.",
                            (long long)x->dim[i], i, emit->attr.resize.scale[i], coordinate_names[coordinates]);
    }
    return 0;
}

/* The last word on both: what is computed, over which dimensions. */
static int emit_resize(struct onnx_call *call, struct emit *emit) {
    struct shape x = onnx_input(call, 0)->shape;
    bool changes = false;
    for (int i = 0; i < x.rank; i++) {
        bool here = emit->shape.dim[i] != x.dim[i] || emit->attr.resize.scale[i] != 1;
        if (here && (x.rank != 4 || i < 2))
            return onnx_bad(call,
                            "it resizes axis %d of an input of rank %d; only height and width of rank 4 are "
                            "supported.",
                            i, x.rank);
        changes |= here;
    }
    call->out[0] = call->in[0];
    return changes ? onnx_emit(call, emit, &call->out[0]) : 0;
}

/* Upsample, and Resize of opset 10: asymmetric; the nearest is the floor going up and the ceiling going down. */
static int finish_old(struct onnx_call *call, struct emit *emit) {
    const struct shape *x = &onnx_input(call, 0)->shape;
    bool up = false, down = false;
    for (int i = 0; i < x->rank; i++) {
        up |= emit->attr.resize.scale[i] > 1;
        down |= emit->attr.resize.scale[i] < 1;
    }
    if (up && down && emit->attr.resize.mode == RESIZE_NEAREST)
        return onnx_bad(call, "it scales one dimension up and another down, which is not supported in opset %d.",
                        call->importer->opset);
    emit->attr.resize.coordinates = RESIZE_ASYMMETRIC;
    emit->attr.resize.rounding = down ? RESIZE_CEIL : RESIZE_FLOOR;
    return emit_resize(call, emit);
}

static int lower_upsample_attribute(struct onnx_call *call) {
    struct emit emit = resize_of(call);
    int mode = 0;
    if (onnx_need_float(call, 0) || onnx_attr_choice(call, "mode", mode_names, "nearest", &mode))
        return -1;
    const Onnx__AttributeProto *scales = onnx_attr(call, "scales");
    if (!scales)
        return onnx_bad(call, "it has no scales.");
    if (set_scales(call, &emit, scales->floats, 1, scales->n_floats, NULL, -1))
        return -1;
    emit.attr.resize.mode = mode;
    return finish_old(call, &emit);
}

static int lower_resize_scales(struct onnx_call *call) {
    struct emit emit = resize_of(call);
    int mode = 0;
    if (onnx_need_float(call, 0) || onnx_attr_choice(call, "mode", mode_names, "nearest", &mode) ||
        set_scales_of_input(call, &emit, 1, NULL, -1))
        return -1;
    emit.attr.resize.mode = mode;
    return finish_old(call, &emit);
}

static int resize_attributes(struct onnx_call *call, struct resize_attr *resize, bool *ret_antialias) {
    int mode = 0, coordinates = 0, rounding = 0;
    bool exclude_outside = false;
    const char *policy = "stretch";
    onnx_attr_ignore(call, "cubic_coeff_a");
    onnx_attr_ignore(call, "extrapolation_value"); /* of tf_crop_and_resize */
    if (onnx_attr_choice(call, "mode", mode_names, "nearest", &mode) ||
        onnx_attr_choice(call, "coordinate_transformation_mode", coordinate_names, "half_pixel", &coordinates) ||
        onnx_attr_choice(call, "nearest_mode", rounding_names, "round_prefer_floor", &rounding) ||
        onnx_attr_flag(call, "exclude_outside", &exclude_outside))
        return -1;
    if (exclude_outside)
        return onnx_bad(call, "exclude_outside=1 is not supported.");
    if (call->importer->opset >= 18 &&
        (onnx_attr_text(call, "keep_aspect_ratio_policy", &policy) || onnx_attr_flag(call, "antialias", ret_antialias)))
        return -1;
    if (strcmp(policy, "stretch") != 0)
        return onnx_bad(call, "keep_aspect_ratio_policy=%.50s is not supported; only stretch is.", policy);
    resize->mode = mode;
    resize->coordinates = coordinates;
    resize->rounding = rounding;
    return 0;
}

static int lower_resize(struct onnx_call *call) {
    struct emit emit = resize_of(call);
    const struct value *scales = onnx_input(call, 2);
    int64_t axes[SHAPE_MAX_RANK], sizes[SHAPE_MAX_RANK];
    int n_axes = -1, n_sizes;
    bool antialias = false;
    if (onnx_need_float(call, 0) || resize_attributes(call, &emit.attr.resize, &antialias) ||
        (call->importer->opset >= 18 && onnx_attr_ints(call, "axes", SHAPE_MAX_RANK, axes, &n_axes)) ||
        onnx_input_ints(call, 3, "list of sizes", SHAPE_MAX_RANK, sizes, &n_sizes))
        return -1;
    int64_t mask;
    if (onnx_axes(call, axes, n_axes, emit.shape.rank, &mask))
        return -1;
    bool by_scale = scales && shape_count(&scales->shape) > 0, by_size = n_sizes > 0;
    if (by_scale == by_size)
        return onnx_bad(call, "it needs either scales or sizes, and has %s.", by_size ? "both" : "none");
    if (by_scale ? set_scales_of_input(call, &emit, 2, axes, n_axes)
                 : set_sizes(call, &emit, sizes, n_sizes, axes, n_axes))
        return -1;
    for (int i = 0; i < emit.shape.rank && antialias && emit.attr.resize.mode == RESIZE_LINEAR; i++) {
        if (emit.attr.resize.scale[i] < 1)
            return onnx_bad(call, "antialias=1 is not supported when it scales down.");
    }
    return check_ambiguous(call, &emit) ? -1 : emit_resize(call, &emit);
}

const struct onnx_op onnx_ops_resize[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"Upsample", 7, 8, 1, 1, 1, lower_upsample_attribute, 0},
    {"Upsample", 9, 9, 2, 2, 1, lower_resize_scales, 0},
    {"Resize", 10, 10, 2, 2, 1, lower_resize_scales, 0},
    {"Resize", 11, ONNX_LATEST, 1, 4, 1, lower_resize, 0},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
