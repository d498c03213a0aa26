/* SPDX-License-Identifier: Apache-2.0 */
/* What each operator means in each opset: one node a model, its result against numbers worked out by hand. */
#include "service/model/onnx_import.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_build.h"
#include "service/model/eval.h"

#define MAX_TENSORS 8

/* ---- One node ---- */

/* in[0] is fed at run time, the others are initializers. */
struct node_case {
    const char *op;
    int opset;
    struct attr attrs[8];
    struct tensor in[MAX_TENSORS];
    int n_in;
    struct tensor out[4];
    int n_out;
};

static float *tensor_floats(const struct tensor *tensor, struct arena *arena) {
    int64_t count = tensor_count(tensor);
    float *data = arena_array(arena, (size_t)count + 1, sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = tensor_at(tensor, i);
    return data;
}

static void *case_model(const struct node_case *c, size_t *ret_len) {
    struct model model = model_new(c->opset);
    char in[64] = "", out[64] = "";
    model_value(&model, 11, "i0", ONNX_FLOAT32, c->in[0].rank, c->in[0].dim);
    for (int i = 0; i < c->n_in; i++) {
        char name[16];
        snprintf(name, sizeof name, "i%d", i);
        snprintf(in + strlen(in), sizeof in - strlen(in), "%s ", c->in[i].absent ? "-" : name);
        if (i > 0 && !c->in[i].absent)
            model_constant(&model, name, &c->in[i]);
    }
    for (int i = 0; i < c->n_out; i++) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s ", name);
        model_output(&model, name);
    }
    model_node(&model, c->op, "the_node", in, out, c->attrs);
    void *bytes = model_bytes(&model, ret_len);
    model_done(&model);
    return bytes;
}

static void assert_close(const struct tensor *expected, const struct value *value, const float *got,
                         const char *label) {
    cr_assert_eq(value->shape.rank, expected->rank, "%s: rank %d", label, value->shape.rank);
    for (int i = 0; i < expected->rank; i++)
        cr_assert_eq(value->shape.dim[i], expected->dim[i], "%s: dimension %d is %lld", label, i,
                     (long long)value->shape.dim[i]);
    for (int64_t i = 0; i < tensor_count(expected); i++) {
        double want = tensor_at(expected, i);
        cr_assert(fabs((double)got[i] - want) <= 1e-5 * fmax(1, fabs(want)), "%s: element %lld is %.7g, not %.7g",
                  label, (long long)i, (double)got[i], want);
    }
}

static void check_case(const struct node_case *c) {
    struct arena *arena = arena_new(0);
    struct error error = {0};
    struct graph *graph;
    size_t len;
    char label[64];
    float *out[4];
    snprintf(label, sizeof label, "%s of opset %d", c->op, c->opset);
    void *bytes = case_model(c, &len);
    cr_assert_eq(onnx_import(bytes, len, NULL, arena, &graph, &error), 0, "%s: %s", label, error.text);
    const void *in[] = {tensor_floats(&c->in[0], arena)};
    cr_assert_eq(graph->n_outputs, c->n_out);
    cr_assert_eq(eval_graph(graph, in, arena, out, &error), 0, "%s: %s", label, error.text);
    for (int i = 0; i < c->n_out; i++)
        assert_close(&c->out[i], &graph->values[graph->outputs[i]], out[i], label);
    free(bytes);
    arena_free(arena);
}

static void check_cases(const struct node_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_case(&cases[i]);
}

#define CHECK(...)                                      \
    do {                                                \
        const struct node_case cases[] = {__VA_ARGS__}; \
        check_cases(cases, ARRAY_COUNT(cases));         \
    } while (0)
#define IN1(...) .n_in = 1, .in = {{__VA_ARGS__}}
#define OUT(...) .n_out = 1, .out = {{__VA_ARGS__}}

/* ---- Elementwise ---- */

