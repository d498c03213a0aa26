/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/config_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/model/workload_distance.h"
#include "service/store/pg.h"

#define COLUMNS                                                                                                  \
    "workload, device_key, template, version, index, entity, cost_s, spread_s, baseline_s, provenance, job_id, " \
    "updated_at, project_id, (SELECT name FROM projects WHERE id = project_id), visibility"

static const struct statement put = {
    "config_put",
    "INSERT INTO configs AS c (workload, device_key, template, version, index, entity, cost_s, spread_s, baseline_s,"
    " provenance, job_id, project_id, visibility, shared_with) "
    "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::uuid, p.id, p.config_visibility, p.config_shared_with"
    " FROM projects p WHERE p.id = coalesce($12::uuid, (SELECT project_id FROM jobs WHERE id = $11::uuid),"
    "  '" PROJECT_DEFAULT_ID "') "
    "ON CONFLICT (workload, device_key, project_id) DO UPDATE SET template = excluded.template, version = "
    "excluded.version,"
    " index = excluded.index, entity = excluded.entity, cost_s = excluded.cost_s, spread_s = excluded.spread_s,"
    " baseline_s = excluded.baseline_s, provenance = excluded.provenance, job_id = excluded.job_id, updated_at = now() "
    "WHERE excluded.cost_s < c.cost_s OR (excluded.template = c.template AND excluded.version > c.version)"};
static const struct statement get = {"config_get", "SELECT " COLUMNS " FROM config_best($1, $2, $3)"};
static const struct statement share = {
    "config_share", "UPDATE configs SET visibility = $4, shared_with = $5 WHERE project_id = $1"
                    " AND ($2::text IS NULL OR workload = $2) AND ($3::text IS NULL OR device_key = $3)"};
/* The page's keys come first, in the order of an index: the best of each is looked for only then. */
static const struct statement list = {
    "config_list",
    "WITH page AS MATERIALIZED (SELECT DISTINCT c.workload, c.device_key FROM configs c WHERE config_visible(c, $6)"
    "  AND ($1::text IS NULL OR c.workload = $1) AND ($2::text IS NULL OR c.device_key = $2)"
    "  AND ($3::text IS NULL OR (c.workload, c.device_key) > ($3, coalesce($4, '')))"
    "  ORDER BY c.workload, c.device_key LIMIT $5) "
    "SELECT " COLUMNS " FROM (SELECT best.* FROM page CROSS JOIN LATERAL"
    "  config_best(page.workload, page.device_key, $6) best) seen ORDER BY workload, device_key"};
static const struct statement list_own = {"config_list_own",
                                          "SELECT " COLUMNS " FROM configs WHERE ($1::text IS NULL OR workload = $1)"
                                          " AND ($2::text IS NULL OR device_key = $2)"
                                          " AND ($3::text IS NULL OR (workload, device_key) > ($3, coalesce($4, ''))) "
                                          "AND project_id = $6 ORDER BY workload, device_key LIMIT $5"};
static const struct statement near = {
    "config_near",
    "WITH page AS MATERIALIZED (SELECT DISTINCT c.workload FROM configs c WHERE c.device_key = $1"
    "  AND config_visible(c, $5) AND starts_with(c.workload, $2) AND ($3::text IS NULL OR c.workload > $3)"
    "  ORDER BY c.workload LIMIT $4) "
    "SELECT best.workload, best.template, best.version FROM page CROSS JOIN LATERAL"
    "  config_best(page.workload, $1, $5) best ORDER BY best.workload"};

static int check(const struct config_row *config, struct error *error) {
    if (strlen(config->workload) > CONFIG_MAX_WORKLOAD)
        return error_set(error, ERROR_LIMIT, "workload-too-long", "workload", "A workload may have %d bytes.",
                         CONFIG_MAX_WORKLOAD);
    if (strlen(config->device_key) > CONFIG_MAX_DEVICE_KEY)
        return error_set(error, ERROR_LIMIT, "device-too-long", "device", "A class of devices may have %d bytes.",
                         CONFIG_MAX_DEVICE_KEY);
    if (!isfinite(config->cost_s))
        return error_set(error, ERROR_INVALID, "bad-cost", "cost", "A configuration's cost must be a finite number.");
    return 0;
}

