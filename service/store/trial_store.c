/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/trial_store.h"

#include <math.h>
#include <string.h>

#include "service/base/json.h"
#include "service/base/utf8.h"
#include "service/store/job_tx.h"
#include "service/store/project_store.h"

enum { PAGE = 500, MAX_COSTS = 1024, MOST_OF_ONE_TASK = 500 };

static const struct statement progress_made = {"trial_progress_made", "UPDATE queue SET attempts = 0 WHERE id = $1"};
/* Numbers go on after those that the task has; the job's row lock keeps others away. */
static const struct statement insert = {
    "trial_insert",
    "WITH given AS (SELECT * FROM ROWS FROM (json_to_recordset($3) AS (template text, version int, index bigint,"
    "   entity json, error_no int, error_text text, costs_s float8[], cost_s float8, build_s float8, run_s float8,"
    "   context json, finished_us bigint)) WITH ORDINALITY AS r(template, version, index, entity, error_no, error_text,"
    "   costs_s, cost_s, build_s, run_s, context, finished_us, place)"
    "  WHERE NOT EXISTS (SELECT FROM trials t WHERE t.job_id = $1 AND t.task = $2 AND t.template = r.template"
    "   AND t.index = r.index AND t.version = r.version)),"
    " task AS (SELECT trials_done FROM tasks WHERE job_id = $1 AND number = $2) "
    "INSERT INTO trials (job_id, task, number, template, version, index, entity, error_no, error_text, costs_s, cost_s,"
    "  build_s, run_s, context, finished_at) "
    "SELECT $1, $2, task.trials_done + row_number() OVER (ORDER BY place) - 1, template, version, index, entity, "
    "error_no,"
    "  error_text, costs_s, cost_s, build_s, run_s, context, to_timestamp(finished_us / 1e6) FROM given, task"};
static const struct statement count_up = {
    "trial_count_up",
    "WITH added AS (SELECT x.* FROM trials x JOIN tasks t ON t.job_id = x.job_id AND t.number = x.task"
    "  WHERE x.job_id = $1 AND x.task = $2 AND x.number >= t.trials_done),"
    " best AS (SELECT * FROM added WHERE cost_s IS NOT NULL ORDER BY cost_s, number LIMIT 1),"
    " old AS (SELECT trials_done FROM tasks WHERE job_id = $1 AND number = $2) "
    "UPDATE tasks t SET trials_done = t.trials_done + (SELECT count(*) FROM added),"
    " errors = ARRAY(SELECT t.errors[i + 1] + (SELECT count(*) FROM added WHERE error_no = i)"
    "  FROM generate_series(0, 8) i ORDER BY i),"
    " error_texts = ARRAY(SELECT coalesce(t.error_texts[i + 1],"
    "   (SELECT error_text FROM added WHERE error_no = i AND i > 0 ORDER BY number LIMIT 1))"
    "  FROM generate_series(0, 8) i ORDER BY i),"
    " best_s = least(t.best_s, b.cost_s),"
    " best_template = CASE WHEN b.cost_s < coalesce(t.best_s, 'infinity') THEN b.template ELSE t.best_template END,"
    " best_version = CASE WHEN b.cost_s < coalesce(t.best_s, 'infinity') THEN b.version ELSE t.best_version END,"
    " best_index = CASE WHEN b.cost_s < coalesce(t.best_s, 'infinity') THEN b.index ELSE t.best_index END,"
    " best_entity = CASE WHEN b.cost_s < coalesce(t.best_s, 'infinity') THEN b.entity ELSE t.best_entity END,"
    " baseline_s = coalesce($3, t.baseline_s), search_s = t.search_s + $4 "
    "FROM old LEFT JOIN best b ON true WHERE t.job_id = $1 AND t.number = $2 RETURNING old.trials_done"};