Test(onnx_ops, activations_compute_their_formulas) {
    CHECK({"Relu", 7, .n_in = 1, .in = {{DIMS(3), FLOATS(-1, 0, 2)}}, OUT(DIMS(3), FLOATS(0, 0, 2))},
          {"LeakyRelu", 7, IN1(DIMS(2), FLOATS(-1, 2)), OUT(DIMS(2), FLOATS(-0.01f, 2))},
          {"LeakyRelu", 16, {A_FLOAT("alpha", 0.5f)}, IN1(DIMS(2), FLOATS(-1, 2)), OUT(DIMS(2), FLOATS(-0.5f, 2))},
          {"Sigmoid", 13, IN1(DIMS(2), FLOATS(0, 1)), OUT(DIMS(2), FLOATS(0.5f, 0.7310586f))},
          {"HardSigmoid", 7, IN1(DIMS(3), FLOATS(-5, 1, 5)), OUT(DIMS(3), FLOATS(0, 0.7f, 1))},
          {"HardSwish", 14, IN1(DIMS(3), FLOATS(-4, 1, 4)), OUT(DIMS(3), FLOATS(0, 0.6666667f, 4))},
          {"Tanh", 7, IN1(DIMS(1), FLOATS(1)), OUT(DIMS(1), FLOATS(0.7615942f))},
          {"Exp", 7, IN1(DIMS(1), FLOATS(1)), OUT(DIMS(1), FLOATS(2.7182818f))},
          {"Log", 13, IN1(DIMS(1), FLOATS(2)), OUT(DIMS(1), FLOATS(0.6931472f))},
          {"Sqrt", 7, IN1(DIMS(1), FLOATS(9)), OUT(DIMS(1), FLOATS(3))},
          {"Abs", 7, IN1(DIMS(2), FLOATS(-2, 2)), OUT(DIMS(2), FLOATS(2, 2))},
          {"Neg", 7, IN1(DIMS(1), FLOATS(3)), OUT(DIMS(1), FLOATS(-3))},
          {"Erf", 9, IN1(DIMS(1), FLOATS(0.5f)), OUT(DIMS(1), FLOATS(0.5204999f))},
          {"Floor", 7, IN1(DIMS(1), FLOATS(-1.5f)), OUT(DIMS(1), FLOATS(-2))},
          {"Ceil", 7, IN1(DIMS(1), FLOATS(-1.5f)), OUT(DIMS(1), FLOATS(-1))},
          {"Reciprocal", 7, IN1(DIMS(1), FLOATS(4)), OUT(DIMS(1), FLOATS(0.25f))});
}

Test(onnx_ops, clip_takes_bounds_as_attributes_and_later_as_inputs) {
    CHECK({"Clip",
           7,
           {A_FLOAT("min", -1), A_FLOAT("max", 1)},
           IN1(DIMS(3), FLOATS(-9, 0, 9)),
           OUT(DIMS(3), FLOATS(-1, 0, 1))},
          {"Clip", 10, {A_FLOAT("min", 0)}, IN1(DIMS(2), FLOATS(-9, 9)), OUT(DIMS(2), FLOATS(0, 9))},
          {"Clip", 11, .n_in = 3, .in = {{DIMS(3), FLOATS(-9, 0, 9)}, NUMBER(-2), NUMBER(6)},
           OUT(DIMS(3), FLOATS(-2, 0, 6))},
          {"Clip", 13, .n_in = 3, .in = {{DIMS(2), FLOATS(-9, 9)}, ABSENT, NUMBER(6)}, OUT(DIMS(2), FLOATS(-9, 6))},
          {"Clip", 13, .n_in = 3, .in = {{DIMS(2), FLOATS(-9, 9)}, NUMBER(5), NUMBER(2)}, OUT(DIMS(2), FLOATS(2, 2))},
          {"Clip", 13, IN1(DIMS(2), FLOATS(-9, 9)), OUT(DIMS(2), FLOATS(-9, 9))});
}

