/* SPDX-License-Identifier: Apache-2.0 */
/* Each pattern is built twice by the same function; the fused graph must compute what the other does. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/file.h"
#include "service/base/rng.h"
#include "service/model/eval.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"
#include "service/model/workload.h"

/* ---- small graphs ---- */

struct maker {
    struct arena *arena;
    struct graph *graph;
    struct rng rng;
};

typedef void build_fn(struct maker *m);

#define SHAPE(...)                                                   \
    (struct shape) {                                                 \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { \
            __VA_ARGS__                                              \
        }                                                            \
    }

static float *random_data(struct maker *m, const struct shape *shape) {
    int64_t n = shape_count(shape);
    float *data = arena_array(m->arena, (size_t)n, sizeof(*data));
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)rng_unit(&m->rng) * 2 - 1;
    }
    return data;
}

static int input(struct maker *m, struct shape shape) {
    int value = graph_add_value(m->graph, "input", DTYPE_F32, &shape);
    int *inputs = arena_array(m->arena, (size_t)m->graph->n_inputs + 1, sizeof(*inputs));
    if (m->graph->n_inputs) {
        memcpy(inputs, m->graph->inputs, (size_t)m->graph->n_inputs * sizeof(*inputs));
    }
    inputs[m->graph->n_inputs++] = value;
    m->graph->inputs = inputs;
    return value;
}

static void output(struct maker *m, int value) {
    int *outputs = arena_array(m->arena, (size_t)m->graph->n_outputs + 1, sizeof(*outputs));
    if (m->graph->n_outputs) {
        memcpy(outputs, m->graph->outputs, (size_t)m->graph->n_outputs * sizeof(*outputs));
    }
    outputs[m->graph->n_outputs++] = value;
    m->graph->outputs = outputs;
}

static int constant(struct maker *m, struct shape shape) {
    int value = graph_add_value(m->graph, "constant", DTYPE_F32, &shape);
    m->graph->values[value].data = random_data(m, &shape);
    return value;
}

static int splat(struct maker *m, struct shape shape, float number) {
    float *data = arena_array(m->arena, 1, sizeof(*data));
    int value = graph_add_value(m->graph, "splat", DTYPE_F32, &shape);
    data[0] = number;
    m->graph->values[value].data = data;
    m->graph->values[value].splat = true;
    return value;
}

static struct shape shape_of(const struct maker *m, int value) {
    return m->graph->values[value].shape;
}

static struct node *add(struct maker *m, enum op op, struct shape out_shape, int n_in, int a, int b, int c) {
    static const char *const names[OP_COUNT] = {[OP_CONV] = "conv"};
    const int in[] = {a, b, c};
    int out = graph_add_value(m->graph, "result", DTYPE_F32, &out_shape);
    struct node *node = graph_add_node(m->graph, op, names[op] ? names[op] : "node", n_in, 1);
    memcpy(node->in, in, (size_t)n_in * sizeof(*in));
    node->out[0] = out;
    return node;
}

/* 3×3, stride 1, pad 1, so that the image keeps its size. */
static int conv(struct maker *m, int x, int64_t k) {
    struct shape shape = shape_of(m, x);
    int w = constant(m, SHAPE(k, shape.dim[1], 3, 3));
    shape.dim[1] = k;
    struct node *node = add(m, OP_CONV, shape, 2, x, w, 0);
    node->attr.conv = (struct conv_attr){{1, 1}, {1, 1}, {1, 1, 1, 1}, 1};
    return node->out[0];
}

static int affine(struct maker *m, int x) {
    struct shape shape = shape_of(m, x);
    int scale = constant(m, SHAPE(shape.dim[1])), shift = constant(m, SHAPE(shape.dim[1]));
    return add(m, OP_AFFINE, shape, 3, x, scale, shift)->out[0];
}

static int unary(struct maker *m, int x, enum act act, double alpha, double beta) {
    struct node *node = add(m, OP_UNARY, shape_of(m, x), 1, x, 0, 0);
    node->epilogue = (struct epilogue){.act = act, .alpha = alpha, .beta = beta};
    return node->out[0];
}

