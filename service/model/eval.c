/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/eval.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/model/eval_internal.h"
#include "service/model/narrow.h"

#define MAX_THREADS 64

/* A rule gives a splat when all its operands are splats, or hold one element, if it treats all elements alike. */
static const struct {
    int (*eval)(const struct eval *eval);
    bool keeps_splat;
} rules[OP_COUNT] = {
    [OP_CONV] = {eval_conv, false},
    [OP_CONV_TRANSPOSE] = {eval_conv, false},
    [OP_DENSE] = {eval_dense, false},
    [OP_MATMUL] = {eval_matmul, false},
    [OP_POOL] = {eval_pool, false},
    [OP_REDUCE] = {eval_reduce, false},
    [OP_AFFINE] = {eval_affine, false},
    [OP_UNARY] = {eval_unary, true},
    [OP_BINARY] = {eval_binary, true},
    [OP_SOFTMAX] = {eval_softmax, false},
    [OP_LRN] = {eval_lrn, false},
    [OP_RESHAPE] = {eval_copy, true},
    [OP_TRANSPOSE] = {eval_transpose, true},
    [OP_CONCAT] = {eval_concat, false},
    [OP_SLICE] = {eval_slice, true},
    [OP_PAD] = {eval_pad, false},
    [OP_RESIZE] = {eval_resize, false},
    [OP_GATHER] = {eval_gather, false},
    [OP_EXPAND] = {eval_expand, true},
    [OP_CAST] = {eval_cast, true},
    [OP_COPY] = {eval_copy, true},
};

/* By the operator's rule, on whatever floating-point types. */
static int evaluate(const struct eval *eval) {
    int (*rule)(const struct eval *eval) = rules[eval->node->op].eval;
    return eval_has_narrow(eval) ? eval_narrow(eval, rule) : rule(eval);
}

static bool single(const struct value *value) {
    return value->splat || shape_count(&value->shape) == 1;
}

bool eval_is_splat(const struct graph *graph, const struct node *node) {
    bool splat = rules[node->op].keeps_splat && shape_count(&graph->values[node->out[0]].shape) > 1;
    for (int i = 0; i < node->n_in; i++)
        splat = splat && single(&graph->values[node->in[i]]);
    return splat;
}

/* Evaluates one element of a result that is a splat: every operand and the result as scalars. */
static int eval_single(const struct eval *eval) {
    struct value scalars[2];
    const struct value *in[2];
    struct eval one = *eval;
    for (int i = 0; i < eval->node->n_in; i++) {
        scalars[i] = *eval->in[i];
        scalars[i].shape.rank = 0;
        scalars[i].splat = false;
        in[i] = &scalars[i];
    }
    struct node node = *eval->node;
    if (node.op != OP_UNARY && node.op != OP_BINARY && node.op != OP_CAST)
        node.op = OP_COPY;
    one.node = &node;
    one.in = in;
    one.shape.rank = 0;
    return evaluate(&one);
}

static int out_of_memory(struct error *error, const struct node *node) {
    return error_set(error, ERROR_LIMIT, "out-of-memory", node->name,
                     "There is not enough memory to evaluate node %.200s.", node->name);
}

int eval_node(const struct graph *graph, const struct node *node, struct arena *arena, struct value *ret_out,
              struct error *error) {
    struct value out = graph->values[node->out[0]];
    const struct value **in = arena_array(arena, (size_t)node->n_in, sizeof *in);
    for (int i = 0; i < node->n_in; i++)
        in[i] = &graph->values[node->in[i]];
    out.splat = eval_is_splat(graph, node);
    if (node->op == OP_RESHAPE) {
        out.data = in[0]->data;
        out.splat = in[0]->splat;
        *ret_out = out;
        return 0;
    }
    size_t count = out.splat ? 1 : (size_t)shape_count(&out.shape);
    void *data = arena_try_alloc(arena, count * dtype_size(out.dtype));
    if (!data)
        return out_of_memory(error, node);
    struct eval eval = {node, in, out.dtype, out.shape, data, error};
    if (out.splat ? eval_single(&eval) : evaluate(&eval))
        return -1;
    out.data = data;
    *ret_out = out;
    return 0;
}

