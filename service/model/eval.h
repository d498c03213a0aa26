/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval.h: what the operators mean, as plain loops on the host: the reference that everything else is held to.
 *
 * Used to fold constants at import (integers exactly) and, over a whole graph, to compute a network's expected output:
 * floating-point sums are taken in double and rounded once, to f32 and then, where that is the type, to f16 or bf16.
 * Slow on purpose; a naive loop nest per operator, threads over the outermost loop for convolutions only.
 */
#ifndef WARPTUNE_MODEL_EVAL_H
#define WARPTUNE_MODEL_EVAL_H

#include "service/model/graph.h"

/*
 * Evaluates one node whose inputs all have data, to the shape and dtype of its output. The result's data come from
 * `arena`, or are those of the input (RESHAPE); ERROR_LIMIT when it is full.
 */
int eval_node(const struct graph *graph, const struct node *node, struct arena *arena, struct value *ret_out,
              struct error *error) MUST_CHECK;

/* Whether eval_node's result is a splat: its inputs are, or hold one element, and it treats all elements alike. */
bool eval_is_splat(const struct graph *graph, const struct node *node);

/*
 * Evaluates the graph on inputs[i] (float32 or the input's own dtype, row-major, logical order) and leaves the outputs
 * in ret_outputs[i]: float32 arrays allocated in `arena`.
 */
int eval_graph(const struct graph *graph, const void *const *inputs, struct arena *arena, float **ret_outputs,
               struct error *error) MUST_CHECK;

#endif