static int relu(struct maker *m, int x) {
    return unary(m, x, ACT_RELU, 0, 0);
}

static int binary(struct maker *m, enum binary kind, int a, int b) {
    struct shape sa = shape_of(m, a), sb = shape_of(m, b);
    struct node *node = add(m, OP_BINARY, shape_count(&sa) >= shape_count(&sb) ? sa : sb, 2, a, b, 0);
    node->attr.binary.kind = kind;
    return node->out[0];
}

static int reshape(struct maker *m, int x, struct shape shape) {
    return add(m, OP_RESHAPE, shape, 1, x, 0, 0)->out[0];
}

static int pad(struct maker *m, int x, double number, int64_t top, int64_t left, int64_t bottom, int64_t right) {
    struct shape shape = shape_of(m, x);
    shape.dim[2] += top + bottom;
    shape.dim[3] += left + right;
    struct node *node = add(m, OP_PAD, shape, 1, x, 0, 0);
    node->attr.pad = (struct pad_attr){PAD_CONSTANT, number, {0, 0, top, left}};
    return node->out[0];
}

static int average(struct maker *m, int x, int64_t border, bool count_include_pad) {
    struct shape shape = shape_of(m, x);
    shape.dim[2] += 2 * border - 2;
    shape.dim[3] += 2 * border - 2;
    struct node *node = add(m, OP_POOL, shape, 1, x, 0, 0);
    node->attr.pool =
        (struct pool_attr){POOL_AVERAGE, {3, 3}, {1, 1}, {1, 1}, {border, border, border, border}, count_include_pad};
    return node->out[0];
}

static int image(struct maker *m) {
    return input(m, SHAPE(2, 4, 5, 6));
}

/* ---- how they are checked ---- */

static struct graph *build(build_fn *fn, struct arena *arena) {
    struct maker m = {.arena = arena, .graph = graph_new(arena)};
    rng_seed(&m.rng, 3);
    fn(&m);
    return m.graph;
}

static void must_be_in_order(const struct graph *graph) {
    bool *ready = calloc((size_t)graph->n_values, sizeof(*ready));
    for (int i = 0; i < graph->n_values; i++) {
        ready[i] = graph->values[i].data;
    }
    for (int i = 0; i < graph->n_inputs; i++) {
        ready[graph->inputs[i]] = true;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int k = 0; k < graph->nodes[i].n_in; k++) {
            cr_assert(ready[graph->nodes[i].in[k]], "node %d reads what is not computed yet", i);
        }
        ready[graph->nodes[i].out[0]] = true;
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        cr_assert(ready[graph->outputs[i]], "output %d is not computed", i);
    }
    free(ready);
}

/* Every node has shapes, inputs and an epilogue that fit together: its workload's key is accepted. */
static void must_be_valid(const struct graph *graph, struct arena *arena) {
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct workload *parsed;
    struct error error = {0};
    for (int i = 0; i < graph->n_nodes; i++) {
        buf_clear(&key);
        workload_key(workload_of_node(graph, &graph->nodes[i], LAYOUT_ROW, arena), &key);
        cr_assert_eq(workload_parse(buf_str(&key), arena, &parsed, &error), 0, "%s\n%s", buf_str(&key), error.text);
    }
    must_be_in_order(graph);
}

static void must_be_close(const float *a, const float *b, int64_t n, double tolerance, const char *what) {
    double largest = 1e-30, error = 0;
    for (int64_t i = 0; i < n; i++) {
        cr_assert(isfinite(a[i]) && isfinite(b[i]), "%s: element %lld is not finite", what, (long long)i);
        largest = fmax(largest, fabs((double)a[i]));
        error = fmax(error, fabs((double)a[i] - (double)b[i]));
    }
    cr_assert(error <= tolerance * largest, "%s: off by %g, largest is %g", what, error, largest);
}

static void evaluate(const struct graph *graph, struct arena *arena, float **ret_outputs) {
    struct maker m = {.arena = arena};
    const void *inputs[4];
    struct error error = {0};
    rng_seed(&m.rng, 9);
    for (int i = 0; i < graph->n_inputs; i++) {
        inputs[i] = random_data(&m, &graph->values[graph->inputs[i]].shape);
    }
    cr_assert_eq(eval_graph(graph, inputs, arena, ret_outputs, &error), 0, "%s", error.text);
}

