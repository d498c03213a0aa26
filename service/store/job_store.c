/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/job_store.h"

#include <string.h>

#include "service/base/clock.h"
#include "service/store/job_tx.h"
#include "service/store/pg.h"
#include "service/store/project_store.h"
#include "service/store/quota.h"

#define ELAPSED                                                              \
    "CASE WHEN j.started_at IS NOT NULL THEN greatest(0, extract(epoch FROM" \
    " coalesce(j.idle_since, j.finished_at, now()) - j.started_at)::float8 - j.idle_s) END"

/* The wide columns of a job come with the rows for which `where` holds only: once, when there is a row for each task.
 */
#define JOB_COLUMNS(where)                                                                             \
    "j.id, j.model_id, j.state, j.device, j.device_kind, j.device_key, j.key, j.priority,"             \
    " CASE WHEN " where " THEN j.options END, CASE WHEN " where " THEN j.labels END,"                  \
    " CASE WHEN " where " THEN j.result END, j.error_code, CASE WHEN " where " THEN j.error_text END," \
    " j.module_so, j.module_tar, j.created_at, j.started_at, j.finished_at,"                           \
    " " ELAPSED ", j.last_event"
enum { JOB_COLUMN_COUNT = 20 };
/* The row's version: a change by hand, or a database that was put back, shows in it where last_event does not. */
#define ROW_VERSION "j.xmin"

static const struct statement get = {
    "job_get",
    "SELECT " JOB_COLUMNS(
        "coalesce(t.number, 0) = 0") ","
                                     " " ROW_VERSION
                                     ", t.number, t.workload, t.name, t.template, t.count, t.flops, t.bytes, t.state, "
                                     "t.trials_planned,"
                                     " t.trials_done, t.errors, t.error_texts, t.best_template, t.best_version, "
                                     "t.best_index, "
                                     "t.best_entity, t.best_s,"
                                     " t.best_spread_s, t.baseline_s, t.floor_s, t.search_s, t.stop_reason, t.served, "
                                     "t.started_at, t.finished_at "
                                     "FROM jobs j LEFT JOIN tasks t ON t.job_id = j.id WHERE j.id = $1 ORDER BY "
                                     "t.number"};
static const struct statement version = {"job_version", "SELECT j.last_event, " ROW_VERSION ", j.state, " ELAPSED
                                                        " FROM jobs j WHERE j.id = $1"};
static const struct statement list = {
    "job_list", "SELECT " JOB_COLUMNS(
                    "true") ", s.tasks, s.ended, s.planned, s.done "
                            "FROM jobs j CROSS JOIN LATERAL (SELECT count(*) AS tasks, sum(trials_planned) AS planned,"
                            "  count(*) FILTER (WHERE t.state IN ('succeeded', 'failed', 'cancelled')) AS ended, "
                            "sum(trials_done) AS done"
                            "  FROM tasks t WHERE t.job_id = j.id) s "
                            "WHERE ($1::text IS NULL OR j.state = $1) AND ($2::uuid IS NULL OR j.model_id = $2)"
                            " AND ($3::text IS NULL OR j.labels ? $3)"
                            " AND ($4::text IS NULL OR j.labels @> jsonb_build_object($3::text, $4::text))"
                            " AND ($5::uuid IS NULL OR j.id < $5) AND j.project_id = $7 ORDER BY j.id DESC LIMIT $6"};
static const struct statement counts = {"job_counts", "SELECT state, count(*) FROM jobs GROUP BY state"};

/* The share lock keeps the model from being deleted until the job is there, which it is already after a lost commit. */
static const struct statement lock_model = {
    "job_lock_model", "SELECT CASE WHEN EXISTS (SELECT FROM jobs WHERE id = $3) THEN 1 ELSE 0 END FROM models"
                      " WHERE id = $1 AND project_id = $2 FOR SHARE"};
static const struct statement count_open = {
    "job_count_open",
    "SELECT count(*) FROM (SELECT FROM jobs WHERE state IN ('queued', 'running', 'paused') LIMIT $1::bigint) open"};
