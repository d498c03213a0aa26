/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue_store.h: the work that waits, and who has it.
 *
 * A work item is claimed for a lease (a random token, until a time by the database's clock). Renew it at a third of
 * its length. A lease that ran out is claimable again. Every write under an item checks the token in the same
 * transaction; when the lease was lost (it ran out and another took it, or the job was paused or cancelled) it is
 * ERROR_CONFLICT "lease-lost": drop the work. An item that was claimed 5 times without progress fails its job.
 * A tune item is worked on in slices: after each its holder asks whether another item should come first.
 * Projects take turns by the device seconds that they had lately, on the claimant's kind of device; priority counts
 * within a project. Work of a project whose GPU seconds of the day are spent waits for the next day.
 */
#ifndef WARPTUNE_STORE_QUEUE_STORE_H
#define WARPTUNE_STORE_QUEUE_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/job_store.h"

/* plan: import the model, choose the device, make the tasks. tune: search one task. build: the module from the best. */
enum work_kind { WORK_PLAN, WORK_TUNE, WORK_BUILD };
const char *work_kind_name(enum work_kind kind);

#define QUEUE_MAX_ATTEMPTS 5
#define QUEUE_MOST_AHEAD_S 120.0 /* more than any lease, and any delay of what is put back */
#define DEVICE_KEY_TEXT 160

struct work_item {
    int64_t id;
    char token[UUID_TEXT];
    enum work_kind kind;
    char job_id[UUID_TEXT];
    int task;     /* number; -1 unless WORK_TUNE */
    int attempts; /* claims without progress, this one included */
};

/* Who claims: one device of a worker. */
struct claimant {
    const char *worker_id;
    const char *device_kind; /* "cpu", "cuda" */
    int ordinal;
    const char *device_key;
    const char *label; /* the worker's; NULL or empty: none */
    double lease_s;
};

/*
 * The first item that this device may do, of the project that had least of its kind of device lately and has any: by
 * priority, then its job's age, then promise, those not begun before all;
 * *ret_found false when there is none. A job whose first item it is becomes running. Items for a device class go only
 * to devices of that class, items of a label only to workers with it.
 */
int queue_claim(struct db *db, const struct claimant *claimant, struct work_item *ret, bool *ret_found,
                struct error *error) MUST_CHECK;
/* Makes the lease last lease_s from now. */
int queue_renew(struct db *db, const struct work_item *item, double lease_s, struct error *error) MUST_CHECK;
/* Gives it up; claimable after delay_s. `counts`: as one of its attempts (it failed), or not (the worker stops). */
int queue_put_back(struct db *db, const struct work_item *item, double delay_s, bool counts,
                   struct error *error) MUST_CHECK;

/*
 * The end of a slice. What the item still promises (seconds of the network that it may save) is stored; when another
 * item would now be claimed before it, it is given up (*ret_given_up), which is none of its attempts, else it is kept.
 */
int queue_yield(struct db *db, const struct claimant *claimant, const struct work_item *item, double promise,
                bool *ret_given_up, struct error *error) MUST_CHECK;

/* A task that is over before it began, by the record of an earlier search. */
struct task_served {
    const char *record; /* JSON text: which */
    const char *template;
    int version;
    int64_t index;
    const char *entity;                  /* JSON text */
    double cost_s, spread_s, baseline_s; /* baseline INFINITY: not known */
    double floor_s;                      /* 0: not known */
};

struct task_new {
    const char *workload, *name;
    int count;
    int64_t flops, bytes;
    int64_t trials_planned;
    const struct task_served *served; /* NULL: it is to be searched */
};

/* What a plan found. The tasks are tuned on the device class; without one to search it goes straight to the build. */
struct plan_result {
    const char *device_kind, *device_key;
    const struct task_new *tasks;
    int n_tasks;
};
int queue_complete_plan(struct db *db, const struct work_item *item, const struct plan_result *result,
                        struct error *error) MUST_CHECK;

struct tune_begin {
    const char *template; /* the preferred one */
    int64_t trials_planned;
    double floor_s; /* 0: not known */
};
/* A task's search begins, or goes on. ret_state: the search's state as last stored (JSON text), NULL at first. */
int queue_begin_tune(struct db *db, const struct work_item *item, const struct tune_begin *begin, struct arena *arena,
                     const char **ret_state, struct error *error) MUST_CHECK;

/*
 * The task's search begins anew over other spaces, its templates having changed: `state` is its new one (JSON text),
 * its best is forgotten.
 * Of its trials `kept` are of templates that did not change, and count as the new search's first. ERROR_CONFLICT
 * "templates-differ" after QUEUE_MAX_RENEWALS of them: workers of different versions take turns.
 */
#define QUEUE_MAX_RENEWALS 5
int queue_renew_tune(struct db *db, const struct work_item *item, int64_t kept, const char *state,
                     struct error *error) MUST_CHECK;

struct tune_result {
    bool succeeded; /* false: no trial did; then best_… are not looked at */
    const char *stop_reason;
    const char *best_template;
    int best_version;
    int64_t best_index;
    const char *best_entity; /* JSON text */
    double best_s, best_spread_s, baseline_s;
    double spent_s; /* on it since the last batch of trials was stored */
};
/* Ends the task. The last one of a job puts its build into the queue, in the same transaction. */
int queue_complete_tune(struct db *db, const struct work_item *item, const struct tune_result *result,
                        struct error *error) MUST_CHECK;

/* Instead of a build: these tasks (numbers) are to be searched again before there can be one. Ends the build's item. */
int queue_reopen_tunes(struct db *db, const struct work_item *item, const int *tasks, int n,
                       struct error *error) MUST_CHECK;

struct build_result {
    const char *result;                 /* JSON text: latency, baseline, error, … */
    const char *module_so, *module_tar; /* SHA-256 of stored blobs; NULL for none */
};
/* The job has succeeded. */
int queue_complete_build(struct db *db, const struct work_item *item, const struct build_result *result,
                         struct error *error) MUST_CHECK;

/* The job has failed, for this reason; its other items and tasks end too. */
int queue_fail(struct db *db, const struct work_item *item, const struct error *why, struct error *error) MUST_CHECK;

/*
 * Fails the jobs whose items ran out of attempts; ret_failed (optional): how many. Also dates anew what lies too far
 * ahead since the database's clock was set back. Call every few seconds.
 */
int queue_expire(struct db *db, int *ret_failed, struct error *error) MUST_CHECK;

struct queue_depth {
    int64_t waiting, leased, held; /* held: of paused jobs */
    double oldest_s;               /* how long the item that waits longest has; 0: none waits */
};
int queue_depth(struct db *db, struct queue_depth *ret, struct error *error) MUST_CHECK;

enum { QUEUE_MOST_BOUNDS = 31, QUEUE_MOST_WAITS = 64 };

/* Items of one kind that one kind of device took for the first time. */
struct queue_wait {
    enum work_kind kind;
    const char *device_kind;
    int64_t counts[QUEUE_MOST_BOUNDS + 1]; /* that waited up to each bound and more than the one before; then longer */
    double total_s;
};

struct queue_waits {
    double bounds_s[QUEUE_MOST_BOUNDS];
    int n_bounds;
    struct queue_wait *of;
    int n;
};
/* How long work has waited for its first claim, time in which its job was paused left out; of all servers and workers,
 * since the schema has it. */
int queue_waits(struct db *db, struct arena *arena, struct queue_waits *ret, struct error *error) MUST_CHECK;

#endif
