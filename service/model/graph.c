/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/graph.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DTYPE_F32] = {"f32", 4}, [DTYPE_F16] = {"f16", 2}, [DTYPE_BF16] = {"bf16", 2},
    [DTYPE_F64] = {"f64", 8}, [DTYPE_I8] = {"i8", 1},   [DTYPE_U8] = {"u8", 1},
    [DTYPE_I32] = {"i32", 4}, [DTYPE_I64] = {"i64", 8}, [DTYPE_BOOL] = {"bool", 1},
};

static const char *const op_names[] = {
    [OP_CONV] = "conv2d",
    [OP_CONV_TRANSPOSE] = "conv2d_transpose",
    [OP_DENSE] = "dense",
    [OP_MATMUL] = "matmul",
    [OP_POOL] = "pool",
    [OP_REDUCE] = "reduce",
    [OP_AFFINE] = "affine",
    [OP_UNARY] = "unary",
    [OP_BINARY] = "binary",
    [OP_SOFTMAX] = "softmax",
    [OP_LRN] = "lrn",
    [OP_RESHAPE] = "reshape",
    [OP_TRANSPOSE] = "transpose",
    [OP_CONCAT] = "concat",
    [OP_SLICE] = "slice",
    [OP_PAD] = "pad",
    [OP_RESIZE] = "resize",
    [OP_GATHER] = "gather",
    [OP_EXPAND] = "expand",
    [OP_CAST] = "cast",
    [OP_COPY] = "copy",
};

_Static_assert(ARRAY_COUNT(dtypes) == DTYPE_COUNT, "each dtype has a row");
_Static_assert(ARRAY_COUNT(op_names) == OP_COUNT, "each operator has a name");

size_t dtype_size(enum dtype dtype) {
    return dtypes[dtype].size;
}

const char *dtype_name(enum dtype dtype) {
    return dtypes[dtype].name;
}

int dtype_parse(const char *name, enum dtype *ret, struct error *error) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *ret = (enum dtype)i;
            return 0;
        }
    }
    return error_set(error, ERROR_INVALID, "unknown-dtype", "dtype",
                     "There is no data type %s; the data types are f32, f16, bf16, f64, i8, u8, i32, i64 and bool.",
                     name);
}

int64_t shape_count(const struct shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->dim[i];
    return count;
}

bool shape_equal(const struct shape *a, const struct shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

const char *op_name(enum op op) {
    return op_names[op];
}

bool op_has_weights(enum op op) {
    return op == OP_CONV || op == OP_CONV_TRANSPOSE || op == OP_DENSE;
}

struct graph *graph_new(struct arena *arena) {
    struct graph *graph = arena_alloc(arena, sizeof *graph);
    graph->arena = arena;
    graph->name = "";
    return graph;
}

/* An array that is full moves to one of twice the size; the arena keeps the old one. */
static void *grown(struct arena *arena, void *items, int count, int *cap, size_t size) {
    if (count < *cap)
        return items;
    int wider = *cap ? *cap * 2 : 64;
    void *moved = arena_array(arena, (size_t)wider, size);
    if (count)
        memcpy(moved, items, (size_t)count * size);
    *cap = wider;
    return moved;
}

int graph_add_value(struct graph *graph, const char *name, enum dtype dtype, const struct shape *shape) {
    graph->values = grown(graph->arena, graph->values, graph->n_values, &graph->cap_values, sizeof *graph->values);
    graph->values[graph->n_values] = (struct value){.name = name, .dtype = dtype, .shape = *shape};
    return graph->n_values++;
}

struct node *graph_add_node(struct graph *graph, enum op op, const char *name, int n_in, int n_out) {
    graph->nodes = grown(graph->arena, graph->nodes, graph->n_nodes, &graph->cap_nodes, sizeof *graph->nodes);
    struct node *node = &graph->nodes[graph->n_nodes++];
    *node = (struct node){.op = op, .name = name, .n_in = n_in, .n_out = n_out};
    node->in = arena_array(graph->arena, (size_t)n_in, sizeof *node->in);
    node->out = arena_array(graph->arena, (size_t)n_out, sizeof *node->out);
    return node;
}

static bool lists(const int *values, int count, int value) {
    for (int i = 0; i < count; i++) {
        if (values[i] == value)
            return true;
    }
    return false;
}

int graph_producer(const struct graph *graph, int value) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (lists(graph->nodes[i].out, graph->nodes[i].n_out, value))
            return i;
    }
    return -1;
}

int graph_uses(const struct graph *graph, int value) {
    int uses = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        uses += lists(graph->nodes[i].in, graph->nodes[i].n_in, value);
    for (int i = 0; i < graph->n_outputs; i++)
        uses += graph->outputs[i] == value;
    return uses;
}

void graph_prune(struct graph *graph) {
    bool *read = arena_array(graph->arena, (size_t)graph->n_values, sizeof *read);
    bool *kept = arena_array(graph->arena, (size_t)graph->n_nodes, sizeof *kept);
    for (int i = 0; i < graph->n_outputs; i++)
        read[graph->outputs[i]] = true;
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        const struct node *node = &graph->nodes[i];
        for (int j = 0; j < node->n_out; j++)
            kept[i] |= read[node->out[j]];
        for (int j = 0; j < node->n_in && kept[i]; j++)
            read[node->in[j]] = true;
    }
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (kept[i])
            graph->nodes[n++] = graph->nodes[i];
    }
    graph->n_nodes = n;
}