static const struct statement insert = {
    "job_insert",
    "WITH job AS (INSERT INTO jobs (id, model_id, device, key, priority, options, labels, last_event, project_id)"
    "  VALUES ($1, $2, $3, $4, $5, $6, coalesce($7::jsonb, '{}'), 1, $8) ON CONFLICT DO NOTHING"
    "  RETURNING id, device, key, priority, project_id),"
    " event AS (INSERT INTO events (job_id, number, kind, data) SELECT id, 1, 'state', '{\"state\":\"queued\"}' FROM "
    "job),"
    " item AS (INSERT INTO queue (job_id, kind, priority, label, device_kind, project_id)"
    "  SELECT id, 'plan', priority, key, CASE device WHEN 'auto' THEN 'any' ELSE device END, project_id FROM job) "
    "SELECT 1 FROM job"};
/*
 * After the job's transaction, and not waiting for the disk: whoever commits a notification holds a lock of the whole
 * database until its commit is on the disk, so that jobs submitted at once would wait for each other's.
 */
static const struct statement wake = {
    "job_created_wake", "SELECT set_config('synchronous_commit', 'off', true), pg_notify('" CHANNEL_QUEUE "', $1)"};

static int no_such_job(const char *id, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-such-job", NULL, "There is no job %.64s.", id ? id : "");
}

/* --- Reading --- */

/* Texts point into the result. */
static int read_job(struct row *row, struct job_row *ret, struct error *error) {
    row_copy(row, ret->id, sizeof ret->id);
    row_copy(row, ret->model_id, sizeof ret->model_id);
    if (job_state_parse(row_raw(row), &ret->state, error) < 0)
        return -1;
    ret->device = row_raw(row);
    ret->device_kind = row_raw(row);
    ret->device_key = row_raw(row);
    ret->key = row_raw(row);
    ret->priority = (int)row_int(row);
    ret->options = row_raw(row);
    ret->labels = row_raw(row);
    ret->result = row_raw(row);
    ret->error_code = row_raw(row);
    ret->error_text = row_raw(row);
    row_copy(row, ret->module_so, sizeof ret->module_so);
    row_copy(row, ret->module_tar, sizeof ret->module_tar);
    ret->created_us = row_time(row);
    ret->started_us = row_time(row);
    ret->finished_us = row_time(row);
    ret->elapsed_s = row_double(row);
    ret->last_event = row_int(row);
    return 0;
}

static int read_task(struct row *row, struct arena *arena, struct task_row *ret, struct error *error) {
    ret->number = (int)row_int(row);
    ret->workload = row_raw(row);
    ret->name = row_raw(row);
    ret->template = row_raw(row);
    ret->count = (int)row_int(row);
    ret->flops = row_int(row);
    ret->bytes = row_int(row);
    if (job_state_parse(row_raw(row), &ret->state, error) < 0)
        return -1;
    ret->trials_planned = row_int(row);
    ret->trials_done = row_int(row);
    row_ints(row, ret->errors, TASK_ERROR_COUNT);
    row_texts(row, arena, ret->error_texts, TASK_ERROR_COUNT);
    ret->best_template = row_raw(row);
    ret->best_version = (int)row_int(row);
    ret->best_index = row_int(row);
    ret->best_entity = row_raw(row);
    ret->best_s = row_double(row);
    ret->best_spread_s = row_double(row);
    ret->baseline_s = row_double(row);
    ret->floor_s = row_double(row);
    ret->search_s = row_double(row);
    ret->stop_reason = row_raw(row);
    ret->served = row_raw(row);
    ret->started_us = row_time(row);
    ret->finished_us = row_time(row);
    return 0;
}

/* A job with its tasks from the rows of `get`; the arena takes the result over. */
static int read_whole(PGresult **rows_of_get, struct arena *arena, struct job_row **ret, struct error *error) {
    PGresult *result = *rows_of_get;
    int rows = PQntuples(result);
    struct job_row *job = arena_alloc(arena, sizeof *job);
    struct row row = {result, 0, 0};
    if (read_job(&row, job, error) < 0)
        return -1;
    job->row = row_int(&row);
    job->n_tasks = PQgetisnull(result, 0, row.column) ? 0 : rows;
    job->tasks = arena_array(arena, (size_t)job->n_tasks + 1, sizeof *job->tasks);
    for (int i = 0; i < job->n_tasks; i++) {
        struct task_row *task = &job->tasks[i];
        row = (struct row){result, i, JOB_COLUMN_COUNT + 1};
        if (read_task(&row, arena, task, error) < 0)
            return -1;
        job->n_tasks_ended += job_state_ended(task->state);
        job->trials_planned += task->trials_planned;
        job->trials_done += task->trials_done;
    }
    pg_keep(rows_of_get, arena);
    *ret = job;
    return 0;
}

