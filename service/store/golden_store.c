/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/golden_store.h"

#include <string.h>

#include "service/store/job_store.h"
#include "service/store/pg.h"
#include "service/store/project_store.h"

#define COLUMNS                                                                              \
    "g.number, g.device_key, g.job_id, g.model_id, g.note, g.result, g.set_at, g.ended_at, " \
    "(SELECT count(*) FROM golden_configs c WHERE c.golden = g.number)"

/* The share lock keeps the job as it is while it is copied. */
static const struct statement look_at_job = {"golden_job",
                                             "SELECT state, device_key FROM jobs WHERE id = $1 AND project_id = $2 "
                                             "FOR SHARE"};
/* One setting of a project's class at a time. */
static const struct statement lock_class = {
    "golden_lock", "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 7305808869229538407))"};
static const struct statement set_note = {
    "golden_set_note",
    "UPDATE golden SET note = $4 WHERE device_key = $1 AND project_id = $2 AND job_id = $3 AND ended_at IS NULL "
    "RETURNING number"};
static const struct statement end = {
    "golden_end", "UPDATE golden SET ended_at = clock_timestamp() WHERE device_key = $1 AND project_id = $2 "
                  "AND ended_at IS NULL"};
static const struct statement insert = {
    "golden_insert",
    "INSERT INTO golden (project_id, device_key, job_id, model_id, note, result, set_at) "
    "SELECT project_id, device_key, id, model_id, $2, result, clock_timestamp() FROM jobs WHERE id = $1 "
    "RETURNING number"};
static const struct statement copy = {
    "golden_copy",
    "INSERT INTO golden_configs (golden, workload, name, count, template, version, index, entity, cost_s, spread_s,"
    " baseline_s) "
    "SELECT $2, t.workload, t.name, t.count, t.best_template, t.best_version,"
    " t.best_index, t.best_entity, t.best_s, t.best_spread_s, t.baseline_s "
    "FROM tasks t WHERE t.job_id = $1 AND t.best_s IS NOT NULL"};
static const struct statement now = {"golden_now",
                                     "SELECT " COLUMNS " FROM golden g WHERE g.ended_at IS NULL AND g.project_id = $2"
                                     " AND ($1::text IS NULL OR g.device_key = $1) ORDER BY g.device_key"};
static const struct statement get = {"golden_get",
                                     "SELECT " COLUMNS " FROM golden g WHERE g.number = $1 AND g.project_id = $2"};
static const struct statement history = {
    "golden_history", "SELECT " COLUMNS " FROM golden g WHERE ($1::text IS NULL OR g.device_key = $1)"
                      " AND ($2 = 0 OR g.number < $2) AND g.project_id = $4 ORDER BY g.number DESC LIMIT $3"};
static const struct statement configs = {
    "golden_configs", "SELECT workload, name, count, template, version, index, entity, cost_s, spread_s, baseline_s "
                      "FROM golden_configs WHERE golden = $1 ORDER BY workload COLLATE \"C\""};

/* ---- reading ---- */

static void read_golden(struct row *row, struct arena *arena, struct golden_row *ret) {
    ret->number = row_int(row);
    ret->device_key = row_text(row, arena);
    row_copy(row, ret->job_id, sizeof ret->job_id);
    row_copy(row, ret->model_id, sizeof ret->model_id);
    ret->note = row_text(row, arena);
    ret->result = row_text(row, arena);
    ret->set_us = row_time(row);
    ret->ended_us = row_time(row);
    ret->n_configs = (int)row_int(row);
}

static struct golden_row *read_all(const PGresult *result, int count, struct arena *arena) {
    struct golden_row *rows = arena_array(arena, (size_t)count + 1, sizeof *rows);
    for (int i = 0; i < count; i++)
        read_golden(&(struct row){result, i, 0}, arena, &rows[i]);
    return rows;
}

static int load_configs(struct db *db, struct golden_row *golden, struct arena *arena, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, golden->number);
    if (db_run(db, &configs, &params, &result, error) < 0)
        return -1;
    golden->n_configs = PQntuples(result);
    golden->configs = arena_array(arena, (size_t)golden->n_configs + 1, sizeof *golden->configs);
    for (int i = 0; i < golden->n_configs; i++) {
        struct golden_config *config = &golden->configs[i];
        struct row row = {result, i, 0};
        config->workload = row_text(&row, arena);
        config->name = row_text(&row, arena);
        config->count = (int)row_int(&row);
        config->template = row_text(&row, arena);
        config->version = (int)row_int(&row);
        config->index = row_int(&row);
        config->entity = row_text(&row, arena);
        config->cost_s = row_double(&row);
        config->spread_s = row_double(&row);
        config->baseline_s = row_double(&row);
    }
    return 0;
}

