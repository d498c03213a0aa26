/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt_cost.c: what is known of a configuration of conv2d_simt.cu without compiling it: how long it should take,
 * and its loops. The constants are an H200's; where other devices differ the order of configurations hardly does.
 */
#include <math.h>

#include "gpu/template/conv2d_simt.h"
#include "gpu/template/cuda_space.h"

#define HERTZ 1.98e9

/* Cycles. */
#define LOAD_LATENCY 700.0 /* from L2, with the barrier after it */
#define BYTES_A_CYCLE 28.0 /* of an SM, from L2 */
/* Of the cycles in which something could be issued: what the figures in tests/bench/NOTES.md come to. */
#define ISSUE_EFFICIENCY 0.8
#define IDLE_WARPS 0.5 /* what a scheduler loses for its waits, in warps' work */
#define SCHEDULERS 4

/* Seconds. */
#define FILL_S 1.2e-6    /* addresses, the first loads, the last stores */
#define LAUNCH_S 0.76e-6 /* from kernel to kernel in a graph */
#define REDUCE_S 1.3e-6  /* the least that the kernel takes that adds the parts */
#define ROUND_S 0.3e-6   /* each further round of its loads */
#define REDUCE_AT_ONCE 8
#define CACHE_BYTES_A_SECOND 5e12

/* Instructions of a warp in one step: besides the products an element of the patch takes its bounds and its address. */
static double issued(const struct conv2d_simt *t) {
    double b_loads = ceil_ratio(t->bk * t->bc / 4, t->threads), a_loads = (double)t->a_loads;
    double walks = t->shape.nhwc ? 1 : a_loads;
    return (double)(t->tp * t->tc * t->bk) + (double)((t->tp + t->tc) * t->bk) / 4 + walks * 14 +
           a_loads * (9 + 2.0 * t->vec_a) + b_loads * 5 + 20;
}

/* Cycles of shared memory that one step of a block takes: reads of 128 bytes, and the tiles' writes. */
static double shared_cycles(const struct conv2d_simt *t) {
    int64_t across = t->shape.nhwc ? t->bc / t->tc : t->bp / t->tp; /* threads of a warp that read other addresses */
    double wide = (double)(across < 32 ? across : 32), narrow = 32 / wide;
    double wide_chunks = (double)(t->shape.nhwc ? t->tc : t->tp) / 4;
    double narrow_chunks = (double)(t->shape.nhwc ? t->tp : t->tc) / 4;
    double reads = wide_chunks * ceil(wide / 8) + narrow_chunks * ceil(narrow / 8);
    double written = (double)(t->bk * (t->bp * (t->vec_a == 4 ? 2 : 1) + t->bc)) / 32;
    return (double)t->bk * ceil_ratio(t->threads, 32) * reads + written;
}

/*
 * Cycles of a step that `blocks` resident blocks of an SM take together: the most of issuing, shared memory, what comes
 * from L2, and the wait for it. A scheduler issues for its own warps only, and the fewer it has the less it hides.
 */
static double step_cycles(const struct conv2d_simt *t, int64_t blocks) {
    double warps = ceil_ratio(blocks * ((t->threads + 31) / 32), SCHEDULERS);
    double issuing = issued(t) * (warps + IDLE_WARPS) / ISSUE_EFFICIENCY;
    double bytes = 4.0 * (double)(t->bk * (t->bp + t->bc));
    double others = (double)blocks * fmax(shared_cycles(t), bytes / BYTES_A_CYCLE);
    return fmax(fmax(issuing, others), LOAD_LATENCY);
}

static double together_s(const struct conv2d_simt *t, int64_t blocks) {
    return blocks ? FILL_S + ceil_ratio(t->steps, t->parts) * step_cycles(t, blocks) / HERTZ : 0;
}

static double reduce_s(const struct conv2d_simt *t) {
    double bytes = 4.0 * (double)(t->pixels * t->shape.k);
    if (t->parts == 1)
        return 0;
    return LAUNCH_S + REDUCE_S + ROUND_S * (ceil_ratio(t->parts, REDUCE_AT_ONCE) - 1) +
           (double)(2 * t->parts + 1) * bytes / CACHE_BYTES_A_SECOND;
}

double conv2d_simt_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                            int64_t index) {
    struct conv2d_simt t = conv2d_simt_of(workload, space, index);
    struct error ignored;
    if (conv2d_simt_check(&t, target, &ignored) < 0)
        return INFINITY;
    int64_t room = cuda_resident(target, t.threads, t.registers, t.shared_bytes);
    if (room == 0)
        return INFINITY;
    int64_t tiles = (t.pixels + t.bp - 1) / t.bp * (t.channels_padded / t.bc) * t.shape.groups * t.parts;
    int64_t most = (tiles + target->units - 1) / target->units; /* blocks of the SM that has most */
    int64_t full_rounds = most / room;
    double product = (double)full_rounds * together_s(&t, room) + together_s(&t, most % room);
    /* Arguments instead of constants: a few instructions more around the loop. */
    return product * (t.constants ? 1 : 1.03) + reduce_s(&t);
}