static const struct statement add_events = {
    "trial_add_events",
    "WITH job AS (UPDATE jobs SET last_event = last_event + $4::bigint WHERE id = $1 RETURNING last_event) "
    "INSERT INTO events (job_id, number, kind, data) SELECT $1, job.last_event - $4::bigint + t.number - $3::bigint + "
    "1,"
    " 'trial', json_build_object('task', t.task, 'number', t.number, 'template', t.template, 'index', t.index, "
    "'error_no', t.error_no,"
    " 'cost_us', t.cost_s * 1e6) "
    "FROM job, trials t WHERE t.job_id = $1 AND t.task = $2 AND t.number >= $3::bigint"};
static const struct statement save_search = {"trial_save_search",
                                             "INSERT INTO searches (job_id, task, state) VALUES ($1, $2, $3) "
                                             "ON CONFLICT (job_id, task) DO UPDATE SET state = excluded.state"};
static const struct statement list = {
    "trial_list",
    "SELECT task, number, template, version, index, entity, error_no, error_text, costs_s, cost_s, build_s,"
    " run_s, finished_at, context FROM trials WHERE job_id = $1 AND ($2::int < 0 OR task = $2::int)"
    " AND (task, number) > ($3::int, $4::bigint) ORDER BY task, number LIMIT $5"};

static const struct statement points = {"trial_points", "SELECT template, version, index, cost_s FROM trials "
                                                        "WHERE job_id = $1 AND task = $2 ORDER BY number"};
/* Of the latest jobs, so that a class of devices with many jobs takes no longer to ask. */
static const struct statement history = {
    "trial_history",
    "WITH wanted AS MATERIALIZED (SELECT name, version FROM json_to_recordset($4) AS w(name text, version int)),"
    " me AS MATERIALIZED (SELECT coalesce((SELECT project_id FROM jobs WHERE id = $2), '" PROJECT_DEFAULT_ID
    "') AS id),"
    " job AS MATERIALIZED (SELECT j.id FROM me, jobs j JOIN projects p ON p.id = j.project_id WHERE j.device_key = $1"
    "  AND (p.id = me.id OR p.config_visibility = 'public'"
    "   OR p.config_visibility = 'shared' AND me.id = ANY (p.config_shared_with)) ORDER BY j.id DESC LIMIT 100),"
    " task AS (SELECT t.job_id, t.number, t.workload, least(t.trials_done, $6::int) AS n FROM job"
    "  JOIN tasks t ON t.job_id = job.id WHERE t.trials_done > 0 AND t.template IN (SELECT name FROM wanted)"
    "  AND NOT (t.job_id = $2 AND t.number = $3)),"
    " latest AS (SELECT *, sum(n) OVER (ORDER BY job_id DESC, number) - n AS before FROM task) "
    "SELECT l.workload, x.template, count(*), array_agg(x.index ORDER BY x.number),"
    " array_agg(coalesce(x.cost_s, 'infinity') ORDER BY x.number) "
    "FROM latest l CROSS JOIN LATERAL (SELECT template, version, index, cost_s, number FROM trials"
    "  WHERE job_id = l.job_id AND task = l.number ORDER BY number DESC LIMIT $6) x"
    " JOIN wanted w ON w.name = x.template AND w.version = x.version "
    "WHERE l.before < $5::int GROUP BY l.job_id, l.number, l.workload, x.template "
    "ORDER BY l.job_id DESC, l.number, x.template"};

/* --- Writing --- */

static void add_json_text(struct json_object *object, const char *field, const char *text) {
    struct json_object *value = NULL;
    if (text && json_parse(text, strlen(text), &value, NULL) < 0)
        value = NULL;
    json_add(object, field, value);
}

