/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_tile.h: what the kernels of AutoTVM's CUDA spaces have in common: axes divided four ways, how far loops are
 * unrolled, the limits of a launch, and the loops as the cost model sees them. Private to autotvm_*.c.
 *
 * An axis divided as [blocks, vthreads, threads, inner] gives each block vthreads × threads × inner neighbours.
 * Consecutive threads take `inner` neighbours each; a thread's vthreads lie threads × inner apart:
 *
 *     element = ((block × vthreads + vthread) × threads + thread) × inner + i
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_TILE_H
#define WARPTUNE_TEMPLATE_AUTOTVM_TILE_H

#include "gpu/device/program.h"
#include "gpu/device/target.h"
#include "gpu/template/conv2d_shape.h"
#include "gpu/template/loop_nest.h"
#include "gpu/template/space.h"
#include "service/base/buf.h"

struct tile {
    int64_t blocks, vthreads, threads, inner;
    int64_t size; /* elements of a block */
    int64_t sums; /* elements of a thread */
};

/* What a knob of four factors means in a configuration. */
struct tile tile_of(const struct space *space, int64_t index, const char *knob);
/* Macros: NAME_SIZE, NAME_THREADS, NAME_SUMS, and NAME_AT(thread, j), where a thread's element j lies in its block. */
void tile_define(struct buf *source, const char *name, const struct tile *tile);

/* For fallbacks, as a digit: the candidate of a knob of four factors that has the most threads and sums within those
 * wanted, threads counting more. There always is one: that of blocks alone. */
int64_t tile_pick(const struct space *space, int knob, int64_t threads, int64_t sums);
/* The candidate whose factor `part` (of a choice: 0) is the largest within `most`, else the first. */
int64_t tile_pick_factor(const struct space *space, int knob, int part, int64_t most);

/*
 * The knobs auto_unroll_max_step, of three candidates, and unroll_explicit, and whether a loop is unrolled whose
 * innermost statement is executed `steps` times, and which reads shared memory `reads` times. unroll_explicit chooses
 * whether AutoTVM or the compiler writes the copies. Here the compiler always does, so both its values render the same
 * code.
 */
void tile_unroll_knobs(struct space *space, const int64_t *most_steps);
bool tile_unrolls(const struct space *space, int64_t index, int64_t steps, int64_t reads);

/*
 * Sums of a thread beyond the first of these do not fit in its registers: they are walked by loops that stay loops,
 * slow but compiled in no time. Loads of a thread up to the second are all on their way at once. Reads of shared memory
 * up to the third may be in one unrolled body: compilers take time by their square, 3 s for 1,400 of them.
 */
enum { TILE_MOST_UNROLLED_SUMS = 256, TILE_MOST_UNROLLED_LOADS = 32, TILE_MOST_UNROLLED_READS = 768 };

/* #define NAME value */
void define_int(struct buf *source, const char *name, int64_t value);
/* #define NAME as what goes in front of a loop to unroll it, or as nothing: then the compiler judges. */
void define_unroll(struct buf *source, const char *name, bool unrolled);
/* #define UNROLL_SUMS likewise, for the loops over a thread's sums. */
void define_unroll_sums(struct buf *source, int64_t sums);
/* EPILOGUE_PARAMS and EPILOGUE_ARGS, and finish(sum, i, channel EPILOGUE_ARGS): the output's element i, of a sum. */
void define_epilogue(struct buf *source, const struct conv2d_shape *shape);

/* The program of a source, its text copied into the arena; -1 when it is too long. */
int program_of(const struct buf *source, struct arena *arena, struct program **ret, struct error *error) MUST_CHECK;
/* The same, of one launch alone. */
int program_of_launch(const struct buf *source, const struct launch *launch, struct arena *arena, struct program **ret,
                      struct error *error) MUST_CHECK;
/* One thread an element, in blocks of 128. */
struct launch launch_over(const char *entry, int64_t elements);
void launch_add_arg(struct launch *launch, enum arg_kind kind, int index);
/* The inputs that EPILOGUE_PARAMS are: bias and residual, where there are. */
void launch_add_epilogue(struct launch *launch, const struct conv2d_shape *shape);
/* ERROR_INVALID "instantiation" when the launch, with its static shared memory, is beyond what can be. */
int launch_check(const struct launch *launch, int64_t shared_bytes, const struct target *target,
                 struct error *error) MUST_CHECK;
/* Whether a kernel may count n elements in an int, and step beyond them. */
bool fits_int(int64_t n);

/* A nest without loops yet, of one product and sum: data, kernel, both staged in shared memory, output. */
void nest_begin_staged(struct loop_nest *ret);
/*
 * Adds the loop inside all those before it. `unit`: how far the next element along its axis is, for each access; the
 * loop goes `step` elements at once. Accesses named *.shared are within a block, and stay where blocks move.
 */
void nest_loop(struct loop_nest *nest, enum loop_kind kind, int64_t extent, int64_t step, const int64_t *unit);

#endif