/* ---- loops ---- */

enum { GROUP, PART, TILE_C, TILE_P, THREAD_P, THREAD_C, STEP, DEPTH, SUM_P, SUM_C, N_LOOPS };

/* How far a loop's step moves each operand, from how far one pixel, channel and k do. */
static void describe(struct access *access, const struct conv2d_simt *t, int64_t pixel, int64_t channel, int64_t k) {
    access->stride[TILE_C] = channel * t->bc;
    access->stride[TILE_P] = pixel * t->bp;
    access->stride[THREAD_P] = pixel * 4;
    access->stride[THREAD_C] = channel * 4;
    access->stride[STEP] = k * t->bk;
    access->stride[PART] = k * t->bk * (t->steps / t->parts);
    access->stride[DEPTH] = k;
    access->stride[SUM_P] = pixel;
    access->stride[SUM_C] = channel;
}

/* Of the shared tiles, which each block has for itself. */
static void describe_shared(struct access *access, int64_t pixel, int64_t channel, int64_t k) {
    access->stride[THREAD_P] = pixel * 4;
    access->stride[THREAD_C] = channel * 4;
    access->stride[DEPTH] = k;
    access->stride[SUM_P] = pixel;
    access->stride[SUM_C] = channel;
}

static void add_accesses(struct loop_nest *nest, const struct conv2d_simt *t) {
    const struct conv2d_shape *s = &t->shape;
    enum { DATA, KERNEL, OUTPUT, DATA_SHARED, KERNEL_SHARED, N };
    static const char *const names[N] = {"data", "kernel", "output", "data.shared", "kernel.shared"};
    nest->n_accesses = N;
    for (int i = 0; i < N; i++)
        nest->accesses[i].name = names[i];
    describe(&nest->accesses[DATA], t, s->nhwc ? s->sw * s->c : s->sw, 0, 1);
    nest->accesses[DATA].stride[GROUP] = s->nhwc ? s->cg : s->cg * s->h * s->w;
    describe(&nest->accesses[KERNEL], t, 0, 1, t->channels_padded);
    nest->accesses[KERNEL].stride[GROUP] = t->steps * t->bk * t->channels_padded;
    describe(&nest->accesses[OUTPUT], t, s->nhwc ? s->k : 1, s->nhwc ? 1 : s->oh * s->ow, 0);
    nest->accesses[OUTPUT].stride[GROUP] = s->nhwc ? s->kg : s->kg * s->oh * s->ow;
    nest->accesses[OUTPUT].stride[PART] = t->parts > 1 ? t->pixels * s->k : 0;
    nest->accesses[OUTPUT].writes = true;
    describe_shared(&nest->accesses[DATA_SHARED], 1, 0, t->bp + 4);
    describe_shared(&nest->accesses[KERNEL_SHARED], 0, 1, t->bc);
}

void conv2d_simt_nest(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct loop_nest *ret) {
    struct conv2d_simt t = conv2d_simt_of(workload, space, index);
    (void)target;
    *ret = (struct loop_nest){.n_loops = N_LOOPS, .additions = 1, .multiplications = 1};
    ret->loops[GROUP] = (struct nest_loop){t.shape.groups, LOOP_BLOCK_Z};
    ret->loops[PART] = (struct nest_loop){t.parts, LOOP_BLOCK_Z};
    ret->loops[TILE_C] = (struct nest_loop){t.channels_padded / t.bc, LOOP_BLOCK_Y};
    ret->loops[TILE_P] = (struct nest_loop){(t.pixels + t.bp - 1) / t.bp, LOOP_BLOCK_X};
    ret->loops[THREAD_P] = (struct nest_loop){t.bp / t.tp, LOOP_THREAD_Y};
    ret->loops[THREAD_C] = (struct nest_loop){t.bc / t.tc, LOOP_THREAD_X};
    ret->loops[STEP] = (struct nest_loop){(t.steps + t.parts - 1) / t.parts, LOOP_SERIAL};
    ret->loops[DEPTH] = (struct nest_loop){t.bk, LOOP_UNROLLED};
    ret->loops[SUM_P] = (struct nest_loop){t.tp, LOOP_UNROLLED};
    ret->loops[SUM_C] = (struct nest_loop){t.tc, LOOP_UNROLLED};
    add_accesses(ret, &t);
}