Test(onnx_ops, binary_operators_broadcast) {
    CHECK(
        {"Add", 7, .n_in = 2, .in = {{DIMS(2, 2)}, {DIMS(2), FLOATS(10, 20)}}, OUT(DIMS(2, 2), FLOATS(10, 21, 12, 23))},
        {"Sub", 14, .n_in = 2, .in = {{DIMS(2)}, {DIMS(2, 1), FLOATS(1, 2)}}, OUT(DIMS(2, 2), FLOATS(-1, 0, -2, -1))},
        {"Mul", 13, .n_in = 2, .in = {{DIMS(3)}, NUMBER(2)}, OUT(DIMS(3), FLOATS(0, 2, 4))},
        {"Div", 7, .n_in = 2, .in = {{DIMS(2)}, NUMBER(4)}, OUT(DIMS(2), FLOATS(0, 0.25f))},
        {"Pow", 13, .n_in = 2, .in = {{DIMS(3)}, {.rank = 0, INTS(2)}}, OUT(DIMS(3), FLOATS(0, 1, 4))},
        {"Sum", 8, .n_in = 3, .in = {{DIMS(2)}, {DIMS(2)}, NUMBER(5)}, OUT(DIMS(2), FLOATS(5, 7))},
        {"Max", 12, .n_in = 2, .in = {{DIMS(3)}, NUMBER(1)}, OUT(DIMS(3), FLOATS(1, 1, 2))},
        {"Min", 8, .n_in = 2, .in = {{DIMS(3)}, NUMBER(1)}, OUT(DIMS(3), FLOATS(0, 1, 1))},
        {"PRelu", 9, .n_in = 2, .in = {{DIMS(1, 2, 1, 1), FLOATS(-1, -1)}, {DIMS(2, 1, 1), FLOATS(0.5f, 2)}},
         OUT(DIMS(1, 2, 1, 1), FLOATS(-0.5f, -2))});
}

Test(onnx_ops, gemm_transposes_scales_and_adds) {
    CHECK({"Gemm",
           7,
           {A_INT("transB", 1)},
           .n_in = 3,
           .in = {{DIMS(1, 2), FLOATS(1, 2)}, {DIMS(3, 2)}, {DIMS(3), FLOATS(10, 20, 30)}},
           OUT(DIMS(1, 3), FLOATS(12, 28, 44))},
          {"Gemm",
           9,
           {A_FLOAT("alpha", 2), A_FLOAT("beta", 3)},
           .n_in = 3,
           .in = {{DIMS(1, 2), FLOATS(1, 2)}, {DIMS(2, 3)}, NUMBER(1)},
           OUT(DIMS(1, 3), FLOATS(15, 21, 27))},
          {"Gemm",
           11,
           {A_INT("transA", 1)},
           .n_in = 2,
           .in = {{DIMS(2, 1), FLOATS(1, 2)}, {DIMS(2, 2)}},
           OUT(DIMS(1, 2), FLOATS(4, 7))},
          {"Gemm", 13, .n_in = 3, .in = {{DIMS(2, 1), FLOATS(1, 2)}, {DIMS(1, 1), FLOATS(1)}, {DIMS(2, 1)}},
           OUT(DIMS(2, 1), FLOATS(1, 3))});
}

Test(onnx_ops, matmul_takes_vectors_and_batches) {
    CHECK({"MatMul", 7, .n_in = 2, .in = {{DIMS(2, 2)}, {DIMS(2, 1), FLOATS(1, 2)}}, OUT(DIMS(2, 1), FLOATS(2, 8))},
          {"MatMul", 13, .n_in = 2, .in = {{DIMS(2)}, {DIMS(2, 3)}}, OUT(DIMS(3), FLOATS(3, 4, 5))},
          {"MatMul", 9, .n_in = 2, .in = {{DIMS(2, 1, 2)}, {DIMS(2), FLOATS(1, 1)}}, OUT(DIMS(2, 1), FLOATS(1, 5))},
          {"MatMul", 9, .n_in = 2, .in = {{DIMS(1, 2)}, {DIMS(2, 2, 1)}}, OUT(DIMS(2, 1, 1), FLOATS(1, 3))});
}

/* ---- Along axes ---- */

Test(onnx_ops, softmax_before_opset_13_takes_all_later_dimensions_as_one) {
    CHECK({"Softmax",
           11,
           {A_INT("axis", 1)},
           IN1(DIMS(1, 2, 2), FLOATS(0, 0, 0, 0)),
           OUT(DIMS(1, 2, 2), FLOATS(0.25f, 0.25f, 0.25f, 0.25f))},
          {"Softmax", 9, IN1(DIMS(1, 2, 1, 1), FLOATS(0, 0)), OUT(DIMS(1, 2, 1, 1), FLOATS(0.5f, 0.5f))},
          {"LogSoftmax",
           7,
           {A_INT("axis", 0)},
           IN1(DIMS(2, 1), FLOATS(0, 0)),
           OUT(DIMS(2, 1), FLOATS(-0.6931472f, -0.6931472f))},
          {"Softmax",
           13,
           {A_INT("axis", 1)},
           IN1(DIMS(1, 2, 2), FLOATS(0, 0, 0, 0)),
           OUT(DIMS(1, 2, 2), FLOATS(0.5f, 0.5f, 0.5f, 0.5f))},
          {"Softmax", 13, IN1(DIMS(2, 1), FLOATS(3, 4)), OUT(DIMS(2, 1), FLOATS(1, 1))});
}