static struct json_object *trial_json(const struct trial_row *trial, struct arena *arena) {
    struct json_object *object = json_object_new_object();
    json_add_string(object, "template", trial->template);
    json_add_int(object, "version", trial->version);
    json_add_int(object, "index", trial->index);
    add_json_text(object, "entity", trial->entity);
    json_add_int(object, "error_no", trial->error_no);
    char *text = trial->error_text && *trial->error_text ? arena_strdup(arena, trial->error_text) : NULL;
    if (text)
        utf8_scrub(text);
    json_add_string(object, "error_text", text);
    struct json_object *costs = json_object_new_array();
    for (int i = 0; i < trial->n_costs; i++)
        json_object_array_add(costs, json_object_new_double(trial->costs_s[i]));
    json_add(object, "costs_s", costs);
    json_add_double(object, "cost_s", trial->cost_s);
    json_add_double(object, "build_s", trial->build_s);
    json_add_double(object, "run_s", trial->run_s);
    add_json_text(object, "context", trial->context);
    json_add_int(object, "finished_us", trial->finished_us);
    return object;
}

struct insertion {
    const struct work_item *item;
    const struct trial_batch *batch;
    const char *json;
};

static void task_params(const struct work_item *item, struct params *ret) {
    params_text(ret, item->job_id);
    params_int(ret, item->task);
}

static int insert_rows(struct pg *pg, const struct insertion *insertion, int64_t *ret_before, int64_t *ret_added,
                       struct error *error) {
    PGresult *inserted CLEANUP(pg_clear_p) = NULL, *counted CLEANUP(pg_clear_p) = NULL;
    struct params trials = {0}, baseline = {0};
    task_params(insertion->item, &trials);
    params_text(&trials, insertion->json);
    task_params(insertion->item, &baseline);
    params_double(&baseline, insertion->batch->baseline_s);
    params_double(&baseline, insertion->batch->spent_s);
    if (pg_run(pg, &insert, &trials, &inserted, error) < 0 || pg_run(pg, &count_up, &baseline, &counted, error) < 0)
        return -1;
    *ret_before = row_int(&(struct row){counted, 0, 0});
    *ret_added = pg_affected(inserted);
    return 0;
}

/* The last trial that succeeded is the current one of the progress line. */
static double last_cost(const struct trial_batch *batch) {
    for (int i = batch->n - 1; i >= 0; i--)
        if (isfinite(batch->trials[i].cost_s))
            return batch->trials[i].cost_s;
    return INFINITY;
}

static int insert_batch(struct pg *pg, void *data, struct error *error) {
    struct insertion *insertion = data;
    const struct work_item *item = insertion->item;
    enum job_state state;
    int64_t before, added;
    struct params made = {0}, events = {0}, search = {0};
    params_int(&made, item->id);
    if (item_hold(pg, item, &state, error) < 0 || pg_run(pg, &progress_made, &made, NULL, error) < 0 ||
        insert_rows(pg, insertion, &before, &added, error) < 0)
        return -1;
    task_params(item, &events);
    params_int(&events, before);
    params_int(&events, added);
    if (added && pg_run(pg, &add_events, &events, NULL, error) < 0)
        return -1;
    task_params(item, &search);
    params_text(&search, insertion->batch->state);
    if (insertion->batch->state && pg_run(pg, &save_search, &search, NULL, error) < 0)
        return -1;
    return event_add_progress(pg, item->job_id, item->task, last_cost(insertion->batch), error);
}

int trial_insert(struct db *db, const struct work_item *item, const struct trial_batch *batch, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct json_object *rows CLEANUP(json_put_p) = json_object_new_array();
    for (int i = 0; i < batch->n; i++) {
        const struct trial_row *trial = &batch->trials[i];
        for (int k = 0; k < trial->n_costs; k++)
            if (!isfinite(trial->costs_s[k]))
                return error_set(error, ERROR_INTERNAL, "bad-cost", NULL, "A trial's cost is not a finite number.");
        json_object_array_add(rows, trial_json(trial, arena));
    }
    return db_transaction(db, insert_batch, &(struct insertion){item, batch, json_text(rows, NULL)}, error);
}

/* --- Reading --- */

