/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.h: the three kinds of work, each from a claimed item to its completion in the database. Internal to the worker.
 *
 * A step returns 0 when it has completed its item, or given it up for one that should come first; or -1: ERROR_CONFLICT
 * "lease-lost" (drop it), ERROR_CANCELLED (the worker stops: put it back), a class that may pass (database, I/O, time:
 * put it back for another try), or one that will not (invalid, device: the job fails).
 */
#ifndef WARPTUNE_SCHEDULER_STEP_H
#define WARPTUNE_SCHEDULER_STEP_H

#include <stdatomic.h>

#include "gpu/measure/measure.h"
#include "gpu/module/module_compile.h"
#include "scheduler/counters.h"
#include "scheduler/job_options.h"
#include "scheduler/lease.h"

struct step {
    struct db *db;
    const struct device_info *device; /* of this slot */
    const struct claimant *claimant;  /* as which it claims */
    const char *data_dir, *program;
    int builders;
    struct measurer **measurer; /* the slot's; NULL until the first search made it */
    const struct work_item *item;
    const struct lease *lease;
    const atomic_bool *stopping; /* begin nothing new: what is under way may finish */
    const atomic_bool *hurry;    /* end what is under way, too */
    struct arena *arena;         /* of this item */
    struct counters *counters;   /* of the device */
};

int step_plan(struct step *step, struct error *error) MUST_CHECK;
int step_tune(struct step *step, struct error *error) MUST_CHECK;
int step_build(struct step *step, struct error *error) MUST_CHECK;

/* The job with its tasks, and its options as asked. */
int step_load_job(struct step *step, struct job_row **ret_job, struct job_options *ret_options,
                  struct error *error) MUST_CHECK;
/* The model's file in the blob cache. */
int step_fetch_model(struct step *step, const struct job_row *job, const char **ret_path,
                     struct error *error) MUST_CHECK;
/* True when the step must end now: the worker stops and waits no longer, or the lease is lost. `data` is the step. */
bool step_must_stop(void *data);
/* True when it should end as soon as what is under way is recorded. */
bool step_should_stop(const struct step *step);
/* Fills the error that such an end is. Returns -1. */
int step_stopped(const struct step *step, struct error *error);
/* A line of the job's log; failing to write it is no error of the step. */
void step_log(struct step *step, const char *level, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