/* Fuses, compares the outputs with those of the graph as built, and answers the fused graph. */
static struct graph *fused(build_fn *fn, struct arena *arena) {
    struct graph *plain = build(fn, arena), *graph = build(fn, arena);
    struct error error = {0};
    float *expected[4], *got[4];
    cr_assert_eq(graph_fuse(graph, &error), 0, "%s", error.text);
    must_be_valid(graph, arena);
    cr_assert_eq(graph->n_outputs, plain->n_outputs);
    evaluate(plain, arena, expected);
    evaluate(graph, arena, got);
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct shape *shape = &graph->values[graph->outputs[i]].shape;
        cr_assert_eq(graph->outputs[i], plain->outputs[i], "an output moved to another value");
        cr_assert(shape_equal(shape, &plain->values[plain->outputs[i]].shape));
        must_be_close(expected[i], got[i], shape_count(shape), 1e-5, "output");
    }
    return graph;
}

static struct graph *must_have(struct graph *graph, int n, const enum op *ops) {
    for (int i = 0; i < graph->n_nodes && i < n; i++) {
        cr_assert_eq(graph->nodes[i].op, ops[i], "node %d is %s, not %s", i, op_name(graph->nodes[i].op),
                     op_name(ops[i]));
    }
    cr_assert_eq(graph->n_nodes, n, "%d nodes, not %d", graph->n_nodes, n);
    return graph;
}

/* FUSES(pattern, its operators afterwards): `graph` is the fused one, in `arena`. */
#define FUSES(fn, ...)                                                                     \
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);                              \
    const enum op ops_[] = {__VA_ARGS__};                                                  \
    const struct graph *graph = must_have(fused(fn, arena), (int)ARRAY_COUNT(ops_), ops_); \
    const struct node *last = &graph->nodes[graph->n_nodes - 1];                           \
    (void)last

/* ---- constants into weights ---- */

static void conv_affine_relu(struct maker *m) {
    output(m, relu(m, affine(m, conv(m, image(m), 8))));
}
Test(fuse, batch_norm_and_activation_join_the_convolution_before_them) {
    FUSES(conv_affine_relu, OP_CONV);
    cr_assert(last->epilogue.bias);
    cr_assert_eq(last->epilogue.act, ACT_RELU);
    cr_assert_str_eq(last->name, "conv");
}

static void splat_weights(struct maker *m) {
    int w = splat(m, SHAPE(8, 4, 1, 1), 0.25F), x = image(m);
    struct node *node = add(m, OP_CONV, SHAPE(2, 8, 5, 6), 2, x, w, 0);
    node->attr.conv = (struct conv_attr){{1, 1}, {1, 1}, {0, 0, 0, 0}, 1};
    output(m, affine(m, node->out[0]));
}
Test(fuse, splat_weights_are_written_out_when_channels_are_scaled) {
    FUSES(splat_weights, OP_CONV);
    cr_assert_not(graph->values[last->in[1]].splat);
}

static void transposed_conv_affine(struct maker *m) {
    int x = image(m), w = constant(m, SHAPE(4, 3, 2, 2)), bias = constant(m, SHAPE(6));
    struct node *node = add(m, OP_CONV_TRANSPOSE, SHAPE(2, 6, 10, 12), 3, x, w, bias);
    node->attr.conv = (struct conv_attr){{2, 2}, {1, 1}, {0, 0, 0, 0}, 2};
    node->epilogue.bias = true;
    output(m, affine(m, node->out[0]));
}
Test(fuse, batch_norm_joins_a_grouped_transposed_convolution) {
    FUSES(transposed_conv_affine, OP_CONV_TRANSPOSE);
    cr_assert_eq(last->n_in, 3);
}