static void fill(struct params *params, const struct config_row *config) {
    params_text(params, config->workload);
    params_text(params, config->device_key);
    params_text(params, config->template);
    params_int(params, config->version);
    params_int(params, config->index);
    params_text(params, config->entity);
    params_double(params, config->cost_s);
    params_double(params, config->spread_s);
    params_double(params, config->baseline_s);
    params_text(params, config->provenance);
    params_text(params, config->job_id);
    params_text(params, config->project_id);
}

int config_put(struct db *db, const struct config_row *config, bool *ret_kept, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    if (check(config, error) < 0)
        return -1;
    fill(&params, config);
    if (db_run(db, &put, &params, &result, error) < 0)
        return -1;
    if (ret_kept)
        *ret_kept = pg_affected(result) == 1;
    return 0;
}

struct batch {
    const struct config_row *configs;
    int n, kept;
};

static int put_batch(struct pg *pg, void *data, struct error *error) {
    struct batch *batch = data;
    batch->kept = 0;
    for (int i = 0; i < batch->n; i++) {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        fill(&params, &batch->configs[i]);
        if (pg_run(pg, &put, &params, &result, error) < 0)
            return -1;
        batch->kept += pg_affected(result) == 1;
    }
    return 0;
}

static int by_key(const void *left, const void *right) {
    const struct config_row *a = left, *b = right;
    int order = strcmp(a->workload, b->workload);
    return order ? order : strcmp(a->device_key, b->device_key);
}

/* In one order everywhere, so that two batches at a time wait for each other instead of deadlocking. */
int config_put_all(struct db *db, struct config_row *configs, int n, int *ret_kept, struct error *error) {
    struct batch batch = {configs, n, 0};
    for (int i = 0; i < n; i++)
        if (check(&configs[i], error) < 0)
            return -1;
    if (n > 0) {
        qsort(configs, (size_t)n, sizeof *configs, by_key);
        if (db_transaction(db, put_batch, &batch, error) < 0)
            return -1;
    }
    *ret_kept = batch.kept;
    return 0;
}

static int read_config(const PGresult *result, int number, struct arena *arena, struct config_row *ret,
                       struct error *error) {
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
    ret->project_id = row_text(&row, arena);
    ret->project = row_text(&row, arena);
    return visibility_parse(row_raw(&row), &ret->visibility, error);
}

