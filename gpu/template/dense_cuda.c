/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_cuda.c: the space of dense.cu: outputs of a warp, vectors of a step, warps, how many of them and of a cluster's
 * CTAs share the sum over k, and whether the shape is in the source or in the arguments. Serves dense layers of at most
 * MOST_SAMPLES samples in FP16 and FP32; with more of them they are matrix products, which the convolutions' templates
 * serve.
 */
#include "gpu/template/dense.h"

#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"

#define EARLY_SM 90
#define CLUSTER_SM 90
#define MOST_SAMPLES 8
#define MOST_SUMS 32 /* of a warp: one for each lane */
#define MAX_REGISTERS 200

/* ---- workloads ---- */

/* One type for all but the bias, which may be FP32 beside FP16. */
static bool types_fit(const struct workload *workload, int bias_in) {
    enum dtype dtype = workload->out[0].dtype;
    for (int i = 0; i < workload->n_in; i++)
        if (workload->in[i].dtype != dtype && !(i == bias_in && workload->in[i].dtype == DTYPE_F32))
            return false;
    return dtype == DTYPE_F16 || dtype == DTYPE_F32;
}

bool dense_shape(const struct workload *workload, struct dense *ret) {
    if (workload->op != OP_DENSE || workload->in[0].shape.rank != 2)
        return false;
    *ret = (struct dense){.m = workload->in[0].shape.dim[0],
                          .n = workload->in[1].shape.dim[0],
                          .k = workload->in[1].shape.dim[1],
                          .half = workload->out[0].dtype == DTYPE_F16,
                          .bias_in = workload->epilogue.bias ? 2 : -1,
                          .residual_in = workload->epilogue.residual ? workload->n_in - 1 : -1,
                          .epilogue = workload->epilogue};
    ret->half_bias = ret->bias_in >= 0 && workload->in[ret->bias_in].dtype == DTYPE_F16;
    return types_fit(workload, ret->bias_in) && ret->m >= 1 && ret->n >= 1 && ret->k >= 1;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct dense it;
    (void)target;
    return dense_shape(workload, &it) && it.m <= MOST_SAMPLES && fits_int(it.n * it.k) && fits_int(it.m * it.k) &&
           fits_int(it.m * it.n);
}

/* Sums of a warp with so many rows: as many as the lanes halve, so samples as a power of two. */
static int64_t sums_of(int64_t samples, int64_t rows) {
    int64_t padded = 1;
    while (padded < samples)
        padded *= 2;
    return padded * rows;
}

static int64_t vec_of(const struct dense *it) {
    for (int64_t vec = it->half ? 8 : 4; vec > 1; vec /= 2)
        if (it->k % vec == 0)
            return vec;
    return 1;
}

/* ---- the space ---- */

/* `warps`: of a CTA; `k_warps`: how many of them share the sum over k; `split_k`: how many CTAs do. */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t rows[] = {1, 2, 4, 8}, unroll[] = {1, 2, 4}, warps[] = {4, 8, 16},
                         k_warps[] = {1, 2, 4, 8, 16}, splits[] = {1, 2, 4, 8}, shapes[] = {ARGUMENTS, CONSTANTS};
    struct dense it;
    struct space *space = space_new(arena);
    dense_shape(workload, &it);
    int64_t loads = ceil_div(it.k / vec_of(&it), 32); /* of a row, by a warp */
    cuda_choose_up_to(space, "rows", rows, ARRAY_COUNT(rows), it.n);
    cuda_choose_up_to(space, "unroll", unroll, ARRAY_COUNT(unroll), loads);
    space_choice(space, "warps", warps, ARRAY_COUNT(warps));
    cuda_choose_up_to(space, "k_warps", k_warps, ARRAY_COUNT(k_warps), loads);
    cuda_choose_up_to(space, "split_k", splits, cuda_sm(target) >= CLUSTER_SM ? ARRAY_COUNT(splits) : 1, loads / 4);
    space_choice(space, "shapes", shapes, ARRAY_COUNT(shapes));
    return space;
}

/* The best by the estimate, with the shape as constants; the first of equals. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    return cuda_best_estimated(dense_estimate, workload, target, space, space->size / 2);
}

/* ---- a configuration ---- */

/* Weights on their way and in use, as they are and as floats, sums, and places. */
static int64_t registers_of(const struct dense *t) {
    int64_t words = ceil_div(t->vec * (t->half ? 2 : 4), 4), held = t->rows * t->unroll * words;
    return 2 * held + t->rows * t->vec / (t->half ? 1 : 2) + t->sums + 2 * t->rows + 2 * t->vec + 20;
}

struct dense dense_of(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index) {
    struct dense t;
    dense_shape(workload, &t);
    int64_t warps = space_value(space, index, "warps", 0);
    t.rows = space_value(space, index, "rows", 0);
    t.unroll = space_value(space, index, "unroll", 0);
    t.wk = space_value(space, index, "k_warps", 0);
    t.wn = warps / t.wk;
    t.parts = space_value(space, index, "split_k", 0);
    t.constants = space_value(space, index, "shapes", 0) == CONSTANTS;
    t.early = cuda_sm(target) >= EARLY_SM;
    t.vec = vec_of(&t);
    t.vectors = t.k / t.vec;
    t.steps = ceil_div(t.vectors, 32 * t.unroll * t.wk * t.parts);
    t.sums = sums_of(t.m, t.rows);
    t.threads = warps * 32;
    t.tiles = t.wn ? ceil_div(t.n, t.wn * t.rows) : 0;
    t.shared_bytes = t.wn * t.wk * t.sums * 4;
    t.registers = registers_of(&t);
    return t;
}

int dense_check(const struct dense *t, const struct target *target, struct error *error) {
    if (t->wn == 0)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld warps cannot share k in %lld.",
                         (long long)(t->threads / 32), (long long)t->wk);
    if (t->sums > MOST_SUMS)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld sums are too many for a warp.",
                         (long long)t->sums);
    if (t->wk * t->parts > 1 && (t->wk * t->parts - 1) * 32 * t->unroll >= t->vectors)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld of k are too few for so many warps.",
                         (long long)t->k);
    if (t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block are too many.",
                         (long long)t->threads);
    if (t->registers > MAX_REGISTERS || t->registers * t->threads > target->registers)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread needs about %lld registers.",
                         (long long)t->registers);
    return 0;
}

const struct template dense_cuda = {
    .name = "dense.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = dense_render,
    .dtypes = DTYPE_BIT(DTYPE_F32) | DTYPE_BIT(DTYPE_F16),
    .estimate = dense_estimate,
    .nest = dense_nest,
    .banked = cuda_banked,
};
