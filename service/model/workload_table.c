/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/workload_table.h"

#define ANY_MIN (-WORKLOAD_MAX_ELEMENTS)
#define ANY_MAX WORKLOAD_MAX_ELEMENTS
#define SMALL_MAX ((int64_t)1 << 20) /* strides, pads, kernels of windows */

#define INTS(part, member, n, low, high)                                                                  \
    {                                                                                                     \
        .name = #member, .offset = offsetof(union op_attr, part.member), .type = FIELD_INT, .count = (n), \
        .min = (low), .max = (high)                                                                       \
    }
#define NAMES(part, member, list)                                                                       \
    {                                                                                                   \
        .name = #member, .offset = offsetof(union op_attr, part.member), .type = FIELD_INT, .count = 1, \
        .names = (list), .max = ARRAY_COUNT(list) - 2                                                   \
    }
#define DOUBLES(part, member, n) \
    { .name = #member, .offset = offsetof(union op_attr, part.member), .type = FIELD_DOUBLE, .count = (n) }

static const char *const binary_names[] = {"add", "sub", "mul", "div", "max", "min", "pow", "prelu", NULL};
static const char *const pool_names[] = {"max", "average", NULL};
static const char *const reduce_names[] = {"mean", "max", "sum", NULL};
static const char *const pad_names[] = {"constant", "reflect", "edge", NULL};
static const char *const resize_names[] = {"nearest", "linear", NULL};
static const char *const coordinate_names[] = {"half-pixel", "pytorch-half-pixel", "asymmetric", "align-corners", NULL};
static const char *const rounding_names[] = {"round-prefer-floor", "round-prefer-ceil", "floor", "ceil", NULL};

static const struct attr_field no_fields[] = {{0}};
static const struct attr_field conv_fields[] = {
    INTS(conv, stride, 2, 1, SMALL_MAX),
    INTS(conv, dilation, 2, 1, SMALL_MAX),
    INTS(conv, pad, 4, -SMALL_MAX, SMALL_MAX),
    INTS(conv, groups, 1, 1, ANY_MAX),
    {0},
};
static const struct attr_field pool_fields[] = {
    NAMES(pool, kind, pool_names),
    INTS(pool, kernel, 2, 1, SMALL_MAX),
    INTS(pool, stride, 2, 1, SMALL_MAX),
    INTS(pool, dilation, 2, 1, SMALL_MAX),
    INTS(pool, pad, 4, -SMALL_MAX, SMALL_MAX),
    INTS(pool, count_include_pad, 1, 0, 1),
    {0},
};
static const struct attr_field reduce_fields[] = {
    NAMES(reduce, kind, reduce_names), INTS(reduce, axes, 1, 0, (1 << SHAPE_MAX_RANK) - 1), {0}};
static const struct attr_field binary_fields[] = {NAMES(binary, kind, binary_names), {0}};
static const struct attr_field softmax_fields[] = {
    INTS(softmax, axis, 1, 0, SHAPE_MAX_RANK - 1), INTS(softmax, log, 1, 0, 1), {0}};
static const struct attr_field lrn_fields[] = {
    INTS(lrn, size, 1, 1, SMALL_MAX), DOUBLES(lrn, alpha, 1), DOUBLES(lrn, beta, 1), DOUBLES(lrn, bias, 1), {0}};
static const struct attr_field transpose_fields[] = {INTS(transpose, perm, FIELD_PER_DIMENSION, 0, SHAPE_MAX_RANK - 1),
                                                     {0}};
static const struct attr_field concat_fields[] = {INTS(concat, axis, 1, 0, SHAPE_MAX_RANK - 1), {0}};
static const struct attr_field slice_fields[] = {INTS(slice, start, FIELD_PER_DIMENSION, 0, ANY_MAX),
                                                 INTS(slice, step, FIELD_PER_DIMENSION, INT64_MIN, INT64_MAX),
                                                 {0}};
static const struct attr_field pad_fields[] = {
    NAMES(pad, mode, pad_names), DOUBLES(pad, value, 1), INTS(pad, before, FIELD_PER_DIMENSION, ANY_MIN, ANY_MAX), {0}};
static const struct attr_field resize_fields[] = {
    NAMES(resize, mode, resize_names),
    NAMES(resize, coordinates, coordinate_names),
    NAMES(resize, rounding, rounding_names),
    DOUBLES(resize, scale, FIELD_PER_DIMENSION),
    {0},
};
static const struct attr_field gather_fields[] = {INTS(gather, axis, 1, 0, SHAPE_MAX_RANK - 1), {0}};

const struct op_spec workload_ops[OP_COUNT] = {
    /*                     inputs, bias, residual, act, attributes, shape rule, cost */
    [OP_CONV] = {2, 2, true, true, true, conv_fields, check_conv, flops_conv},
    [OP_CONV_TRANSPOSE] = {2, 2, true, false, true, conv_fields, check_conv_transpose, flops_conv_transpose},
    [OP_DENSE] = {2, 2, true, true, true, no_fields, check_dense, flops_dense},
    [OP_MATMUL] = {2, 2, false, false, false, no_fields, check_matmul, flops_matmul},
    [OP_POOL] = {1, 1, false, false, false, pool_fields, check_pool, flops_pool},
    [OP_REDUCE] = {1, 1, false, false, false, reduce_fields, check_reduce, flops_reduce},
    [OP_AFFINE] = {3, 3, false, false, true, no_fields, check_affine, flops_affine},
    [OP_UNARY] = {1, 1, false, false, true, no_fields, check_unary, flops_elementwise},
    [OP_BINARY] = {2, 2, false, false, true, binary_fields, check_binary, flops_elementwise},
    [OP_SOFTMAX] = {1, 1, false, false, false, softmax_fields, check_axis_same_shape, flops_softmax},
    [OP_LRN] = {1, 1, false, false, false, lrn_fields, check_lrn, flops_lrn},
    [OP_RESHAPE] = {1, 1, false, false, false, no_fields, check_reshape, NULL},
    [OP_TRANSPOSE] = {1, 1, false, false, false, transpose_fields, check_transpose, NULL},
    [OP_CONCAT] = {1, WORKLOAD_MAX_IN, false, false, false, concat_fields, check_concat, NULL},
    [OP_SLICE] = {1, 1, false, false, false, slice_fields, check_slice, NULL},
    [OP_PAD] = {1, 1, false, false, false, pad_fields, check_pad, NULL},
    [OP_RESIZE] = {1, 1, false, false, false, resize_fields, check_resize, flops_resize},
    [OP_GATHER] = {2, 2, false, false, false, gather_fields, check_gather, NULL},
    [OP_EXPAND] = {1, 1, false, false, false, no_fields, check_expand, NULL},
    [OP_CAST] = {1, 1, false, false, false, no_fields, check_same_shape, NULL},
    [OP_COPY] = {1, 1, false, false, false, no_fields, check_same_shape, NULL},
};

const struct act_spec workload_acts[ACT_COUNT] = {
    [ACT_NONE] = {"none", 0},
    [ACT_RELU] = {"relu", 0},
    [ACT_LEAKY_RELU] = {"leaky-relu", 1},
    [ACT_CLIP] = {"clip", 2},
    [ACT_SIGMOID] = {"sigmoid", 0},
    [ACT_HARD_SIGMOID] = {"hard-sigmoid", 2},
    [ACT_HARD_SWISH] = {"hard-swish", 0},
    [ACT_TANH] = {"tanh", 0},
    [ACT_SILU] = {"silu", 0},
    [ACT_EXP] = {"exp", 0},
    [ACT_LOG] = {"log", 0},
    [ACT_SQRT] = {"sqrt", 0},
    [ACT_ABS] = {"abs", 0},
    [ACT_NEG] = {"neg", 0},
    [ACT_ERF] = {"erf", 0},
    [ACT_FLOOR] = {"floor", 0},
    [ACT_CEIL] = {"ceil", 0},
    [ACT_RECIPROCAL] = {"reciprocal", 0},
};

int attr_field_count(const struct attr_field *field, const struct workload *workload) {
    return field->count == FIELD_PER_DIMENSION ? workload->in[0].shape.rank : field->count;
}
