/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_store.h: jobs and their tasks, and the moves a job's state may make.
 *
 * A job is made together with its first work item (queue_store.h) and its first event (event_store.h). What a client
 * asks for is done here; what a worker finds out is written through queue_store.h and trial_store.h under its lease.
 * Lock order of all transactions: the job's row, then work items, then tasks.
 */
#ifndef WARPTUNE_STORE_JOB_STORE_H
#define WARPTUNE_STORE_JOB_STORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "service/base/arena.h"
#include "service/base/sha256.h"
#include "service/store/db.h"
#include "service/store/idempotency_store.h"
#include "service/store/uuid.h"

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_PAUSED, JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED, JOB_STATE_COUNT };

const char *job_state_name(enum job_state state); /* "queued", … */
int job_state_parse(const char *name, enum job_state *ret, struct error *error) MUST_CHECK;
bool job_state_ended(enum job_state state);
/* Whether a job may go from one state to the other. */
bool job_state_may(enum job_state from, enum job_state to);

/* Errors of trials are counted by AutoTVM's numbers, 0 to 8; [0] counts those without. */
#define TASK_ERROR_COUNT 9

/* One distinct workload of a job with its search. A task is queued, running, succeeded, failed or cancelled. */
struct task_row {
    int number; /* from 0 in its job */
    const char *workload;
    const char *name;     /* first node of the network that has it */
    const char *template; /* that the search began with; empty before */
    int count;            /* nodes that have it */
    int64_t flops, bytes;
    enum job_state state;
    int64_t trials_planned, trials_done;
    int64_t errors[TASK_ERROR_COUNT];
    const char *error_texts[TASK_ERROR_COUNT]; /* the first text of each; NULL for none */
    const char *best_template;                 /* NULL: no trial succeeded, as the next two */
    int best_version;                          /* best_template's */
    int64_t best_index;
    const char *best_entity; /* JSON text */
    double best_s, best_spread_s, baseline_s;
    double floor_s;          /* no kernel can be faster; INFINITY: not known */
    double search_s;         /* spent on it by workers */
    const char *stop_reason; /* NULL while it runs */
    const char *served;      /* JSON text: the record that served it ("reused"); NULL: it was searched */
    int64_t started_us, finished_us;
};

struct job_row {
    char id[UUID_TEXT], model_id[UUID_TEXT];
    enum job_state state;
    const char *device;      /* as asked: "auto", "cpu", "cuda" */
    const char *device_kind; /* as resolved; empty before */
    const char *device_key;  /* the device class; empty before */
    const char *key;         /* label that the worker must have; empty: any */
    int priority;
    const char *options; /* JSON text, as the next two */
    const char *labels;
    const char *result;                                 /* NULL before it succeeded */
    const char *error_code, *error_text;                /* NULL unless it failed */
    char module_so[SHA256_HEX], module_tar[SHA256_HEX]; /* blobs; empty before */
    int64_t created_us, started_us, finished_us;
    double elapsed_s;   /* from its start until it ended or now, pauses left out; INFINITY before it started */
    int64_t last_event; /* number of the newest event */
    int64_t row;        /* of struct job_version; 0 in lists */
    int n_tasks, n_tasks_ended;
    int64_t trials_planned, trials_done; /* over its tasks */
    struct task_row *tasks;              /* in order; NULL in lists */
};

/* Writes the answer to the request that made a job, which a retry gets again; called in the job's transaction. */
typedef int job_answer(void *data, const struct job_row *job, struct idempotency_answer *ret, struct error *error);

/*
 * How many more jobs a server may make before they are counted again, because counting thousands takes milliseconds.
 * A part of the room that was there, so that 16 servers together keep to the limit. Starts as zeros; thread-safe.
 */
struct job_room {
    atomic_llong left, until;
};

struct job_new {
    const char *id;         /* made with uuid_make by the caller; the same id again is the same job. NULL: a new one */
    const char *project_id; /* NULL: `default` */
    const char *model_id;   /* of that project */
    const char *device;     /* "auto", "cpu", "cuda" */
    const char *key;        /* NULL or empty: any worker */
    int priority;
    const char *options;                       /* JSON text */
    const char *labels;                        /* JSON object of strings; NULL: none */
    const char *webhook_url;                   /* told of its states; NULL: nobody */
    const char *webhook_secret;                /* what that is signed with */
    const struct idempotency_key *idempotency; /* kept with the answer; NULL: no key came */
    job_answer *answer;                        /* for the key, with the next */
    void *answer_data;
    int64_t max_open;      /* the most jobs that have not ended; 0: no limit */
    struct job_room *room; /* NULL: they are counted each time */
};

/*
 * The job with its plan item and first event; with a key, its answer too, all or nothing. A job with this id is there
 * already: *ret_created is false. ERROR_NOT_FOUND "no-such-model"; ERROR_LIMIT "too-many-jobs", and "quota-…" of the
 * project; ERROR_CONFLICT "idempotency-in-progress" when another request with the key came first.
 */
int job_create(struct db *db, const struct job_new *job, char ret_id[UUID_TEXT], bool *ret_created,
               struct error *error) MUST_CHECK;

/* With its tasks: one round trip. ERROR_NOT_FOUND "no-such-job". */
int job_get(struct db *db, const char *id, struct arena *arena, struct job_row **ret, struct error *error) MUST_CHECK;

/*
 * By which to tell whether a job or one of its tasks has changed: every transaction that changes what job_get gives
 * adds an event. Only elapsed_s goes on by itself.
 */
struct job_version {
    int64_t last_event;
    int64_t row; /* of the database's row */
    enum job_state state;
    double elapsed_s;
};
/* A small part of what job_get costs. ERROR_NOT_FOUND "no-such-job". */
int job_version_get(struct db *db, const char *id, struct job_version *ret, struct error *error) MUST_CHECK;

struct job_filter {
    const char *project_id; /* NULL: `default` */
    const char *state;      /* NULL: all, as the rest */
    const char *model_id;
    const char *label; /* "name=value", or "name" for any value */
    const char *after; /* cursor: the last job of the page before */
    int limit;         /* 1 to 1000 */
};
/* Newest first, in one array, without tasks. */
int job_list(struct db *db, const struct job_filter *filter, struct arena *arena, struct job_row **ret, int *ret_count,
             bool *ret_more, struct error *error) MUST_CHECK;
/* How many jobs there are in each state. */
int job_counts(struct db *db, int64_t ret[JOB_STATE_COUNT], struct error *error) MUST_CHECK;

/*
 * What a client asks of a job. The worker that holds it loses its lease and stops. Asking for the state that it is in
 * already is no error, nor is cancelling one that was cancelled; other moves that the state forbids are ERROR_CONFLICT
 * "job-state". resume: back to running, or queued when it never ran. retry: a failed or cancelled job goes on with what
 * is missing; trials stay.
 */
int job_cancel(struct db *db, const char *id, struct error *error) MUST_CHECK;
int job_pause(struct db *db, const char *id, struct error *error) MUST_CHECK;
int job_resume(struct db *db, const char *id, struct error *error) MUST_CHECK;
int job_retry(struct db *db, const char *id, struct error *error) MUST_CHECK;

#endif
