/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/reuse_store.h"

#include <string.h>

#include "service/base/json.h"
#include "service/store/pg.h"

static const struct statement find_trial = {
    "reuse_trial", "SELECT x.number FROM tasks t JOIN trials x ON x.job_id = t.job_id AND x.task = t.number "
                   "WHERE t.job_id = $1 AND t.workload = $2 AND x.template = $3 AND x.index = $4"};
/* The longest search that was long enough. */
static const struct statement find_search = {
    "reuse_search",
    "SELECT t.trials_done FROM tasks t JOIN jobs j ON j.id = t.job_id "
    "WHERE t.workload = $1 AND j.device_key = $2 AND t.state = 'succeeded'"
    " AND (t.trials_done >= $5::bigint OR t.stop_reason IN ('space_exhausted', 'at_floor')"
    "  OR (t.stop_reason = 'early_stopping' AND $6::bigint > 0 AND t.trials_planned >= $5::bigint"
    "   AND (j.options->'tuner'->>'early_stopping')::bigint >= $6::bigint))"
    " AND EXISTS (SELECT FROM trials x WHERE x.job_id = t.job_id AND x.task = t.number AND x.template = $3"
    "  AND x.version = $4) "
    "ORDER BY t.trials_done DESC LIMIT 1"};

static int load_trial(struct db *db, const struct config_row *config, int64_t *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    *ret = -1;
    if (!config->job_id)
        return 0;
    params_text(&params, config->job_id);
    params_text(&params, config->workload);
    params_text(&params, config->template);
    params_int(&params, config->index);
    if (db_run(db, &find_trial, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result))
        *ret = row_int(&(struct row){result, 0, 0});
    return 0;
}

/* -1 in *ret: no search here was long enough. */
static int load_search(struct db *db, const struct reuse_wish *wish, const struct config_row *config, int64_t *ret,
                       struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, wish->workload);
    params_text(&params, wish->device_key);
    params_text(&params, config->template);
    params_int(&params, config->version);
    params_int(&params, wish->trials);
    params_int(&params, wish->early_stopping);
    if (db_run(db, &find_search, &params, &result, error) < 0)
        return -1;
    *ret = PQntuples(result) ? row_int(&(struct row){result, 0, 0}) : -1;
    return 0;
}

/* As its provenance has it; -1 when that does not say. */
static int64_t stated_trials(const struct config_row *config) {
    struct json_object *provenance CLEANUP(json_put_p) = NULL;
    struct error ignored; /* another server may have meant something else by the field */
    int64_t trials = -1;
    if (json_parse(config->provenance, strlen(config->provenance), &provenance, &ignored) < 0 ||
        !json_object_is_type(provenance, json_type_object) ||
        json_read_int(provenance, "trials", JSON_OPTIONAL, 0, INT64_MAX, &trials, &ignored) < 0)
        return -1;
    return trials;
}

int reuse_find(struct db *db, const struct reuse_wish *wish, struct arena *arena, struct reuse_record **ret,
               struct error *error) {
    struct config_row *config;
    struct reuse_record record;
    *ret = NULL;
    if (config_get(db, wish->viewer, wish->workload, wish->device_key, arena, &config, error) < 0)
        return -1;
    if (!config || !wish->usable(wish->data, config))
        return 0;
    record.config = *config;
    record.trials = stated_trials(config);
    if (record.trials < wish->trials && load_search(db, wish, config, &record.trials, error) < 0)
        return -1;
    if (record.trials < 0)
        return 0;
    if (load_trial(db, config, &record.trial, error) < 0)
        return -1;
    *ret = arena_alloc(arena, sizeof **ret);
    **ret = record;
    return 0;
}
