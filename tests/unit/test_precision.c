/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/precision.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "service/base/bfloat.h"
#include "service/base/half.h"
#include "service/base/rng.h"
#include "service/model/eval.h"
#include "service/model/workload.h"

static struct arena *arena;
static struct graph *graph;
static struct rng rng;
static struct precision_loss loss;

static void start(void) {
    arena = arena_new(0);
    graph = graph_new(arena);
    graph->inputs = arena_array(arena, 4, sizeof(int));
    graph->outputs = arena_array(arena, 4, sizeof(int));
    rng_seed(&rng, 7);
}

static void stop(void) {
    arena_free(arena);
}

TestSuite(precision, .init = start, .fini = stop);

#define SHAPE(...) (&(struct shape){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static int constant(const struct shape *shape) {
    int value = graph_add_value(graph, "constant", DTYPE_F32, shape);
    int64_t n = shape_count(shape);
    float *data = arena_array(arena, (size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(rng_unit(&rng) - 0.5);
    graph->values[value].data = data;
    return value;
}

static int input(enum dtype dtype, const struct shape *shape) {
    return graph->inputs[graph->n_inputs++] = graph_add_value(graph, "input", dtype, shape);
}

static void output(int value) {
    graph->outputs[graph->n_outputs++] = value;
}

/* A node of the inputs up to the first -1. */
static struct node *node(enum op op, const struct shape *shape, int a, int b, int c, int d) {
    const int in[] = {a, b, c, d};
    int n = a < 0   ? 0
            : b < 0 ? 1
            : c < 0 ? 2
            : d < 0 ? 3
                    : 4,
        value = graph_add_value(graph, "value", DTYPE_F32, shape);
    struct node *added = graph_add_node(graph, op, op_name(op), n, 1);
    memcpy(added->in, in, (size_t)n * sizeof *in);
    added->out[0] = value;
    return added;
}

static int conv(int x, int residual) {
    struct node *added = node(OP_CONV, SHAPE(1, 4, 5, 5), x, constant(SHAPE(4, 4, 3, 3)), constant(SHAPE(4)), residual);
    added->attr.conv = (struct conv_attr){{1, 1}, {1, 1}, {1, 1, 1, 1}, 1};
    added->epilogue = (struct epilogue){.bias = true, .residual = residual >= 0, .act = ACT_RELU};
    return added->out[0];
}

static void change_to(enum precision precision) {
    struct error error = {0};
    cr_assert_eq(graph_set_precision(graph, precision, &loss, &error), 0, "%s", error.text);
}

static void change(void) {
    change_to(PRECISION_FP16);
}

/* The workloads of the nodes, in order. */
static void expect(const char *const *keys) {
    int n = 0;
    for (; keys[n]; n++) {
        struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 16);
        cr_assert_lt(n, graph->n_nodes);
        workload_key(workload_of_node(graph, &graph->nodes[n], LAYOUT_NHWC, arena), &key);
        cr_assert_str_eq(buf_str(&key), keys[n]);
    }
    cr_assert_eq(graph->n_nodes, n);
}

Test(precision, names_are_read_and_others_told_those_that_there_are) {
    struct error error = {0};
    enum precision precision = PRECISION_FP32;
    cr_assert_eq(precision_parse("fp16", "code", &precision, &error), 0);
    cr_assert_eq(precision, PRECISION_FP16);
    cr_assert_str_eq(precision_name(precision), "fp16");
    cr_assert_eq(precision_parse("f32", "code", &precision, &error), 0);
    cr_assert_str_eq(precision_name(precision), "fp32");
    for (int i = 0; i < PRECISION_COUNT; i++) {
        cr_assert_eq(precision_parse(precision_name((enum precision)i), "code", &precision, &error), 0);
        cr_assert_eq((int)precision, i);
    }
    cr_assert_eq(precision_parse("fp8", "code", &precision, &error), -1);
    cr_assert_str_eq(error.code, "code");
    cr_assert_str_eq(error.field, "precision");
    cr_assert(strstr(error.text, "fp8") && strstr(error.text, "fp32, fp16, bf16, tf32."), "%s", error.text);
}

