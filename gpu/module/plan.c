/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gpu/module/plan_internal.h"

void *plan_append(struct planner *planner, void *array, int *n, int *cap, size_t size) {
    if (*n == *cap) {
        int wider = *cap ? *cap * 2 : 32;
        void *moved = arena_array(planner->arena, (size_t)wider, size);
        if (*n)
            memcpy(moved, array, (size_t)*n * size);
        array = moved;
        *cap = wider;
    }
    ++*n;
    return array;
}

int plan_add_buffer(struct planner *planner, enum plan_buffer_kind kind, int index, size_t bytes) {
    struct plan *plan = planner->plan;
    struct plan_buffer *buffer = PLAN_APPEND(planner, plan->buffers, plan->n_buffers, planner->cap_buffers);
    buffer->kind = kind;
    buffer->index = index;
    buffer->bytes = bytes;
    return plan->n_buffers - 1;
}

/* ---- values ---- */

static struct operand operand_of(const struct planner *planner, int value) {
    const struct value *v = &planner->graph->values[value];
    bool image = v->shape.rank == 4 && !v->data && !planner->edge[value];
    return (struct operand){v->dtype, image ? planner->options->layout : LAYOUT_ROW, v->shape};
}

/* Do the elements lie in logical order? */
static bool in_order(const struct operand *operand) {
    const int64_t *dim = operand->shape.dim;
    return operand->layout == LAYOUT_ROW || dim[1] == 1 || dim[2] * dim[3] == 1;
}

static int copy(struct planner *planner, const struct operand *from, int in, const struct operand *to, int out,
                const char *what) {
    struct workload workload = {.op = OP_COPY,
                                .n_in = 1,
                                .n_out = 1,
                                .in = (struct operand *)(uintptr_t)from,
                                .out = (struct operand *)(uintptr_t)to};
    int program;
    if (plan_program(planner, &workload, what, &program) < 0)
        return -1;
    return plan_launch(planner, program, &in, 1, &out, what);
}

/* One buffer for all constants that look at the same data. */
static int constant_buffer(struct planner *planner, const struct value *value) {
    struct plan *plan = planner->plan;
    size_t element = dtype_size(value->dtype), bytes = (size_t)shape_count(&value->shape) * element;
    bool splat = value->splat && bytes > element;
    for (int i = 0; i < plan->n_buffers; i++) {
        const struct plan_buffer *b = &plan->buffers[i];
        if (b->kind == PLAN_CONSTANT && b->data == value->data && b->bytes == bytes && b->splat == splat)
            return i;
    }
    int i = plan_add_buffer(planner, PLAN_CONSTANT, 0, bytes);
    plan->buffers[i].data = value->data;
    plan->buffers[i].splat = splat;
    plan->buffers[i].element_bytes = element;
    return i;
}

/* The buffer from which nodes read a value; the network's input is brought into their layout when first read. */
static int read_value(struct planner *planner, int value, int *ret) {
    const struct value *v = &planner->graph->values[value];
    int *buffer = &planner->buffer[value];
    if (*buffer < 0 && v->data)
        *buffer = constant_buffer(planner, v);
    if (*buffer < 0 && planner->input[value] >= 0) {
        struct operand inner = operand_of(planner, value), outer = inner;
        outer.layout = LAYOUT_ROW;
        *buffer = planner->input[value];
        if (!in_order(&inner)) {
            *buffer = plan_add_buffer(planner, PLAN_WORKSPACE, 0, operand_bytes(&inner));
            if (copy(planner, &outer, planner->input[value], &inner, *buffer, v->name) < 0)
                return -1;
        }
    }
    if (*buffer < 0)
        return error_set(planner->error, ERROR_INTERNAL, "bad-graph", v->name, "Nothing computes the value %s.",
                         v->name);
    *ret = *buffer;
    return 0;
}

/* ---- nodes ---- */

static bool is_view(const struct planner *planner, const struct node *node) {
    if (node->op != OP_RESHAPE)
        return false;
    struct operand in = operand_of(planner, node->in[0]), out = operand_of(planner, node->out[0]);
    return in_order(&in) && in_order(&out);
}

