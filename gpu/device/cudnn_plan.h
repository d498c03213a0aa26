/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_plan.h: the engine plans that cuDNN proposes for a convolution with what is fused to it, and running them.
 *
 * cuDNN's backend interface: the convolution and its pointwise operators are a graph; heuristics propose engines with
 * their knobs; each proposal may or may not become a plan; a plan runs on a stream, also one that a graph is captured
 * from. Proposals are kept in the heuristics' own order, each once, first those of the two modes that know the
 * device, then the fallback's; those that would reckon in less than f32 are left out (tensor cores for f32 are TF32).
 * For one version of cuDNN and one model of GPU the list is always the same.
 *
 * Stands alone (libc and libdl, by cuda_api.h): the module runtime contains it too. All that can fail returns -1 with
 * a sentence in reason[0…size).
 */
#ifndef WARPTUNE_DEVICE_CUDNN_PLAN_H
#define WARPTUNE_DEVICE_CUDNN_PLAN_H

#include <stdint.h>

#include "gpu/device/cuda_api.h"
#include "gpu/device/cudnn_conv.h"

struct cudnn;       /* the library with a handle on the current context's GPU; one thread at a time */
struct cudnn_plans; /* of a convolution; one thread at a time */

int cudnn_open(struct cudnn **ret, char *reason, size_t size);
void cudnn_close(struct cudnn *cudnn); /* NULL-safe; after all its plans */
/* Of the library, without a GPU. */
int cudnn_version(int *ret_version, char *reason, size_t size);

int cudnn_plans_new(struct cudnn *cudnn, const struct cudnn_conv *conv, struct cudnn_plans **ret, char *reason,
                    size_t size);
void cudnn_plans_free(struct cudnn_plans *plans); /* NULL-safe */
int cudnn_plans_count(const struct cudnn_plans *plans);
/* "engine=12 tile_size=3 stages=4": which of the proposals, in cuDNN's own terms. */
const char *cudnn_plans_text(const struct cudnn_plans *plans, int index);
/* Whether making the plan compiles code, which takes about a second; of all others some milliseconds. */
bool cudnn_plans_compiles(const struct cudnn_plans *plans, int index);
/* Makes the plan of a proposal, once. */
int cudnn_plans_build(struct cudnn_plans *plans, int index, char *reason, size_t size);
/* What a built plan needs beside its arguments. */
size_t cudnn_plans_workspace(const struct cudnn_plans *plans, int index);
/* Queues a built plan on the stream; `with` may be another handle than the one that it was built with. */
int cudnn_plans_run(const struct cudnn_plans *plans, int index, struct cudnn *with, const uint64_t *args,
                    uint64_t workspace, struct CUstream_st *stream, char *reason, size_t size);

#endif
