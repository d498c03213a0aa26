/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/precision.h"

#include <math.h>
#include <string.h>

#include "service/base/half.h"

static const char *const names[] = {[PRECISION_FP32] = "fp32", [PRECISION_FP16] = "fp16"};

const char *precision_name(enum precision precision) {
    return names[precision];
}

enum dtype precision_dtype(enum precision precision) {
    return precision == PRECISION_FP16 ? DTYPE_F16 : DTYPE_F32;
}

int precision_parse(const char *name, const char *code, enum precision *ret, struct error *error) {
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum precision)i;
            return 0;
        }
    }
    if (strcmp(name, "f32") == 0) {
        *ret = PRECISION_FP32;
        return 0;
    }
    return error_set(error, ERROR_INVALID, code, "precision", "'precision' is '%.60s', but must be one of: %s, %s.",
                     name, names[PRECISION_FP32], names[PRECISION_FP16]);
}

/* The graph under change: `half` holds, by value of the graph as it was, the f16 one that nodes read instead; or -1. */
struct pass {
    struct graph *graph;
    struct precision_loss *loss;
    struct error *error;
    int *half;
};

static bool is_f32(const struct graph *graph, int value) {
    return graph->values[value].dtype == DTYPE_F32;
}

static bool lists(const int *values, int n, int value) {
    for (int i = 0; i < n; i++) {
        if (values[i] == value)
            return true;
    }
    return false;
}

/* ---- Constants ---- */

static uint16_t saturated(float value, struct precision_loss *loss) {
    uint16_t half = half_from_float(value);
    bool beyond = isfinite(value) && (half & 0x7fff) == 0x7c00;
    loss->converted++;
    loss->saturated += beyond;
    return beyond ? half_from_float(copysignf(HALF_MAX, value)) : half;
}

/* A new value with the same numbers as halves. */
static int convert(struct pass *pass, int constant) {
    const struct value *from = &pass->graph->values[constant];
    int64_t count = from->splat ? 1 : shape_count(&from->shape);
    uint16_t *data = arena_try_alloc(pass->graph->arena, (size_t)count * sizeof *data);
    if (!data)
        return error_set(pass->error, ERROR_LIMIT, "out-of-memory", from->name,
                         "There is not enough memory for the constant %.200s.", from->name);
    const float *numbers = from->data;
    for (int64_t i = 0; i < count; i++)
        data[i] = saturated(numbers[i], pass->loss);
    bool splat = from->splat;
    struct shape shape = from->shape;
    int half = graph_add_value(pass->graph, from->name, DTYPE_F16, &shape);
    pass->graph->values[half].data = data;
    pass->graph->values[half].splat = splat;
    return half;
}

/* Does a constant stay f32 as this operand? */
static bool stays(const struct node *node, int operand) {
    switch (node->op) {
    case OP_CONV:
    case OP_CONV_TRANSPOSE:
    case OP_DENSE:
        return node->epilogue.bias && operand == 2;
    case OP_AFFINE:
        return operand > 0;
    default:
        return node->op == OP_BINARY;
    }
}

/* ---- Values ---- */

static void set_cast(struct graph *graph, struct node *ret, int from, int to) {
    *ret = (struct node){.op = OP_CAST, .name = graph->values[from].name, .n_in = 1, .n_out = 1};
    ret->in = arena_array(graph->arena, 1, sizeof *ret->in);
    ret->out = arena_array(graph->arena, 1, sizeof *ret->out);
    ret->in[0] = from;
    ret->out[0] = to;
}

/* What the caller sees keeps its type; nodes get a value of their own. Everything else that is computed changes. */
static void change_values(struct pass *pass) {
    struct graph *graph = pass->graph;
    int n = graph->n_values;
    for (int i = 0; i < n; i++) {
        bool edge = lists(graph->inputs, graph->n_inputs, i) || lists(graph->outputs, graph->n_outputs, i);
        if (!is_f32(graph, i) || graph->values[i].data)
            continue;
        struct shape shape = graph->values[i].shape;
        if (edge)
            pass->half[i] = graph_add_value(graph, graph->values[i].name, DTYPE_F16, &shape);
        else
            graph->values[i].dtype = DTYPE_F16;
    }
}

/* A constant without a half of its own yet gets one when the first node asks for it. */
static int change_operands(struct pass *pass, struct node *node) {
    struct graph *graph = pass->graph;
    for (int i = 0; i < node->n_in; i++) {
        int value = node->in[i];
        if (graph->values[value].data && (!is_f32(graph, value) || stays(node, i)))
            continue;
        if (graph->values[value].data && pass->half[value] < 0 && (pass->half[value] = convert(pass, value)) < 0)
            return -1;
        node->in[i] = pass->half[value] >= 0 ? pass->half[value] : value;
    }
    for (int i = 0; i < node->n_out; i++)
        node->out[i] = pass->half[node->out[i]] >= 0 ? pass->half[node->out[i]] : node->out[i];
    return 0;
}

/* The nodes anew: casts of the inputs, the nodes, casts of the outputs that some node computes. */
static void add_casts(struct pass *pass) {
    struct graph *graph = pass->graph;
    int room = graph->n_inputs + graph->n_nodes + graph->n_outputs, n = 0;
    struct node *nodes = arena_array(graph->arena, (size_t)room, sizeof *nodes);
    for (int i = 0; i < graph->n_inputs; i++) {
        int value = graph->inputs[i];
        if (pass->half[value] >= 0 && graph_uses(graph, pass->half[value]))
            set_cast(graph, &nodes[n++], value, pass->half[value]);
    }
    for (int i = 0; i < graph->n_nodes; i++)
        nodes[n++] = graph->nodes[i];
    for (int i = 0; i < graph->n_outputs; i++) {
        int value = graph->outputs[i];
        if (!lists(graph->outputs, i, value) && pass->half[value] >= 0 && !graph->values[value].data &&
            !lists(graph->inputs, graph->n_inputs, value))
            set_cast(graph, &nodes[n++], pass->half[value], value);
    }
    graph->nodes = nodes;
    graph->n_nodes = n;
    graph->cap_nodes = room;
}

int graph_set_precision(struct graph *graph, enum precision precision, struct precision_loss *ret,
                        struct error *error) {
    *ret = (struct precision_loss){0};
    if (precision == PRECISION_FP32)
        return 0;
    struct pass pass = {graph, ret, error, arena_array(graph->arena, (size_t)graph->n_values, sizeof(int))};
    for (int i = 0; i < graph->n_values; i++)
        pass.half[i] = -1;
    change_values(&pass);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (change_operands(&pass, &graph->nodes[i]) < 0)
            return -1;
    }
    add_casts(&pass);
    return 0;
}
