/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators on numbers of fewer bits: f16 and bf16 operands widened to f32, factors rounded to TF32 where they may be,
 * the f32 rule, its result rounded once.
 */
#include <stdlib.h>

#include "service/model/eval_internal.h"
#include "service/model/narrow.h"

bool eval_has_narrow(const struct eval *eval) {
    bool any = dtype_is_narrow(eval->dtype) || eval->node->tf32;
    for (int i = 0; i < eval->node->n_in; i++)
        any = any || dtype_is_narrow(eval->in[i]->dtype);
    return any;
}

/* The operands as the f32 rule takes them; `owned` are to be freed. */
struct widened {
    struct value *values;
    const struct value **in;
    float **owned;
    int n;
};

static void widened_free(struct widened *widened) {
    for (int i = 0; widened->owned && i < widened->n; i++)
        free(widened->owned[i]);
    free(widened->owned);
    free(widened->values);
    free(widened->in);
}

static void widen_numbers(const struct value *from, int64_t count, float *to) {
    if (dtype_is_narrow(from->dtype)) {
        narrow_widen(from->dtype, from->data, count, to);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = tf32_from_float(((const float *)from->data)[i]);
}

static bool widen_one(const struct value *from, bool tf32, struct value *to, float **ret_owned) {
    *to = *from;
    if (!dtype_is_narrow(from->dtype) && !tf32)
        return true;
    int64_t count = from->splat ? 1 : shape_count(&from->shape);
    float *data = malloc((size_t)count * sizeof *data);
    if (data)
        widen_numbers(from, count, data);
    to->dtype = DTYPE_F32;
    to->data = *ret_owned = data;
    return data != NULL;
}

static bool widen(const struct eval *eval, struct widened *ret) {
    size_t n = (size_t)eval->node->n_in + 1;
    *ret = (struct widened){calloc(n, sizeof *ret->values), calloc(n, sizeof *ret->in), calloc(n, sizeof *ret->owned),
                            eval->node->n_in};
    bool ok = ret->values && ret->in && ret->owned;
    for (int i = 0; ok && i < ret->n; i++) {
        ok = widen_one(eval->in[i], eval->node->tf32 && i < 2, &ret->values[i], &ret->owned[i]);
        ret->in[i] = &ret->values[i];
    }
    return ok;
}

int eval_narrow(const struct eval *eval, int (*rule)(const struct eval *eval)) {
    struct widened widened;
    struct eval wide = *eval;
    int64_t count = shape_count(&eval->shape);
    bool narrows = dtype_is_narrow(eval->dtype);
    bool ok = widen(eval, &widened);
    float *result = narrows ? malloc((size_t)count * sizeof *result) : NULL;
    int rc = -1;
    wide.in = widened.in;
    if (narrows) {
        wide.dtype = DTYPE_F32;
        wide.data = result;
    }
    if (!ok || (narrows && !result))
        (void)error_set(eval->error, ERROR_LIMIT, "out-of-memory", eval->node->name,
                        "There is not enough memory to evaluate node %.200s.", eval->node->name);
    else
        rc = rule(&wide);
    for (int64_t i = 0; rc == 0 && narrows && i < count; i++)
        ((uint16_t *)eval->data)[i] = narrow_from_float(eval->dtype, result[i]);
    free(result);
    widened_free(&widened);
    return rc;
}