static void channel_constants(struct maker *m) {
    int x = conv(m, image(m), 8);
    x = binary(m, BINARY_MUL, x, constant(m, SHAPE(1, 8, 1, 1)));
    x = binary(m, BINARY_ADD, constant(m, SHAPE(8, 1, 1)), x);
    x = binary(m, BINARY_SUB, x, constant(m, SHAPE(1, 8, 1, 1)));
    x = binary(m, BINARY_SUB, splat(m, SHAPE(1), 0.5F), x);
    output(m, binary(m, BINARY_DIV, x, splat(m, SHAPE(2, 8, 5, 6), 3)));
}
Test(fuse, one_constant_a_channel_folds_into_weights_and_bias) {
    FUSES(channel_constants, OP_CONV);
    cr_assert(last->epilogue.bias);
}

static void column_constant(struct maker *m) {
    output(m, binary(m, BINARY_ADD, conv(m, image(m), 8), constant(m, SHAPE(6))));
}
Test(fuse, a_constant_along_the_width_is_no_bias) {
    FUSES(column_constant, OP_CONV, OP_BINARY);
}

static void constant_over_conv(struct maker *m) {
    output(m, binary(m, BINARY_DIV, splat(m, SHAPE(1), 2), conv(m, image(m), 8)));
}
Test(fuse, a_constant_divided_by_a_convolution_stays) {
    FUSES(constant_over_conv, OP_CONV, OP_BINARY);
}

static void conv_read_twice(struct maker *m) {
    int x = conv(m, image(m), 4);
    output(m, affine(m, x));
    output(m, unary(m, x, ACT_SIGMOID, 0, 0));
}
Test(fuse, a_convolution_that_is_read_twice_keeps_its_batch_norm_apart) {
    FUSES(conv_read_twice, OP_CONV, OP_AFFINE, OP_UNARY);
}

static void conv_is_output(struct maker *m) {
    int x = conv(m, image(m), 4);
    output(m, x);
    output(m, relu(m, x));
}
Test(fuse, a_convolution_that_is_an_output_keeps_its_activation_apart) {
    FUSES(conv_is_output, OP_CONV, OP_UNARY);
}

static void affine_after_activation(struct maker *m) {
    output(m, affine(m, relu(m, conv(m, image(m), 4))));
}
Test(fuse, nothing_folds_behind_an_activation) {
    FUSES(affine_after_activation, OP_CONV, OP_AFFINE);
}

static void shared_weights(struct maker *m) {
    int x = image(m), a = conv(m, x, 4);
    int w = m->graph->nodes[0].in[1];
    struct node *node = add(m, OP_CONV, shape_of(m, a), 2, a, w, 0);
    node->attr.conv = m->graph->nodes[0].attr.conv;
    output(m, affine(m, node->out[0]));
}
Test(fuse, weights_that_another_node_reads_stay_as_they_are) {
    FUSES(shared_weights, OP_CONV, OP_CONV);
    cr_assert_neq(graph->nodes[0].in[1], graph->nodes[1].in[1]);
}

/* ---- residuals ---- */

static void residual_block(struct maker *m) {
    int x = relu(m, conv(m, image(m), 4));
    int y = affine(m, conv(m, relu(m, affine(m, conv(m, x, 4))), 4));
    output(m, relu(m, binary(m, BINARY_ADD, y, x)));
}
Test(fuse, a_residual_block_is_its_convolutions_alone) {
    FUSES(residual_block, OP_CONV, OP_CONV, OP_CONV);
    cr_assert(last->epilogue.bias && last->epilogue.residual);
    cr_assert_eq(last->epilogue.act, ACT_RELU);
    cr_assert_eq(last->in[3], graph->nodes[0].out[0]);
}

static void two_convs(struct maker *m) {
    int x = image(m), a = conv(m, x, 4), b = conv(m, x, 4);
    output(m, binary(m, BINARY_ADD, a, b));
}
Test(fuse, of_two_convolutions_the_later_one_adds_the_other) {
    FUSES(two_convs, OP_CONV, OP_CONV);
    cr_assert(last->epilogue.residual && !graph->nodes[0].epilogue.residual);
    cr_assert_eq(last->in[2], graph->nodes[0].out[0]);
}

static void late_residual(struct maker *m) {
    int x = image(m), a = conv(m, x, 4), b = unary(m, x, ACT_TANH, 0, 0);
    output(m, binary(m, BINARY_ADD, a, b));
}
Test(fuse, a_residual_that_is_computed_after_the_convolution_moves_it_behind) {
    FUSES(late_residual, OP_UNARY, OP_CONV);
    cr_assert(last->epilogue.residual);
}