Test(onnx_ops, reductions_take_axes_as_attribute_and_later_as_input) {
    CHECK({"ReduceMean",
           11,
           {A_INTS("axes", -1), A_INT("keepdims", 0)},
           IN1(DIMS(2, 2)),
           OUT(DIMS(2), FLOATS(0.5f, 2.5f))},
          {"ReduceMean", 18, .n_in = 2, .in = {{DIMS(2, 2)}, LIST(0)}, OUT(DIMS(1, 2), FLOATS(1, 2))},
          {"ReduceMean", 7, IN1(DIMS(2, 2)), OUT(DIMS(1, 1), FLOATS(1.5f))},
          {"ReduceMean", 18, {A_INT("noop_with_empty_axes", 1)}, IN1(DIMS(2)), OUT(DIMS(2), FLOATS(0, 1))},
          {"ReduceSum", 11, {A_INTS("axes", 0)}, IN1(DIMS(2, 2)), OUT(DIMS(1, 2), FLOATS(2, 4))},
          {"ReduceSum", 13, .n_in = 2, .in = {{DIMS(2, 2)}, LIST(1)}, OUT(DIMS(2, 1), FLOATS(1, 5))},
          {"ReduceMax", 13, {A_INTS("axes", 1)}, IN1(DIMS(2, 2)), OUT(DIMS(2, 1), FLOATS(1, 3))},
          {"GlobalAveragePool", 7, IN1(DIMS(1, 2, 2, 1)), OUT(DIMS(1, 2, 1, 1), FLOATS(0.5f, 2.5f))},
          {"GlobalMaxPool", 7, IN1(DIMS(1, 2, 2, 1)), OUT(DIMS(1, 2, 1, 1), FLOATS(1, 3))});
}

/* ---- Windows ---- */

#define ONES4 \
    { DIMS(1, 1, 2, 2), FLOATS(1, 1, 1, 1) }

Test(onnx_ops, convolutions_resolve_auto_pad) {
    CHECK({"Conv",
           7,
           {A_TEXT("auto_pad", "VALID")},
           .n_in = 2,
           .in = {{DIMS(1, 1, 3, 3)}, ONES4},
           OUT(DIMS(1, 1, 2, 2), FLOATS(8, 12, 20, 24))},
          {"Conv",
           11,
           {A_TEXT("auto_pad", "SAME_UPPER")},
           .n_in = 2,
           .in = {{DIMS(1, 1, 2, 2)}, ONES4},
           OUT(DIMS(1, 1, 2, 2), FLOATS(6, 4, 5, 3))},
          {"Conv",
           11,
           {A_TEXT("auto_pad", "SAME_LOWER")},
           .n_in = 2,
           .in = {{DIMS(1, 1, 2, 2)}, ONES4},
           OUT(DIMS(1, 1, 2, 2), FLOATS(0, 1, 2, 6))},
          {"Conv",
           11,
           {A_INTS("pads", 1, 0, 0, 0)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 2), FLOATS(1, 2)}, ONES4},
           OUT(DIMS(1, 1, 1, 1), FLOATS(3))});
}

Test(onnx_ops, convolutions_know_groups_bias_dilation_and_signals) {
    CHECK({"Conv",
           11,
           {A_INT("group", 2)},
           .n_in = 3,
           .in = {{DIMS(1, 2, 1, 1), FLOATS(3, 5)}, {DIMS(2, 1, 1, 1), FLOATS(2, 10)}, {DIMS(2), FLOATS(1, 2)}},
           OUT(DIMS(1, 2, 1, 1), FLOATS(7, 52))},
          {"Conv",
           11,
           {A_INTS("dilations", 2), A_INTS("kernel_shape", 2)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 4)}, {DIMS(1, 1, 2), FLOATS(1, 10)}},
           OUT(DIMS(1, 1, 2), FLOATS(20, 31))},
          {"Conv",
           11,
           {A_INTS("strides", 1, 2)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 5)}, {DIMS(1, 1, 1, 1), FLOATS(1)}},
           OUT(DIMS(1, 1, 1, 3), FLOATS(0, 2, 4))});
}

