/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h: what earlier searches on the same class of devices can teach this one: their latest trials of the search's
 * templates, and the shared configuration of this very workload. Trials of another version of a template, and those
 * that its space does not have any more, are left out.
 */
#ifndef WARPTUNE_SCHEDULER_HISTORY_H
#define WARPTUNE_SCHEDULER_HISTORY_H

#include "scheduler/search/tuner.h"
#include "service/base/arena.h"
#include "service/store/db.h"

struct history_request {
    const char *device_key;
    const char *job_id; /* the task that asks: its own trials are no history */
    int task;
    const char *workload; /* its text */
    const struct domain *domains;
    int n_domains;
};

/* All of it lives in the arena. The shared configuration comes first, then the latest task. */
int history_load(struct db *db, const struct history_request *request, struct arena *arena, struct past_task **ret,
                 int *ret_count, struct error *error) MUST_CHECK;

#endif
