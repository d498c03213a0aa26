/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_direct.h: AutoTVM's direct convolutions for CUDA (FP32, NCHW): what a configuration's knobs say, worked out,
 * and its program. The two templates differ in which axes of the output have a knob and in how the axes lie on grid
 * and thread block; autotvm_direct.cu is the kernel of both. Private to autotvm_*conv2d_nchw_cuda.c.
 *
 * The limits are those that AutoTVM checks before it builds (threads, shared memory), and one of ours: a thread's sums
 * must have a chance to live in registers, so that configurations with more are refused instead of timing out.
 *
 * Of the knobs auto_unroll_max_step and unroll_explicit: the loops over what a step has staged are written out from
 * the innermost on, as long as the body has at most that many multiplications; explicit writes out the loops that
 * stage, too. What is not written out is the compiler's to choose, save where it would take long: bodies with many
 * reads are written out in part. The loops over a thread's sums are always written out, and those over the steps, which
 * hold barriers, never: the code stays small whatever the knobs say.
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_DIRECT_H
#define WARPTUNE_TEMPLATE_AUTOTVM_DIRECT_H

#include "gpu/template/conv2d_shape.h"
#include "gpu/template/template.h"

/* The output's axes, the slowest first, and what is summed over. */
enum direct_axis { AXIS_N, AXIS_G, AXIS_F, AXIS_Y, AXIS_X, AXIS_COUNT };
enum direct_reduction { REDUCE_C, REDUCE_Y, REDUCE_X, REDUCE_COUNT };
/* Into what a knob splits an axis. */
enum direct_level { LEVEL_BLOCK, LEVEL_VTHREAD, LEVEL_THREAD, LEVEL_INNER, LEVEL_COUNT };

/*
 * What makes one of the templates. Its first knobs split the axes of two levels or more, in order; tile_rc, tile_ry,
 * tile_rx, auto_unroll_max_step and unroll_explicit follow. An axis of one level is all blocks; one of none is 1.
 * Dimensions are 0 for x, 1 for y, 2 for z; axes on the same one are fused, the last the fastest.
 */
struct direct_kind {
    int levels[AXIS_COUNT];
    int grid_dim[AXIS_COUNT];  /* of its blocks */
    int block_dim[AXIS_COUNT]; /* of its threads */
};

struct direct_tile {
    int64_t blocks, vthreads, threads, inner;
};

/* A configuration with what follows from it. */
struct autotvm_direct {
    struct conv2d_shape shape;
    struct direct_kind kind;
    struct direct_tile tile[AXIS_COUNT];
    int64_t outer[REDUCE_COUNT], inner[REDUCE_COUNT]; /* steps of the sum, and what one step stages */
    int64_t unroll[REDUCE_COUNT];                     /* turns of the inner loop written out; 0: unsaid */
    int64_t unroll_steps;                             /* auto_unroll_max_step */
    bool unroll_explicit;
    int64_t grid[3], block[3];
    int64_t threads, sums;    /* of a block; of a thread */
    int64_t patch_h, patch_w; /* rows and columns of the input under a block's outputs, in one step */
    int64_t patch, weights;   /* floats that a step stages; huge numbers are cut off */
};

/* FP32 convolutions, NCHW, whose offsets fit 32-bit arithmetic. */
bool autotvm_direct_shape(const struct workload *workload, struct conv2d_shape *ret);
/* The most output channels of a group, up to 64, that divide them evenly: so many always fit in one block. */
int64_t autotvm_direct_channels(const struct conv2d_shape *shape);

void autotvm_direct_add_knobs(const struct direct_kind *kind, const struct conv2d_shape *shape, struct space *space);

struct autotvm_direct autotvm_direct_of(const struct direct_kind *kind, const struct conv2d_shape *shape,
                                        const struct space *space, int64_t index);
int autotvm_direct_check(const struct autotvm_direct *direct, const struct target *target,
                         struct error *error) MUST_CHECK;
int autotvm_direct_render(const struct autotvm_direct *direct, const struct target *target, struct arena *arena,
                          struct program **ret, struct error *error) MUST_CHECK;
/* Seconds; INFINITY where autotvm_direct_check refuses it. */
double autotvm_direct_estimate(const struct autotvm_direct *direct, const struct target *target);
/* A configuration that can be, from the shapes: of a few tile sizes, the largest that gives every SM a block. */
int64_t autotvm_direct_fallback(const struct direct_kind *kind, const struct conv2d_shape *shape,
                                const struct target *target, const struct space *space);
/* Blocks, virtual threads, threads, steps, a step's own loops, inner loops: as many for every
 * configuration of a kind. */
void autotvm_direct_nest(const struct autotvm_direct *direct, struct loop_nest *ret);

#endif
