/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_wgmma_cost.c: what is known of a configuration of conv2d_wgmma.cu without compiling it: how long it should
 * take, and its loops.
 *
 *     edge + the larger of what memory must send and the turns of an SM's CTAs, and half of the other
 *     turn = the larger of one CTA's chain (begin, steps, end) and what all its CTAs need of the SM together
 *     step = what it needs of the SM: tensor cores, shared memory, copies; or what it waits for its stage to be filled
 *     in turn: all but the first tile's chain is the larger of its steps and half of steps and end
 *
 * The constants are fitted to 1,670 configurations on an H200, in which the first by the estimate took 2.3 % longer
 * than the best, over 43 layers, and the best of the first twelve 0.2 %.
 */
#include <math.h>

#include "gpu/template/conv2d_wgmma.h"
#include "gpu/template/cuda_space.h"

#define HERTZ 1.75e9
#define EDGE_S 1.04e-6 /* from kernel to kernel */
#define MEMORY_BYTES_A_SECOND 5.1e12
#define NOT_HIDDEN 0.63 /* of the smaller of memory and work */
#define PAD_S 1.4e-6    /* the kernel that pads */
#define PAD_BYTES_A_SECOND 1.8e12

/* Cycles. */
#define BEGIN_CHAIN 253.0
#define ARGUMENTS_BEGIN 961.0 /* more, where the shape is in the arguments */
#define ARGUMENTS_STEP 103.0
#define FILL_CHAIN 128.0 /* from a stage's return until it is full again */
#define FILL_PIXEL 8.8   /* likewise for each pixel and channel */
#define FILL_CHANNEL 2.9
#define COPY_PIXEL 2.1       /* of an SM, to copy 128 bytes of a pixel */
#define SHARED_A_CYCLE 147.0 /* bytes */
#define STEP_NOT_HIDDEN 0.12 /* of what is not the largest part of a step */
#define END_CHAIN 193.0
#define END_OUTPUT 0.145 /* for each output, shared by all warpgroups */
#define END_SHARE 0.72   /* of the end, what other CTAs of the SM wait for */
#define CLUSTER_RANK 359.0
#define CLUSTER_BYTES_A_CYCLE 25.8

/* What a CTA's step needs of its SM. */
static double step_cycles(const struct conv2d_wgmma *t) {
    double tensor = (double)(t->wide * t->bp * t->bc) / 32;
    int64_t reads = t->wide * t->wn * (t->bc / 64) * 4 * (64 + t->bp / t->wn) * 32;
    double shared = (double)(reads + (t->bp + t->extra + t->wide * t->bc) * 128) / SHARED_A_CYCLE;
    double copies = (double)t->bp * COPY_PIXEL, most = fmax(fmax(tensor, shared), copies);
    return most + STEP_NOT_HIDDEN * (tensor + shared + copies - most);
}

/* From one step of a CTA to the next: nearly the larger of two, and more where they are alike. */
static double step_chain(const struct conv2d_wgmma *t) {
    double fill = FILL_CHAIN + FILL_PIXEL * (double)t->bp + FILL_CHANNEL * (double)(t->wide * t->bc);
    double wait = fill / (double)(t->stages - 1), need = step_cycles(t);
    return cbrt(need * need * need + wait * wait * wait) + (t->constants ? 0 : ARGUMENTS_STEP);
}

static double end_cycles(const struct conv2d_wgmma *t) {
    double share = 1 / (double)t->parts, outputs = (double)(t->bp * t->bc);
    double cycles = END_CHAIN + outputs * share * END_OUTPUT / (double)(t->in_turn ? 2 : t->groups + 1);
    if (t->parts > 1)
        cycles += CLUSTER_RANK * (double)t->parts + outputs * 4 * (1 - share) / CLUSTER_BYTES_A_CYCLE;
    return cycles;
}

/* Of an SM, for all its tiles: each CTA has as many as it stays for, or one CTA comes after the other. */
static double busy_cycles(const struct conv2d_wgmma *t, const struct target *target) {
    int64_t fit = conv2d_wgmma_fit(target, t->parts), ctas = t->tiles * t->parts, most = (ctas + fit - 1) / fit;
    double together = (double)(most < t->ctas ? most : t->ctas), turns = ceil_ratio(ctas, fit * t->ctas);
    double begin = BEGIN_CHAIN + (t->constants ? 0 : ARGUMENTS_BEGIN), end = end_cycles(t);
    double steps = ceil_ratio(t->steps, t->parts), products = steps * step_chain(t);
    double need = together > 1 ? together * (steps * step_cycles(t) + end * END_SHARE) : 0;
    if (t->in_turn)
        return begin + products + end + (turns - 1) * fmax(fmax(products, (products + end) / 2), need);
    if (t->stays)
        return begin + turns * fmax(products + end, need);
    return turns * fmax(begin + products + end, need);
}

