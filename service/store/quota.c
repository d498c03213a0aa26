/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/quota.h"

#include <string.h>

#include "service/store/project_store.h"

/* A share lock where there is no quota, so that submissions to one project do not wait for each other. */
static const struct statement get = {
    "quota_get", "SELECT max_model_bytes, max_open_jobs, max_gpu_s FROM projects WHERE id = $1 FOR KEY SHARE"};
static const struct statement hold = {"quota_hold", "SELECT 1 FROM projects WHERE id = $1 FOR NO KEY UPDATE"};
static const struct statement open_jobs = {"quota_open_jobs",
                                           "SELECT count(*) FROM (SELECT FROM jobs WHERE project_id = $1"
                                           " AND state IN ('queued', 'running', 'paused') LIMIT $2) open"};
static const struct statement gpu_seconds = {
    "quota_gpu_seconds", "SELECT coalesce(sum(day_s), 0)::bigint FROM project_use WHERE project_id = $1"
                         " AND device_kind = 'cuda' AND day = (now() AT TIME ZONE 'UTC')::date"};
static const struct statement model_bytes = {"quota_model_bytes",
                                             "SELECT coalesce(sum(bytes), 0) FROM models WHERE project_id = $1"};

static int read_quotas(struct pg *pg, const char *project_id, struct project_quotas *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, project_id);
    if (pg_run(pg, &get, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-project", NULL, "There is no project %.64s.", project_id);
    int64_t *const fields[] = {&ret->model_bytes, &ret->open_jobs, &ret->gpu_s};
    for (int i = 0; i < 3; i++)
        *fields[i] = PQgetisnull(result, 0, i) ? QUOTA_NONE : row_int(&(struct row){result, 0, i});
    return 0;
}

static int number(struct pg *pg, const struct statement *statement, const struct params *params, int64_t *ret,
                  struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, statement, params, &result, error) < 0)
        return -1;
    *ret = row_int(&(struct row){result, 0, 0});
    return 0;
}

static int check_open_jobs(struct pg *pg, const char *project_id, int64_t quota, struct error *error) {
    struct params project = {0}, params = {0};
    int64_t open;
    params_text(&project, project_id);
    params_text(&params, project_id);
    params_int(&params, quota);
    if (pg_run(pg, &hold, &project, NULL, error) < 0 || number(pg, &open_jobs, &params, &open, error) < 0)
        return -1;
    if (open < quota)
        return 0;
    return error_set(error, ERROR_LIMIT, "quota-open-jobs", NULL,
                     "The project may have %lld open jobs, and has them. Try again when one has ended.",
                     (long long)quota);
}

static int check_gpu_seconds(struct pg *pg, const char *project_id, int64_t quota, struct error *error) {
    struct params params = {0};
    int64_t spent;
    params_text(&params, project_id);
    if (number(pg, &gpu_seconds, &params, &spent, error) < 0)
        return -1;
    if (spent < quota)
        return 0;
    return error_set(error, ERROR_LIMIT, "quota-gpu-seconds", NULL,
                     "The project may use GPUs for %lld s a day, and has used %lld s. The next day begins at midnight, "
                     "UTC; until then it may use processors (device cpu).",
                     (long long)quota, (long long)spent);
}

int quota_for_job(struct pg *pg, const char *project_id, const char *device, struct error *error) {
    struct project_quotas quotas;
    project_id = project_or_default(project_id);
    if (read_quotas(pg, project_id, &quotas, error) < 0)
        return -1;
    if (quotas.open_jobs != QUOTA_NONE && check_open_jobs(pg, project_id, quotas.open_jobs, error) < 0)
        return -1;
    bool may_use_gpu = strcmp(device, "cpu") != 0;
    if (quotas.gpu_s != QUOTA_NONE && may_use_gpu)
        return check_gpu_seconds(pg, project_id, quotas.gpu_s, error);
    return 0;
}

int quota_for_model(struct pg *pg, const char *project_id, int64_t bytes, struct error *error) {
    struct project_quotas quotas;
    struct params params = {0};
    int64_t used;
    project_id = project_or_default(project_id);
    params_text(&params, project_id);
    if (read_quotas(pg, project_id, &quotas, error) < 0)
        return -1;
    if (quotas.model_bytes == QUOTA_NONE)
        return 0;
    if (pg_run(pg, &hold, &params, NULL, error) < 0 || number(pg, &model_bytes, &params, &used, error) < 0)
        return -1;
    if (used <= quotas.model_bytes && bytes <= quotas.model_bytes - used)
        return 0;
    return error_set(error, ERROR_LIMIT, "quota-model-bytes", NULL,
                     "The project's models may have %lld bytes together; they have %lld, and this one has %lld.",
                     (long long)quotas.model_bytes, (long long)used, (long long)bytes);
}