int job_get(struct db *db, const char *id, struct arena *arena, struct job_row **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, id);
    if (!uuid_valid(id))
        return no_such_job(id, error);
    if (db_run(db, &get, &params, &result, error) < 0)
        return -1;
    return PQntuples(result) == 0 ? no_such_job(id, error) : read_whole(&result, arena, ret, error);
}

int job_version_get(struct db *db, const char *id, struct job_version *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, id);
    if (!uuid_valid(id))
        return no_such_job(id, error);
    if (db_run(db, &version, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return no_such_job(id, error);
    struct row row = {result, 0, 0};
    ret->last_event = row_int(&row);
    ret->row = row_int(&row);
    if (job_state_parse(row_raw(&row), &ret->state, error) < 0)
        return -1;
    ret->elapsed_s = row_double(&row);
    return 0;
}

static int filter_params(const struct job_filter *filter, struct arena *arena, struct params *ret,
                         struct error *error) {
    enum job_state state;
    if (filter->state && job_state_parse(filter->state, &state, error) < 0)
        return -1;
    if (filter->after && *filter->after && !uuid_valid(filter->after))
        return error_set(error, ERROR_INVALID, "bad-cursor", "cursor", "The cursor is not one that a page gave.");
    const char *equals = filter->label ? strchr(filter->label, '=') : NULL;
    params_text(ret, filter->state);
    params_text(ret, filter->model_id);
    params_text(ret, equals ? arena_strndup(arena, filter->label, (size_t)(equals - filter->label)) : filter->label);
    params_text(ret, equals ? equals + 1 : NULL);
    params_text(ret, filter->after && *filter->after ? filter->after : NULL);
    params_int(ret, filter->limit + 1);
    params_text(ret, project_or_default(filter->project_id));
    return 0;
}

int job_list(struct db *db, const struct job_filter *filter, struct arena *arena, struct job_row **ret, int *ret_count,
             bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    if (filter_params(filter, arena, &params, error) < 0)
        return -1;
    bool possible = !filter->model_id || uuid_valid(filter->model_id); /* else no job can have it */
    if (possible && db_run(db, &list, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > filter->limit ? filter->limit : rows;
    struct job_row *jobs = arena_array(arena, (size_t)count + 1, sizeof *jobs);
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        if (read_job(&row, &jobs[i], error) < 0)
            return -1;
        jobs[i].n_tasks = (int)row_int(&row);
        jobs[i].n_tasks_ended = (int)row_int(&row);
        jobs[i].trials_planned = row_int(&row);
        jobs[i].trials_done = row_int(&row);
    }
    pg_keep(&result, arena);
    *ret = jobs;
    *ret_count = count;
    *ret_more = rows > filter->limit;
    return 0;
}

int job_counts(struct db *db, int64_t ret[JOB_STATE_COUNT], struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, &counts, NULL, &result, error) < 0)
        return -1;
    memset(ret, 0, JOB_STATE_COUNT * sizeof *ret);
    for (int i = 0; i < PQntuples(result); i++) {
        struct row row = {result, i, 0};
        enum job_state state;
        if (job_state_parse(row_raw(&row), &state, error) < 0)
            return -1;
        ret[state] = row_int(&row);
    }
    return 0;
}

/* --- Creating --- */

struct creation {
    const struct job_new *job;
    char id[UUID_TEXT];
    bool created;
};

#define ROOM_S 1         /* how long a count holds */
enum { ROOM_PART = 16 }; /* of what was free then, for each of so many servers */

/* Whether the last count says that there is room for one more; then it is taken. */
static bool take_room(struct job_room *room) {
    return room && clock_now_ns() < atomic_load(&room->until) && atomic_fetch_sub(&room->left, 1) > 0;
}