static int plan_node(struct planner *planner, const struct node *node) {
    int *in = arena_array(planner->arena, (size_t)node->n_in, sizeof *in);
    int *out = arena_array(planner->arena, (size_t)node->n_out, sizeof *out), program;
    for (int i = 0; i < node->n_in; i++) {
        if (read_value(planner, node->in[i], &in[i]) < 0)
            return -1;
    }
    if (is_view(planner, node)) {
        planner->buffer[node->out[0]] = in[0];
        return 0;
    }
    struct workload *workload = workload_of_node(planner->graph, node, planner->options->layout, planner->arena);
    if (node->op == OP_CAST) {
        workload->in[0] = operand_of(planner, node->in[0]);
        workload->out[0] = operand_of(planner, node->out[0]);
    }
    if (plan_program(planner, workload, node->name, &program) < 0)
        return -1;
    for (int i = 0; i < node->n_out; i++) {
        out[i] = plan_add_buffer(planner, PLAN_WORKSPACE, 0, operand_bytes(&workload->out[i]));
        planner->buffer[node->out[i]] = out[i];
    }
    return plan_launch(planner, program, in, node->n_in, out, node->name);
}

/* ---- the network's edge ---- */

static struct plan_tensor *edge_tensors(struct planner *planner, const int *values, int n) {
    struct plan_tensor *tensors = arena_array(planner->arena, (size_t)n, sizeof *tensors);
    for (int i = 0; i < n; i++) {
        const struct value *value = &planner->graph->values[values[i]];
        tensors[i] = (struct plan_tensor){value->name, value->dtype, value->shape};
    }
    return tensors;
}

static void add_inputs(struct planner *planner) {
    const struct graph *graph = planner->graph;
    planner->plan->inputs = edge_tensors(planner, graph->inputs, graph->n_inputs);
    planner->plan->n_inputs = graph->n_inputs;
    for (int i = 0; i < graph->n_inputs; i++) {
        struct operand operand = operand_of(planner, graph->inputs[i]);
        planner->input[graph->inputs[i]] = plan_add_buffer(planner, PLAN_INPUT, i, operand_bytes(&operand));
    }
}

/*
 * A value that was computed in logical order is written straight to the caller's buffer. One in another layout is
 * copied there, and so is an input, a constant, and what is another output already.
 */
static int add_output(struct planner *planner, int index) {
    int value = planner->graph->outputs[index], from = planner->input[value];
    struct operand inner = operand_of(planner, value), outer = inner;
    outer.layout = LAYOUT_ROW;
    if (from >= 0)
        inner.layout = LAYOUT_ROW;
    else if (read_value(planner, value, &from) < 0)
        return -1;
    struct plan_buffer *buffer = &planner->plan->buffers[from];
    if (buffer->kind == PLAN_WORKSPACE && in_order(&inner)) {
        buffer->kind = PLAN_OUTPUT;
        buffer->index = index;
        return 0;
    }
    int out = plan_add_buffer(planner, PLAN_OUTPUT, index, operand_bytes(&outer));
    return copy(planner, &inner, from, &outer, out, planner->graph->values[value].name);
}

static int add_outputs(struct planner *planner) {
    const struct graph *graph = planner->graph;
    planner->plan->outputs = edge_tensors(planner, graph->outputs, graph->n_outputs);
    planner->plan->n_outputs = graph->n_outputs;
    for (int i = 0; i < graph->n_outputs; i++) {
        if (add_output(planner, i) < 0)
            return -1;
    }
    return 0;
}

/* A cast walks any layout as fast as its own, so that one at the edge spares the copy that changes the layout. */
static bool *find_edges(const struct graph *graph, struct arena *arena) {
    bool *edge = arena_array(arena, (size_t)graph->n_values, sizeof *edge);
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->op != OP_CAST)
            continue;
        for (int k = 0; k < graph->n_inputs; k++)
            edge[node->in[0]] |= graph->inputs[k] == node->in[0] && graph_uses(graph, node->in[0]) == 1;
        for (int k = 0; k < graph->n_outputs; k++)
            edge[node->out[0]] |= graph->outputs[k] == node->out[0] && graph_uses(graph, node->out[0]) == 1;
    }
    return edge;
}

static int *no_buffers(struct arena *arena, int n) {
    int *buffers = arena_array(arena, (size_t)n, sizeof *buffers);
    for (int i = 0; i < n; i++)
        buffers[i] = -1;
    return buffers;
}

int plan_graph(const struct graph *graph, const struct plan_options *options, struct arena *arena, struct plan **ret,
               struct error *error) {
    struct planner planner = {.graph = graph, .options = options, .arena = arena, .error = error};
    planner.plan = arena_alloc(arena, sizeof *planner.plan);
    planner.input = no_buffers(arena, graph->n_values);
    planner.buffer = no_buffers(arena, graph->n_values);
    planner.edge = find_edges(graph, arena);
    add_inputs(&planner);
    for (int i = 0; i < graph->n_nodes; i++) {
        if (plan_node(&planner, &graph->nodes[i]) < 0)
            return -1;
    }
    if (add_outputs(&planner) < 0)
        return -1;
    plan_place(&planner);
    *ret = planner.plan;
    return 0;
}