int config_get(struct db *db, const char *viewer, const char *workload, const char *device_key, struct arena *arena,
               struct config_row **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, workload);
    params_text(&params, device_key);
    params_text(&params, project_or_default(viewer));
    if (db_run(db, &get, &params, &result, error) < 0)
        return -1;
    *ret = NULL;
    if (PQntuples(result) == 0)
        return 0;
    *ret = arena_alloc(arena, sizeof **ret);
    return read_config(result, 0, arena, *ret, error);
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
    params_text(&params, project_or_default(filter->viewer));
    if (db_run(db, filter->own ? &list_own : &list, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > filter->limit ? filter->limit : rows;
    *ret = arena_array(arena, (size_t)count + 1, sizeof **ret);
    for (int i = 0; i < count; i++)
        if (read_config(result, i, arena, &(*ret)[i], error) < 0)
            return -1;
    *ret_count = count;
    *ret_more = rows > filter->limit;
    return 0;
}

int config_share(struct db *db, const char *project_id, const struct config_filter *filter,
                 const struct sharing *sharing, int64_t *ret_changed, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    const char *with;
    if (project_ids(db, sharing, arena, &with, error) < 0)
        return -1;
    params_text(&params, project_or_default(project_id));
    params_text(&params, filter->workload);
    params_text(&params, filter->device_key);
    params_text(&params, visibility_name(sharing->visibility));
    params_text(&params, with);
    if (db_run(db, &share, &params, &result, error) < 0)
        return -1;
    *ret_changed = pg_affected(result);
    return 0;
}

enum { EACH_PAGE = 500, NEAR_PAGE = 2000 };

int config_each(struct db *db, const struct config_filter *filter,
                int (*fn)(void *data, const struct config_row *config, struct error *error), void *data,
                struct error *error) {
    struct arena *last CLEANUP(arena_free_p) = NULL; /* has the texts of the cursor */
    struct config_filter page = *filter;
    page.limit = EACH_PAGE;
    for (bool more = true; more;) {
        struct arena *arena = arena_new(0);
        struct config_row *configs;
        int n = 0, status = config_list(db, &page, arena, &configs, &n, &more, error);
        arena_free(last);
        last = arena;
        for (int i = 0; i < n && status == 0; i++)
            status = fn(data, &configs[i], error);
        if (status < 0)
            return -1;
        if (more) {
            page.after_workload = configs[n - 1].workload;
            page.after_device_key = configs[n - 1].device_key;
        }
    }
    return 0;
}

/* ---- nearest ---- */

struct nearest {
    const struct config_wish *wish;
    char prefix[32];        /* "conv2d(": how the keys of all workloads of the operator begin */
    struct buf own;         /* key of the wished workload */
    struct buf best, after; /* keys of the nearest so far, and of the row before */
    double distance;        /* of the best; INFINITY: none yet */
};

static void consider(struct nearest *nearest, struct row *row) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct workload *workload;
    struct error ignored; /* a workload that is no longer one is nobody's neighbour */
    const char *key = row_raw(row), *template = row_raw(row);
    int version = (int)row_int(row);
    buf_clear(&nearest->after);
    buf_puts(&nearest->after, key);
    if (strcmp(key, buf_str(&nearest->own)) == 0 || !nearest->wish->usable(nearest->wish->data, template, version) ||
        workload_parse(key, arena, &workload, &ignored) < 0)
        return;
    double distance = workload_distance(nearest->wish->workload, workload);
    if (!(distance < nearest->distance))
        return;
    nearest->distance = distance;
    buf_clear(&nearest->best);
    buf_puts(&nearest->best, key);
}

static int scan(struct db *db, struct nearest *nearest, struct error *error) {
    for (int rows = NEAR_PAGE; rows == NEAR_PAGE;) {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        params_text(&params, nearest->wish->device_key);
        params_text(&params, nearest->prefix);
        params_text(&params, nearest->after.len ? buf_str(&nearest->after) : NULL);
        params_int(&params, NEAR_PAGE);
        params_text(&params, project_or_default(nearest->wish->viewer));
        if (db_run(db, &near, &params, &result, error) < 0)
            return -1;
        rows = PQntuples(result);
        for (int i = 0; i < rows; i++)
            consider(nearest, &(struct row){result, i, 0});
    }
    return 0;
}

int config_nearest(struct db *db, const struct config_wish *wish, struct arena *arena, struct config_row **ret,
                   double *ret_distance, struct error *error) {
    struct nearest nearest = {.wish = wish, .distance = INFINITY};
    struct config_row *config = NULL;
    buf_init(&nearest.own, 1 << 20);
    buf_init(&nearest.best, CONFIG_MAX_WORKLOAD);
    buf_init(&nearest.after, CONFIG_MAX_WORKLOAD);
    workload_key(wish->workload, &nearest.own);
    snprintf(nearest.prefix, sizeof nearest.prefix, "%s(", op_name(wish->workload->op));
    int status = scan(db, &nearest, error);
    if (status == 0 && isfinite(nearest.distance))
        status = config_get(db, wish->viewer, buf_str(&nearest.best), wish->device_key, arena, &config, error);
    buf_release(&nearest.own);
    buf_release(&nearest.best);
    buf_release(&nearest.after);
    if (status < 0)
        return -1;
    *ret = config;
    *ret_distance = nearest.distance;
    return 0;
}