Test(onnx_ops, transposed_convolutions_resolve_their_output_size) {
    CHECK({"ConvTranspose",
           7,
           {A_INTS("strides", 2, 2)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 2), FLOATS(1, 2)}, ONES4},
           OUT(DIMS(1, 1, 2, 4), FLOATS(1, 1, 2, 2, 1, 1, 2, 2))},
          {"ConvTranspose",
           11,
           {A_INTS("strides", 2, 2), A_INTS("output_padding", 0, 1)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 1), FLOATS(3)}, ONES4},
           OUT(DIMS(1, 1, 2, 3), FLOATS(3, 3, 0, 3, 3, 0))},
          {"ConvTranspose",
           11,
           {A_INTS("output_shape", 1, 2)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 2), FLOATS(1, 2)}, ONES4},
           OUT(DIMS(1, 1, 1, 2), FLOATS(3, 2))},
          {"ConvTranspose",
           11,
           {A_TEXT("auto_pad", "SAME_UPPER"), A_INTS("strides", 1, 1)},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 2), FLOATS(1, 2)}, ONES4},
           OUT(DIMS(1, 1, 1, 2), FLOATS(1, 3))},
          {"ConvTranspose",
           11,
           {A_INT("group", 2)},
           .n_in = 3,
           .in = {{DIMS(1, 2, 1), FLOATS(3, 5)}, {DIMS(2, 1, 1), FLOATS(2, 10)}, {DIMS(2), FLOATS(1, 1)}},
           OUT(DIMS(1, 2, 1), FLOATS(7, 51))});
}

Test(onnx_ops, pools_know_ceil_mode_padding_and_dilation) {
    CHECK({"MaxPool",
           10,
           {A_INTS("kernel_shape", 2, 2), A_INTS("strides", 2, 2), A_INT("ceil_mode", 1)},
           IN1(DIMS(1, 1, 3, 3)),
           OUT(DIMS(1, 1, 2, 2), FLOATS(4, 5, 7, 8))},
          {"MaxPool",
           8,
           {A_INTS("kernel_shape", 2, 2), A_INTS("strides", 2, 2)},
           IN1(DIMS(1, 1, 3, 3)),
           OUT(DIMS(1, 1, 1, 1), FLOATS(4))},
          {"MaxPool",
           11,
           {A_INTS("kernel_shape", 2), A_INTS("dilations", 2)},
           IN1(DIMS(1, 1, 4)),
           OUT(DIMS(1, 1, 2), FLOATS(2, 3))},
          /* the window that would start in the padding at the end is dropped */
          {"MaxPool",
           12,
           {A_INTS("kernel_shape", 1), A_INTS("strides", 2), A_INTS("pads", 0, 0), A_INT("ceil_mode", 1)},
           IN1(DIMS(1, 1, 2)),
           OUT(DIMS(1, 1, 1), FLOATS(0))},
          {"AveragePool",
           7,
           {A_INTS("kernel_shape", 3), A_INTS("pads", 1, 1)},
           IN1(DIMS(1, 1, 3)),
           OUT(DIMS(1, 1, 3), FLOATS(0.5f, 1, 1.5f))},
          {"AveragePool",
           7,
           {A_INTS("kernel_shape", 3), A_INTS("pads", 1, 1), A_INT("count_include_pad", 1)},
           IN1(DIMS(1, 1, 3)),
           OUT(DIMS(1, 1, 3), FLOATS(0.3333333f, 1, 1))},
          {"AveragePool",
           10,
           {A_INTS("kernel_shape", 2), A_INTS("strides", 2), A_INT("count_include_pad", 1), A_INT("ceil_mode", 1)},
           IN1(DIMS(1, 1, 3)),
           OUT(DIMS(1, 1, 2), FLOATS(0.5f, 2))},
          {"AveragePool",
           19,
           {A_INTS("kernel_shape", 2), A_INTS("dilations", 2)},
           IN1(DIMS(1, 1, 3)),
           OUT(DIMS(1, 1, 1), FLOATS(1))});
}