static void read_trial(const PGresult *result, int number, struct arena *arena, struct trial_row *ret) {
    struct row row = {result, number, 0};
    double costs[MAX_COSTS];
    ret->task = (int)row_int(&row);
    ret->number = row_int(&row);
    ret->template = row_text(&row, arena);
    ret->version = (int)row_int(&row);
    ret->index = row_int(&row);
    ret->entity = row_text(&row, arena);
    ret->error_no = (int)row_int(&row);
    ret->error_text = row_text(&row, arena);
    ret->n_costs = row_doubles(&row, costs, MAX_COSTS);
    double *copy = arena_array(arena, (size_t)ret->n_costs + 1, sizeof *copy);
    memcpy(copy, costs, (size_t)ret->n_costs * sizeof *copy);
    ret->costs_s = copy;
    ret->cost_s = row_double(&row);
    ret->build_s = row_double(&row);
    ret->run_s = row_double(&row);
    ret->finished_us = row_time(&row);
    ret->context = row_text(&row, arena);
}

int trial_list(struct db *db, const struct trial_page *page, struct arena *arena, struct trial_row **ret,
               int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, page->job_id);
    params_int(&params, page->task);
    params_int(&params, page->after_task);
    params_int(&params, page->after_number);
    params_int(&params, page->limit);
    if (uuid_valid(page->job_id) && db_run(db, &list, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        read_trial(result, i, arena, &(*ret)[i]);
    *ret_count = count;
    return 0;
}

int trial_each(struct db *db, const char *job_id, int task,
               int (*fn)(void *data, const struct trial_row *trial, struct error *error), void *data,
               struct error *error) {
    struct trial_page page = {job_id, task, -1, -1, PAGE};
    for (int count = PAGE; count == PAGE;) {
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        struct trial_row *trials;
        if (trial_list(db, &page, arena, &trials, &count, error) < 0)
            return -1;
        for (int i = 0; i < count; i++) {
            if (fn(data, &trials[i], error) < 0)
                return -1;
            page.after_task = trials[i].task;
            page.after_number = trials[i].number;
        }
    }
    return 0;
}

int trial_points(struct db *db, const char *job_id, int task, struct arena *arena, struct trial_point **ret,
                 int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, job_id);
    params_int(&params, task);
    if (db_run(db, &points, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        struct trial_point *point = &(*ret)[i];
        point->template = row_raw(&row);
        point->version = (int)row_int(&row);
        point->index = row_int(&row);
        point->cost_s = row_double(&row);
    }
    pg_keep(&result, arena);
    *ret_count = count;
    return 0;
}

static struct json_object *templates_json(const struct history_query *query) {
    struct json_object *wanted = json_object_new_array();
    for (int i = 0; i < query->n_templates; i++) {
        struct json_object *one = json_object_new_object();
        json_add_string(one, "name", query->templates[i]);
        json_add_int(one, "version", query->versions[i]);
        json_object_array_add(wanted, one);
    }
    return wanted;
}

int trial_history(struct db *db, const struct history_query *query, struct arena *arena, struct history_task **ret,
                  int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct json_object *templates CLEANUP(json_put_p) = templates_json(query);
    struct params params = {0};
    params_text(&params, query->device_key);
    params_text(&params, query->job_id);
    params_int(&params, query->task);
    params_text(&params, json_text(templates, NULL));
    params_int(&params, query->trials);
    params_int(&params, MOST_OF_ONE_TASK);
    if (db_run(db, &history, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        struct history_task *task = &(*ret)[i];
        task->workload = row_raw(&row);
        task->template = row_raw(&row);
        task->n = (int)row_int(&row);
        int64_t *index = arena_array(arena, (size_t)task->n, sizeof *index);
        double *cost_s = arena_array(arena, (size_t)task->n, sizeof *cost_s);
        row_ints(&row, index, task->n);
        row_doubles(&row, cost_s, task->n);
        task->index = index;
        task->cost_s = cost_s;
    }
    pg_keep(&result, arena);
    *ret_count = count;
    return 0;
}
