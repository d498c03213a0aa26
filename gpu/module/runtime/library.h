/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.h: the steps of a module that are cuDNN's plans instead of kernels. The library is opened with the first of
 * them, and must be the version that the module was made with. What fails leaves its reason in the fault.
 */
#ifndef WARPTUNE_MODULE_LIBRARY_H
#define WARPTUNE_MODULE_LIBRARY_H

#include "gpu/device/cudnn_plan.h"
#include "gpu/module/runtime/fault.h"

struct library_plan {
    struct library_plan *next;
    struct cudnn_plans *plans;
    int index;
    unsigned long long workspace; /* the caller's to fill in: workspace_bytes of it, aligned to 256 */
    size_t workspace_bytes;
    char entry[CUDNN_ENTRY_MAX];
};

struct library {
    struct fault *fault;
    struct cudnn *cudnn; /* NULL: not opened */
    int version;
    struct library_plan *made;
};

/* The plan of an entry, one for all that are equal; *ret_new: it was made now, in the current context. */
int library_find(struct library *library, const char *entry, int n_args, struct library_plan **ret, bool *ret_new);
/* Queues it; `args`: of the call. */
int library_run(const struct library *library, const struct library_plan *plan, const uint64_t *args,
                struct CUstream_st *stream);
void library_close(struct library *library);

#endif
