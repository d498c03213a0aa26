/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_mma_cost.c: what is known of a configuration of conv2d_mma.cu without compiling it: how long it should take,
 * and its loops. The constants are fitted to 3,000 configurations on an H200; where other devices differ the order of
 * configurations hardly does.
 *
 *     edge + what memory must send + waves × (steps × (the chain of one CTA's step + what its SM's CTAs have in turn:
 *     tensor cores, issue, what comes from L2) + the end of a tile, and of a cluster) + what adds parts without one
 *
 * Little of that hides behind the rest: a step's warps all do the same at the same time, from barrier to barrier.
 */
#include <math.h>

#include "gpu/template/conv2d_mma.h"
#include "gpu/template/cuda_space.h"

#define HERTZ 1.98e9
#define SM_CACHE (256 << 10) /* L1 and shared memory together */
#define SCHEDULERS 4

/* Cycles of a step's chain. */
#define STEP_CHAIN 117.0      /* wait, barrier, and the first ldmatrix */
#define ARGUMENTS_CHAIN 141.0 /* more where the shape is in the arguments */
#define MMA_CHAIN 34.0        /* each 32 bytes of k: ldmatrix, and from one mma to the next on the same sums */
#define PIECE_CHAIN 47.0      /* to copy a piece of the patch matrix whose place must be looked for */
#define ODD_CHAIN 195.0       /* likewise of four channels that are loaded one by one */
#define LOAD_LATENCY 100.0    /* what is left of L2's, where one step is on its way */

/* Of a scheduler or an SM, in cycles. */
#define MMA_ISSUE 7.0      /* for m16n8k16: what mma.sync reaches of a Hopper's rate */
#define SLOW_MMA 4.0       /* m16n8k8 of a Turing against it, for the same product */
#define STEP_ISSUE 51.0    /* a warp's step */
#define PIECE_ISSUE 0.145  /* of a piece's chain */
#define BYTES_A_CYCLE 76.0 /* from L2 and L1 */
#define END_A_CYCLE 51.0   /* bytes of sums through shared memory */
#define QUAD_CYCLES 200.0  /* of a thread, to finish four channels of a pixel */

/* Seconds. */
#define EARLY_EDGE_S 0.99e-6 /* from kernel to kernel where the next begins early, with the start and the end */
#define FULL_EDGE_S 0.65e-6  /* likewise where it has no room: else CTAs of one kernel come to share SMs */
#define LATE_EDGE_S 1.35e-6  /* likewise where none begins early */
#define MEMORY_BYTES_A_SECOND 5.5e12
#define LAUNCH_S 0.76e-6 /* from kernel to kernel in a graph */
#define REDUCE_S 1.3e-6  /* the least that the kernel takes that adds the parts */
#define CACHE_BYTES_A_SECOND 5e12
#define CLUSTER_S 0.71e-6           /* its start, two barriers, and the way of the first numbers */
#define CLUSTER_RANK_S 0.107e-6     /* for each CTA of the cluster */
#define CLUSTER_BYTES_A_SECOND 98e9 /* of an SM, from the shared memory of others */
#define CLUSTER_ROOM 0.9 /* of the SMs, for clusters of more than two: each must fit into one part of the GPU */
#define WHOLE_WAVES 0.15 /* how much of a wave that is not full passes as if it were, with clusters */

/* How often a warp multiplies 32 bytes of k in one step. An mma of them takes as long in TF32, for half of the work. */
static double depth(const struct conv2d_mma *t) {
    int64_t mmas = t->bk * t->element_bytes / 32 / t->slices;
    return (double)mmas;
}

/* mma instructions of a warp in one step. */
static double warp_mmas(const struct conv2d_mma *t) {
    int64_t blocks = t->bp / t->wp * (t->bc / t->wc) / 128;
    return (double)blocks * depth(t);
}

/* What a thread's pieces of the patch matrix take in one step; those of a single tap known ahead take nothing. */
static double pieces_chain(const struct conv2d_mma *t) {
    int64_t in_chunk = 16 / t->element_bytes, pieces = t->patch_loads * in_chunk / (t->vec > 1 ? t->vec : 4);
    return (double)pieces * (t->vec == 1 ? ODD_CHAIN : t->taps ? PIECE_CHAIN : 0);
}

/* Input pixels that `n` neighbouring outputs read along one dimension with so many taps. */
static double reach(double n, int64_t stride, int64_t taps, int64_t dilation, int64_t size) {
    return fmin((n - 1) * (double)stride + (double)((taps - 1) * dilation + 1), (double)size);
}

/*
 * How much of a tile's patches L2 sends; L1 has the rest. Taps of one block of channels follow one another, unless
 * there are so many channels in between that L1 forgets.
 */
