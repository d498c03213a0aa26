/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precision.h: the arithmetic that a network is compiled for, chosen by the client: a pass over the fused graph.
 *
 * PRECISION_FP16 and PRECISION_BF16 make activations and weights f16 or bf16; sums stay f32 inside the kernels. What
 * stays f32:
 * - the network's inputs and outputs, with a CAST behind and before them: the caller's types do not change;
 * - biases, and the scale and shift of an AFFINE: few numbers, with much effect;
 * - constants of a BINARY: mostly parameters of a normalisation, such as an epsilon that f16 cannot tell from 0.
 *
 * PRECISION_TF32 leaves all f32, and lets the operators that have weights round the factors of their products to TF32.
 */
#ifndef WARPTUNE_MODEL_PRECISION_H
#define WARPTUNE_MODEL_PRECISION_H

#include "service/model/graph.h"

enum precision { PRECISION_FP32, PRECISION_FP16, PRECISION_BF16, PRECISION_TF32, PRECISION_COUNT };

const char *precision_name(enum precision precision); /* "fp32", "fp16", "bf16", "tf32" */
enum dtype precision_dtype(enum precision precision); /* of activations and weights */
/* ERROR_INVALID under that code, which names those that there are. "f32" is an older name of fp32. */
int precision_parse(const char *name, const char *code, enum precision *ret, struct error *error) MUST_CHECK;

/* What converting the constants cost. */
struct precision_loss {
    int64_t converted; /* numbers stored */
    int64_t saturated; /* of those, finite ones beyond the range, which became the largest there is */
};

/*
 * Brings a fused graph to the precision, in place; FP32 changes nothing. New constants live in the graph's arena.
 * ERROR_LIMIT when there is no memory for them.
 */
int graph_set_precision(struct graph *graph, enum precision precision, struct precision_loss *ret,
                        struct error *error) MUST_CHECK;

#endif
