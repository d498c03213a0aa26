/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/job_tx.h"

#include <string.h>

#include "service/base/json.h"
#include "service/base/utf8.h"

static const struct statement lock_job = {"job_lock", "SELECT state FROM jobs WHERE id = $1 FOR UPDATE"};
static const struct statement set_state = {
    "job_set_state",
    "UPDATE jobs SET state = $2, error_code = $3, error_text = $4,"
    " started_at = CASE WHEN $2 = 'running' THEN coalesce(started_at, now()) ELSE started_at END,"
    " finished_at = CASE WHEN $2 IN ('succeeded', 'failed', 'cancelled') THEN now() END,"
    " idle_s = idle_s + CASE WHEN $2 IN ('queued', 'running') AND started_at IS NOT NULL"
    "  THEN greatest(extract(epoch FROM now() - idle_since)::float8, 0) ELSE 0 END,"
    " idle_since = CASE WHEN $2 NOT IN ('queued', 'running') THEN coalesce(idle_since, now()) END WHERE id = $1"};
static const struct statement hold_lease = {"item_hold", "SELECT 1 FROM queue WHERE id = $1 AND token = $2 FOR UPDATE"};
static const struct statement end_lease = {"item_end", "DELETE FROM queue WHERE id = $1 AND token = $2"};
static const struct statement add_event = {
    "event_add", "WITH job AS (UPDATE jobs SET last_event = last_event + 1 WHERE id = $1 RETURNING id, last_event),"
                 " event AS (INSERT INTO events (job_id, number, kind, data) SELECT id, last_event, $2, $3 FROM job) "
                 "SELECT pg_notify('" CHANNEL_JOB "', id::text) FROM job"};
static const struct statement add_progress = {
    "event_add_progress",
    "WITH job AS (UPDATE jobs SET last_event = last_event + 1 WHERE id = $1 RETURNING id, last_event),"
    " event AS (INSERT INTO events (job_id, number, kind, data) SELECT id, last_event, 'progress', json_build_object("
    "   'task', t.number, 'tasks', (SELECT count(*) FROM tasks WHERE job_id = $1),"
    "   'trials_done', t.trials_done, 'trials_planned', t.trials_planned,"
    "   'current_gflops', t.flops / $3::float8 / 1e9, 'best_gflops', t.flops / t.best_s / 1e9,"
    "   'best_us', t.best_s * 1e6, 'baseline_us', t.baseline_s * 1e6,"
    "   'elapsed_s', t.search_s, 'state', t.state, 'stop_reason', t.stop_reason)"
    "  FROM job, tasks t WHERE t.job_id = $1 AND t.number = $2) "
    "SELECT pg_notify('" CHANNEL_JOB "', id::text) FROM job"};

/* What a job's row says of who may do its work. The plan is done by any device that was asked for. */
#define ITEM_DEVICE                                                                                          \
    "CASE WHEN j.device_kind <> '' THEN j.device_kind WHEN j.device = 'auto' THEN 'any' ELSE j.device END, " \
    "j.device_key"
static const struct statement add_item = {
    "queue_add", "INSERT INTO queue (job_id, kind, task, priority, label, device_kind, device_key, project_id) "
                 "SELECT j.id, $2, $3, j.priority, j.key, " ITEM_DEVICE ", j.project_id FROM jobs j WHERE j.id = $1 "
                 "ON CONFLICT (job_id, kind, task) DO NOTHING"};
static const struct statement add_tasks = {
    "queue_add_tasks",
    "INSERT INTO queue (job_id, kind, task, priority, label, device_kind, device_key, project_id) "
    "SELECT j.id, 'tune', t.number, j.priority, j.key, " ITEM_DEVICE
    ", j.project_id FROM jobs j JOIN tasks t ON t.job_id = j.id WHERE j.id = $1 AND t.state = 'queued' "
    "ORDER BY t.number ON CONFLICT (job_id, kind, task) DO NOTHING"};
static const struct statement wake = {"queue_wake", "SELECT pg_notify('" CHANNEL_QUEUE
                                                    "', max(device_kind)) FROM queue WHERE job_id = $1"};
