/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.h: an open GPU, as the files of device_cuda share it. */
#ifndef WARPTUNE_DEVICE_CUDA_DEVICE_H
#define WARPTUNE_DEVICE_CUDA_DEVICE_H

#include "gpu/device/cuda_api.h"
#include "gpu/device/cuda_watch.h"
#include "gpu/device/device.h"

struct cuda_plan;
struct cudnn;

/* A launch with its function found; equal ones are equal byte by byte. */
struct cuda_launch {
    struct CUfunc_st *function; /* NULL: the plan instead */
    struct cuda_plan *plan;
    struct device_code *code; /* its */
    unsigned grid[3], block[3], shared_bytes;
    int n_args, early;
    uint64_t args[LAUNCH_MAX_ARGS];
};

/* A list of launches captured `repeats` times over; the last one run is kept, for it is mostly run again. */
struct cuda_graph {
    struct cuda_launch *launches;
    int n_launches, repeats;
    struct CUgraphExec_st *exec; /* NULL: none kept */
};

enum { MOST_RAN = 16 };

struct device_code {
    struct device_code *next;
    struct CUmod_st *module;
    struct {
        struct CUfunc_st *function;
        double seconds; /* by the host's clock: some tens of microseconds too long */
    } ran[MOST_RAN];    /* functions that ran: they are loaded, and about so long */
    int n_ran;
    struct cuda_plan *plans; /* lent to it */
};

struct cuda_block {
    struct cuda_block *next;
    uint64_t address;
};

struct device {
    struct cuda_driver cu;
    int gpu;
    struct CUctx_st *context; /* the primary one; current in the thread that opened it */
    struct CUstream_st *stream;
    struct CUevent_st *event[DEVICE_MOST_REPEATS + 1]; /* before the first repeat, and behind each */
    struct device_code *codes;
    struct cuda_block *blocks;
    struct cuda_graph graph;
    struct cuda_watch watch;
    struct cudnn *cudnn;     /* NULL: not opened yet */
    struct cuda_plan *plans; /* that were made, the last one first */
};

/* device_cuda's run and time. */
int cuda_time(struct device *device, const struct device_call *calls, int n_calls, int count, int repeats,
              double *ret_seconds, struct error *error) MUST_CHECK;
int cuda_run(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
             struct error *error) MUST_CHECK;
/* Forgets the graph that is kept: a function it names may go away. */
void cuda_graph_drop(struct device *device);

#endif
