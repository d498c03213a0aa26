/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act.h: activations and mathematical functions as source text, the same for every template.
 *
 * CPU: `static inline`, without libm or headers, written so that loops over them vectorise. CUDA: `__device__`, over
 * NVRTC's own functions. Errors stay within a few units in the last place.
 */
#ifndef WARPTUNE_TEMPLATE_ACT_H
#define WARPTUNE_TEMPLATE_ACT_H

#include <stdbool.h>

#include "service/base/buf.h"
#include "service/model/graph.h"

/* float wt_exp(float), wt_log(float), wt_tanh(float), wt_erf(float), wt_pow(float, float) */
enum act_math { MATH_EXP = 1, MATH_LOG = 2, MATH_TANH = 4, MATH_ERF = 8, MATH_POW = 16 };

/*
 * Appends `float wt_act(float x)`, the epilogue's activation (ACT_NONE: x itself), after the functions that it and
 * the caller (`math`: a set of enum act_math) use. Once in a source.
 */
void act_define(struct buf *source, bool cuda, const struct epilogue *epilogue, unsigned math);

/* Appends a float constant: "0.100000001f", "-__builtin_inff()". */
void act_float(struct buf *source, bool cuda, double value);

#endif