Test(precision, fp32_leaves_a_graph_as_it_is) {
    struct error error = {0};
    output(conv(input(DTYPE_F32, SHAPE(1, 4, 5, 5)), -1));
    int values = graph->n_values;
    cr_assert_eq(graph_set_precision(graph, PRECISION_FP32, &loss, &error), 0);
    cr_assert(graph->n_values == values && graph->n_nodes == 1 && loss.converted == 0);
}

#define CONV_ATTRIBUTES " {stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias "

Test(precision, activations_and_weights_are_halves_biases_and_the_edges_are_not) {
    int x = input(DTYPE_F32, SHAPE(1, 4, 5, 5)), a = conv(x, -1), b = conv(a, x);
    int flat = node(OP_RESHAPE, SHAPE(1, 100), b, -1, -1, -1)->out[0];
    struct node *dense = node(OP_DENSE, SHAPE(1, 3), flat, constant(SHAPE(3, 100)), constant(SHAPE(3)), -1);
    dense->epilogue.bias = true;
    output(dense->out[0]);
    change();
    expect((const char *const[]){
        "cast(f32:nhwc:1x4x5x5) -> f16:nhwc:1x4x5x5",
        "conv2d(f16:nhwc:1x4x5x5, f16:row:4x4x3x3, f32:row:4) -> f16:nhwc:1x4x5x5" CONV_ATTRIBUTES "act=relu",
        "conv2d(f16:nhwc:1x4x5x5, f16:row:4x4x3x3, f32:row:4, f16:nhwc:1x4x5x5) -> f16:nhwc:1x4x5x5" CONV_ATTRIBUTES
        "residual act=relu",
        "reshape(f16:nhwc:1x4x5x5) -> f16:row:1x100",
        "dense(f16:row:1x100, f16:row:3x100, f32:row:3) -> f16:row:1x3 bias",
        "cast(f16:row:1x3) -> f32:row:1x3",
        NULL,
    });
    cr_assert_eq(graph->values[graph->inputs[0]].dtype, DTYPE_F32);
    cr_assert_eq(graph->values[graph->outputs[0]].dtype, DTYPE_F32);
    cr_assert_eq(loss.converted, 2 * 144 + 300);
    cr_assert_eq(loss.saturated, 0);
}

Test(precision, bf16_changes_what_fp16_does) {
    int x = input(DTYPE_F32, SHAPE(1, 4, 5, 5));
    output(conv(conv(x, -1), x));
    change_to(PRECISION_BF16);
    expect((const char *const[]){
        "cast(f32:nhwc:1x4x5x5) -> bf16:nhwc:1x4x5x5",
        "conv2d(bf16:nhwc:1x4x5x5, bf16:row:4x4x3x3, f32:row:4) -> bf16:nhwc:1x4x5x5" CONV_ATTRIBUTES "act=relu",
        "conv2d(bf16:nhwc:1x4x5x5, bf16:row:4x4x3x3, f32:row:4, bf16:nhwc:1x4x5x5) -> "
        "bf16:nhwc:1x4x5x5" CONV_ATTRIBUTES "residual act=relu",
        "cast(bf16:nhwc:1x4x5x5) -> f32:nhwc:1x4x5x5",
        NULL,
    });
    cr_assert_eq(loss.converted, 2 * 144);
}

Test(precision, tf32_marks_what_has_weights_and_changes_nothing_else) {
    int x = input(DTYPE_F32, SHAPE(1, 4, 5, 5));
    int flat = node(OP_RESHAPE, SHAPE(1, 100), conv(x, x), -1, -1, -1)->out[0];
    int dense = node(OP_DENSE, SHAPE(1, 3), flat, constant(SHAPE(3, 100)), -1, -1)->out[0];
    output(node(OP_MATMUL, SHAPE(1, 2), dense, constant(SHAPE(3, 2)), -1, -1)->out[0]);
    int values = graph->n_values;
    change_to(PRECISION_TF32);
    expect((const char *const[]){
        "conv2d(f32:nhwc:1x4x5x5, f32:row:4x4x3x3, f32:row:4, f32:nhwc:1x4x5x5) -> f32:nhwc:1x4x5x5" CONV_ATTRIBUTES
        "residual act=relu math=tf32",
        "reshape(f32:nhwc:1x4x5x5) -> f32:row:1x100",
        "dense(f32:row:1x100, f32:row:3x100) -> f32:row:1x3 math=tf32",
        "matmul(f32:row:1x3, f32:row:3x2) -> f32:row:1x2",
        NULL,
    });
    cr_assert(graph->n_values == values && loss.converted == 0);
}

