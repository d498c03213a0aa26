/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_plan.h: launches of an open GPU that are cuDNN's plans (cudnn_conv.h) instead of kernels. The library is opened
 * with the first one. A plan that was made stays with its workspace for the next launch that names it, for some take a
 * second to make: the last few do, unless they need much memory.
 */
#ifndef WARPTUNE_DEVICE_CUDA_PLAN_H
#define WARPTUNE_DEVICE_CUDA_PLAN_H

#include "gpu/device/cuda_device.h"
#include "gpu/device/cudnn_plan.h"

struct cuda_plan {
    struct cuda_plan *next;
    char entry[CUDNN_ENTRY_MAX];
    struct cudnn_plans *plans;
    int index;
    bool borrowed; /* the plans are somebody else's */
    uint64_t workspace;
    size_t workspace_bytes;
};

/* The plan that a launch of the code names; made when it is not there yet. ERROR_DEVICE "no-plan" when it cannot be. */
int cuda_plan_find(struct device *device, struct device_code *code, const struct launch *launch, struct cuda_plan **ret,
                   struct error *error) MUST_CHECK;
/* Makes `entry` of the code stand for a plan that the caller built and keeps until the code is unloaded. */
int cuda_plan_lend(struct device *device, struct device_code *code, const char *entry, struct cudnn_plans *plans,
                   int index, struct error *error) MUST_CHECK;
int cuda_plan_run(struct device *device, const struct cuda_plan *plan, const uint64_t *args,
                  struct error *error) MUST_CHECK;
/* When a code is unloaded: forgets the plans lent to it, and those made that are too many or too large to keep. */
void cuda_plan_tidy(struct device *device, struct device_code *code);
/* When the device is closed: all that were made, and the library. */
void cuda_plan_close(struct device *device);

#endif
