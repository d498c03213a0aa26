/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/project_store.h"

#include <string.h>

#include "service/base/json.h"
#include "service/store/pg.h"

enum { MOST_SHARED = 100, JOBS_AT_ONCE = 10 };

#define COLUMNS                                                                                          \
    "p.id, p.name, p.max_model_bytes, p.max_open_jobs, p.max_gpu_s, p.config_visibility,"                \
    " ARRAY(SELECT o.name FROM projects o WHERE o.id = ANY (p.config_shared_with) ORDER BY o.name),"     \
    " p.created_at, m.bytes, m.models,"                                                                  \
    " (SELECT count(*) FROM jobs WHERE project_id = p.id AND state IN ('queued', 'running', 'paused'))," \
    " u.gpu_s, u.device_s "                                                                              \
    "FROM projects p CROSS JOIN LATERAL (SELECT coalesce(sum(bytes), 0) AS bytes, count(*) AS models"    \
    "  FROM models WHERE project_id = p.id) m "                                                          \
    "CROSS JOIN LATERAL (SELECT coalesce(sum(day_s) FILTER (WHERE device_kind = 'cuda'), 0) AS gpu_s,"   \
    "  coalesce(sum(day_s), 0) AS device_s FROM project_use WHERE project_id = p.id"                     \
    "  AND day = (now() AT TIME ZONE 'UTC')::date) u "

static const struct statement insert = {
    "project_insert",
    "INSERT INTO projects (id, name, max_model_bytes, max_open_jobs, max_gpu_s, config_visibility, config_shared_with) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING"};
static const struct statement update = {
    "project_update", "UPDATE projects SET name = $2, max_model_bytes = $3, max_open_jobs = $4, max_gpu_s = $5,"
                      " config_visibility = $6, config_shared_with = $7 WHERE id = $1"};
static const struct statement by_id = {"project_get", "SELECT " COLUMNS "WHERE p.id = $1"};
static const struct statement by_name = {"project_find", "SELECT " COLUMNS "WHERE p.name = $1"};
static const struct statement page = {
    "project_list", "SELECT " COLUMNS "WHERE $1::uuid IS NULL OR p.id < $1 ORDER BY p.id DESC LIMIT $2"};
static const struct statement of_job = {"project_of_job", "SELECT project_id FROM jobs WHERE id = $1"};
static const struct statement of_model = {"project_of_model", "SELECT project_id FROM models WHERE id = $1"};
static const struct statement resolve = {"project_resolve",
                                         "SELECT w.name, p.id FROM json_array_elements_text($1::json) AS w(name) "
                                         "LEFT JOIN projects p ON p.name = w.name ORDER BY w.name"};

static const struct statement lock = {"project_lock", "SELECT 1 FROM projects WHERE id = $1 FOR UPDATE"};
static const struct statement holds = {
    "project_holds", "SELECT count(*) FILTER (WHERE state IN ('queued', 'running', 'paused')), count(*),"
                     " (SELECT count(*) FROM models WHERE project_id = $1) FROM jobs WHERE project_id = $1"};
static const struct statement revoke = {
    "project_revoke", "UPDATE tokens SET revoked_at = now() WHERE project_id = $1 AND revoked_at IS NULL"};
static const struct statement delete_jobs = {"project_delete_jobs",
                                             "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE project_id = $1"
                                             " AND state NOT IN ('queued', 'running', 'paused') ORDER BY id LIMIT $2)"};
static const struct statement delete_models = {"project_delete_models", "DELETE FROM models WHERE project_id = $1"};
static const struct statement delete_row = {"project_delete", "DELETE FROM projects WHERE id = $1"};

static const char *const visibilities[] = {
    [VISIBLE_PRIVATE] = "private", [VISIBLE_SHARED] = "shared", [VISIBLE_PUBLIC] = "public"};

const char *visibility_name(enum visibility visibility) {
    return visibilities[visibility];
}

int visibility_parse(const char *name, enum visibility *ret, struct error *error) {
    for (int i = 0; i < VISIBILITY_COUNT; i++)
        if (strcmp(name, visibilities[i]) == 0) {
            *ret = (enum visibility)i;
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-visibility", "visibility",
                     "A visibility is private, shared or public, not '%.40s'.", name);
}

bool project_name_valid(const char *name) {
    size_t len = strlen(name);
    return len > 0 && len < PROJECT_NAME && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == len &&
           !strchr("._-", name[0]);
}

static int no_such_project(const char *id, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-such-project", NULL, "There is no project %.64s.", id ? id : "");
}

/* --- Reading --- */

static int64_t read_quota(struct row *row) {
    bool none = PQgetisnull(row->result, row->number, row->column);
    int64_t quota = row_int(row);
    return none ? QUOTA_NONE : quota;
}

