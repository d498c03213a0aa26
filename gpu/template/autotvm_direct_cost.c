/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_direct_cost.c: how long a configuration of autotvm_direct.cu should take, by arithmetic alone. A step loads
 * its tiles, waits for them, and multiplies: nothing is loaded ahead, so only other blocks of the SM hide the wait. The
 * constants are an H200's; where other devices differ the order of configurations hardly does.
 */
#include <math.h>

#include "gpu/template/autotvm_direct.h"

#define HERTZ 1.98e9
#define SM_SHARED (228 << 10)
#define SM_THREADS 2048
#define SM_BLOCKS 32
#define SCHEDULERS 4
#define WARP 32

/* Cycles. */
#define STEP_LATENCY 800.0 /* from L2, and two barriers */
#define BYTES_A_CYCLE 28.0 /* of an SM, from L2 */
#define SECTOR 32          /* bytes that L2 gives at least */
#define IDLE_WARPS 0.5     /* what a scheduler loses for its waits, in warps' work */

/* Instructions. */
#define LOAD_ISSUES 14.0   /* a staged float: divisions by constants, bounds, address, load, store */
#define FINISH_ISSUES 10.0 /* an output */
#define LOOP_ISSUES 6.0    /* a turn of a loop that is not written out, with addresses that are not constants */

#define OWN_REGISTERS 32 /* besides sums and operands */
#define MOST_REGISTERS 255
#define SPILL_ISSUES 4.0 /* for a sum beyond them, each time */
#define LAUNCH_S 0.76e-6
#define FILL_S 1e-6

static double ceil_div(double n, double by) {
    return ceil(n / by);
}

/* Of a thread's sums along the axes that the patch has, and those that the weights have. */
static double sums_along(const struct autotvm_direct *d, bool of_weights) {
    double sums = 1;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (a == AXIS_G || (a == AXIS_F) == of_weights)
            sums *= (double)(d->tile[a].vthreads * d->tile[a].inner);
    return sums;
}

static double registers_of(const struct autotvm_direct *d) {
    return (double)d->sums + sums_along(d, true) + OWN_REGISTERS;
}

/* Blocks that an SM holds at a time. */
static double resident(const struct autotvm_direct *d, const struct target *target) {
    double warps = ceil_div((double)d->threads, WARP), registers = fmin(registers_of(d), MOST_REGISTERS);
    double shared = 4.0 * (double)(d->patch + d->weights) + 1024;
    double blocks = fmin((double)target->registers / (registers * warps * WARP), SM_SHARED / shared);
    return fmax(1, floor(fmin(fmin(blocks, SM_THREADS / (warps * WARP)), SM_BLOCKS)));
}

/* Bytes that L2 sends for so many floats in runs of neighbours. */
static double bytes_sent(double floats, double run) {
    return floats / run * ceil_div(4 * run + SECTOR / 2.0, SECTOR) * SECTOR;
}

static double step_bytes(const struct autotvm_direct *d) {
    const struct conv2d_shape *s = &d->shape;
    double taps = (double)d->inner[REDUCE_X], all = (double)(d->inner[REDUCE_Y] * d->inner[REDUCE_X]);
    double run = d->inner[REDUCE_X] < s->kw   ? taps
                 : d->inner[REDUCE_Y] < s->kh ? all
                                              : all * (double)d->inner[REDUCE_C];
    return bytes_sent((double)d->patch, (double)d->patch_w) + bytes_sent((double)d->weights, run);
}

/* How many of a warp's threads read the patch in the same bank, at other addresses. */
static double conflicts(const struct autotvm_direct *d) {
    int64_t stride = d->tile[AXIS_X].inner * d->shape.sw, across = d->tile[AXIS_X].threads, ways = 1;
    while (ways < WARP && stride % (2 * ways) == 0)
        ways *= 2;
    return (double)(across < ways ? across : ways);
}

/* What a warp issues in one step. */
static double step_issues(const struct autotvm_direct *d) {
    double taps = 1, written_out = 1;
    for (int r = 0; r < REDUCE_COUNT; r++) {
        taps *= (double)d->inner[r];
        written_out *= (double)(d->unroll[r] ? d->unroll[r] : 1);
    }
    double reads = sums_along(d, true) + sums_along(d, false) * conflicts(d);
    double spilled = fmax(0, registers_of(d) - fmin(MOST_REGISTERS, 65536.0 / (double)d->threads)) * SPILL_ISSUES;
    double loads = ceil_div((double)d->patch, (double)d->threads) + ceil_div((double)d->weights, (double)d->threads);
    return taps * ((double)d->sums + reads + spilled + LOOP_ISSUES / written_out) + loads * LOAD_ISSUES;
}

/* Seconds that `blocks` blocks of an SM take together, from their first step to their last. */
static double together_s(const struct autotvm_direct *d, double blocks) {
    double steps = (double)(d->outer[REDUCE_C] * d->outer[REDUCE_Y] * d->outer[REDUCE_X]);
    double warps = ceil_div((double)d->threads, WARP);
    double issued = (ceil_div(blocks * warps, SCHEDULERS) + IDLE_WARPS) * step_issues(d);
    double alone = (ceil_div(warps, SCHEDULERS) + IDLE_WARPS) * step_issues(d) + STEP_LATENCY;
    double sent = blocks * step_bytes(d) / BYTES_A_CYCLE;
    double cycles = steps * fmax(fmax(issued, sent), alone) + warps * (double)d->sums * FINISH_ISSUES / SCHEDULERS;
    return blocks > 0 ? FILL_S + cycles / HERTZ : 0;
}

double autotvm_direct_estimate(const struct autotvm_direct *d, const struct target *target) {
    struct error ignored;
    if (autotvm_direct_check(d, target, &ignored) < 0)
        return INFINITY;
    double blocks = ceil_div((double)(d->grid[0] * d->grid[1] * d->grid[2]), target->units), room = resident(d, target);
    return LAUNCH_S + floor(blocks / room) * together_s(d, room) + together_s(d, fmod(blocks, room));
}
