/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_nest.h: what a configuration's kernel does, as loops around one innermost statement: from this the cost model's
 * features are computed, without compiling anything. A template describes its main loop; packing and reductions that
 * take little of the time are left out.
 */
#ifndef WARPTUNE_TEMPLATE_LOOP_NEST_H
#define WARPTUNE_TEMPLATE_LOOP_NEST_H

#include <stdbool.h>
#include <stdint.h>

enum loop_kind {
    LOOP_SERIAL,
    LOOP_UNROLLED,
    LOOP_VECTORIZED,
    LOOP_PARALLEL, /* over the CPU's threads */
    LOOP_VTHREAD,
    LOOP_BLOCK_X,
    LOOP_BLOCK_Y,
    LOOP_BLOCK_Z,
    LOOP_THREAD_X,
    LOOP_THREAD_Y,
    LOOP_THREAD_Z,
    LOOP_KIND_COUNT
};

#define NEST_MAX_LOOPS 24
#define NEST_MAX_ACCESSES 6

/* One operand as the innermost statement touches it. */
struct access {
    const char *name; /* "data", "kernel", "output", "data.shared", … */
    bool writes;
    int64_t stride[NEST_MAX_LOOPS]; /* elements that its address moves by in one step of each loop; 0: it is reused */
};

struct nest_loop {
    int64_t extent;
    enum loop_kind kind;
};

struct loop_nest {
    int n_loops; /* outermost first */
    struct nest_loop loops[NEST_MAX_LOOPS];
    int n_accesses; /* the same number, in the same order, for every configuration of a template */
    struct access accesses[NEST_MAX_ACCESSES];
    int additions, multiplications, divisions; /* of one execution of the statement */
};

/* Of the plainest convolution: data times kernel, added to output; no loops yet. */
void loop_nest_sum(struct loop_nest *ret);
/* The next loop of such a nest, further in, and what one step of it moves each operand by. */
void loop_nest_add(struct loop_nest *nest, int64_t extent, enum loop_kind kind, int64_t data, int64_t kernel,
                   int64_t output);

#endif
