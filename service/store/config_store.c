/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/config_store.h"

#include <math.h>
#include <string.h>

#include "service/store/pg.h"

#define COLUMNS                                                                                                  \
    "workload, device_key, template, version, index, entity, cost_s, spread_s, baseline_s, provenance, job_id, " \
    "updated_at"

static const struct statement put = {
    "config_put",
    "INSERT INTO configs AS c (workload, device_key, template, version, index, entity, cost_s, spread_s, baseline_s,"
    " provenance, job_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) "
    "ON CONFLICT (workload, device_key) DO UPDATE SET template = excluded.template, version = excluded.version,"
    " index = excluded.index, entity = excluded.entity, cost_s = excluded.cost_s, spread_s = excluded.spread_s,"
    " baseline_s = excluded.baseline_s, provenance = excluded.provenance, job_id = excluded.job_id, updated_at = now() "
    "WHERE excluded.cost_s < c.cost_s OR (excluded.template = c.template AND excluded.version > c.version)"};
static const struct statement get = {"config_get",
                                     "SELECT " COLUMNS " FROM configs WHERE workload = $1 AND device_key = $2"};
static const struct statement list = {"config_list",
                                      "SELECT " COLUMNS " FROM configs WHERE ($1::text IS NULL OR workload = $1)"
                                      " AND ($2::text IS NULL OR device_key = $2)"
                                      " AND ($3::text IS NULL OR (workload, device_key) > ($3, coalesce($4, ''))) "
                                      "ORDER BY workload, device_key LIMIT $5"};

int config_put(struct db *db, const struct config_row *config, bool *ret_kept, struct error *error) {
    if (strlen(config->workload) > CONFIG_MAX_WORKLOAD)
        return error_set(error, ERROR_LIMIT, "workload-too-long", "workload", "A workload may have %d bytes.",
                         CONFIG_MAX_WORKLOAD);
    if (!isfinite(config->cost_s))
        return error_set(error, ERROR_INVALID, "bad-cost", "cost", "A configuration's cost must be a finite number.");
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, config->workload);
    params_text(&params, config->device_key);
    params_text(&params, config->template);
    params_int(&params, config->version);
    params_int(&params, config->index);
    params_text(&params, config->entity);
    params_double(&params, config->cost_s);
    params_double(&params, config->spread_s);
    params_double(&params, config->baseline_s);
    params_text(&params, config->provenance);
    params_text(&params, config->job_id);
    if (db_run(db, &put, &params, &result, error) < 0)
        return -1;
    if (ret_kept)
        *ret_kept = pg_affected(result) == 1;
    return 0;
}

static void read_config(const PGresult *result, int number, struct arena *arena, struct config_row *ret) {
    struct row row = {result, number, 0};
    ret->workload = row_text(&row, arena);
    ret->device_key = row_text(&row, arena);
    ret->template = row_text(&row, arena);
    ret->version = (int)row_int(&row);
    ret->index = row_int(&row);
    ret->entity = row_text(&row, arena);
    ret->cost_s = row_double(&row);
    ret->spread_s = row_double(&row);
    ret->baseline_s = row_double(&row);
    ret->provenance = row_text(&row, arena);
    ret->job_id = row_text(&row, arena);
    ret->updated_us = row_time(&row);
}

int config_get(struct db *db, const char *workload, const char *device_key, struct arena *arena,
               struct config_row **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, workload);
    params_text(&params, device_key);
    if (db_run(db, &get, &params, &result, error) < 0)
        return -1;
    *ret = NULL;
    if (PQntuples(result) == 1) {
        *ret = arena_alloc(arena, sizeof **ret);
        read_config(result, 0, arena, *ret);
    }
    return 0;
}

int config_list(struct db *db, const struct config_filter *filter, struct arena *arena, struct config_row **ret,
                int *ret_count, bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, filter->workload);
    params_text(&params, filter->device_key);
    params_text(&params, filter->after_workload);
    params_text(&params, filter->after_device_key);
    params_int(&params, filter->limit + 1);
    if (db_run(db, &list, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > filter->limit ? filter->limit : rows;
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        read_config(result, i, arena, &(*ret)[i]);
    *ret_count = count;
    *ret_more = rows > filter->limit;
    return 0;
}
