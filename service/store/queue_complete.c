/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "service/base/json.h"
#include "service/store/job_tx.h"

static const struct statement set_device = {"complete_set_device",
                                            "UPDATE jobs SET device_kind = $2, device_key = $3 WHERE id = $1"};
static const struct statement insert_task = {
    "complete_insert_task", "INSERT INTO tasks (job_id, number, workload, name, count, flops, bytes, trials_planned) "
                            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"};
static const struct statement serve_task = {
    "complete_serve_task",
    "UPDATE tasks SET state = 'succeeded', stop_reason = 'reused', served = $3, template = $4, best_template = $4,"
    " best_version = $11, best_index = $5, best_entity = $6, best_s = $7, best_spread_s = $8, baseline_s = $9, floor_s "
    "= $10,"
    " started_at = now(), finished_at = now() WHERE job_id = $1 AND number = $2"};
static const struct statement begin_task = {
    "complete_begin_task",
    "UPDATE tasks t SET state = 'running', template = $3, trials_planned = t.stale + $4, floor_s = $5,"
    " started_at = coalesce(t.started_at, now()) FROM tasks old WHERE t.job_id = $1 "
    "AND t.number = $2 AND old.job_id = t.job_id AND old.number = t.number "
    "RETURNING (old.state, old.template, old.trials_planned, old.floor_s)"
    " IS DISTINCT FROM (t.state, t.template, t.trials_planned, t.floor_s)"};
static const struct statement get_search = {"complete_get_search",
                                            "SELECT state FROM searches WHERE job_id = $1 AND task = $2"};
static const struct statement end_task = {
    "complete_end_task",
    "UPDATE tasks SET state = $3, stop_reason = $4, best_template = $5, best_index = $6,"
    " best_entity = $7, best_s = $8, best_spread_s = $9, baseline_s = coalesce($10, baseline_s),"
    " search_s = search_s + $11, best_version = $12, finished_at = now() WHERE job_id = $1 AND number = $2"};
static const struct statement tasks_left = {
    "complete_tasks_left", "SELECT count(*) FROM tasks WHERE job_id = $1 AND state IN ('queued', 'running')"};
static const struct statement set_result = {
    "complete_set_result", "UPDATE jobs SET result = $2, module_so = $3, module_tar = $4 WHERE id = $1"};

struct completion {
    const struct work_item *item;
    union {
        const struct plan_result *plan;
        const struct tune_result *tune;
        const struct build_result *build;
        const struct error *why;
    };
};

/* --- Plan --- */

static int serve(struct pg *pg, const char *job_id, int task, const struct task_served *served, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    params_int(&params, task);
    params_text(&params, served->record);
    params_text(&params, served->template);
    params_int(&params, served->index);
    params_text(&params, served->entity);
    params_double(&params, served->cost_s);
    params_double(&params, served->spread_s);
    params_double(&params, served->baseline_s);
    params_double(&params, served->floor_s > 0 ? served->floor_s : INFINITY);
    params_int(&params, served->version);
    return pg_run(pg, &serve_task, &params, NULL, error) < 0 ? -1
                                                             : event_add_progress(pg, job_id, task, INFINITY, error);
}

static int insert_tasks(struct pg *pg, const char *job_id, const struct plan_result *plan, struct error *error) {
    for (int i = 0; i < plan->n_tasks; i++) {
        const struct task_new *task = &plan->tasks[i];
        struct params params = {0};
        params_text(&params, job_id);
        params_int(&params, i);
        params_text(&params, task->workload);
        params_text(&params, task->name);
        params_int(&params, task->count);
        params_int(&params, task->flops);
        params_int(&params, task->bytes);
        params_int(&params, task->trials_planned);
        if (pg_run(pg, &insert_task, &params, NULL, error) < 0 ||
            (task->served && serve(pg, job_id, i, task->served, error) < 0))
            return -1;
    }
    return 0;
}

static int tasks_to_search(const struct plan_result *plan) {
    int n = 0;
    for (int i = 0; i < plan->n_tasks; i++)
        n += !plan->tasks[i].served;
    return n;
}

static int log_plan(struct pg *pg, const char *job_id, const struct plan_result *plan, struct error *error) {
    char text[256];
    int left = tasks_to_search(plan);
    size_t len = (size_t)snprintf(text, sizeof text, "%d %s to tune on %.160s.", left, left == 1 ? "task" : "tasks",
                                  plan->device_key);
    if (left < plan->n_tasks)
        snprintf(text + len, sizeof text - len, " %d served by earlier searches.", plan->n_tasks - left);
    struct json_object *data CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(data, "level", "info");
    json_add_string(data, "text", text);
    return event_add(pg, job_id, "log", json_text(data, NULL), error);
}

static int complete_plan(struct pg *pg, void *data, struct error *error) {
    struct completion *completion = data;
    const char *job_id = completion->item->job_id;
    const struct plan_result *plan = completion->plan;
    enum job_state state;
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, plan->device_kind);
    params_text(&params, plan->device_key);
    if (item_end(pg, completion->item, &state, error) < 0 || pg_run(pg, &set_device, &params, NULL, error) < 0 ||
        insert_tasks(pg, job_id, plan, error) < 0 || log_plan(pg, job_id, plan, error) < 0)
        return -1;
    return tasks_to_search(plan) ? queue_add_tasks(pg, job_id, error) : queue_add(pg, job_id, WORK_BUILD, -1, error);
}

