/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_store.h: what happened to a job, numbered from 1 without gaps in the order of commit, so that a reader who has
 * seen N resumes after N and misses nothing. The events of all jobs of a project have such numbers of their own, too.
 * Each commit that adds events notifies CHANNEL_JOB (listener.h).
 */
#ifndef WARPTUNE_STORE_EVENT_STORE_H
#define WARPTUNE_STORE_EVENT_STORE_H

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/queue_store.h"

struct event_row {
    int64_t number;
    const char *kind; /* "state", "progress", "trial", "log" */
    const char *data; /* JSON text, an object */
    int64_t created_us;
    /* Of a project's events, where `number` is the project's: whose it is, and its number there. Else NULL. */
    const char *job_id;
    int64_t job_number;
};

/*
 * Events after `after`, at most `limit` (1 to 10000); kind NULL: all kinds. No events, also of an unknown job, is no
 * error. Data: state {state, error_code, error_text}; progress {task, tasks, trials_done, trials_planned,
 * current_gflops, best_gflops, best_us, baseline_us, elapsed_s}; trial {task, number, index, error_no, cost_us}; log
 * {level, text}.
 */
int event_list(struct db *db, const char *job_id, const char *kind, int64_t after, int limit, struct arena *arena,
               struct event_row **ret, int *ret_count, struct error *error) MUST_CHECK;

/*
 * The same for all jobs of a project. Numbers are missing where events were deleted; those from before migration 13
 * have none.
 */
int event_list_project(struct db *db, const char *project_id, int64_t after, int limit, struct arena *arena,
                       struct event_row **ret, int *ret_count, struct error *error) MUST_CHECK;
/* The number of the project's newest event; 0: there was none yet. */
int event_last_of_project(struct db *db, const char *project_id, int64_t *ret, struct error *error) MUST_CHECK;

/* A line of the job's log, for people. Text that is not valid UTF-8 is made so. level: "info", "warn", "error". */
int event_log(struct db *db, const struct work_item *item, const char *level, const char *text,
              struct error *error) MUST_CHECK;

#endif