Test(precision, what_is_delicate_stays_f32) {
    int x = input(DTYPE_F32, SHAPE(1, 4, 5, 5));
    int y = node(OP_AFFINE, SHAPE(1, 4, 5, 5), x, constant(SHAPE(4)), constant(SHAPE(4)), -1)->out[0];
    struct node *sum = node(OP_BINARY, SHAPE(1, 4, 5, 5), y, constant(SHAPE(4, 1, 1)), -1, -1);
    sum->attr.binary.kind = BINARY_ADD;
    output(node(OP_CONCAT, SHAPE(1, 5, 5, 5), sum->out[0], constant(SHAPE(1, 1, 5, 5)), -1, -1)->out[0]);
    graph->nodes[graph->n_nodes - 1].attr.concat.axis = 1;
    change();
    expect((const char *const[]){
        "cast(f32:nhwc:1x4x5x5) -> f16:nhwc:1x4x5x5",
        "affine(f16:nhwc:1x4x5x5, f32:row:4, f32:row:4) -> f16:nhwc:1x4x5x5",
        "binary(f16:nhwc:1x4x5x5, f32:row:4x1x1) -> f16:nhwc:1x4x5x5 {kind=add}",
        "concat(f16:nhwc:1x4x5x5, f16:row:1x1x5x5) -> f16:nhwc:1x5x5x5 {axis=1}",
        "cast(f16:nhwc:1x5x5x5) -> f32:nhwc:1x5x5x5",
        NULL,
    });
}

Test(precision, integers_stay_integers) {
    int index = input(DTYPE_I64, SHAPE(2));
    output(node(OP_GATHER, SHAPE(2, 3), constant(SHAPE(5, 3)), index, -1, -1)->out[0]);
    change();
    expect((const char *const[]){"gather(f16:row:5x3, i64:row:2) -> f16:row:2x3 {axis=0}",
                                 "cast(f16:row:2x3) -> f32:row:2x3", NULL});
}

/* An output that is read on, one that is listed twice, an input that is an output, one that nobody reads. */
Test(precision, each_value_at_the_edge_is_cast_once) {
    int x = input(DTYPE_F32, SHAPE(6)), unread = input(DTYPE_F32, SHAPE(7));
    struct node *first = node(OP_UNARY, SHAPE(6), x, -1, -1, -1);
    int a = first->out[0];
    first->epilogue.act = ACT_RELU;
    struct node *second = node(OP_UNARY, SHAPE(6), a, -1, -1, -1);
    second->epilogue.act = ACT_TANH;
    output(a);
    output(second->out[0]);
    output(a);
    output(unread);
    change();
    expect((const char *const[]){
        "cast(f32:row:6) -> f16:row:6",
        "unary(f16:row:6) -> f16:row:6 act=relu",
        "unary(f16:row:6) -> f16:row:6 act=tanh",
        "cast(f16:row:6) -> f32:row:6",
        "cast(f16:row:6) -> f32:row:6",
        NULL,
    });
    cr_assert(graph->outputs[0] == a && graph->outputs[2] == a && graph->outputs[3] == unread);
}

