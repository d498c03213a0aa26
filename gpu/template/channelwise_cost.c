/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channelwise_cost.c: what is known of a configuration of channelwise.cu without compiling it: how long it should take,
 * and its loops. The constants are an H200's by arithmetic; where other devices differ the order of configurations
 * hardly does.
 *
 *     edge + rounds × (the way of one round's loads) + the largest of: what memory sends, what L1 sends, what is issued
 */
#include <math.h>

#include "gpu/template/channelwise.h"
#include "gpu/template/cuda_space.h"

#define HERTZ 1.75e9
#define SCHEDULERS 4

/* Cycles. */
#define ROUND_CYCLES 900.0 /* of a round of blocks: addresses, a wait for L2, the stores */
#define ROW_CYCLES 500.0   /* of each further row, where rows are a loop */
#define L1_BYTES 96.0      /* of an SM, in a cycle */

#define EARLY_EDGE_S 0.7e-6
#define LATE_EDGE_S 1.0e-6
#define CACHE_BYTES_A_SECOND 6e12
#define MEMORY_BYTES_A_SECOND 4.2e12
#define ARGUMENTS_COST 40.0 /* instructions more of a thread, where the shape is in the arguments */

/* Vectors of the input that a thread loads. */
static double loads_of(const struct channelwise *t) {
    return (double)(t->rows * t->columns);
}

/* Instructions of a thread: products, conversions, loads with their bounds, and the rest. */
static double issued(const struct channelwise *t) {
    const struct conv2d_shape *s = &t->shape;
    double outputs = (double)(t->tx * t->ty * t->vec), taps = (double)(s->kh * s->kw);
    double products = outputs * taps, convert = t->half ? loads_of(t) * (double)t->vec + outputs : 0;
    double weights = t->kind != CHANNELWISE_CONV ? 0 : t->half ? taps * (double)(t->vec * t->ty) : taps;
    return products + convert + weights + loads_of(t) * 5 + (double)(t->tx * t->ty) * (double)(8 + t->vec * 3) + 70 +
           (t->constants ? 0 : ARGUMENTS_COST);
}

double channelwise_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                            int64_t index) {
    struct channelwise t = channelwise_of(workload, target, space, index);
    struct error ignored;
    if (channelwise_check(&t, target, &ignored) < 0)
        return INFINITY;
    int64_t room = cuda_resident(target, t.threads, t.registers, 0), blocks = (t.items + t.threads - 1) / t.threads;
    int64_t most = (blocks + target->units - 1) / target->units; /* blocks of the SM that has most */
    double bytes = (double)workload_bytes(workload), vector = (double)(t.vec * (t.half ? 2 : 4));
    double memory = bytes / (bytes < (double)target->cache_bytes ? CACHE_BYTES_A_SECOND : MEMORY_BYTES_A_SECOND);
    double warps = (double)(most * t.threads) / 32;
    double issue = ceil(warps / SCHEDULERS) * issued(&t) / HERTZ;
    /* Fewer bytes than a warp's four sectors a row of the cache make it no quicker. */
    double weights = t.kind == CHANNELWISE_CONV ? (double)(t.shape.kh * t.shape.kw) : 0;
    double l1 = warps * (loads_of(&t) + weights) * fmax(vector, 4) * 32 / L1_BYTES / HERTZ;
    double way = (ROUND_CYCLES + (t.rolled ? (double)(t.rows - 1) * ROW_CYCLES : 0)) / HERTZ;
    return (t.early ? EARLY_EDGE_S : LATE_EDGE_S) + ceil_ratio(most, room) * way + fmax(memory, fmax(issue, l1));
}

/* ---- loops ---- */

void channelwise_nest(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct loop_nest *ret) {
    struct channelwise t = channelwise_of(workload, target, space, index);
    const struct conv2d_shape *s = &t.shape;
    int64_t in_unit = s->nhwc ? s->c : 1, out_unit = s->nhwc ? s->k : 1, next = s->nhwc ? t.vec : t.tx;
    loop_nest_sum(ret);
    loop_nest_add(ret, (t.items + t.threads - 1) / t.threads, LOOP_BLOCK_X, t.threads * next, 0, t.threads * next);
    loop_nest_add(ret, t.threads, LOOP_THREAD_X, next, s->nhwc ? t.vec : 0, next);
    loop_nest_add(ret, s->kh, LOOP_UNROLLED, s->dh * s->w * in_unit, s->kw * s->k, 0);
    loop_nest_add(ret, s->kw, LOOP_UNROLLED, s->dw * in_unit, s->k, 0);
    loop_nest_add(ret, t.ty, LOOP_UNROLLED, s->sh * s->w * in_unit, 0, s->ow * out_unit);
    loop_nest_add(ret, t.tx, LOOP_UNROLLED, s->sw * in_unit, 0, out_unit);
    loop_nest_add(ret, t.vec, LOOP_VECTORIZED, 1, 1, 1);
    (void)target;
}