static void broadcast_residual(struct maker *m) {
    output(m, binary(m, BINARY_ADD, conv(m, image(m), 4), input(m, SHAPE(2, 4, 1, 1))));
}
Test(fuse, an_addition_that_broadcasts_is_no_residual) {
    FUSES(broadcast_residual, OP_CONV, OP_BINARY);
}

static void conv_plus_itself(struct maker *m) {
    int x = conv(m, image(m), 4);
    output(m, binary(m, BINARY_ADD, x, x));
}
Test(fuse, a_convolution_added_to_itself_is_no_residual) {
    FUSES(conv_plus_itself, OP_CONV, OP_BINARY);
}

static void residual_then_affine(struct maker *m) {
    int x = image(m);
    output(m, affine(m, binary(m, BINARY_ADD, conv(m, x, 4), x)));
}
Test(fuse, a_scale_behind_a_residual_stays_apart) {
    FUSES(residual_then_affine, OP_CONV, OP_AFFINE);
    cr_assert(graph->nodes[0].epilogue.residual);
}

static void residual_then_bias(struct maker *m) {
    int x = image(m);
    int y = binary(m, BINARY_ADD, conv(m, x, 4), x);
    output(m, binary(m, BINARY_ADD, y, constant(m, SHAPE(1, 4, 1, 1))));
}
Test(fuse, a_shift_behind_a_residual_is_the_bias) {
    FUSES(residual_then_bias, OP_CONV);
    cr_assert(last->epilogue.residual && last->epilogue.bias);
}

/* ---- activations ---- */

static void act_of_binary(struct maker *m) {
    int x = image(m);
    output(m, unary(m, binary(m, BINARY_MUL, x, unary(m, x, ACT_TANH, 0, 0)), ACT_LEAKY_RELU, 0.1, 0));
}
Test(fuse, an_activation_joins_a_binary_operator) {
    FUSES(act_of_binary, OP_UNARY, OP_BINARY);
    cr_assert_eq(last->epilogue.act, ACT_LEAKY_RELU);
    cr_assert_eq(last->epilogue.alpha, 0.1);
}

static void act_of_affine(struct maker *m) {
    output(m, conv(m, relu(m, affine(m, image(m))), 4));
}
Test(fuse, an_activation_joins_a_batch_norm_that_no_convolution_took) {
    FUSES(act_of_affine, OP_AFFINE, OP_CONV);
    cr_assert_eq(graph->nodes[0].epilogue.act, ACT_RELU);
}

static void two_activations(struct maker *m) {
    output(m, unary(m, relu(m, conv(m, image(m), 4)), ACT_TANH, 0, 0));
}
Test(fuse, a_second_activation_stays_apart) {
    FUSES(two_activations, OP_CONV, OP_UNARY);
}

static void silu(struct maker *m) {
    int x = affine(m, conv(m, image(m), 4));
    output(m, binary(m, BINARY_MUL, x, unary(m, x, ACT_SIGMOID, 0, 0)));
}
Test(fuse, x_times_its_sigmoid_is_silu) {
    FUSES(silu, OP_CONV);
    cr_assert_eq(last->epilogue.act, ACT_SILU);
}

static void sigmoid_read_twice(struct maker *m) {
    int x = conv(m, image(m), 4), gate = unary(m, x, ACT_SIGMOID, 0, 0);
    output(m, binary(m, BINARY_MUL, gate, x));
    output(m, unary(m, gate, ACT_TANH, 0, 0));
}
Test(fuse, a_sigmoid_that_is_read_elsewhere_stays) {
    FUSES(sigmoid_read_twice, OP_CONV, OP_UNARY, OP_BINARY, OP_UNARY);
}

static void gate_of_another(struct maker *m) {
    int x = image(m);
    output(m, binary(m, BINARY_MUL, unary(m, x, ACT_TANH, 0, 0), unary(m, x, ACT_SIGMOID, 0, 0)));
}
Test(fuse, the_sigmoid_of_another_value_is_no_silu) {
    FUSES(gate_of_another, OP_UNARY, OP_UNARY, OP_BINARY);
}

