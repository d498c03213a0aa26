/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuning.h: the search of one task as one claim works on it: opened from the database (the job's options, the state
 * stored last, every point measured so far, what earlier searches know), advanced a batch at a time, asked for what it
 * still promises. All of it lives as long as the step. Internal to the worker.
 */
#ifndef WARPTUNE_SCHEDULER_TUNING_H
#define WARPTUNE_SCHEDULER_TUNING_H

#include "scheduler/race.h"
#include "scheduler/search/search.h"
#include "scheduler/step.h"
#include "service/store/job_store.h"

struct tuning {
    struct step *step;
    struct job_row *job;
    struct task_row *task;
    struct job_options options;
    struct workload *workload;
    struct domain *domains;
    int n_domains;
    int64_t planned; /* trials: as many as were asked for, or as there are points */
    double floor_s;
    struct search *search;
    struct fastest fastest;
    int64_t opened_ns; /* when the job was read */
    int64_t stored_ns; /* when it was opened, or a batch was last stored */
};

int tuning_open(struct step *step, struct tuning *ret, struct error *error) MUST_CHECK;
/* The results of a batch, trials[i] of point[i]: to the search, and with its new state to the database. */
int tuning_record(struct tuning *tuning, const struct point *point, struct trial *trials, int n,
                  struct error *error) MUST_CHECK;
/* The search is due to end, or has measured every point that there is. */
bool tuning_due(const struct tuning *tuning);
/* The job's budget is used up. */
bool tuning_over_budget(const struct tuning *tuning);
/* Seconds of the network that more trials may save. */
double tuning_promise(const struct tuning *tuning);
/* Seconds spent since the last batch was stored. */
double tuning_spent_s(const struct tuning *tuning);

#endif