static const struct statement drop_items = {"queue_drop", "DELETE FROM queue WHERE job_id = $1"};
static const struct statement cancel_tasks = {
    "tasks_cancel", "UPDATE tasks SET state = 'cancelled', stop_reason = 'cancelled', finished_at = now() "
                    "WHERE job_id = $1 AND state IN ('queued', 'running')"};

static int run_for_job(struct pg *pg, const struct statement *statement, const char *job_id, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    return pg_run(pg, statement, &params, NULL, error);
}

int job_lock(struct pg *pg, const char *job_id, enum job_state *ret_state, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, job_id);
    if (pg_run(pg, &lock_job, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-job", NULL, "There is no job %.64s.", job_id);
    return job_state_parse(PQgetvalue(result, 0, 0), ret_state, error);
}

int job_move(struct pg *pg, const char *job_id, enum job_state from, enum job_state to, const struct error *why,
             struct error *error) {
    if (!job_state_may(from, to))
        return error_set(error, ERROR_CONFLICT, "job-state", NULL, "The job is %s and cannot become %s.",
                         job_state_name(from), job_state_name(to));
    char text[sizeof why->text] = "";
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, job_state_name(to));
    params_text(&params, why ? why->code : NULL);
    if (why)
        memcpy(text, why->text, sizeof text);
    utf8_scrub(text);
    params_text(&params, why ? text : NULL);
    if (pg_run(pg, &set_state, &params, NULL, error) < 0)
        return -1;
    struct json_object *data CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(data, "state", job_state_name(to));
    if (why) {
        json_add_string(data, "error_code", why->code);
        json_add_string(data, "error_text", text);
    }
    if (event_add(pg, job_id, "state", json_text(data, NULL), error) < 0)
        return -1;
    return webhook_note(pg, job_id, job_state_name(from), error);
}

int item_lost(struct error *error) {
    return error_set(error, ERROR_CONFLICT, "lease-lost", NULL,
                     "The work item is no longer this worker's: its lease ran out, or the job was paused or ended.");
}

static int with_lease(struct pg *pg, const struct statement *statement, const struct work_item *item,
                      enum job_state *ret_state, struct error *error) {
    struct error missing;
    if (job_lock(pg, item->job_id, ret_state, &missing) < 0) {
        if (missing.class == ERROR_NOT_FOUND)
            return item_lost(error);
        if (error)
            *error = missing;
        return -1;
    }
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, item->id);
    params_text(&params, item->token);
    if (pg_run(pg, statement, &params, &result, error) < 0)
        return -1;
    return pg_affected(result) == 1 ? 0 : item_lost(error);
}

int item_hold(struct pg *pg, const struct work_item *item, enum job_state *ret_state, struct error *error) {
    return with_lease(pg, &hold_lease, item, ret_state, error);
}

int item_end(struct pg *pg, const struct work_item *item, enum job_state *ret_state, struct error *error) {
    return with_lease(pg, &end_lease, item, ret_state, error);
}

int event_add(struct pg *pg, const char *job_id, const char *kind, const char *data, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, kind);
    params_text(&params, data);
    return pg_run(pg, &add_event, &params, NULL, error);
}

int event_add_progress(struct pg *pg, const char *job_id, int task, double last_s, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    params_int(&params, task);
    params_double(&params, last_s);
    return pg_run(pg, &add_progress, &params, NULL, error);
}

int queue_add(struct pg *pg, const char *job_id, enum work_kind kind, int task, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, work_kind_name(kind));
    params_int(&params, task);
    return pg_run(pg, &add_item, &params, NULL, error) < 0 ? -1 : run_for_job(pg, &wake, job_id, error);
}

int queue_add_tasks(struct pg *pg, const char *job_id, struct error *error) {
    return run_for_job(pg, &add_tasks, job_id, error) < 0 ? -1 : run_for_job(pg, &wake, job_id, error);
}

int queue_drop(struct pg *pg, const char *job_id, struct error *error) {
    return run_for_job(pg, &drop_items, job_id, error);
}

int tasks_cancel(struct pg *pg, const char *job_id, struct error *error) {
    return run_for_job(pg, &cancel_tasks, job_id, error);
}