static void hard_swish_gate(struct maker *m) {
    int x = conv(m, image(m), 4);
    output(m, binary(m, BINARY_MUL, unary(m, x, ACT_HARD_SIGMOID, 0.16666667163372040, 0.5), x));
}
static void hard_swish_divided_last(struct maker *m) {
    int x = conv(m, image(m), 4);
    int clip = unary(m, binary(m, BINARY_ADD, x, splat(m, SHAPE(1), 3)), ACT_CLIP, 0, 6);
    output(m, binary(m, BINARY_DIV, binary(m, BINARY_MUL, x, clip), splat(m, SHAPE(1), 6)));
}
static void hard_swish_divided_first(struct maker *m) {
    int x = conv(m, image(m), 4);
    int clip = unary(m, binary(m, BINARY_ADD, splat(m, SHAPE(1), 3), x), ACT_CLIP, 0, 6);
    output(m, binary(m, BINARY_MUL, x, binary(m, BINARY_MUL, clip, splat(m, SHAPE(1, 1), 1 / 6.0F))));
}
Test(fuse, x_times_hard_sigmoid_is_hard_swish) {
    FUSES(hard_swish_gate, OP_CONV);
    cr_assert_eq(last->epilogue.act, ACT_HARD_SWISH);
}
Test(fuse, x_times_clip_over_6_is_hard_swish) {
    FUSES(hard_swish_divided_last, OP_CONV);
    cr_assert_eq(last->epilogue.act, ACT_HARD_SWISH);
}
Test(fuse, x_times_a_divided_clip_is_hard_swish) {
    FUSES(hard_swish_divided_first, OP_CONV);
    cr_assert_eq(last->epilogue.act, ACT_HARD_SWISH);
}

static void another_clip(struct maker *m) {
    int x = image(m);
    int clip = unary(m, binary(m, BINARY_ADD, x, splat(m, SHAPE(1), 3)), ACT_CLIP, 0, 5);
    output(m, binary(m, BINARY_DIV, binary(m, BINARY_MUL, x, clip), splat(m, SHAPE(1), 6)));
}
Test(fuse, a_clip_at_5_is_no_hard_swish) {
    FUSES(another_clip, OP_BINARY, OP_BINARY, OP_BINARY);
}

/* ---- pads ---- */

static void padded_conv(struct maker *m) {
    output(m, conv(m, pad(m, image(m), 0, 2, 0, 1, 3), 4));
}
Test(fuse, a_zero_pad_becomes_the_convolutions_own) {
    FUSES(padded_conv, OP_CONV);
    cr_assert(last->attr.conv.pad[0] == 3 && last->attr.conv.pad[1] == 1);
    cr_assert(last->attr.conv.pad[2] == 2 && last->attr.conv.pad[3] == 4);
}

static void padded_with_ones(struct maker *m) {
    output(m, conv(m, pad(m, image(m), 1, 1, 1, 1, 1), 4));
}
Test(fuse, a_pad_with_ones_stays) {
    FUSES(padded_with_ones, OP_PAD, OP_CONV);
}

static void cropped(struct maker *m) {
    output(m, conv(m, pad(m, image(m), 0, 1, -1, 0, 0), 4));
}
Test(fuse, a_pad_that_crops_stays) {
    FUSES(cropped, OP_PAD, OP_CONV);
}

static void average_counting(struct maker *m) {
    output(m, average(m, pad(m, image(m), 0, 1, 1, 1, 1), 1, true));
}
static void average_unpadded(struct maker *m) {
    output(m, average(m, pad(m, image(m), 0, 1, 0, 0, 1), 0, false));
}
static void average_not_counting(struct maker *m) {
    output(m, average(m, pad(m, image(m), 0, 1, 1, 1, 1), 1, false));
}
Test(fuse, a_zero_pad_joins_an_average_that_counts_its_pad) {
    FUSES(average_counting, OP_POOL);
}
Test(fuse, a_zero_pad_joins_an_unpadded_average_which_counts_it_then) {
    FUSES(average_unpadded, OP_POOL);
    cr_assert_eq(last->attr.pool.count_include_pad, 1);
}
Test(fuse, a_zero_pad_before_an_average_that_does_not_count_its_own_stays) {
    FUSES(average_not_counting, OP_PAD, OP_POOL);
}