Test(onnx_ops, batch_norm_is_the_same_in_all_its_opsets) {
#define NORM(n, ...)                          \
    {"BatchNormalization",                    \
     n,                                       \
     {A_FLOAT("epsilon", 0), __VA_ARGS__},    \
     .n_in = 5,                               \
     .in = {{DIMS(1, 2, 1, 1), FLOATS(3, 5)}, \
            {DIMS(2), FLOATS(2, 1)},          \
            {DIMS(2), FLOATS(1, 0)},          \
            {DIMS(2), FLOATS(1, 1)},          \
            {DIMS(2), FLOATS(4, 16)}},        \
     OUT(DIMS(1, 2, 1, 1), FLOATS(3, 1))}
    CHECK(NORM(7, A_INT("spatial", 1)), NORM(9, A_FLOAT("momentum", 0.5f)), NORM(14, A_INT("training_mode", 0)),
          NORM(15, A_FLOAT("momentum", 0.9f)));
#undef NORM
}

Test(onnx_ops, lrn_normalises_across_channels) {
    CHECK({"LRN",
           7,
           {A_INT("size", 3), A_FLOAT("alpha", 3), A_FLOAT("beta", 1), A_FLOAT("bias", 1)},
           IN1(DIMS(1, 3, 1, 1), FLOATS(1, 2, 3)),
           OUT(DIMS(1, 3, 1, 1), FLOATS(1 / 6.f, 2 / 15.f, 3 / 14.f))});
}

/* ---- Shapes ---- */

Test(onnx_ops, reshape_copies_and_infers_dimensions) {
    CHECK({"Reshape", 7, .n_in = 2, .in = {{DIMS(2, 3, 4)}, LIST(0, -1)}, OUT(DIMS(2, 12))},
          {"Reshape", 14, {A_INT("allowzero", 1)}, .n_in = 2, .in = {{DIMS(2, 3)}, LIST(3, -1)}, OUT(DIMS(3, 2))},
          {"Reshape", 14, .n_in = 2, .in = {{DIMS(2, 3, 4)}, LIST(-1, 0, 4)}, OUT(DIMS(2, 3, 4))},
          {"Flatten", 7, IN1(DIMS(2, 3, 4)), OUT(DIMS(2, 12))},
          {"Flatten", 13, {A_INT("axis", -1)}, IN1(DIMS(2, 3, 4)), OUT(DIMS(6, 4))},
          {"Flatten", 9, {A_INT("axis", 0)}, IN1(DIMS(2, 3)), OUT(DIMS(1, 6))},
          {"Identity", 7, IN1(DIMS(2)), OUT(DIMS(2))},
          {"Dropout", 7, {A_FLOAT("ratio", 0.5f)}, IN1(DIMS(2)), OUT(DIMS(2))},
          {"Dropout", 12, .n_in = 2, .in = {{DIMS(2)}, NUMBER(0.5f)}, OUT(DIMS(2))});
}

Test(onnx_ops, squeeze_and_unsqueeze_take_axes_as_attribute_and_later_as_input) {
    CHECK({"Squeeze", 7, {A_INTS("axes", 0)}, IN1(DIMS(1, 2, 1)), OUT(DIMS(2, 1))},
          {"Squeeze", 11, IN1(DIMS(1, 2, 1)), OUT(DIMS(2))},
          {"Squeeze", 13, .n_in = 2, .in = {{DIMS(1, 2, 1)}, LIST(-1)}, OUT(DIMS(1, 2))},
          {"Unsqueeze", 11, {A_INTS("axes", 0, -1)}, IN1(DIMS(2)), OUT(DIMS(1, 2, 1))},
          {"Unsqueeze", 13, .n_in = 2, .in = {{DIMS(2)}, LIST(1)}, OUT(DIMS(2, 1))});
}

