/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/eval.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/rng.h"

/* ---- One node over constants ---- */

#define SHAPE(...) ((struct shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define SCALAR ((struct shape){0})
#define VALUES(type, ...) ((const type[]){__VA_ARGS__})

struct bench {
    struct arena *arena;
    struct graph *graph;
    struct node *node;
    int n_in;
};

static struct bench bench_new(enum op op, int n_in) {
    struct bench bench = {.arena = arena_new(0)};
    bench.graph = graph_new(bench.arena);
    bench.node = graph_add_node(bench.graph, op, "the_node", n_in, 1);
    return bench;
}

static void bench_input(struct bench *bench, enum dtype dtype, struct shape shape, const void *data, bool splat) {
    int value = graph_add_value(bench->graph, "in", dtype, &shape);
    size_t bytes = (splat ? 1 : (size_t)shape_count(&shape)) * dtype_size(dtype);
    void *exact = arena_alloc(bench->arena, bytes);
    memcpy(exact, data, bytes);
    bench->graph->values[value].data = exact;
    bench->graph->values[value].splat = splat;
    bench->node->in[bench->n_in++] = value;
}

static int bench_run(struct bench *bench, enum dtype dtype, struct shape shape, struct value *ret,
                     struct error *error) {
    bench->node->out[0] = graph_add_value(bench->graph, "out", dtype, &shape);
    return eval_node(bench->graph, bench->node, bench->arena, ret, error);
}

static struct value bench_result(struct bench *bench, enum dtype dtype, struct shape shape) {
    struct value value;
    struct error error = {0};
    cr_assert_eq(bench_run(bench, dtype, shape, &value, &error), 0, "%s", error.text);
    return value;
}

static void assert_floats(const struct value *value, const float *expected) {
    for (int64_t i = 0; i < shape_count(&value->shape); i++) {
        double got = ((const float *)value->data)[value->splat ? 0 : i];
        cr_assert(fabs(got - (double)expected[i]) <= 1e-6 * fmax(1, fabs(got)), "element %lld: %.8g, not %.8g",
                  (long long)i, got, (double)expected[i]);
    }
}

static void assert_ints(const struct value *value, const int64_t *expected) {
    for (int64_t i = 0; i < shape_count(&value->shape); i++)
        cr_assert_eq(((const int64_t *)value->data)[i], expected[i], "element %lld", (long long)i);
}

/* ---- Integers ---- */

static struct value int_binary(struct bench *bench, enum binary kind, int64_t a, int64_t b) {
    *bench = bench_new(OP_BINARY, 2);
    bench->node->attr.binary.kind = kind;
    bench_input(bench, DTYPE_I64, SHAPE(1), &a, false);
    bench_input(bench, DTYPE_I64, SHAPE(1), &b, false);
    return bench_result(bench, DTYPE_I64, SHAPE(1));
}

