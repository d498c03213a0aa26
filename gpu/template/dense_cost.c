/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_cost.c: what is known of a configuration of dense.cu without compiling it: how long it should take, and its
 * loops. The constants are an H200's by arithmetic; where other devices differ the order of configurations hardly does.
 *
 *     edge + the way of the first weights and of x + what memory sends, what is issued, and the rounds of blocks with
 *     their steps, as far as they do not hide one another + what adds the parts
 */
#include <math.h>

#include "gpu/template/dense.h"
#include "gpu/template/cuda_space.h"

#define HERTZ 1.75e9
#define SCHEDULERS 4

/* Cycles. */
#define FILL_CYCLES 900.0 /* the first loads; what hides of them behind the kernel ahead is in the edge */
#define STEP_CYCLES 750.0 /* of a warp: the way of the next step's weights */
#define END_CYCLES 150.0  /* shared memory, bias, store */
#define SUM_CYCLES 4.0    /* of each exchange of sums */

#define EARLY_EDGE_S 0.6e-6
#define LATE_EDGE_S 1.0e-6
#define CLUSTER_S 0.5e-6 /* two barriers, and the way of the sums */
#define CLUSTER_RANK_S 0.08e-6
#define CACHE_BYTES_A_SECOND 7e12
#define MEMORY_BYTES_A_SECOND 4.4e12
#define CACHE_SHARE 0.8 /* of L2: weights that fit into it are there from the run before */

/* Instructions of a warp in one step. */
static double issued(const struct dense *t) {
    double elements = (double)(t->rows * t->vec), products = elements * (double)t->m;
    double convert = t->half ? elements + (double)(t->m * t->vec) : 0, moved = elements / (t->half ? 2 : 1);
    return (double)t->unroll * (products + convert + moved + (double)t->m * 3 + (double)t->rows * 2) + 12;
}

double dense_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index) {
    struct dense t = dense_of(workload, target, space, index);
    struct error ignored;
    if (dense_check(&t, target, &ignored) < 0)
        return INFINITY;
    int64_t room = cuda_resident(target, t.threads, t.registers, t.shared_bytes), blocks = t.tiles * t.parts;
    int64_t most = (blocks + target->units - 1) / target->units; /* blocks of the SM that has most */
    double bytes = (double)workload_bytes(workload), even = (double)blocks / (double)(most * target->units);
    double rate = bytes < CACHE_SHARE * (double)target->cache_bytes ? CACHE_BYTES_A_SECOND : MEMORY_BYTES_A_SECOND;
    double memory = bytes / (rate * even); /* `even`: of the busiest SM's work, how much the others have */
    double issue = ceil_ratio(most * t.threads / 32, SCHEDULERS) * (double)t.steps * issued(&t) / HERTZ;
    double cluster = t.parts > 1 ? CLUSTER_S + CLUSTER_RANK_S * (double)t.parts : 0;
    double end = (END_CYCLES + SUM_CYCLES * (double)(t.sums + 5 + t.wk)) / HERTZ + cluster;
    double round = FILL_CYCLES / HERTZ + end, rounds = ceil_ratio(most, room);
    double chain = rounds * (double)(t.steps - 1) * STEP_CYCLES / HERTZ + (rounds - 1) * round;
    double busy = sqrt(memory * memory + issue * issue + chain * chain);
    return (t.early ? EARLY_EDGE_S : LATE_EDGE_S) + round + busy + (t.constants ? 0 : 0.03e-6);
}

/* ---- loops ---- */

void dense_nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                struct loop_nest *ret) {
    struct dense t = dense_of(workload, target, space, index);
    int64_t wn = t.wn ? t.wn : 1, split = 32 * t.unroll * t.vec; /* of k, one split's step */
    loop_nest_sum(ret);
    loop_nest_add(ret, (t.n + wn * t.rows - 1) / (wn * t.rows), LOOP_BLOCK_X, 0, wn * t.rows * t.k, wn * t.rows);
    loop_nest_add(ret, t.parts, LOOP_BLOCK_Z, t.wk * split, t.wk * split, 0);
    loop_nest_add(ret, wn, LOOP_THREAD_Z, 0, t.rows * t.k, t.rows);
    loop_nest_add(ret, t.wk, LOOP_THREAD_Y, split, split, 0);
    loop_nest_add(ret, 32, LOOP_THREAD_X, t.vec, t.vec, 0);
    loop_nest_add(ret, t.steps, LOOP_SERIAL, t.parts * t.wk * split, t.parts * t.wk * split, 0);
    loop_nest_add(ret, t.unroll, LOOP_UNROLLED, 32 * t.vec, 32 * t.vec, 0);
    loop_nest_add(ret, t.m, LOOP_UNROLLED, t.k, 0, t.n);
    loop_nest_add(ret, t.rows, LOOP_UNROLLED, 0, t.k, 1);
    loop_nest_add(ret, t.vec, LOOP_VECTORIZED, 1, 1, 0);
}
