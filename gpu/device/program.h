/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h: what a template renders for one workload and configuration: source text, and how its kernels are
 * launched. Shapes are constants in the source, or 32-bit arguments by value (so that one compile serves many shapes).
 *
 * CUDA:  extern "C" __global__ void ENTRY(T0 *a0, T1 *a1, int n, …)   with n_args parameters
 * CPU:   void ENTRY(void *const *args, int64_t begin, int64_t end)   which does work items [begin, end) of `items`;
 *        items are independent, and the device spreads them over its threads
 *
 * `prepare` launches run once when weights are loaded (packing them, transforming them) and may read only constant
 * inputs; `run` launches run in order at every execution.
 */
#ifndef WARPTUNE_DEVICE_PROGRAM_H
#define WARPTUNE_DEVICE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arg_kind {
    ARG_IN,       /* workload's input `index` */
    ARG_OUT,      /* workload's output `index` */
    ARG_SCRATCH,  /* scratch_bytes[index], undefined before each run */
    ARG_PREPARED, /* prepared_bytes[index], written by prepare, kept */
    ARG_VALUE,    /* `index` itself: an int, or a float's bits, by value. CUDA only */
};

struct arg {
    enum arg_kind kind;
    int index;
};

#define LAUNCH_MAX_ARGS 48

struct launch {
    const char *entry;
    int n_args;
    struct arg args[LAUNCH_MAX_ARGS];
    int64_t items;    /* CPU only */
    unsigned grid[3]; /* CUDA only, as the next two */
    unsigned block[3];
    unsigned shared_bytes; /* dynamic shared memory */
    bool early;            /* may begin before the launch ahead has ended: the kernel itself waits (griddepcontrol.wait)
                            * before it writes anything or reads what a run writes; prepared data and weights it may
                            * read */
};

struct program {
    const char *source;
    struct launch *prepare, *run;
    int n_prepare, n_run;
    size_t *scratch_bytes, *prepared_bytes;
    int n_scratch, n_prepared;
};

#endif