static int check_room(struct pg *pg, const struct job_new *job, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, job->max_open);
    if (job->max_open <= 0 || take_room(job->room))
        return 0;
    if (pg_run(pg, &count_open, &params, &result, error) < 0)
        return -1;
    int64_t free = job->max_open - row_int(&(struct row){result, 0, 0});
    if (free <= 0)
        return error_set(error, ERROR_LIMIT, "too-many-jobs", NULL,
                         "%lld jobs wait or run already, the most that is allowed. Try again when some have ended.",
                         (long long)job->max_open);
    if (job->room) {
        atomic_store(&job->room->left, free / ROOM_PART);
        atomic_store(&job->room->until, deadline_in_s(ROOM_S));
    }
    return 0;
}

/* *ret_made: an attempt before this one made the job. */
static int check_model(struct pg *pg, const struct creation *creation, bool *ret_made, struct error *error) {
    const struct job_new *job = creation->job;
    const char *model_id = job->model_id;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, model_id);
    params_text(&params, project_or_default(job->project_id));
    params_text(&params, creation->id);
    if (uuid_valid(model_id) && pg_run(pg, &lock_model, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-model", "model_id", "There is no model %.64s.", model_id);
    *ret_made = row_int(&(struct row){result, 0, 0}) != 0;
    return 0;
}

static int insert_job(struct pg *pg, const struct creation *creation, bool *ret_inserted, struct error *error) {
    const struct job_new *job = creation->job;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, creation->id);
    params_text(&params, job->model_id);
    params_text(&params, job->device);
    params_text(&params, job->key ? job->key : "");
    params_int(&params, job->priority);
    params_text(&params, job->options);
    params_text(&params, job->labels);
    params_text(&params, project_or_default(job->project_id));
    if (pg_run(pg, &insert, &params, &result, error) < 0)
        return -1;
    *ret_inserted = PQntuples(result) == 1;
    return 0;
}

/* What the client is told, as it will be told again. */
static int put_answer(struct pg *pg, const struct creation *creation, struct error *error) {
    const struct job_new *job = creation->job;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    struct idempotency_answer answer;
    struct job_row *row;
    params_text(&params, creation->id);
    if (!job->idempotency)
        return 0;
    if (pg_run(pg, &get, &params, &result, error) < 0 || read_whole(&result, arena, &row, error) < 0 ||
        job->answer(job->answer_data, row, &answer, error) < 0)
        return -1;
    return idempotency_put(pg, job->idempotency, &answer, error);
}

static int create(struct pg *pg, void *data, struct error *error) {
    struct creation *creation = data;
    const struct job_new *job = creation->job;
    bool made = false;
    creation->created = false;
    if (check_model(pg, creation, &made, error) < 0)
        return -1;
    if (made)
        return 0;
    if (check_room(pg, job, error) < 0 || quota_for_job(pg, job->project_id, job->device, error) < 0 ||
        insert_job(pg, creation, &creation->created, error) < 0)
        return -1;
    if (!creation->created) /* the same id at once */
        return 0;
    if (job->webhook_url && webhook_add(pg, creation->id, job->webhook_url, job->webhook_secret, error) < 0)
        return -1;
    return put_answer(pg, creation, error);
}

/* A worker that is not told looks for work by itself, a little later. */
static void wake_workers(struct db *db, const char *device) {
    struct params params = {0};
    struct error ignored;
    params_text(&params, strcmp(device, "auto") == 0 ? "any" : device);
    (void)!db_run(db, &wake, &params, NULL, &ignored);
}

int job_create(struct db *db, const struct job_new *job, char ret_id[UUID_TEXT], bool *ret_created,
               struct error *error) {
    struct creation creation = {.job = job};
    if (job->id && !uuid_valid(job->id))
        return error_set(error, ERROR_INVALID, "bad-id", "id", "A job's id must be a UUID in lower case.");
    if (job->id)
        memcpy(creation.id, job->id, UUID_TEXT);
    else
        uuid_make(creation.id);
    if (db_transaction(db, create, &creation, error) < 0)
        return -1;
    wake_workers(db, job->device);
    memcpy(ret_id, creation.id, UUID_TEXT);
    *ret_created = creation.created;
    return 0;
}