int queue_complete_plan(struct db *db, const struct work_item *item, const struct plan_result *result,
                        struct error *error) {
    return db_transaction(db, complete_plan, &(struct completion){item, .plan = result}, error);
}

/* --- Tune --- */

struct beginning {
    const struct work_item *item;
    const struct tune_begin *begin;
    struct arena *arena;
    const char *state;
};

static int begin_tune(struct pg *pg, void *data, struct error *error) {
    struct beginning *beginning = data;
    const struct work_item *item = beginning->item;
    PGresult *begun CLEANUP(pg_clear_p) = NULL, *result CLEANUP(pg_clear_p) = NULL;
    enum job_state state;
    struct params params = {0}, search = {0};
    params_text(&params, item->job_id);
    params_int(&params, item->task);
    params_text(&params, beginning->begin->template);
    params_int(&params, beginning->begin->trials_planned);
    params_double(&params, beginning->begin->floor_s > 0 ? beginning->begin->floor_s : INFINITY);
    params_text(&search, item->job_id);
    params_int(&search, item->task);
    if (item_hold(pg, item, &state, error) < 0 || pg_run(pg, &begin_task, &params, &begun, error) < 0 ||
        pg_run(pg, &get_search, &search, &result, error) < 0)
        return -1;
    bool changed = PQntuples(begun) && row_bool(&(struct row){begun, 0, 0});
    if (changed && event_add_progress(pg, item->job_id, item->task, INFINITY, error) < 0)
        return -1;
    beginning->state = PQntuples(result) ? row_text(&(struct row){result, 0, 0}, beginning->arena) : NULL;
    return 0;
}

int queue_begin_tune(struct db *db, const struct work_item *item, const struct tune_begin *begin, struct arena *arena,
                     const char **ret_state, struct error *error) {
    struct beginning beginning = {item, begin, arena, NULL};
    if (db_transaction(db, begin_tune, &beginning, error) < 0)
        return -1;
    *ret_state = beginning.state;
    return 0;
}

static int write_task_end(struct pg *pg, const struct work_item *item, const struct tune_result *tune,
                          struct error *error) {
    bool best = tune->succeeded;
    struct params params = {0};
    params_text(&params, item->job_id);
    params_int(&params, item->task);
    params_text(&params, best ? "succeeded" : "failed");
    params_text(&params, tune->stop_reason);
    params_text(&params, best ? tune->best_template : NULL);
    if (best)
        params_int(&params, tune->best_index);
    else
        params_text(&params, NULL);
    params_text(&params, best ? tune->best_entity : NULL);
    params_double(&params, best ? tune->best_s : INFINITY);
    params_double(&params, best ? tune->best_spread_s : INFINITY);
    params_double(&params, tune->baseline_s);
    params_double(&params, tune->spent_s);
    if (best)
        params_int(&params, tune->best_version);
    else
        params_text(&params, NULL);
    return pg_run(pg, &end_task, &params, NULL, error);
}

static int complete_tune(struct pg *pg, void *data, struct error *error) {
    struct completion *completion = data;
    const struct work_item *item = completion->item;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    enum job_state state;
    struct params params = {0};
    params_text(&params, item->job_id);
    if (item_end(pg, item, &state, error) < 0 || write_task_end(pg, item, completion->tune, error) < 0 ||
        event_add_progress(pg, item->job_id, item->task, INFINITY, error) < 0 ||
        pg_run(pg, &tasks_left, &params, &result, error) < 0)
        return -1;
    return row_int(&(struct row){result, 0, 0}) ? 0 : queue_add(pg, item->job_id, WORK_BUILD, -1, error);
}

int queue_complete_tune(struct db *db, const struct work_item *item, const struct tune_result *result,
                        struct error *error) {
    return db_transaction(db, complete_tune, &(struct completion){item, .tune = result}, error);
}

/* --- Build, failure --- */

static int complete_build(struct pg *pg, void *data, struct error *error) {
    struct completion *completion = data;
    const char *job_id = completion->item->job_id;
    enum job_state state;
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, completion->build->result);
    params_text(&params, completion->build->module_so);
    params_text(&params, completion->build->module_tar);
    if (item_end(pg, completion->item, &state, error) < 0 || pg_run(pg, &set_result, &params, NULL, error) < 0)
        return -1;
    return job_move(pg, job_id, state, JOB_SUCCEEDED, NULL, error);
}

int queue_complete_build(struct db *db, const struct work_item *item, const struct build_result *result,
                         struct error *error) {
    return db_transaction(db, complete_build, &(struct completion){item, .build = result}, error);
}

static int fail(struct pg *pg, void *data, struct error *error) {
    struct completion *completion = data;
    const char *job_id = completion->item->job_id;
    enum job_state state;
    if (item_end(pg, completion->item, &state, error) < 0 ||
        job_move(pg, job_id, state, JOB_FAILED, completion->why, error) < 0 || queue_drop(pg, job_id, error) < 0)
        return -1;
    return tasks_cancel(pg, job_id, error);
}

int queue_fail(struct db *db, const struct work_item *item, const struct error *why, struct error *error) {
    return db_transaction(db, fail, &(struct completion){item, .why = why}, error);
}