/* ---- Graphs ---- */

/* What a run keeps of each value: its data while somebody still reads it. */
struct run {
    const struct graph *graph;
    struct value *values; /* copies of the graph's, with data */
    void **owned;         /* data to be freed; NULL: borrowed */
    int *uses;            /* nodes and outputs that still read it */
};

static void run_use(struct run *run, int value) {
    if (--run->uses[value] > 0)
        return;
    free(run->owned[value]);
    run->owned[value] = NULL;
}

static void run_done(struct run *run) {
    for (int i = 0; run->owned && i < run->graph->n_values; i++)
        free(run->owned[i]);
    free(run->owned);
    free(run->values);
    free(run->uses);
}

static int run_init(struct run *run, const struct graph *graph, const void *const *inputs, struct error *error) {
    size_t n = (size_t)graph->n_values;
    *run = (struct run){graph, malloc(n * sizeof *run->values), calloc(n, sizeof *run->owned),
                        calloc(n, sizeof *run->uses)};
    if (!run->values || !run->owned || !run->uses)
        return error_set(error, ERROR_LIMIT, "out-of-memory", "", "There is not enough memory to evaluate the graph.");
    memcpy(run->values, graph->values, n * sizeof *run->values);
    for (int i = 0; i < graph->n_inputs; i++)
        run->values[graph->inputs[i]].data = inputs[i];
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int j = 0; j < graph->nodes[i].n_in; j++)
            run->uses[graph->nodes[i].in[j]]++;
    }
    for (int i = 0; i < graph->n_outputs; i++)
        run->uses[graph->outputs[i]]++;
    return 0;
}

static int run_node(struct run *run, const struct node *node, struct error *error) {
    struct value *out = &run->values[node->out[0]];
    const struct value **in = calloc((size_t)node->n_in + 1, sizeof *in);
    void *data = malloc((size_t)shape_count(&out->shape) * dtype_size(out->dtype));
    int result = -1;
    for (int i = 0; in && i < node->n_in; i++)
        in[i] = &run->values[node->in[i]];
    struct eval eval = {node, in, out->dtype, out->shape, data, error};
    if (!in || !data)
        (void)out_of_memory(error, node);
    else
        result = evaluate(&eval);
    free(in);
    run->owned[node->out[0]] = data;
    out->data = data;
    out->splat = false;
    for (int i = 0; i < node->n_in; i++)
        run_use(run, node->in[i]);
    return result ? error_prefix(error, "Node %.160s (%s): ", node->name, op_name(node->op)) : 0;
}

static int run_output(const struct run *run, int index, struct arena *arena, float **ret, struct error *error) {
    const struct value *value = &run->values[run->graph->outputs[index]];
    int64_t count = shape_count(&value->shape);
    float *data = arena_try_alloc(arena, (size_t)count * sizeof *data);
    if (!data)
        return error_set(error, ERROR_LIMIT, "out-of-memory", value->name, "There is not enough memory for output %s.",
                         value->name);
    for (int64_t i = 0; i < count; i++)
        data[i] = value->dtype == DTYPE_F32 ? eval_float(value, i)
                  : dtype_is_narrow(value->dtype)
                      ? narrow_to_float(value->dtype, ((const uint16_t *)value->data)[value->splat ? 0 : i])
                      : (float)eval_int(value, i);
    *ret = data;
    return 0;
}

int eval_graph(const struct graph *graph, const void *const *inputs, struct arena *arena, float **ret_outputs,
               struct error *error) {
    struct run run;
    int result = run_init(&run, graph, inputs, error);
    for (int i = 0; i < graph->n_nodes && !result; i++)
        result = run_node(&run, &graph->nodes[i], error);
    for (int i = 0; i < graph->n_outputs && !result; i++)
        result = run_output(&run, i, arena, &ret_outputs[i], error);
    run_done(&run);
    return result;
}