static double share_from_l2(const struct conv2d_mma *t, int64_t blocks) {
    const struct conv2d_shape *s = &t->shape;
    int64_t taps = s->kh * s->kw, channels = t->blocked ? t->bk : t->depth;
    double steps_of_taps = t->blocked ? 1 : fmin(ceil_ratio(t->steps, t->parts) * (double)t->bk / (double)t->k, 1);
    double rows_of_taps = fmax((double)s->kh * steps_of_taps, 1);
    double width = fmin((double)t->bp, (double)s->ow), rows = fmax((double)t->bp / (double)s->ow, 1);
    double reads =
        reach(width, s->sw, s->kw, s->dw, s->w) * ((rows - 1) * (double)s->sh + (rows_of_taps - 1) * (double)s->dh + 1);
    double room = SM_CACHE - (double)(blocks * (t->shared_bytes + 1024)),
           held = reads * (double)(channels * t->element_bytes * blocks);
    if (taps == 1 || held > room)
        return 1;
    return fmin(reads / ((double)(t->bp * s->kw) * rows_of_taps), 1);
}

/* Cycles of one step when an SM has `blocks` CTAs at a time; `busy`: the share of SMs that have any. */
static double step_cycles(const struct conv2d_mma *t, int64_t blocks, double busy) {
    double warps = (double)(blocks * t->threads) / 32 / SCHEDULERS;
    double chain = STEP_CHAIN + (t->constants ? 0 : ARGUMENTS_CHAIN) + depth(t) * MMA_CHAIN + pieces_chain(t) +
                   LOAD_LATENCY / (t->async && t->vec > 1 ? (double)t->stages - 1 : 1);
    double tensor = warps * warp_mmas(t) * MMA_ISSUE * (t->async ? 1 : SLOW_MMA);
    double issue = warps * (pieces_chain(t) * PIECE_ISSUE + STEP_ISSUE);
    double bytes =
        (double)(blocks * t->element_bytes * t->bk) * ((double)t->bp * share_from_l2(t, blocks) + (double)t->bc);
    return chain + tensor + issue + bytes * busy / BYTES_A_CYCLE;
}

/* What follows the last step of `blocks` CTAs on an SM. */
static double end_s(const struct conv2d_mma *t, int64_t blocks) {
    double outputs = (double)(t->bp * t->bc), share = t->cluster ? 1 / (double)t->parts : 1;
    double put = outputs * 4 * (double)((t->slices + 1) * blocks) / END_A_CYCLE;
    double quads = outputs * share / 4 / (double)t->threads * QUAD_CYCLES;
    double seconds = (put + quads) / HERTZ;
    if (t->cluster)
        seconds += CLUSTER_S + CLUSTER_RANK_S * (double)t->parts +
                   outputs * 4 * (1 - share) * (double)blocks / CLUSTER_BYTES_A_SECOND;
    return seconds;
}

/* How often the device is filled, once at least. As one CTA ends another begins, clusters only in the room of one. */
static double waves(const struct conv2d_mma *t, double blocks, double slots) {
    if (!t->cluster || t->parts == 2)
        return fmax(blocks / slots, 1);
    double parts = (double)t->parts, full = blocks / fmax(floor(slots * CLUSTER_ROOM / parts) * parts, parts);
    return fmax(full + WHOLE_WAVES * (ceil(full) - full), 1);
}

/* The second kernel, where parts are added without a cluster. */
static double reduce_s(const struct conv2d_mma *t) {
    double bytes = 4.0 * (double)(t->pixels * t->shape.k);
    if (t->parts == 1 || t->cluster)
        return 0;
    return LAUNCH_S + REDUCE_S + (double)(2 * t->parts + 1) * bytes / CACHE_BYTES_A_SECOND;
}

double conv2d_mma_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                           int64_t index) {
    struct conv2d_mma t = conv2d_mma_of(workload, target, space, index);
    struct error ignored;
    if (conv2d_mma_check(&t, target, &ignored) < 0)
        return INFINITY;
    int64_t room = cuda_resident(target, t.threads, t.registers, t.shared_bytes);
    if (room == 0)
        return INFINITY;
    int64_t blocks = t.tiles_p * t.tiles_c * t.shape.groups * t.parts;
    int64_t most = (blocks + target->units - 1) / target->units; /* CTAs of the SM that has most */
    int64_t together = most < room ? most : room;
    double edge = !t.early ? LATE_EDGE_S : 2 * most <= room ? EARLY_EDGE_S : FULL_EDGE_S;
    double busy = fmin((double)blocks / target->units, 1), steps = ceil_ratio(t.steps, t.parts);
    double wave = steps * step_cycles(&t, together, busy) / HERTZ + end_s(&t, together);
    return edge + (double)workload_bytes(workload) / MEMORY_BYTES_A_SECOND +
           waves(&t, (double)blocks, (double)(room * target->units)) * wave + reduce_s(&t);
}