Test(eval, integer_arithmetic_is_exact_and_wraps) {
    static const struct {
        enum binary kind;
        int64_t a, b, result;
    } cases[] = {
        {BINARY_ADD, INT64_MAX, 1, INT64_MIN},
        {BINARY_SUB, 3, 5, -2},
        {BINARY_MUL, ((int64_t)1 << 53) + 1, 3, 3 * ((int64_t)1 << 53) + 3},
        {BINARY_DIV, -7, 2, -3},
        {BINARY_DIV, INT64_MIN, -1, INT64_MIN},
        {BINARY_MAX, -1, 1, 1},
        {BINARY_MIN, -1, 1, -1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct bench bench;
        struct value value = int_binary(&bench, cases[i].kind, cases[i].a, cases[i].b);
        assert_ints(&value, &cases[i].result);
        arena_free(bench.arena);
    }
}

Test(eval, an_integer_divided_by_zero_is_an_error) {
    struct bench bench = bench_new(OP_BINARY, 2);
    struct value value;
    struct error error;
    int64_t one = 1, zero = 0;
    bench.node->attr.binary.kind = BINARY_DIV;
    bench_input(&bench, DTYPE_I64, SHAPE(1), &one, false);
    bench_input(&bench, DTYPE_I64, SHAPE(1), &zero, false);
    cr_assert_eq(bench_run(&bench, DTYPE_I64, SHAPE(1), &value, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_str_eq(error.field, "the_node");
    arena_free(bench.arena);
}

Test(eval, a_cast_saturates) {
    struct bench bench = bench_new(OP_CAST, 1);
    bench_input(&bench, DTYPE_F32, SHAPE(4), VALUES(float, -1e30f, 1e30f, NAN, -2.5f), false);
    struct value value = bench_result(&bench, DTYPE_I64, SHAPE(4));
    assert_ints(&value, VALUES(int64_t, INT64_MIN, INT64_MAX, 0, -2));
    arena_free(bench.arena);
    bench = bench_new(OP_CAST, 1);
    bench_input(&bench, DTYPE_F32, SHAPE(3), VALUES(float, -300, 300, 7.9f), false);
    value = bench_result(&bench, DTYPE_I8, SHAPE(3));
    cr_assert_arr_eq((const int8_t *)value.data, VALUES(int8_t, -128, 127, 7), 3);
    arena_free(bench.arena);
}

/* ---- Splats ---- */

Test(eval, splats_stay_splats_through_what_treats_all_elements_alike) {
    float two = 2, three = 3;
    struct bench bench = bench_new(OP_BINARY, 2);
    bench.node->attr.binary.kind = BINARY_MUL;
    bench_input(&bench, DTYPE_F32, SHAPE(1 << 20, 1 << 10), &two, true);
    bench_input(&bench, DTYPE_F32, SHAPE(1), &three, false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(1 << 20, 1 << 10));
    cr_assert(value.splat);
    cr_assert_eq(*(const float *)value.data, 6);
    arena_free(bench.arena);
    bench = bench_new(OP_EXPAND, 1);
    bench_input(&bench, DTYPE_F32, SCALAR, &two, false);
    value = bench_result(&bench, DTYPE_F32, SHAPE(1 << 20, 1 << 10));
    cr_assert(value.splat);
    cr_assert_eq(*(const float *)value.data, 2);
    arena_free(bench.arena);
}

Test(eval, a_splat_operand_is_as_good_as_its_elements) {
    float w[8] = {2, 2, 2, 2, 2, 2, 2, 2}, x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct value results[2];
    struct bench benches[2];
    for (int splat = 0; splat < 2; splat++) {
        benches[splat] = bench_new(OP_MATMUL, 2);
        bench_input(&benches[splat], DTYPE_F32, SHAPE(2, 4), x, false);
        bench_input(&benches[splat], DTYPE_F32, SHAPE(4, 2), w, splat);
        results[splat] = bench_result(&benches[splat], DTYPE_F32, SHAPE(2, 2));
    }
    assert_floats(&results[1], results[0].data);
    arena_free(benches[0].arena);
    arena_free(benches[1].arena);
    struct bench bench = bench_new(OP_CONCAT, 2);
    bench_input(&bench, DTYPE_F32, SHAPE(2), w, true);
    bench_input(&bench, DTYPE_F32, SHAPE(2), x, false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(4));
    assert_floats(&value, VALUES(float, 2, 2, 0, 1));
    arena_free(bench.arena);
}

Test(eval, memory_that_runs_out_is_an_error) {
    struct arena *arena = arena_new(1 << 16);
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, OP_CONCAT, "the_node", 2, 1);
    struct shape half = {1, {1 << 20}}, whole = {1, {2 << 20}};
    struct value value;
    struct error error;
    float number = 1;
    for (int i = 0; i < 2; i++) {
        node->in[i] = graph_add_value(graph, "in", DTYPE_F32, &half);
        graph->values[node->in[i]].data = &number;
        graph->values[node->in[i]].splat = true;
    }
    node->out[0] = graph_add_value(graph, "out", DTYPE_F32, &whole);
    cr_assert_eq(eval_node(graph, node, arena, &value, &error), -1);
    cr_assert_eq(error.class, ERROR_LIMIT);
    arena_free(arena);
}

/* ---- Epilogues ---- */

Test(eval, a_convolution_adds_bias_and_residual_and_then_activates) {
    struct bench bench = bench_new(OP_CONV, 4);
    bench.node->attr.conv = (struct conv_attr){{1, 1}, {1, 1}, {0, 0, 0, 0}, 1};
    bench.node->epilogue = (struct epilogue){.bias = true, .residual = true, .act = ACT_CLIP, .alpha = -1, .beta = 6};
    bench_input(&bench, DTYPE_F32, SHAPE(1, 1, 1, 3), VALUES(float, 1, 2, -9), false);
    bench_input(&bench, DTYPE_F32, SHAPE(1, 1, 1, 1), VALUES(float, 2), false);
    bench_input(&bench, DTYPE_F32, SHAPE(1), VALUES(float, 0.5f), false);
    bench_input(&bench, DTYPE_F32, SHAPE(1, 1, 1, 3), VALUES(float, 1, 10, 0), false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(1, 1, 1, 3));
    assert_floats(&value, VALUES(float, 3.5f, 6, -1));
    arena_free(bench.arena);
}

Test(eval, a_dense_layer_adds_bias_and_residual_and_then_activates) {
    struct bench bench = bench_new(OP_DENSE, 4);
    bench.node->epilogue = (struct epilogue){.bias = true, .residual = true, .act = ACT_RELU};
    bench_input(&bench, DTYPE_F32, SHAPE(1, 5), VALUES(float, 1, 2, 3, 4, 5), false);
    bench_input(&bench, DTYPE_F32, SHAPE(2, 5), VALUES(float, 1, 1, 1, 1, 1, -1, 0, 0, 0, 0), false);
    bench_input(&bench, DTYPE_F32, SHAPE(2), VALUES(float, 10, 0), false);
    bench_input(&bench, DTYPE_F32, SHAPE(1, 2), VALUES(float, 100, -1), false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(1, 2));
    assert_floats(&value, VALUES(float, 125, 0));
    arena_free(bench.arena);
}

Test(eval, affine_and_binary_activate_too) {
    struct bench bench = bench_new(OP_AFFINE, 3);
    bench.node->epilogue.act = ACT_RELU;
    bench_input(&bench, DTYPE_F32, SHAPE(1, 2, 2), VALUES(float, 1, -1, 1, -1), false);
    bench_input(&bench, DTYPE_F32, SHAPE(2), VALUES(float, 2, 3), false);
    bench_input(&bench, DTYPE_F32, SHAPE(2), VALUES(float, 1, 0), false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(1, 2, 2));
    assert_floats(&value, VALUES(float, 3, 0, 3, 0));
    arena_free(bench.arena);
    bench = bench_new(OP_BINARY, 2);
    bench.node->epilogue.act = ACT_SILU;
    bench_input(&bench, DTYPE_F32, SHAPE(1), VALUES(float, 0.25f), false);
    bench_input(&bench, DTYPE_F32, SHAPE(1), VALUES(float, 0.75f), false);
    value = bench_result(&bench, DTYPE_F32, SHAPE(1));
    assert_floats(&value, VALUES(float, 0.73105858f));
    arena_free(bench.arena);
}

/* ---- Convolutions against the definition ---- */

struct conv_case {
    int64_t n, c, h, w, k, r, s;
    struct conv_attr attr;
    bool transposed;
};

static float *random_floats(struct rng *rng, int64_t count) {
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(2 * rng_unit(rng) - 1);
    return data;
}

/*
 * Scatter: each product of an input element and a weight goes where it belongs. The small image is a convolution's
 * output and a transposed convolution's input; the large one the other.
 */
static void scatter(const struct conv_case *c, const float *x, const float *w, const int64_t *small,
                    const int64_t *large, double *out) {
    int64_t groups = c->attr.groups, per_in = c->c / groups, per_out = c->k / groups;
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t k = 0; k < c->k; k++)
            for (int64_t i = 0; i < per_in; i++)
                for (int64_t p = 0; p < small[0] * small[1]; p++)
                    for (int64_t t = 0; t < c->r * c->s; t++) {
                        int64_t group = k / per_out, channel = group * per_in + i;
                        int64_t h = p / small[1] * c->attr.stride[0] - c->attr.pad[0] + t / c->s * c->attr.dilation[0];
                        int64_t v = p % small[1] * c->attr.stride[1] - c->attr.pad[1] + t % c->s * c->attr.dilation[1];
                        if (h < 0 || h >= large[0] || v < 0 || v >= large[1])
                            continue;
                        int64_t q = h * large[1] + v, in = c->transposed ? p : q, to = c->transposed ? q : p;
                        int64_t in_size = c->h * c->w;
                        int64_t out_size = c->transposed ? large[0] * large[1] : small[0] * small[1];
                        int64_t pair = c->transposed ? channel * per_out + k % per_out : k * per_in + i;
                        out[(n * c->k + k) * out_size + to] +=
                            (double)x[(n * c->c + channel) * in_size + in] * (double)w[pair * c->r * c->s + t];
                    }
}

static void check_conv(const struct conv_case *c, struct rng *rng) {
    const struct conv_attr *a = &c->attr;
    int64_t in[] = {c->h, c->w}, taps[] = {c->r, c->s}, out[2];
    for (int i = 0; i < 2; i++) {
        int64_t extent = (taps[i] - 1) * a->dilation[i] + 1, pads = a->pad[i] + a->pad[2 + i];
        out[i] =
            c->transposed ? (in[i] - 1) * a->stride[i] + extent - pads : (in[i] + pads - extent) / a->stride[i] + 1;
    }
    struct shape w_shape =
        c->transposed ? SHAPE(c->c, c->k / a->groups, c->r, c->s) : SHAPE(c->k, c->c / a->groups, c->r, c->s);
    int64_t count = c->n * c->k * out[0] * out[1];
    float *x = random_floats(rng, c->n * c->c * c->h * c->w), *w = random_floats(rng, shape_count(&w_shape));
    double *expected = calloc((size_t)count, sizeof *expected);
    scatter(c, x, w, c->transposed ? in : out, c->transposed ? out : in, expected);
    struct bench bench = bench_new(c->transposed ? OP_CONV_TRANSPOSE : OP_CONV, 2);
    bench.node->attr.conv = *a;
    bench_input(&bench, DTYPE_F32, SHAPE(c->n, c->c, c->h, c->w), x, false);
    bench_input(&bench, DTYPE_F32, w_shape, w, false);
    struct value value = bench_result(&bench, DTYPE_F32, SHAPE(c->n, c->k, out[0], out[1]));
    for (int64_t i = 0; i < count; i++)
        cr_assert_float_eq(((const float *)value.data)[i], expected[i], 1e-5);
    arena_free(bench.arena);
    free(expected);
    free(w);
    free(x);
}

Test(eval, convolutions_agree_with_their_definition) {
    static const struct conv_case cases[] = {
        {1, 3, 9, 11, 5, 3, 3, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 1}, false},
        {2, 4, 10, 7, 40, 3, 2, {{2, 3}, {1, 2}, {2, 0, 1, 3}, 2}, false}, /* more channels than a tile */
        {1, 6, 30, 31, 6, 3, 3, {{1, 1}, {2, 2}, {2, 2, 2, 2}, 6}, false}, /* more pixels than a tile */
        {3, 1, 1, 1, 1, 1, 1, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 1}, false},
        {1, 4, 5, 6, 6, 3, 3, {{2, 2}, {1, 1}, {1, 1, 1, 1}, 2}, true},
        {2, 3, 4, 4, 18, 2, 3, {{3, 1}, {2, 2}, {0, 2, 1, 0}, 1}, true},
        {1, 2, 25, 30, 2, 1, 1, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 2}, true},
    };
    struct rng rng;
    rng_seed(&rng, 7);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        check_conv(&cases[i], &rng);
}

