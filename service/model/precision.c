/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/precision.h"

#include <math.h>
#include <string.h>

#include "service/base/buf.h"
#include "service/model/narrow.h"

static const struct {
    const char *name;
    enum dtype dtype;
} precisions[PRECISION_COUNT] = {
    [PRECISION_FP32] = {"fp32", DTYPE_F32},
    [PRECISION_FP16] = {"fp16", DTYPE_F16},
    [PRECISION_BF16] = {"bf16", DTYPE_BF16},
    [PRECISION_TF32] = {"tf32", DTYPE_F32},
};

const char *precision_name(enum precision precision) {
    return precisions[precision].name;
}

enum dtype precision_dtype(enum precision precision) {
    return precisions[precision].dtype;
}

int precision_parse(const char *name, const char *code, enum precision *ret, struct error *error) {
    struct buf names CLEANUP(buf_release) = BUF_INIT(128);
    for (size_t i = 0; i < ARRAY_COUNT(precisions); i++) {
        buf_printf(&names, "%s%s", i ? ", " : "", precisions[i].name);
        if (strcmp(name, precisions[i].name) == 0) {
            *ret = (enum precision)i;
            return 0;
        }
    }
    if (strcmp(name, "f32") == 0) {
        *ret = PRECISION_FP32;
        return 0;
    }
    return error_set(error, ERROR_INVALID, code, "precision", "'precision' is '%.60s', but must be one of: %s.", name,
                     buf_str(&names));
}

/* The graph under change: `narrow` holds, by value of the graph as it was, the one of the narrow dtype that nodes read
 * instead; or -1. */
struct pass {
    struct graph *graph;
    enum dtype dtype;
    struct precision_loss *loss;
    struct error *error;
    int *narrow;
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

static uint16_t saturated(enum dtype dtype, float value, struct precision_loss *loss) {
    uint16_t narrow = narrow_from_float(dtype, value);
    bool beyond = isfinite(value) && isinf(narrow_to_float(dtype, narrow));
    loss->converted++;
    loss->saturated += beyond;
    return beyond ? narrow_from_float(dtype, copysignf(narrow_max(dtype), value)) : narrow;
}

/* A new value with the same numbers in the narrow dtype. */
static int convert(struct pass *pass, int constant) {
    const struct value *from = &pass->graph->values[constant];
    int64_t count = from->splat ? 1 : shape_count(&from->shape);
    uint16_t *data = arena_try_alloc(pass->graph->arena, (size_t)count * sizeof *data);
    if (!data)
        return error_set(pass->error, ERROR_LIMIT, "out-of-memory", from->name,
                         "There is not enough memory for the constant %.200s.", from->name);
    const float *numbers = from->data;
    for (int64_t i = 0; i < count; i++)
        data[i] = saturated(pass->dtype, numbers[i], pass->loss);
    bool splat = from->splat;
    struct shape shape = from->shape;
    int narrow = graph_add_value(pass->graph, from->name, pass->dtype, &shape);
    pass->graph->values[narrow].data = data;
    pass->graph->values[narrow].splat = splat;
    return narrow;
}

/* Does a constant stay f32 as this operand? */
static bool stays(const struct node *node, int operand) {
    if (op_has_weights(node->op))
        return node->epilogue.bias && operand == 2;
    return node->op == OP_AFFINE ? operand > 0 : node->op == OP_BINARY;
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
            pass->narrow[i] = graph_add_value(graph, graph->values[i].name, pass->dtype, &shape);
        else
            graph->values[i].dtype = pass->dtype;
    }
}

/* A constant without a narrow one of its own yet gets one when the first node asks for it. */
static int change_operands(struct pass *pass, struct node *node) {
    struct graph *graph = pass->graph;
    for (int i = 0; i < node->n_in; i++) {
        int value = node->in[i];
        if (graph->values[value].data && (!is_f32(graph, value) || stays(node, i)))
            continue;
        if (graph->values[value].data && pass->narrow[value] < 0 && (pass->narrow[value] = convert(pass, value)) < 0)
            return -1;
        node->in[i] = pass->narrow[value] >= 0 ? pass->narrow[value] : value;
    }
    for (int i = 0; i < node->n_out; i++)
        node->out[i] = pass->narrow[node->out[i]] >= 0 ? pass->narrow[node->out[i]] : node->out[i];
    return 0;
}

/* The nodes anew: casts of the inputs, the nodes, casts of the outputs that some node computes. */
static void add_casts(struct pass *pass) {
    struct graph *graph = pass->graph;
    int room = graph->n_inputs + graph->n_nodes + graph->n_outputs, n = 0;
    struct node *nodes = arena_array(graph->arena, (size_t)room, sizeof *nodes);
    for (int i = 0; i < graph->n_inputs; i++) {
        int value = graph->inputs[i];
        if (pass->narrow[value] >= 0 && graph_uses(graph, pass->narrow[value]))
            set_cast(graph, &nodes[n++], value, pass->narrow[value]);
    }
    for (int i = 0; i < graph->n_nodes; i++)
        nodes[n++] = graph->nodes[i];
    for (int i = 0; i < graph->n_outputs; i++) {
        int value = graph->outputs[i];
        if (!lists(graph->outputs, i, value) && pass->narrow[value] >= 0 && !graph->values[value].data &&
            !lists(graph->inputs, graph->n_inputs, value))
            set_cast(graph, &nodes[n++], pass->narrow[value], value);
    }
    graph->nodes = nodes;
    graph->n_nodes = n;
    graph->cap_nodes = room;
}

static void allow_tf32(struct graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        node->tf32 = op_has_weights(node->op) && is_f32(graph, node->in[0]) && is_f32(graph, node->in[1]);
    }
}

int graph_set_precision(struct graph *graph, enum precision precision, struct precision_loss *ret,
                        struct error *error) {
    *ret = (struct precision_loss){0};
    if (precision == PRECISION_TF32)
        allow_tf32(graph);
    if (!dtype_is_narrow(precision_dtype(precision)))
        return 0;
    int *narrow = arena_array(graph->arena, (size_t)graph->n_values, sizeof *narrow);
    struct pass pass = {graph, precision_dtype(precision), ret, error, narrow};
    for (int i = 0; i < graph->n_values; i++)
        narrow[i] = -1;
    change_values(&pass);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (change_operands(&pass, &graph->nodes[i]) < 0)
            return -1;
    }
    add_casts(&pass);
    return 0;
}