Test(onnx_ops, elements_move_where_they_should) {
    CHECK({"Transpose", 7, IN1(DIMS(2, 3)), OUT(DIMS(3, 2), FLOATS(0, 3, 1, 4, 2, 5))},
          {"Transpose", 13, {A_INTS("perm", 0, 2, 1)}, IN1(DIMS(1, 2, 2)), OUT(DIMS(1, 2, 2), FLOATS(0, 2, 1, 3))},
          {"Concat",
           7,
           {A_INT("axis", 1)},
           .n_in = 2,
           .in = {{DIMS(2, 1)}, {DIMS(2, 2)}},
           OUT(DIMS(2, 3), FLOATS(0, 0, 1, 1, 2, 3))},
          {"Expand", 8, .n_in = 2, .in = {{DIMS(2, 1)}, LIST(1, 2)}, OUT(DIMS(2, 2), FLOATS(0, 0, 1, 1))},
          {"Gather",
           7,
           {A_INT("axis", 1)},
           .n_in = 2,
           .in = {{DIMS(2, 2)}, LIST(1, 0, 1)},
           OUT(DIMS(2, 3), FLOATS(1, 0, 1, 3, 2, 3))},
          {"Gather", 11, .n_in = 2, .in = {{DIMS(2, 2)}, {.rank = 0, INTS(-1)}}, OUT(DIMS(2), FLOATS(2, 3))});
}

Test(onnx_ops, split_takes_parts_as_attribute_as_input_or_as_a_number) {
#define PARTS .n_out = 2, .out = { {DIMS(1), FLOATS(0)}, {DIMS(2), FLOATS(1, 2)} }
#define HALVES .n_out = 2, .out = {{DIMS(2), FLOATS(0, 1)}, {DIMS(1), FLOATS(2)}}
    CHECK({"Split", 11, {A_INTS("split", 1, 2)}, IN1(DIMS(3)), PARTS},
          {"Split", 13, .n_in = 2, .in = {{DIMS(3)}, LIST(1, 2)}, PARTS},
          {"Split", 18, {A_INT("num_outputs", 2)}, IN1(DIMS(3)), HALVES},
          {"Split",
           7,
           {A_INT("axis", 1)},
           IN1(DIMS(1, 2)),
           .n_out = 2,
           .out = {{DIMS(1, 1), FLOATS(0)}, {DIMS(1, 1), FLOATS(1)}}});
#undef PARTS
#undef HALVES
}

Test(onnx_ops, slice_takes_ranges_as_attributes_and_later_as_inputs) {
    CHECK({"Slice", 7, {A_INTS("starts", 1), A_INTS("ends", 1000)}, IN1(DIMS(4)), OUT(DIMS(3), FLOATS(1, 2, 3))},
          {"Slice",
           9,
           {A_INTS("starts", 0), A_INTS("ends", -1), A_INTS("axes", 1)},
           IN1(DIMS(2, 2)),
           OUT(DIMS(2, 1), FLOATS(0, 2))},
          {"Slice", 10, .n_in = 5, .in = {{DIMS(5)}, LIST(-1), LIST(INT64_MIN), LIST(0), LIST(-2)},
           OUT(DIMS(3), FLOATS(4, 2, 0))},
          {"Slice", 13, .n_in = 5, .in = {{DIMS(5)}, LIST(1), LIST(INT64_MAX), LIST(-1), LIST(3)},
           OUT(DIMS(2), FLOATS(1, 4))});
}

Test(onnx_ops, pad_takes_pads_as_attribute_and_later_as_input) {
    CHECK({"Pad", 7, {A_INTS("pads", 1, 0), A_FLOAT("value", 9)}, IN1(DIMS(2)), OUT(DIMS(3), FLOATS(9, 0, 1))},
          {"Pad", 11, .n_in = 3, .in = {{DIMS(2)}, LIST(0, 1), NUMBER(7)}, OUT(DIMS(3), FLOATS(0, 1, 7))},
          {"Pad",
           13,
           {A_TEXT("mode", "reflect")},
           .n_in = 2,
           .in = {{DIMS(3)}, LIST(2, 1)},
           OUT(DIMS(6), FLOATS(2, 1, 0, 1, 2, 1))},
          {"Pad",
           13,
           {A_TEXT("mode", "edge")},
           .n_in = 2,
           .in = {{DIMS(2)}, LIST(1, 2)},
           OUT(DIMS(5), FLOATS(0, 0, 1, 1, 1))},
          {"Pad", 18, .n_in = 4, .in = {{DIMS(1, 2)}, LIST(1, 0), ABSENT, LIST(-1)}, OUT(DIMS(1, 3), FLOATS(0, 0, 1))},
          {"Pad", 11, .n_in = 2, .in = {{DIMS(3)}, LIST(-1, 1)}, OUT(DIMS(3), FLOATS(1, 2, 0))});
}