double conv2d_wgmma_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                             int64_t index) {
    struct conv2d_wgmma t = conv2d_wgmma_of(workload, target, space, index);
    struct error ignored;
    if (conv2d_wgmma_check(&t, target, &ignored) < 0)
        return INFINITY;
    double busy = busy_cycles(&t, target) / HERTZ;
    double memory = (double)workload_bytes(workload) / MEMORY_BYTES_A_SECOND;
    double pad = t.narrow ? PAD_S + (double)(t.shape.n * t.padded_h * t.padded_w * 16) / PAD_BYTES_A_SECOND : 0;
    return EDGE_S + pad + fmax(busy, memory) + NOT_HIDDEN * fmin(busy, memory);
}

/* ---- loops ---- */

enum { PART, TILE_P, TILE_C, GROUP_N, GROUP_M, STEP, TAP, DEPTH, BLOCK_M, SUM_C, SUM_P, N_LOOPS };

/* How far a loop's step moves each operand, from how far one pixel, channel and k do. */
static void describe(struct access *access, const struct conv2d_wgmma *t, int64_t pixel, int64_t channel, int64_t k) {
    access->stride[GROUP_N] = pixel * (t->bp / t->wn);
    access->stride[GROUP_M] = channel * (t->bc / t->wm);
    access->stride[DEPTH] = k;
    access->stride[BLOCK_M] = channel * 64;
    access->stride[SUM_C] = channel;
    access->stride[SUM_P] = pixel;
}

/* Of what is not a CTA's own. */
static void describe_global(struct access *access, const struct conv2d_wgmma *t, int64_t pixel, int64_t channel,
                            int64_t k) {
    describe(access, t, pixel, channel, k);
    access->stride[TILE_P] = pixel * t->bp;
    access->stride[TILE_C] = channel * t->bc;
    access->stride[STEP] = k * 64;
    access->stride[PART] = k * 64 * (t->steps / t->parts);
}

static void add_accesses(struct loop_nest *nest, const struct conv2d_wgmma *t) {
    const struct conv2d_shape *s = &t->shape;
    enum { DATA, KERNEL, OUTPUT, DATA_SHARED, KERNEL_SHARED, N };
    static const char *const names[N] = {"data", "kernel", "output", "data.shared", "kernel.shared"};
    nest->n_accesses = N;
    for (int i = 0; i < N; i++)
        nest->accesses[i].name = names[i];
    describe_global(&nest->accesses[DATA], t, s->sw * s->c, 0, 1);
    describe_global(&nest->accesses[KERNEL], t, 0, 64, 1);
    nest->accesses[DATA].stride[TAP] = s->dw * s->c;
    nest->accesses[KERNEL].stride[TAP] = t->bc * 64; /* packed in blocks */
    nest->accesses[KERNEL].stride[STEP] = t->bc * 64 * t->wide;
    nest->accesses[KERNEL].stride[PART] = t->bc * 64 * t->wide * (t->steps / t->parts);
    nest->accesses[KERNEL].stride[TILE_C] = t->bc * 64 * t->wide * t->steps;
    describe_global(&nest->accesses[OUTPUT], t, s->k, 1, 0);
    nest->accesses[OUTPUT].writes = true;
    describe(&nest->accesses[DATA_SHARED], t, 64, 0, 1);
    describe(&nest->accesses[KERNEL_SHARED], t, 0, 64, 1);
    nest->accesses[DATA_SHARED].stride[TAP] = s->dw * 64;
    nest->accesses[KERNEL_SHARED].stride[TAP] = t->bc * 64;
}

void conv2d_wgmma_nest(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct loop_nest *ret) {
    struct conv2d_wgmma t = conv2d_wgmma_of(workload, target, space, index);
    if (t.wm == 0) /* no arrangement of its warpgroups can be: described as one */
        t.wm = t.wn = 1;
    *ret = (struct loop_nest){.n_loops = N_LOOPS, .additions = 1, .multiplications = 1};
    ret->loops[PART] = (struct nest_loop){t.parts, LOOP_BLOCK_Z};
    ret->loops[TILE_P] = (struct nest_loop){t.tiles_p, LOOP_BLOCK_X};
    ret->loops[TILE_C] = (struct nest_loop){t.tiles_c, LOOP_BLOCK_Y};
    ret->loops[GROUP_N] = (struct nest_loop){t.wn, LOOP_THREAD_Y};
    ret->loops[GROUP_M] = (struct nest_loop){t.wm, LOOP_THREAD_X};
    ret->loops[STEP] = (struct nest_loop){(t.steps + t.parts - 1) / t.parts, LOOP_SERIAL};
    ret->loops[TAP] = (struct nest_loop){t.wide, LOOP_UNROLLED};
    ret->loops[DEPTH] = (struct nest_loop){64, LOOP_UNROLLED};
    ret->loops[BLOCK_M] = (struct nest_loop){t.bc / 64 / t.wm, LOOP_UNROLLED};
    ret->loops[SUM_C] = (struct nest_loop){64, LOOP_UNROLLED};
    ret->loops[SUM_P] = (struct nest_loop){t.bp / t.wn, LOOP_UNROLLED};
    add_accesses(ret, &t);
}