/* ---- matrices and reshapes ---- */

static int matmul(struct maker *m, int x, int64_t n) {
    struct shape shape = shape_of(m, x);
    int64_t k = shape.dim[shape.rank - 1];
    shape.dim[shape.rank - 1] = n;
    int w = constant(m, SHAPE(k, n));
    return add(m, OP_MATMUL, shape, 2, x, w, 0)->out[0];
}

static void matmul_bias_relu(struct maker *m) {
    int x = matmul(m, input(m, SHAPE(3, 10)), 7);
    output(m, relu(m, binary(m, BINARY_ADD, x, constant(m, SHAPE(7)))));
}
Test(fuse, a_product_with_a_constant_matrix_is_dense_with_bias_and_activation) {
    FUSES(matmul_bias_relu, OP_DENSE);
    cr_assert(last->epilogue.bias);
    cr_assert_eq(last->epilogue.act, ACT_RELU);
}

static void batched_matmul(struct maker *m) {
    int x = matmul(m, input(m, SHAPE(2, 3, 10)), 7);
    output(m, relu(m, binary(m, BINARY_ADD, constant(m, SHAPE(1, 1, 7)), x)));
}
Test(fuse, a_product_of_higher_rank_is_dense_between_reshapes) {
    FUSES(batched_matmul, OP_RESHAPE, OP_DENSE, OP_RESHAPE);
    cr_assert(graph->nodes[1].epilogue.bias);
    cr_assert_eq(graph->nodes[1].epilogue.act, ACT_RELU);
}

static void matmul_of_two_inputs(struct maker *m) {
    int a = input(m, SHAPE(3, 4)), b = input(m, SHAPE(4, 5));
    output(m, add(m, OP_MATMUL, SHAPE(3, 5), 2, a, b, 0)->out[0]);
}
Test(fuse, a_product_of_two_computed_matrices_stays) {
    FUSES(matmul_of_two_inputs, OP_MATMUL);
}

static void dense_residual(struct maker *m) {
    int x = input(m, SHAPE(3, 10));
    output(m, binary(m, BINARY_ADD, x, matmul(m, x, 10)));
}
Test(fuse, dense_takes_a_residual) {
    FUSES(dense_residual, OP_DENSE);
    cr_assert(last->epilogue.residual);
}

static void reshapes(struct maker *m) {
    int x = reshape(m, reshape(m, image(m), SHAPE(8, 30)), SHAPE(4, 60));
    output(m, unary(m, reshape(m, x, SHAPE(240)), ACT_TANH, 0, 0));
}
Test(fuse, a_chain_of_reshapes_is_one) {
    FUSES(reshapes, OP_RESHAPE, OP_UNARY);
}

static void identities(struct maker *m) {
    int x = image(m);
    struct shape shape = shape_of(m, x);
    x = reshape(m, x, shape);
    struct node *node = add(m, OP_TRANSPOSE, shape, 1, x, 0, 0);
    for (int i = 0; i < 4; i++) {
        node->attr.transpose.perm[i] = i;
    }
    x = add(m, OP_CAST, shape, 1, node->out[0], 0, 0)->out[0];
    x = add(m, OP_CONCAT, shape, 1, x, 0, 0)->out[0];
    node = add(m, OP_SLICE, shape, 1, x, 0, 0);
    for (int i = 0; i < 4; i++) {
        node->attr.slice.step[i] = 1;
    }
    x = unary(m, node->out[0], ACT_TANH, 0, 0);
    output(m, reshape(m, x, shape));
}
Test(fuse, operators_that_change_nothing_are_removed) {
    FUSES(identities, OP_UNARY);
}

static void reversed(struct maker *m) {
    int x = image(m);
    struct node *node = add(m, OP_SLICE, shape_of(m, x), 1, x, 0, 0);
    node->attr.slice = (struct slice_attr){{0, 0, 4, 0}, {1, 1, -1, 1}};
    output(m, node->out[0]);
}
Test(fuse, a_slice_that_reverses_stays) {
    FUSES(reversed, OP_SLICE);
}