int golden_now(struct db *db, const char *project_id, const char *device_key, struct arena *arena,
               struct golden_row **ret, int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, device_key);
    params_text(&params, project_or_default(project_id));
    if (db_run(db, &now, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    struct golden_row *rows = read_all(result, count, arena);
    for (int i = 0; i < count; i++)
        if (load_configs(db, &rows[i], arena, error) < 0)
            return -1;
    *ret = rows;
    *ret_count = count;
    return 0;
}

int golden_get(struct db *db, const char *project_id, int64_t number, struct arena *arena, struct golden_row **ret,
               struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, number);
    params_text(&params, project_or_default(project_id));
    if (db_run(db, &get, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-golden", NULL, "There is no golden set with the number %lld.",
                         (long long)number);
    struct golden_row *row = read_all(result, 1, arena);
    if (load_configs(db, row, arena, error) < 0)
        return -1;
    *ret = row;
    return 0;
}

int golden_history(struct db *db, const struct golden_filter *filter, struct arena *arena, struct golden_row **ret,
                   int *ret_count, bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, filter->device_key);
    params_int(&params, filter->before);
    params_int(&params, filter->limit + 1);
    params_text(&params, project_or_default(filter->project_id));
    if (db_run(db, &history, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > filter->limit ? filter->limit : rows;
    *ret = read_all(result, count, arena);
    *ret_count = count;
    *ret_more = rows > filter->limit;
    return 0;
}

/* ---- setting ---- */

struct setting {
    const char *project_id, *job_id, *note;
    int64_t number; /* of what is golden then */
    bool made;
};

static int no_such_job(const char *id, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-such-job", "job_id", "There is no job %.64s.", id);
}

static int check_job(struct pg *pg, const struct setting *setting, PGresult **ret_result, const char **ret_device,
                     struct error *error) {
    const char *job_id = setting->job_id;
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, setting->project_id);
    if (pg_run(pg, &look_at_job, &params, ret_result, error) < 0)
        return -1;
    if (PQntuples(*ret_result) == 0)
        return no_such_job(job_id, error);
    struct row row = {*ret_result, 0, 0};
    const char *state = row_raw(&row);
    if (strcmp(state, job_state_name(JOB_SUCCEEDED)) != 0)
        return error_set(error, ERROR_CONFLICT, "job-not-succeeded", "job_id",
                         "Job %s is %s; only one that has succeeded can be golden.", job_id, state);
    *ret_device = row_raw(&row);
    return 0;
}

/* The setting's number, when this job is golden already; else 0. */
static int renew(struct pg *pg, const struct setting *setting, const char *device_key, int64_t *ret,
                 struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, device_key);
    params_text(&params, setting->project_id);
    params_text(&params, setting->job_id);
    params_text(&params, setting->note);
    if (pg_run(pg, &set_note, &params, &result, error) < 0)
        return -1;
    *ret = PQntuples(result) ? row_int(&(struct row){result, 0, 0}) : 0;
    return 0;
}

static int replace(struct pg *pg, const struct setting *setting, const char *device_key, int64_t *ret,
                   struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params class = {0}, job = {0}, both = {0};
    params_text(&class, device_key);
    params_text(&class, setting->project_id);
    params_text(&job, setting->job_id);
    params_text(&job, setting->note);
    if (pg_run(pg, &end, &class, NULL, error) < 0 || pg_run(pg, &insert, &job, &result, error) < 0)
        return -1;
    *ret = row_int(&(struct row){result, 0, 0});
    params_text(&both, setting->job_id);
    params_int(&both, *ret);
    return pg_run(pg, &copy, &both, NULL, error);
}

static int set(struct pg *pg, void *data, struct error *error) {
    struct setting *setting = data;
    PGresult *job CLEANUP(pg_clear_p) = NULL;
    const char *device_key = NULL;
    struct params class = {0};
    if (check_job(pg, setting, &job, &device_key, error) < 0)
        return -1;
    params_text(&class, device_key);
    params_text(&class, setting->project_id);
    if (pg_run(pg, &lock_class, &class, NULL, error) < 0 || renew(pg, setting, device_key, &setting->number, error) < 0)
        return -1;
    setting->made = setting->number == 0;
    return setting->made ? replace(pg, setting, device_key, &setting->number, error) : 0;
}

int golden_set(struct db *db, const char *project_id, const char *job_id, const char *note, struct arena *arena,
               struct golden_row **ret, bool *ret_made, struct error *error) {
    struct setting setting = {project_or_default(project_id), job_id, note, 0, false};
    if (!uuid_valid(job_id))
        return no_such_job(job_id ? job_id : "", error);
    if (db_transaction(db, set, &setting, error) < 0)
        return -1;
    *ret_made = setting.made;
    return golden_get(db, project_id, setting.number, arena, ret, error);
}

int golden_end(struct db *db, const char *project_id, const char *device_key, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, device_key);
    params_text(&params, project_or_default(project_id));
    if (db_run(db, &end, &params, &result, error) < 0)
        return -1;
    if (pg_affected(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-golden", "device", "Nothing is golden for %.160s.", device_key);
    return 0;
}