static int read_project(const PGresult *result, int number, struct arena *arena, struct project_row *ret,
                        struct error *error) {
    struct row row = {result, number, 0};
    row_copy(&row, ret->id, sizeof ret->id);
    row_copy(&row, ret->name, sizeof ret->name);
    ret->quotas.model_bytes = read_quota(&row);
    ret->quotas.open_jobs = read_quota(&row);
    ret->quotas.gpu_s = read_quota(&row);
    if (visibility_parse(row_raw(&row), &ret->configs.visibility, error) < 0)
        return -1;
    const char **with = arena_array(arena, MOST_SHARED, sizeof *with);
    ret->configs.n_with = row_texts(&row, arena, with, MOST_SHARED);
    ret->configs.with = with;
    ret->created_us = row_time(&row);
    ret->model_bytes = row_int(&row);
    ret->models = row_int(&row);
    ret->open_jobs = row_int(&row);
    ret->gpu_s = row_double(&row);
    ret->device_s = row_double(&row);
    return 0;
}

static int get_one(struct db *db, const struct statement *statement, const char *key, struct arena *arena,
                   struct project_row **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, key);
    if (db_run(db, statement, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return no_such_project(key, error);
    struct project_row *project = arena_alloc(arena, sizeof *project);
    if (read_project(result, 0, arena, project, error) < 0)
        return -1;
    *ret = project;
    return 0;
}

int project_get(struct db *db, const char *id, struct arena *arena, struct project_row **ret, struct error *error) {
    id = project_or_default(id);
    return uuid_valid(id) ? get_one(db, &by_id, id, arena, ret, error) : no_such_project(id, error);
}

int project_find(struct db *db, const char *name, struct arena *arena, struct project_row **ret, struct error *error) {
    return get_one(db, &by_name, name, arena, ret, error);
}

int project_list(struct db *db, const char *after, int limit, struct arena *arena, struct project_row **ret,
                 int *ret_count, bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    if (after && *after && !uuid_valid(after))
        return error_set(error, ERROR_INVALID, "bad-cursor", "cursor", "The cursor is not one that a page gave.");
    params_text(&params, after && *after ? after : NULL);
    params_int(&params, limit + 1);
    if (db_run(db, &page, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > limit ? limit : rows;
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        if (read_project(result, i, arena, &(*ret)[i], error) < 0)
            return -1;
    *ret_count = count;
    *ret_more = rows > limit;
    return 0;
}

static int owner(struct db *db, const struct statement *statement, const char *id, char ret_id[UUID_TEXT],
                 bool *ret_found, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, id);
    *ret_found = false;
    if (!uuid_valid(id))
        return 0;
    if (db_run(db, statement, &params, &result, error) < 0)
        return -1;
    *ret_found = PQntuples(result) == 1;
    if (*ret_found)
        row_copy(&(struct row){result, 0, 0}, ret_id, UUID_TEXT);
    return 0;
}

int project_of_job(struct db *db, const char *job_id, char ret_id[UUID_TEXT], struct error *error) {
    bool found;
    if (owner(db, &of_job, job_id, ret_id, &found, error) < 0)
        return -1;
    return found
               ? 0
               : error_set(error, ERROR_NOT_FOUND, "no-such-job", NULL, "There is no job %.64s.", job_id ? job_id : "");
}

int project_of_model(struct db *db, const char *model_id, char ret_id[UUID_TEXT], struct error *error) {
    bool found;
    if (owner(db, &of_model, model_id, ret_id, &found, error) < 0)
        return -1;
    return found ? 0
                 : error_set(error, ERROR_NOT_FOUND, "no-such-model", NULL, "There is no model %.64s.",
                             model_id ? model_id : "");
}

/* --- Writing --- */

int project_ids(struct db *db, const struct sharing *sharing, struct arena *arena, const char **ret,
                struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct json_object *names CLEANUP(json_put_p) = json_object_new_array();
    struct params params = {0};
    if (sharing->n_with > MOST_SHARED)
        return error_set(error, ERROR_LIMIT, "too-many-projects", "shared_with", "It can be shared with %d projects.",
                         MOST_SHARED);
    *ret = "{}";
    if (sharing->n_with == 0)
        return 0;
    for (int i = 0; i < sharing->n_with; i++)
        json_object_array_add(names, json_object_new_string(sharing->with[i]));
    params_text(&params, json_text(names, NULL));
    if (db_run(db, &resolve, &params, &result, error) < 0)
        return -1;
    char *ids = arena_strdup(arena, "");
    for (int i = 0; i < PQntuples(result); i++) {
        if (PQgetisnull(result, i, 1))
            return error_set(error, ERROR_INVALID, "no-such-project", "shared_with", "There is no project '%.80s'.",
                             PQgetvalue(result, i, 0));
        ids = arena_printf(arena, "%s%s%s", ids, i ? "," : "", PQgetvalue(result, i, 1));
    }
    *ret = arena_printf(arena, "{%s}", ids);
    return 0;
}

static void params_quota(struct params *params, int64_t quota) {
    if (quota == QUOTA_NONE)
        params_text(params, NULL);
    else
        params_int(params, quota);
}

static int fill(struct db *db, const char *id, const struct project_new *project, struct arena *arena,
                struct params *ret, struct error *error) {
    const char *with;
    if (!project_name_valid(project->name))
        return error_set(error, ERROR_INVALID, "bad-name", "name",
                         "A project's name has 1 to %d of a-z, 0-9, '.', '_' and '-', and begins with a letter or "
                         "digit.",
                         PROJECT_NAME - 1);
    if (project_ids(db, &project->configs, arena, &with, error) < 0)
        return -1;
    params_text(ret, id);
    params_text(ret, project->name);
    params_quota(ret, project->quotas.model_bytes);
    params_quota(ret, project->quotas.open_jobs);
    params_quota(ret, project->quotas.gpu_s);
    params_text(ret, visibility_name(project->configs.visibility));
    params_text(ret, with);
    return 0;
}

static int name_taken(const char *name, struct error *error) {
    return error_set(error, ERROR_CONFLICT, "project-exists", "name", "There is a project '%.64s' already.", name);
}

int project_create(struct db *db, const struct project_new *project, struct arena *arena, struct project_row **ret,
                   struct error *error) {
    char id[UUID_TEXT];
    struct params params = {0};
    uuid_make(id);
    if (fill(db, id, project, arena, &params, error) < 0 || db_run(db, &insert, &params, NULL, error) < 0 ||
        project_find(db, project->name, arena, ret, error) < 0)
        return -1;
    return strcmp((*ret)->id, id) == 0 ? 0 : name_taken(project->name, error);
}

static int run_update(struct pg *pg, void *data, struct error *error) {
    const struct params *params = data;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &update, params, &result, error) < 0)
        return strcmp(pg_sqlstate(pg), "23505") == 0 ? name_taken(params->values[1], error) : -1;
    return pg_affected(result) == 1 ? 0 : no_such_project(params->values[0], error);
}