Test(onnx_ops, upsample_and_old_resize_repeat_the_nearest) {
    CHECK({"Upsample",
           7,
           {A_FLOATS("scales", 1, 1, 1, 2)},
           IN1(DIMS(1, 1, 1, 2)),
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 0, 1, 1))},
          {"Upsample",
           9,
           {A_TEXT("mode", "linear")},
           .n_in = 2,
           .in = {{DIMS(1, 1, 1, 2)}, {DIMS(4), FLOATS(1, 1, 1, 2)}},
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 0.5f, 1, 1))},
          {"Resize", 10, .n_in = 2, .in = {{DIMS(1, 1, 1, 2)}, {DIMS(4), FLOATS(1, 1, 2, 2)}},
           OUT(DIMS(1, 1, 2, 4), FLOATS(0, 0, 1, 1, 0, 0, 1, 1))},
          {"Resize", 10, .n_in = 2, .in = {{DIMS(1, 1, 1, 4)}, {DIMS(4), FLOATS(1, 1, 1, 0.6f)}},
           OUT(DIMS(1, 1, 1, 2), FLOATS(0, 2))});
}

#define NO_ROI \
    { .rank = 1, .dim = {0}, .floats = NULL }

Test(onnx_ops, resize_knows_its_coordinates_and_roundings) {
    CHECK({"Resize", 11, .n_in = 3, .in = {{DIMS(1, 1, 1, 2)}, NO_ROI, {DIMS(4), FLOATS(1, 1, 1, 2)}},
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 0, 1, 1))},
          {"Resize",
           13,
           {A_TEXT("mode", "linear"), A_TEXT("coordinate_transformation_mode", "half_pixel")},
           .n_in = 3,
           .in = {{DIMS(1, 1, 1, 2)}, ABSENT, {DIMS(4), FLOATS(1, 1, 1, 2)}},
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 0.25f, 0.75f, 1))},
          {"Resize",
           13,
           {A_TEXT("mode", "linear"), A_TEXT("coordinate_transformation_mode", "align_corners")},
           .n_in = 4,
           .in = {{DIMS(1, 1, 1, 2)}, ABSENT, ABSENT, LIST(1, 1, 1, 3)},
           OUT(DIMS(1, 1, 1, 3), FLOATS(0, 0.5f, 1))},
          {"Resize",
           13,
           {A_TEXT("mode", "linear"), A_TEXT("coordinate_transformation_mode", "asymmetric")},
           .n_in = 4,
           .in = {{DIMS(1, 1, 1, 2)}, NO_ROI, NO_ROI, LIST(1, 1, 1, 4)},
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 0.5f, 1, 1))},
          {"Resize",
           18,
           {A_TEXT("coordinate_transformation_mode", "asymmetric"), A_TEXT("nearest_mode", "ceil"),
            A_INTS("axes", 3, -2), A_TEXT("keep_aspect_ratio_policy", "stretch")},
           .n_in = 4,
           .in = {{DIMS(1, 1, 1, 2)}, ABSENT, ABSENT, LIST(4, 1)},
           OUT(DIMS(1, 1, 1, 4), FLOATS(0, 1, 1, 1))},
          {"Resize",
           18,
           {A_TEXT("coordinate_transformation_mode", "pytorch_half_pixel"), A_TEXT("nearest_mode", "floor")},
           .n_in = 4,
           .in = {{DIMS(1, 1, 1, 4)}, ABSENT, ABSENT, LIST(1, 1, 1, 1)},
           OUT(DIMS(1, 1, 1, 1), FLOATS(0))});
}

Test(onnx_ops, cast_gives_the_nearest_integer_towards_zero) {
    CHECK({"Cast", 9, {A_INT("to", ONNX_INT64)}, IN1(DIMS(2), FLOATS(-1.7f, 2.9f)), OUT(DIMS(2), FLOATS(-1, 2))},
          {"Cast", 13, {A_INT("to", ONNX_BOOL)}, IN1(DIMS(2), FLOATS(0, 0.5f)), OUT(DIMS(2), FLOATS(0, 1))},
          {"Cast",
           19,
           {A_INT("to", ONNX_FLOAT16), A_INT("saturate", 1)},
           IN1(DIMS(1), FLOATS(0.5f)),
           OUT(DIMS(1), FLOATS(0.5f))});
}
