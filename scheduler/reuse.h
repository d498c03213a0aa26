/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reuse.h: a task of a job that asked for `reuse: "exact"`, answered from what is known: the best configuration of this
 * very workload on exactly this class of devices, found by a search as long as the job's own would be.
 */
#ifndef WARPTUNE_SCHEDULER_REUSE_H
#define WARPTUNE_SCHEDULER_REUSE_H

#include "scheduler/job_options.h"
#include "service/store/queue_store.h"

struct reuse_request {
    const struct device_info *device;
    const struct job_options *options;
    const char *job_id;   /* whose project may see the record */
    const char *workload; /* its text */
    int64_t trials;       /* that its search would be given */
};

/* *ret NULL: it has to be searched. */
int reuse_serve(struct db *db, const struct reuse_request *request, struct arena *arena, struct task_served **ret,
                struct error *error) MUST_CHECK;

#endif
