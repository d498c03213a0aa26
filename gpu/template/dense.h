/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.h: a configuration of dense.cu with what follows from it. Private to dense_*.c, which hold the space, the
 * rendering, and what is known of a configuration without compiling it.
 */
#ifndef WARPTUNE_TEMPLATE_DENSE_H
#define WARPTUNE_TEMPLATE_DENSE_H

#include "gpu/template/template.h"

struct dense {
    int64_t m, n, k; /* samples, outputs, inputs of each */
    bool half, half_bias;
    int bias_in, residual_in; /* their inputs' numbers, or -1 */
    struct epilogue epilogue;
    int64_t rows, unroll, wn, wk, parts; /* outputs of a warp; vectors of a step; warps; CTAs of a cluster */
    bool constants;                      /* the shape is in the source, not in the arguments */
    bool early;                          /* the kernel may begin before the one ahead has ended */
    bool cluster;                        /* the device has them */
    int64_t vec, vectors, steps, tiles;  /* steps: of the warp that has most */
    int64_t sums, threads, shared_bytes;
    int64_t registers; /* of a thread, estimated */
};

/* The workload's shape, as the kernel takes it; false for what it does not. */
bool dense_shape(const struct workload *workload, struct dense *ret);
struct dense dense_of(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index);
/* ERROR_INVALID "instantiation" when no device, or not this one, can hold it. */
int dense_check(const struct dense *it, const struct target *target, struct error *error) MUST_CHECK;

/* Members of the template. */
int dense_render(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct arena *arena, struct program **ret, struct error *error);
double dense_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index);
void dense_nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                struct loop_nest *ret);

#endif