/* ---- loops ---- */

enum { GROUP, PART, TILE_C, TILE_P, SLICE, WARP_P, WARP_C, STEP, DEPTH, SUM_P, SUM_C, N_LOOPS };

/* How far a loop's step moves each operand, from how far one pixel, channel and k do. */
static void describe(struct access *access, const struct conv2d_mma *t, int64_t pixel, int64_t channel, int64_t k) {
    access->stride[WARP_P] = pixel * (t->bp / t->wp);
    access->stride[WARP_C] = channel * (t->bc / t->wc);
    access->stride[SLICE] = k * 32 / t->element_bytes;
    access->stride[DEPTH] = k;
    access->stride[SUM_P] = pixel;
    access->stride[SUM_C] = channel;
}

/* Of what is not a CTA's own. */
static void describe_global(struct access *access, const struct conv2d_mma *t, int64_t pixel, int64_t channel,
                            int64_t k) {
    describe(access, t, pixel, channel, k);
    access->stride[TILE_P] = pixel * t->bp;
    access->stride[TILE_C] = channel * t->bc;
    access->stride[STEP] = k * t->bk;
    access->stride[PART] = k * t->bk * (t->steps / t->parts);
}

static void add_accesses(struct loop_nest *nest, const struct conv2d_mma *t) {
    const struct conv2d_shape *s = &t->shape;
    enum { DATA, KERNEL, OUTPUT, DATA_SHARED, KERNEL_SHARED, N };
    static const char *const names[N] = {"data", "kernel", "output", "data.shared", "kernel.shared"};
    nest->n_accesses = N;
    for (int i = 0; i < N; i++)
        nest->accesses[i].name = names[i];
    describe_global(&nest->accesses[DATA], t, s->sw * s->c, 0, 1);
    nest->accesses[DATA].stride[GROUP] = s->cg;
    describe_global(&nest->accesses[KERNEL], t, 0, t->bk, 1);
    nest->accesses[KERNEL].stride[STEP] = t->bc * t->bk; /* packed in blocks */
    nest->accesses[KERNEL].stride[PART] = t->bc * t->bk * (t->steps / t->parts);
    nest->accesses[KERNEL].stride[TILE_C] = t->bc * t->bk * t->steps;
    nest->accesses[KERNEL].stride[GROUP] = t->bc * t->bk * t->steps * t->tiles_c;
    describe_global(&nest->accesses[OUTPUT], t, s->k, 1, 0);
    nest->accesses[OUTPUT].stride[GROUP] = s->kg;
    nest->accesses[OUTPUT].stride[PART] = t->parts > 1 && !t->cluster ? t->pixels * s->k : 0;
    nest->accesses[OUTPUT].writes = true;
    describe(&nest->accesses[DATA_SHARED], t, t->bk, 0, 1);
    describe(&nest->accesses[KERNEL_SHARED], t, 0, t->bk, 1);
}

void conv2d_mma_nest(const struct workload *workload, const struct target *target, const struct space *space,
                     int64_t index, struct loop_nest *ret) {
    struct conv2d_mma t = conv2d_mma_of(workload, target, space, index);
    if (t.wp == 0) /* no arrangement of its warps can be: described as one */
        t.wp = t.wc = 1;
    *ret = (struct loop_nest){.n_loops = N_LOOPS, .additions = 1, .multiplications = 1};
    ret->loops[GROUP] = (struct nest_loop){t.shape.groups, LOOP_BLOCK_Z};
    ret->loops[PART] = (struct nest_loop){t.parts, LOOP_BLOCK_Z};
    ret->loops[TILE_C] = (struct nest_loop){t.tiles_c, LOOP_BLOCK_Y};
    ret->loops[TILE_P] = (struct nest_loop){t.tiles_p, LOOP_BLOCK_X};
    ret->loops[SLICE] = (struct nest_loop){t.slices, LOOP_THREAD_Z};
    ret->loops[WARP_P] = (struct nest_loop){t.wp, LOOP_THREAD_Y};
    ret->loops[WARP_C] = (struct nest_loop){t.wc, LOOP_THREAD_X};
    ret->loops[STEP] = (struct nest_loop){(t.steps + t.parts - 1) / t.parts, LOOP_SERIAL};
    ret->loops[DEPTH] = (struct nest_loop){t.bk / t.slices, LOOP_UNROLLED};
    ret->loops[SUM_P] = (struct nest_loop){t.bp / t.wp, LOOP_UNROLLED};
    ret->loops[SUM_C] = (struct nest_loop){t.bc / t.wc, LOOP_UNROLLED};
    add_accesses(ret, &t);
}
