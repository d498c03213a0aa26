/* SPDX-License-Identifier: Apache-2.0 */
/* eval_internal.h: what the parts of the evaluator share. Private to eval*.c. */
#ifndef WARPTUNE_MODEL_EVAL_INTERNAL_H
#define WARPTUNE_MODEL_EVAL_INTERNAL_H

#include "service/model/eval.h"

/* One node with its operands: `data` has room for the result. */
struct eval {
    const struct node *node;
    const struct value *const *in;
    enum dtype dtype;   /* the result's */
    struct shape shape; /* the result's */
    void *data;
    struct error *error;
};

/* By operator. Each fills eval->data or returns an error. */
int eval_conv(const struct eval *eval); /* CONV, CONV_TRANSPOSE */
int eval_dense(const struct eval *eval);
int eval_matmul(const struct eval *eval);
int eval_pool(const struct eval *eval);
int eval_reduce(const struct eval *eval);
int eval_affine(const struct eval *eval);
int eval_unary(const struct eval *eval);
int eval_binary(const struct eval *eval);
int eval_softmax(const struct eval *eval);
int eval_lrn(const struct eval *eval);
int eval_copy(const struct eval *eval); /* RESHAPE, COPY */
int eval_transpose(const struct eval *eval);
int eval_concat(const struct eval *eval);
int eval_slice(const struct eval *eval);
int eval_pad(const struct eval *eval);
int eval_resize(const struct eval *eval);
int eval_gather(const struct eval *eval);
int eval_expand(const struct eval *eval);
int eval_cast(const struct eval *eval);

/* Is an operand or the result f16 or bf16, or are the factors TF32? Then the rule, which knows f32 only, is called by
 * eval_narrow. */
bool eval_has_narrow(const struct eval *eval);
int eval_narrow(const struct eval *eval, int (*rule)(const struct eval *eval)) MUST_CHECK;

/* ERROR_INVALID unless the first `count` operands and the result are float32. */
int eval_need_float(const struct eval *eval, int count) MUST_CHECK;

/* An epilogue's activation. */
double eval_act(const struct epilogue *epilogue, double x);

/* Element i of a float32 operand, splat or not. */
static inline float eval_float(const struct value *value, int64_t i) {
    return ((const float *)value->data)[value->splat ? 0 : i];
}

/* Element i of an integer or bool operand. */
int64_t eval_int(const struct value *value, int64_t i);
/* Stores an integer as element i of the result; wraps where the result's type is narrower. */
void eval_set_int(const struct eval *eval, int64_t i, int64_t x);

/*
 * A walk over all elements of a shape in row-major order that keeps, for up to 3 operands, the offset of the element
 * that corresponds. Strides are in elements; 0 along dimensions that are broadcast.
 */
#define WALK_OPERANDS 3
struct walk {
    int rank, operands;
    int64_t dim[SHAPE_MAX_RANK], at[SHAPE_MAX_RANK];
    int64_t stride[WALK_OPERANDS][SHAPE_MAX_RANK], offset[WALK_OPERANDS];
};
void walk_init(struct walk *walk, const struct shape *shape, int operands);
/* Operand `i` is broadcast to the walk's shape. */
void walk_broadcast(struct walk *walk, int i, const struct value *operand);
void walk_next(struct walk *walk);

/* Row-major strides in elements; all 0 for a splat. */
void eval_strides(const struct value *value, int64_t ret_stride[SHAPE_MAX_RANK]);

/* Calls fn(data, i) for each i below `items`, on all cores. Order and thread are not fixed. */
void eval_parallel(int64_t items, void (*fn)(const void *data, int64_t i), const void *data);

#endif
