/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/job_tx.h"
#include "service/store/quota.h"

#include <string.h>

/* A pause takes the items back without counting the claim. */
static const struct statement hold_items = {
    "job_hold_items",
    "UPDATE queue SET held = true, token = NULL, worker_id = NULL, attempts = 0, available_at = now() "
    "WHERE job_id = $1"};
/* The time of a pause is not one of waiting. */
static const struct statement release_items = {
    "job_release_items", "UPDATE queue SET held = false, waits_since = CASE WHEN waits_since IS NOT NULL THEN now() END"
                         " WHERE job_id = $1"};
static const struct statement has_started = {"job_has_started",
                                             "SELECT started_at IS NOT NULL FROM jobs WHERE id = $1"};
static const struct statement requeue_tasks = {
    "job_requeue_tasks", "UPDATE tasks SET state = 'queued', stop_reason = NULL, finished_at = NULL "
                         "WHERE job_id = $1 AND state IN ('queued', 'running', 'cancelled')"};
static const struct statement what_is_missing = {
    "job_what_is_missing",
    "SELECT j.device_key <> '', EXISTS (SELECT FROM tasks WHERE job_id = j.id AND state = 'queued'),"
    " EXISTS (SELECT FROM models WHERE id = j.model_id), j.project_id, j.device FROM jobs j WHERE j.id = $1"};
static const struct statement wake_job = {"job_wake", "SELECT pg_notify('" CHANNEL_QUEUE
                                                      "', max(device_kind)) FROM queue WHERE job_id = $1"};

static int run(struct pg *pg, const struct statement *statement, const char *job_id, PGresult **ret_result,
               struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    return pg_run(pg, statement, &params, ret_result, error);
}

static int cancel(struct pg *pg, void *data, struct error *error) {
    const char *job_id = data;
    enum job_state state;
    if (job_lock(pg, job_id, &state, error) < 0)
        return -1;
    if (state == JOB_CANCELLED)
        return 0;
    if (job_move(pg, job_id, state, JOB_CANCELLED, NULL, error) < 0)
        return -1;
    return queue_drop(pg, job_id, error) < 0 ? -1 : tasks_cancel(pg, job_id, error);
}

static int pause_job(struct pg *pg, void *data, struct error *error) {
    const char *job_id = data;
    enum job_state state;
    if (job_lock(pg, job_id, &state, error) < 0)
        return -1;
    if (state == JOB_PAUSED)
        return 0;
    return job_move(pg, job_id, state, JOB_PAUSED, NULL, error) < 0 ? -1 : run(pg, &hold_items, job_id, NULL, error);
}

static int resume(struct pg *pg, void *data, struct error *error) {
    const char *job_id = data;
    enum job_state state;
    PGresult *started CLEANUP(pg_clear_p) = NULL;
    if (job_lock(pg, job_id, &state, error) < 0)
        return -1;
    if (state == JOB_QUEUED || state == JOB_RUNNING)
        return 0;
    if (state != JOB_PAUSED)
        return error_set(error, ERROR_CONFLICT, "job-state", NULL, "The job is %s; only a paused one can be resumed.",
                         job_state_name(state));
    if (run(pg, &has_started, job_id, &started, error) < 0)
        return -1;
    enum job_state to = row_bool(&(struct row){started, 0, 0}) ? JOB_RUNNING : JOB_QUEUED;
    if (job_move(pg, job_id, state, to, NULL, error) < 0 || run(pg, &release_items, job_id, NULL, error) < 0)
        return -1;
    return run(pg, &wake_job, job_id, NULL, error);
}

/* Goes on with the plan, the tasks that have not ended, or the build: the first of these that is missing. */
static int retry(struct pg *pg, void *data, struct error *error) {
    const char *job_id = data;
    enum job_state state;
    PGresult *missing CLEANUP(pg_clear_p) = NULL;
    if (job_lock(pg, job_id, &state, error) < 0)
        return -1;
    if (state == JOB_QUEUED)
        return 0;
    if (state != JOB_FAILED && state != JOB_CANCELLED)
        return error_set(error, ERROR_CONFLICT, "job-state", NULL,
                         "The job is %s; only one that failed or was cancelled can be tried again.",
                         job_state_name(state));
    if (run(pg, &requeue_tasks, job_id, NULL, error) < 0 || run(pg, &what_is_missing, job_id, &missing, error) < 0)
        return -1;
    struct row row = {missing, 0, 0};
    bool planned = row_bool(&row), tasks_left = row_bool(&row), has_model = row_bool(&row);
    const char *project_id = row_raw(&row), *device = row_raw(&row);
    if (!has_model)
        return error_set(error, ERROR_CONFLICT, "model-deleted", NULL, "The job's model was deleted: upload it again.");
    if (quota_for_job(pg, project_id, device, error) < 0 || job_move(pg, job_id, state, JOB_QUEUED, NULL, error) < 0)
        return -1;
    if (planned && tasks_left)
        return queue_add_tasks(pg, job_id, error);
    return queue_add(pg, job_id, planned ? WORK_BUILD : WORK_PLAN, -1, error);
}

static int move(struct db *db, const char *id, int (*body)(struct pg *pg, void *data, struct error *error),
                struct error *error) {
    char copy[UUID_TEXT];
    if (!uuid_valid(id))
        return error_set(error, ERROR_NOT_FOUND, "no-such-job", NULL, "There is no job %.64s.", id ? id : "");
    memcpy(copy, id, sizeof copy);
    return db_transaction(db, body, copy, error);
}

int job_cancel(struct db *db, const char *id, struct error *error) {
    return move(db, id, cancel, error);
}

int job_pause(struct db *db, const char *id, struct error *error) {
    return move(db, id, pause_job, error);
}

int job_resume(struct db *db, const char *id, struct error *error) {
    return move(db, id, resume, error);
}

int job_retry(struct db *db, const char *id, struct error *error) {
    return move(db, id, retry, error);
}