static void input_to_output(struct maker *m) {
    int x = image(m);
    output(m, reshape(m, x, shape_of(m, x)));
}
Test(fuse, an_output_that_equals_an_input_is_still_computed) {
    FUSES(input_to_output, OP_RESHAPE);
}

static void output_twice(struct maker *m) {
    int x = unary(m, image(m), ACT_TANH, 0, 0);
    output(m, x);
    output(m, reshape(m, x, shape_of(m, x)));
    output(m, relu(m, x));
}
Test(fuse, two_outputs_of_one_value_stay_two) {
    FUSES(output_twice, OP_UNARY, OP_RESHAPE, OP_UNARY);
}

static void early_reader(struct maker *m) {
    int x = unary(m, image(m), ACT_TANH, 0, 0);
    int y = unary(m, x, ACT_ABS, 0, 0);
    output(m, reshape(m, x, shape_of(m, x)));
    output(m, binary(m, BINARY_MUL, x, y));
}
Test(fuse, others_that_read_what_became_an_output_read_the_output) {
    FUSES(early_reader, OP_UNARY, OP_UNARY, OP_BINARY);
}

static void unread(struct maker *m) {
    int x = image(m), y = conv(m, x, 4);
    relu(m, y);
    output(m, affine(m, y));
}
Test(fuse, a_reader_whose_result_nobody_reads_does_not_count) {
    FUSES(unread, OP_CONV);
}

/* ---- whole networks ---- */

static const char *models_folder(struct arena *arena) {
    const char *shared = getenv("WARPTUNE_SHARED");
    return arena_printf(arena, "%s/models", shared ? shared : "../shared");
}

static void read_tensor(const char *path, struct arena *arena, struct value *ret) {
    struct error error = {0};
    cr_assert_eq(onnx_read_tensor(path, arena, ret, &error), 0, "%s", error.text);
}

/* Networks with an input beside them are small enough to compute; of the others only the structure is looked at. */
static void check_outputs(const struct graph *graph, const char *stem, struct arena *arena) {
    struct value input_tensor, expected;
    struct file_map map;
    struct error error = {0};
    float *got[8];
    const char *path = arena_printf(arena, "%s_input_0.pb", stem);
    if (file_map(path, &map, &error)) {
        return;
    }
    file_unmap(&map);
    read_tensor(path, arena, &input_tensor);
    cr_assert_eq(eval_graph(graph, &input_tensor.data, arena, got, &error), 0, "%s", error.text);
    for (int i = 0; i < graph->n_outputs; i++) {
        read_tensor(arena_printf(arena, "%s_output_%d.pb", stem, i), arena, &expected);
        must_be_close(expected.data, got[i], shape_count(&expected.shape), 1e-4, stem);
    }
}

static void check_network(const char *folder, const char *file) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const char *stem = arena_strndup(arena, file, strlen(file) - strlen(".onnx"));
    struct file_map map;
    struct graph *graph;
    struct error error = {0};
    stem = arena_printf(arena, "%s/%s", folder, stem);
    cr_assert_eq(file_map(arena_printf(arena, "%s/%s", folder, file), &map, &error), 0, "%s", error.text);
    cr_assert_eq(onnx_import(map.data, map.len, NULL, arena, &graph, &error), 0, "%s: %s", file, error.text);
    cr_assert_eq(graph_fuse(graph, &error), 0, "%s: %s", file, error.text);
    must_be_valid(graph, arena);
    for (int i = 0; i < graph->n_nodes; i++) {
        cr_assert_neq(graph->nodes[i].op, OP_AFFINE, "%s: a batch norm is left", file);
    }
    check_outputs(graph, stem, arena);
    file_unmap(&map);
}

Test(fuse, fused_networks_give_their_expected_outputs, .timeout = 120) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const char *folder = models_folder(arena);
    DIR *dir = opendir(folder);
    if (!dir) {
        cr_skip_test("there are no networks in %s", folder);
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && !strcmp(dot, ".onnx")) {
            check_network(folder, entry->d_name);
        }
    }
    closedir(dir);
}
