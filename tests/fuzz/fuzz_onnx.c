/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_onnx.c: any bytes at all into onnx_import; what it takes is evaluated when that is cheap.
 *
 *     make fuzz F=onnx SECONDS_EACH=600
 *
 * Beyond not crashing and staying within its memory: an error is ERROR_INVALID or ERROR_LIMIT and has a code and a
 * text; a graph has all its shapes, its nodes are in topological order, and each value is computed once.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/model/eval.h"
#include "service/model/onnx_import.h"

#define MEMORY_LIMIT ((size_t)512 << 20)
#define CONSTANT_LIMIT ((size_t)1 << 20)
#define MAX_WORK 100000 /* elements of all values together, for an evaluation */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

/* Elements of all values together, or -1 when they are many. */
static int64_t check_values(const struct graph *graph) {
    int64_t total = 0;
    for (int i = 0; i < graph->n_values; i++) {
        const struct value *value = &graph->values[i];
        int64_t count = 1;
        demand(value->name != NULL, "a value has a name");
        demand(value->shape.rank >= 0 && value->shape.rank <= SHAPE_MAX_RANK, "a shape has a rank");
        for (int d = 0; d < value->shape.rank; d++) {
            demand(value->shape.dim[d] >= (value->data ? 0 : 1), "a dimension is positive");
            demand(!__builtin_mul_overflow(count, value->shape.dim[d], &count), "a shape has a size");
        }
        demand(count <= (int64_t)1 << 40, "a value has at most 2^40 elements");
        total = total < 0 || count > MAX_WORK - total ? -1 : total + count;
    }
    return total;
}

static void check_order(const struct graph *graph) {
    char *known = calloc((size_t)graph->n_values + 1, 1);
    for (int i = 0; i < graph->n_values; i++)
        known[i] = graph->values[i].data != NULL;
    for (int i = 0; i < graph->n_inputs; i++)
        known[graph->inputs[i]] = 1;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        for (int j = 0; j < node->n_in; j++)
            demand(known[node->in[j]], "an operand is computed before it is read");
        demand(node->n_out == 1 && !known[node->out[0]], "a value is computed once");
        known[node->out[0]] = 1;
    }
    for (int i = 0; i < graph->n_outputs; i++)
        demand(known[graph->outputs[i]], "an output is computed");
    free(known);
}

static int small_windows(const struct graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->op == OP_POOL && node->attr.pool.kernel[0] * node->attr.pool.kernel[1] > 100)
            return 0;
        if (node->op == OP_LRN && node->attr.lrn.size > 100)
            return 0;
    }
    return 1;
}

static void evaluate(const struct graph *graph, struct arena *arena) {
    const void **in = calloc((size_t)graph->n_inputs + 1, sizeof *in);
    float **out = calloc((size_t)graph->n_outputs + 1, sizeof *out);
    struct error error = {0};
    for (int i = 0; i < graph->n_inputs; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        in[i] = arena_alloc(arena, (size_t)shape_count(&value->shape) * dtype_size(value->dtype));
    }
    if (eval_graph(graph, in, arena, out, &error))
        demand(error.code[0] && error.text[0], "an error has a code and a text");
    free(in);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena *arena = arena_new(MEMORY_LIMIT);
    struct onnx_options options = {.batch = size % 3, .constant_bytes = CONSTANT_LIMIT};
    struct error error = {0};
    struct graph *graph;
    if (onnx_import(data, size, &options, arena, &graph, &error)) {
        demand(error.class == ERROR_INVALID || error.class == ERROR_LIMIT, "a refusal is the file's fault");
        demand(error.code[0] && error.text[0], "an error has a code and a text");
    } else {
        int64_t total = check_values(graph);
        check_order(graph);
        if (total >= 0 && small_windows(graph))
            evaluate(graph, arena);
    }
    arena_free(arena);
    return 0;
}
