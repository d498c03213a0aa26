/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_watch.h: NVML's figures of one GPU, kept open, since opening costs more than a trial may take.
 *
 * Where NVML is not there all figures are unknown. Clocks and the reasons for throttling are read anew each time;
 * power, load, memory and processes, some of which take milliseconds, only when the last ones are a quarter of a second
 * old.
 */
#ifndef WARPTUNE_DEVICE_CUDA_WATCH_H
#define WARPTUNE_DEVICE_CUDA_WATCH_H

#include <stdbool.h>

#include "gpu/device/cuda_api.h"
#include "gpu/device/cuda_others.h"
#include "gpu/device/device.h"

struct cuda_watch {
    struct cuda_nvml nvml;
    struct nvmlDevice_st *gpu; /* NULL: NVML is not there or does not know it */
    struct pid_list before;    /* processes on the GPU before our own context was made */
    struct pid_list own;       /* ours; known from the first reading on */
    bool knows_own, started;
    struct device_state last;
    int64_t full_at_ns; /* when all of `last` was read */
};

/* Call before the context is made. cuda_watch_close also after a failure, which shows only in unknown figures. */
void cuda_watch_open(struct cuda_watch *watch, const char *uuid);
void cuda_watch_read(struct cuda_watch *watch, bool fresh, struct device_state *ret);
void cuda_watch_close(struct cuda_watch *watch);

#endif