/* ---- Common to the rules ---- */

int eval_need_float(const struct eval *eval, int count) {
    bool ok = eval->dtype == DTYPE_F32;
    for (int i = 0; i < count; i++)
        ok &= eval->in[i]->dtype == DTYPE_F32;
    if (!ok)
        return error_set(eval->error, ERROR_INVALID, "unsupported-data-type", eval->node->name,
                         "%s is evaluated for f32 only.", op_name(eval->node->op));
    return 0;
}

int64_t eval_int(const struct value *value, int64_t i) {
    i = value->splat ? 0 : i;
    switch (value->dtype) {
    case DTYPE_I64:
        return ((const int64_t *)value->data)[i];
    case DTYPE_I32:
        return ((const int32_t *)value->data)[i];
    case DTYPE_I8:
        return ((const int8_t *)value->data)[i];
    case DTYPE_BOOL:
        return ((const uint8_t *)value->data)[i] != 0;
    default:
        return ((const uint8_t *)value->data)[i];
    }
}

void eval_set_int(const struct eval *eval, int64_t i, int64_t x) {
    switch (eval->dtype) {
    case DTYPE_I64:
        ((int64_t *)eval->data)[i] = x;
        break;
    case DTYPE_I32:
        ((int32_t *)eval->data)[i] = (int32_t)x;
        break;
    case DTYPE_BOOL:
        ((uint8_t *)eval->data)[i] = x != 0;
        break;
    default:
        ((uint8_t *)eval->data)[i] = (uint8_t)x;
        break;
    }
}

void eval_strides(const struct value *value, int64_t ret_stride[SHAPE_MAX_RANK]) {
    int64_t stride = value->splat ? 0 : 1;
    for (int i = value->shape.rank - 1; i >= 0; i--) {
        ret_stride[i] = stride;
        stride *= value->shape.dim[i];
    }
}

void walk_init(struct walk *walk, const struct shape *shape, int operands) {
    *walk = (struct walk){.rank = shape->rank, .operands = operands};
    memcpy(walk->dim, shape->dim, sizeof walk->dim);
}

void walk_broadcast(struct walk *walk, int i, const struct value *operand) {
    int64_t stride[SHAPE_MAX_RANK];
    int lead = walk->rank - operand->shape.rank;
    eval_strides(operand, stride);
    for (int d = lead; d < walk->rank; d++)
        walk->stride[i][d] = operand->shape.dim[d - lead] == 1 ? 0 : stride[d - lead];
}

void walk_next(struct walk *walk) {
    for (int d = walk->rank - 1; d >= 0; d--) {
        for (int i = 0; i < walk->operands; i++)
            walk->offset[i] += walk->stride[i][d];
        if (++walk->at[d] < walk->dim[d])
            return;
        for (int i = 0; i < walk->operands; i++)
            walk->offset[i] -= walk->stride[i][d] * walk->dim[d];
        walk->at[d] = 0;
    }
}

/* ---- Threads ---- */

struct crew {
    atomic_int_fast64_t next;
    int64_t items;
    void (*fn)(const void *data, int64_t i);
    const void *data;
};

static void *crew_work(void *at) {
    struct crew *crew = at;
    for (int64_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->items;)
        crew->fn(crew->data, i);
    return NULL;
}

/* The caller works too, so that what no thread could be made for still gets done. */
void eval_parallel(int64_t items, void (*fn)(const void *data, int64_t i), const void *data) {
    struct crew crew = {.items = items, .fn = fn, .data = data};
    pthread_t threads[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    while (started < MAX_THREADS && started < cores - 1 && started < items - 1 &&
           pthread_create(&threads[started], NULL, crew_work, &crew) == 0)
        started++;
    crew_work(&crew);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