static int is_default(struct error *error) {
    return error_set(error, ERROR_CONFLICT, "default-project", NULL,
                     "The project `default` always exists, by that name.");
}

int project_update(struct db *db, const char *id, const struct project_new *project, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct params params = {0};
    id = project_or_default(id);
    if (!uuid_valid(id))
        return no_such_project(id, error);
    if (strcmp(id, PROJECT_DEFAULT_ID) == 0 && strcmp(project->name, "default") != 0)
        return is_default(error);
    if (fill(db, id, project, arena, &params, error) < 0)
        return -1;
    return db_with(db, run_update, &params, error);
}

/* --- Deleting --- */

struct deletion {
    const char *id;
    bool everything;
};

/* Nobody may use the project any more, or the reason why it stays. */
static int close_project(struct pg *pg, void *data, struct error *error) {
    const struct deletion *deletion = data;
    PGresult *found CLEANUP(pg_clear_p) = NULL, *held CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, deletion->id);
    if (pg_run(pg, &lock, &params, &found, error) < 0 || pg_run(pg, &holds, &params, &held, error) < 0)
        return -1;
    if (PQntuples(found) == 0)
        return no_such_project(deletion->id, error);
    struct row row = {held, 0, 0};
    int64_t open = row_int(&row), jobs = row_int(&row), models = row_int(&row);
    if (open)
        return error_set(error, ERROR_CONFLICT, "project-in-use", NULL,
                         "%lld of its jobs have not ended. Cancel them first.", (long long)open);
    if ((jobs || models) && !deletion->everything)
        return error_set(error, ERROR_CONFLICT, "project-not-empty", NULL,
                         "It has %lld jobs and %lld models, which would be lost. Ask with everything=1.",
                         (long long)jobs, (long long)models);
    return pg_run(pg, &revoke, &params, NULL, error);
}

/* A few jobs at a time: each may have many thousand trials. */
static int delete_all_jobs(struct db *db, const char *id, struct error *error) {
    int64_t deleted;
    do {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        params_text(&params, id);
        params_int(&params, JOBS_AT_ONCE);
        if (db_run(db, &delete_jobs, &params, &result, error) < 0)
            return -1;
        deleted = pg_affected(result);
    } while (deleted > 0);
    return 0;
}

static int delete_rest(struct pg *pg, void *data, struct error *error) {
    const struct deletion *deletion = data;
    struct params params = {0};
    params_text(&params, deletion->id);
    if (pg_run(pg, &delete_models, &params, NULL, error) == 0 && pg_run(pg, &delete_row, &params, NULL, error) == 0)
        return 0;
    if (strcmp(pg_sqlstate(pg), "23503") == 0)
        return error_set(error, ERROR_CONFLICT, "project-in-use", NULL,
                         "A job was submitted to it in this moment. Try again.");
    return -1;
}

/* Bytes to which nothing refers then are swept away later. */
int project_delete(struct db *db, const char *id, bool everything, struct error *error) {
    struct deletion deletion = {project_or_default(id), everything};
    if (!uuid_valid(deletion.id))
        return no_such_project(id, error);
    if (strcmp(deletion.id, PROJECT_DEFAULT_ID) == 0)
        return is_default(error);
    if (db_transaction(db, close_project, &deletion, error) < 0 || delete_all_jobs(db, deletion.id, error) < 0)
        return -1;
    return db_transaction(db, delete_rest, &deletion, error);
}
