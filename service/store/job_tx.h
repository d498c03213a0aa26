/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_tx.h: steps of the transactions that change a job. Internal to service/store.
 *
 * All of them run inside db_transaction, and each transaction locks the job's row first, then work items, then tasks.
 * Under that lock a job's state, its events' numbers and its tasks' counters are nobody else's.
 */
#ifndef WARPTUNE_STORE_JOB_TX_H
#define WARPTUNE_STORE_JOB_TX_H

#include "service/store/pg.h"
#include "service/store/listener.h"
#include "service/store/queue_store.h"

/* ERROR_NOT_FOUND "no-such-job". */
int job_lock(struct pg *pg, const char *job_id, enum job_state *ret_state, struct error *error) MUST_CHECK;
/* To another state, with its event and its webhook's delivery. `why`: for a failed job. ERROR_CONFLICT "job-state" when
 * the table forbids it. */
int job_move(struct pg *pg, const char *job_id, enum job_state from, enum job_state to, const struct error *why,
             struct error *error) MUST_CHECK;

/* The job and the item under lock, the lease still ours: ERROR_CONFLICT "lease-lost" when not. */
int item_hold(struct pg *pg, const struct work_item *item, enum job_state *ret_state, struct error *error) MUST_CHECK;
/* The same, and the item is done with. */
int item_end(struct pg *pg, const struct work_item *item, enum job_state *ret_state, struct error *error) MUST_CHECK;
int item_lost(struct error *error);

/* Who is told of the job's states from now on, and of the one that it has. */
int webhook_add(struct pg *pg, const char *job_id, const char *url, const char *secret, struct error *error) MUST_CHECK;
/* The delivery of the job's newest event, a change of its state, when somebody is to be told. `from`: the state before,
 * NULL for none. */
int webhook_note(struct pg *pg, const char *job_id, const char *from, struct error *error) MUST_CHECK;

/* The next event; data is JSON text. */
int event_add(struct pg *pg, const char *job_id, const char *kind, const char *data, struct error *error) MUST_CHECK;
/* The event of a task's progress, from its row. */
int event_add_progress(struct pg *pg, const char *job_id, int task, double last_s, struct error *error) MUST_CHECK;

/* A plan, tune or build item for the job, for the device that its row names; one there already stays. Wakes workers. */
int queue_add(struct pg *pg, const char *job_id, enum work_kind kind, int task, struct error *error) MUST_CHECK;
/* One tune item for each task that is queued. */
int queue_add_tasks(struct pg *pg, const char *job_id, struct error *error) MUST_CHECK;
/* Takes all items of a job away, leases included. */
int queue_drop(struct pg *pg, const char *job_id, struct error *error) MUST_CHECK;
/* Tasks that have not ended become cancelled. */
int tasks_cancel(struct pg *pg, const char *job_id, struct error *error) MUST_CHECK;

#endif
