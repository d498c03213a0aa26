/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_internal.h: what the planner's parts share. Private to plan*.c.
 *
 * plan.c walks the graph and decides where each value lies; plan_program.c chooses and renders what computes it;
 * plan_place.c gives the workspace's buffers their offsets when all steps are known.
 */
#ifndef WARPTUNE_MODULE_PLAN_INTERNAL_H
#define WARPTUNE_MODULE_PLAN_INTERNAL_H

#include "gpu/module/plan.h"

enum { PLAN_ALIGN = 256 };

/* Prepared buffers that belong to one program and one set of constants. */
struct prepared_set {
    int program, n_in;
    const int *in; /* buffers; of each input */
    int first;     /* buffer of the program's first prepared */
};

struct planner {
    const struct graph *graph;
    const struct plan_options *options;
    struct arena *arena;
    struct error *error;
    struct plan *plan;
    int cap_programs, cap_buffers, cap_prepare, cap_run, cap_sets;
    struct prepared_set *sets;
    int n_sets;
    int *input;  /* by value: the buffer of a network's input as the caller sees it, or -1 */
    bool *edge;  /* by value: an input or output that only a CAST touches, which takes it as the caller has it */
    int *buffer; /* by value: the buffer that nodes read, or -1 as long as there is none */
};

/* Appends a zeroed record to an array that the arena holds. */
void *plan_append(struct planner *planner, void *array, int *n, int *cap, size_t size);
#define PLAN_APPEND(planner, array, n, cap) \
    ((array) = plan_append(planner, array, &(n), &(cap), sizeof *(array)), &(array)[(n)-1])

/* Index of a new buffer. */
int plan_add_buffer(struct planner *planner, enum plan_buffer_kind kind, int index, size_t bytes);

/* Index of the program for a workload: chosen and rendered, or found among those that are there. */
int plan_program(struct planner *planner, const struct workload *workload, const char *node, int *ret) MUST_CHECK;
/* The steps of one use of a program on buffers. */
int plan_launch(struct planner *planner, int program, const int *in, int n_in, const int *out,
                const char *node) MUST_CHECK;

/* Sets the offsets of workspace buffers and the workspace's size. */
void plan_place(struct planner *planner);

#endif