/* ---- Others that the importer's tests do not reach ---- */

Test(eval, an_index_at_run_time_may_count_from_the_end_but_not_leave) {
    struct bench bench = bench_new(OP_GATHER, 2);
    struct value value;
    struct error error;
    int32_t outside = 3;
    bench_input(&bench, DTYPE_F32, SHAPE(3, 2), VALUES(float, 0, 1, 2, 3, 4, 5), false);
    bench_input(&bench, DTYPE_I32, SHAPE(2), VALUES(int32_t, -1, 0), false);
    value = bench_result(&bench, DTYPE_F32, SHAPE(2, 2));
    assert_floats(&value, VALUES(float, 4, 5, 0, 1));
    arena_free(bench.arena);
    bench = bench_new(OP_GATHER, 2);
    bench_input(&bench, DTYPE_F32, SHAPE(3), VALUES(float, 0, 1, 2), false);
    bench_input(&bench, DTYPE_I32, SCALAR, &outside, false);
    cr_assert_eq(bench_run(&bench, DTYPE_F32, SCALAR, &value, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    arena_free(bench.arena);
}

Test(eval, reductions_keep_integers_exact) {
    struct bench bench = bench_new(OP_REDUCE, 1);
    int64_t big = ((int64_t)1 << 60) + 1;
    bench.node->attr.reduce = (struct reduce_attr){REDUCE_SUM, 1};
    bench_input(&bench, DTYPE_I64, SHAPE(2, 1), VALUES(int64_t, big, 2), false);
    struct value value = bench_result(&bench, DTYPE_I64, SHAPE(1, 1));
    assert_ints(&value, VALUES(int64_t, big + 2));
    arena_free(bench.arena);
}

Test(eval, softmax_of_large_numbers_does_not_overflow) {
    for (int log = 0; log < 2; log++) {
        struct bench bench = bench_new(OP_SOFTMAX, 1);
        bench.node->attr.softmax = (struct softmax_attr){0, log};
        bench_input(&bench, DTYPE_F32, SHAPE(2, 1), VALUES(float, 1e30f, 1e30f), false);
        struct value value = bench_result(&bench, DTYPE_F32, SHAPE(2, 1));
        float expected = log ? -0.69314718f : 0.5f;
        assert_floats(&value, VALUES(float, expected, expected));
        arena_free(bench.arena);
    }
}

/* ---- Graphs ---- */

/* y = relu(x - c), z = y + y, and the integer input comes out as floats. */
Test(eval, a_graph_gives_all_its_outputs_as_floats) {
    struct bench bench = bench_new(OP_BINARY, 2);
    struct graph *graph = bench.graph;
    struct shape shape = SHAPE(3);
    struct error error = {0};
    float *out[3];
    int x = graph_add_value(graph, "x", DTYPE_F32, &shape), n = graph_add_value(graph, "n", DTYPE_I64, &shape);
    int ints = graph_add_value(graph, "ints", DTYPE_I64, &shape);
    int y = graph_add_value(graph, "y", DTYPE_F32, &shape), z = graph_add_value(graph, "z", DTYPE_F32, &shape);
    bench.node->in[bench.n_in++] = x;
    bench.node->attr.binary.kind = BINARY_SUB;
    bench.node->epilogue.act = ACT_RELU;
    bench_input(&bench, DTYPE_F32, shape, VALUES(float, 1), true);
    bench.node->out[0] = y;
    struct node *twice = graph_add_node(graph, OP_BINARY, "twice", 2, 1);
    twice->in[0] = twice->in[1] = y;
    twice->out[0] = z;
    struct node *copy = graph_add_node(graph, OP_RESHAPE, "copy", 1, 1);
    copy->in[0] = n;
    copy->out[0] = ints;
    graph->inputs = (int[]){x, n};
    graph->outputs = (int[]){z, y, ints};
    graph->n_inputs = 2;
    graph->n_outputs = 3;
    const void *in[] = {VALUES(float, 0, 1, 3), VALUES(int64_t, 7, 8, -9)};
    cr_assert_eq(eval_graph(graph, in, bench.arena, out, &error), 0, "%s", error.text);
    cr_assert_arr_eq(out[0], VALUES(float, 0, 0, 4), 3 * sizeof(float));
    cr_assert_arr_eq(out[1], VALUES(float, 0, 0, 2), 3 * sizeof(float));
    cr_assert_arr_eq(out[2], VALUES(float, 7, 8, -9), 3 * sizeof(float));
    arena_free(bench.arena);
}
