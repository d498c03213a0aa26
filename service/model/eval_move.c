/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only move elements: whatever their type, they are copied as bytes. */
#include <string.h>

#include "service/model/eval_internal.h"

static const char *element(const struct value *value, int64_t i) {
    return (const char *)value->data + (size_t)(value->splat ? 0 : i) * dtype_size(value->dtype);
}

static void copy_one(const struct eval *eval, int64_t to, const char *from) {
    size_t size = dtype_size(eval->dtype);
    char *at = (char *)eval->data + (size_t)to * size;
    if (size == 4)
        memcpy(at, from, 4);
    else
        memcpy(at, from, size);
}

/* `count` neighbours of a value to the result. */
static void copy_run(const struct eval *eval, int64_t to, const struct value *value, int64_t from, int64_t count) {
    size_t size = dtype_size(eval->dtype);
    if (!value->splat) {
        memcpy((char *)eval->data + (size_t)to * size, element(value, from), (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        copy_one(eval, to + i, element(value, 0));
}

/* Every element of the result from the element that the walk's first operand is at. */
static int copy_walk(const struct eval *eval, struct walk *walk) {
    const struct value *x = eval->in[0];
    for (int64_t i = 0; i < shape_count(&eval->shape); i++, walk_next(walk))
        copy_one(eval, i, element(x, walk->offset[0]));
    return 0;
}

int eval_copy(const struct eval *eval) {
    copy_run(eval, 0, eval->in[0], 0, shape_count(&eval->shape));
    return 0;
}

int eval_transpose(const struct eval *eval) {
    int64_t stride[SHAPE_MAX_RANK];
    struct walk walk;
    walk_init(&walk, &eval->shape, 1);
    eval_strides(eval->in[0], stride);
    for (int i = 0; i < eval->shape.rank; i++)
        walk.stride[0][i] = stride[eval->node->attr.transpose.perm[i]];
    return copy_walk(eval, &walk);
}

int eval_slice(const struct eval *eval) {
    const struct slice_attr *slice = &eval->node->attr.slice;
    int64_t stride[SHAPE_MAX_RANK];
    struct walk walk;
    walk_init(&walk, &eval->shape, 1);
    eval_strides(eval->in[0], stride);
    for (int i = 0; i < eval->shape.rank; i++) {
        walk.stride[0][i] = stride[i] * slice->step[i];
        walk.offset[0] += stride[i] * slice->start[i];
    }
    return copy_walk(eval, &walk);
}

int eval_expand(const struct eval *eval) {
    struct walk walk;
    walk_init(&walk, &eval->shape, 1);
    walk_broadcast(&walk, 0, eval->in[0]);
    return copy_walk(eval, &walk);
}

/* Sizes before and after an axis. */
static void around(const struct shape *shape, int64_t axis, int64_t *ret_outer, int64_t *ret_inner) {
    *ret_outer = *ret_inner = 1;
    for (int i = 0; i < shape->rank; i++) {
        *ret_outer *= i < axis ? shape->dim[i] : 1;
        *ret_inner *= i > axis ? shape->dim[i] : 1;
    }
}

int eval_concat(const struct eval *eval) {
    int64_t axis = eval->node->attr.concat.axis, outer, inner, at = 0;
    around(&eval->shape, axis, &outer, &inner);
    for (int64_t o = 0; o < outer; o++) {
        for (int i = 0; i < eval->node->n_in; i++) {
            int64_t run = eval->in[i]->shape.dim[axis] * inner;
            copy_run(eval, at, eval->in[i], o * run, run);
            at += run;
        }
    }
    return 0;
}

int eval_gather(const struct eval *eval) {
    const struct value *x = eval->in[0], *indices = eval->in[1];
    int64_t axis = eval->node->attr.gather.axis, dim = x->shape.dim[axis], outer, inner, at = 0;
    int64_t count = shape_count(&indices->shape);
    around(&x->shape, axis, &outer, &inner);
    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t index = eval_int(indices, i);
            if (index < -dim || index >= dim)
                return error_set(eval->error, ERROR_INVALID, "bad-index", eval->node->name,
                                 "Index %lld is outside a dimension of %lld.", (long long)index, (long long)dim);
            index += index < 0 ? dim : 0;
            copy_run(eval, at, x, (o * dim + index) * inner, inner);
            at += inner;
        }
    }
    return 0;
}

/* ---- Pad ---- */

/* Where along a dimension position `i`, counted from its first element, takes its element; -1: the constant. */
static int64_t pad_source(enum pad_mode mode, int64_t i, int64_t dim) {
    if (i >= 0 && i < dim)
        return i;
    switch (mode) {
    case PAD_REFLECT:
        return i < 0 ? -i : 2 * (dim - 1) - i;
    case PAD_EDGE:
        return i < 0 ? 0 : dim - 1;
    case PAD_CONSTANT:
        break;
    }
    return -1;
}

static void pad_constant(const struct eval *eval, int64_t i) {
    if (eval->dtype == DTYPE_F32)
        ((float *)eval->data)[i] = (float)eval->node->attr.pad.value;
    else
        eval_set_int(eval, i, (int64_t)eval->node->attr.pad.value);
}

int eval_pad(const struct eval *eval) {
    const struct pad_attr *pad = &eval->node->attr.pad;
    const struct value *x = eval->in[0];
    int64_t stride[SHAPE_MAX_RANK];
    struct walk walk;
    walk_init(&walk, &eval->shape, 0);
    eval_strides(x, stride);
    for (int64_t i = 0; i < shape_count(&eval->shape); i++, walk_next(&walk)) {
        int64_t from = 0;
        bool inside = true;
        for (int d = 0; d < walk.rank; d++) {
            int64_t at = pad_source((enum pad_mode)pad->mode, walk.at[d] - pad->before[d], x->shape.dim[d]);
            inside &= at >= 0;
            from += at * stride[d];
        }
        if (inside)
            copy_one(eval, i, element(x, from));
        else
            pad_constant(eval, i);
    }
    return 0;
}