Test(precision, constants_are_rounded_and_what_is_too_large_is_counted) {
    static const float given[] = {1 + 0x1p-11F, 70000, -1e30F, INFINITY, 1e-9F, NAN};
    static const uint16_t expected[] = {0x3c00, 0x7bff, 0xfbff, 0x7c00, 0, 0x7e00};
    int x = input(DTYPE_F32, SHAPE(1, 6)), w = constant(SHAPE(1, 6)), splat = constant(SHAPE(1, 6));
    graph->values[w].data = given;
    graph->values[splat].data = given + 1;
    graph->values[splat].splat = true;
    output(node(OP_DENSE, SHAPE(1, 1), x, w, -1, -1)->out[0]);
    output(node(OP_DENSE, SHAPE(1, 1), x, w, -1, -1)->out[0]);
    output(node(OP_DENSE, SHAPE(1, 1), x, splat, -1, -1)->out[0]);
    change();
    const struct value *half = &graph->values[graph->nodes[1].in[1]];
    cr_assert_eq(half->dtype, DTYPE_F16);
    cr_assert_eq(memcmp(half->data, expected, sizeof expected), 0);
    cr_assert_eq(graph->nodes[2].in[1], graph->nodes[1].in[1], "one copy for both who read it");
    const struct value *one = &graph->values[graph->nodes[3].in[1]];
    cr_assert(one->splat && *(const uint16_t *)one->data == 0x7bff);
    cr_assert_eq(loss.converted, 7);
    cr_assert_eq(loss.saturated, 3);
}

/* The range of bf16 is f32's, but for the largest, which would be rounded up. */
Test(precision, nothing_but_the_largest_is_too_large_for_bf16) {
    static const float given[] = {1 + 0x1p-8F, 70000, -1e30F, INFINITY, -0x1.ffffp127F, NAN};
    static const uint16_t expected[] = {0x3f80, 0x4789, 0xf14a, 0x7f80, 0xff7f, 0x7fc0};
    int x = input(DTYPE_F32, SHAPE(1, 6)), w = constant(SHAPE(1, 6));
    graph->values[w].data = given;
    output(node(OP_DENSE, SHAPE(1, 1), x, w, -1, -1)->out[0]);
    change_to(PRECISION_BF16);
    const struct value *narrow = &graph->values[graph->nodes[1].in[1]];
    cr_assert_eq(narrow->dtype, DTYPE_BF16);
    cr_assert_eq(memcmp(narrow->data, expected, sizeof expected), 0);
    cr_assert_eq(loss.converted, 6);
    cr_assert_eq(loss.saturated, 1);
}

/* ---- What it computes ---- */

static float *evaluate(const float *x) {
    struct error error = {0};
    float **outputs = arena_array(arena, 1, sizeof *outputs);
    cr_assert_eq(eval_graph(graph, (const void *const[]){x}, arena, outputs, &error), 0, "%s", error.text);
    return outputs[0];
}

/* How far the result of some layers is from f32's in another precision, relative to the largest. */
static double error_of(enum precision precision, float ret[100]) {
    int x = input(DTYPE_F32, SHAPE(1, 4, 5, 5)), a = conv(x, -1), b = conv(a, a), c = conv(b, -1);
    output(node(OP_SOFTMAX, SHAPE(1, 4, 5, 5), c, -1, -1, -1)->out[0]);
    graph->nodes[graph->n_nodes - 1].attr.softmax.axis = 1;
    float data[100];
    for (int i = 0; i < 100; i++)
        data[i] = (float)rng_unit(&rng);
    const float *before = evaluate(data);
    change_to(precision);
    const float *after = evaluate(data);
    double largest = 0, worst = 0;
    for (int i = 0; i < 100; i++) {
        largest = fmax(largest, fabs((double)before[i]));
        worst = fmax(worst, fabs((double)before[i] - (double)after[i]));
        ret[i] = after[i];
    }
    return worst / largest;
}

Test(precision, the_result_is_the_same_but_for_rounding) {
    float got[100];
    double error = error_of(PRECISION_FP16, got);
    cr_assert(error > 0 && error < 2e-3, "%g", error);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(got[i], half_to_float(half_from_float(got[i])), "what comes out was a half");
}

Test(precision, in_bf16_by_eight_times_as_much) {
    float got[100];
    double error = error_of(PRECISION_BF16, got);
    cr_assert(error > 2e-4 && error < 1.6e-2, "%g", error);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(got[i], bfloat_to_float(bfloat_from_float(got[i])), "what comes out was a bfloat");
}

Test(precision, in_tf32_by_less_than_a_thousandth_and_whole_floats_come_out) {
    float got[100];
    double error = error_of(PRECISION_TF32, got);
    bool whole = false;
    cr_assert(error > 1e-6 && error < 1e-3, "%g", error);
    for (int i = 0; i < 100; i++)
        whole = whole || got[i] != tf32_from_float(got[i]);
    cr_assert(whole);
}
