/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial_store.h: the records of trials: written in batches under a lease; read in order, as points for the search that
 * goes on, and as what earlier searches can teach another.
 */
#ifndef WARPTUNE_STORE_TRIAL_STORE_H
#define WARPTUNE_STORE_TRIAL_STORE_H

#include "service/store/queue_store.h"

struct trial_row {
    int task;       /* on reading, as the next */
    int64_t number; /* from 0 in its task, in order of storing */
    const char *template;
    int version; /* the template's */
    int64_t index;
    const char *entity;     /* JSON text */
    int error_no;           /* AutoTVM's, 0 to 8 */
    const char *error_text; /* NULL: none */
    const double *costs_s;
    int n_costs;
    double cost_s;         /* the figure it is ranked by; INFINITY when it failed */
    double build_s, run_s; /* spent */
    int64_t finished_us;
    const char *context; /* JSON text: clocks, temperature, versions; NULL: none */
};

struct trial_batch {
    const struct trial_row *trials;
    int n;             /* may be 0: only what follows is stored */
    double baseline_s; /* INFINITY: not known yet */
    const char *state; /* the search's, JSON text, after this batch; NULL leaves it */
    double spent_s;    /* on the task since its last batch */
};

/*
 * One transaction: the trials (one whose template, version and index the task has already is left out), the task's
 * counters and best, the search's state, an event for each trial and one of the progress. Counts as progress of the
 * item.
 */
int trial_insert(struct db *db, const struct work_item *item, const struct trial_batch *batch,
                 struct error *error) MUST_CHECK;

/* Up to `limit` trials of a job in order of (task, number), after the given one (-1, -1: from the start); task -1: all.
 */
struct trial_page {
    const char *job_id;
    int task;
    int after_task;
    int64_t after_number;
    int limit; /* 1 to 10000 */
};
int trial_list(struct db *db, const struct trial_page *page, struct arena *arena, struct trial_row **ret,
               int *ret_count, struct error *error) MUST_CHECK;

/* Calls fn for each trial in that order, in bounded memory; -1 from fn ends it with fn's error. */
int trial_each(struct db *db, const char *job_id, int task,
               int (*fn)(void *data, const struct trial_row *trial, struct error *error), void *data,
               struct error *error) MUST_CHECK;

/* What a search has to know of a trial. */
struct trial_point {
    const char *template;
    int version;
    int64_t index;
    double cost_s; /* INFINITY when it failed */
};
/* All of a task, in order of number. */
int trial_points(struct db *db, const char *job_id, int task, struct arena *arena, struct trial_point **ret,
                 int *ret_count, struct error *error) MUST_CHECK;

struct history_query {
    const char *device_key; /* of tasks that were tuned on this class of devices, */
    const char *job_id;     /* but for this very task, */
    int task;
    const char *const *templates; /* trials of these templates, */
    const int *versions;          /* in these versions, */
    int n_templates;
    int trials; /* about so many at most: the latest of the latest tasks that began with one of the templates */
};
/* Trials of one task and template, in the order in which they were stored. */
struct history_task {
    const char *workload, *template;
    const int64_t *index;
    const double *cost_s; /* INFINITY when it failed */
    int n;
};
/* The latest task first. */
int trial_history(struct db *db, const struct history_query *query, struct arena *arena, struct history_task **ret,
                  int *ret_count, struct error *error) MUST_CHECK;

#endif
