/* SPDX-License-Identifier: Apache-2.0 */
/* queue_renew.c: tasks that are searched anew, since the templates have changed under a job that goes on. */
#include "service/base/json.h"
#include "service/store/job_tx.h"

#define FORGET_BEST                                                                                    \
    "best_template = NULL, best_version = NULL, best_index = NULL, best_entity = NULL, best_s = NULL," \
    " best_spread_s = NULL, baseline_s = NULL"
static const struct statement renew = {
    "renew_task", "UPDATE tasks SET " FORGET_BEST ", renewals = renewals + 1, stale = trials_done - $3::bigint,"
                  " trials_planned = trials_planned - stale + trials_done - $3::bigint "
                  "WHERE job_id = $1 AND number = $2 AND renewals < $4::bigint"};
static const struct statement put_search = {"renew_put_search",
                                            "UPDATE searches SET state = $3 WHERE job_id = $1 AND task = $2"};
static const struct statement reopen = {"renew_reopen", "UPDATE tasks SET " FORGET_BEST
                                                        ", state = 'queued', served = NULL, stop_reason = NULL,"
                                                        " finished_at = NULL WHERE job_id = $1 AND number = $2"};

static int log_text(struct pg *pg, const char *job_id, const char *text, struct error *error) {
    struct json_object *data CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(data, "level", "warn");
    json_add_string(data, "text", text);
    return event_add(pg, job_id, "log", json_text(data, NULL), error);
}

struct renewal {
    const struct work_item *item;
    int64_t kept;
    const char *state;
};

static int renew_tune(struct pg *pg, void *data, struct error *error) {
    const struct renewal *renewal = data;
    const struct work_item *item = renewal->item;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    enum job_state state;
    char text[160];
    struct params params = {0}, search = {0};
    params_text(&params, item->job_id);
    params_int(&params, item->task);
    params_int(&params, renewal->kept);
    params_int(&params, QUEUE_MAX_RENEWALS);
    params_text(&search, item->job_id);
    params_int(&search, item->task);
    params_text(&search, renewal->state);
    if (item_hold(pg, item, &state, error) < 0 || pg_run(pg, &renew, &params, &result, error) < 0)
        return -1;
    if (pg_affected(result) == 0)
        return error_set(error, ERROR_CONFLICT, "templates-differ", NULL,
                         "The search of task %d began anew %d times, since workers with different templates took turns "
                         "at it. Let all of them run one version of warptune.",
                         item->task, QUEUE_MAX_RENEWALS);
    snprintf(text, sizeof text, "Task %d is searched anew: its templates have changed since its search began.",
             item->task);
    return pg_run(pg, &put_search, &search, NULL, error) < 0 ? -1 : log_text(pg, item->job_id, text, error);
}

int queue_renew_tune(struct db *db, const struct work_item *item, int64_t kept, const char *state,
                     struct error *error) {
    return db_transaction(db, renew_tune, &(struct renewal){item, kept, state}, error);
}

struct reopening {
    const struct work_item *item;
    const int *tasks;
    int n;
};

static int reopen_tunes(struct pg *pg, void *data, struct error *error) {
    const struct reopening *reopening = data;
    const char *job_id = reopening->item->job_id;
    enum job_state state;
    char text[160];
    if (item_end(pg, reopening->item, &state, error) < 0)
        return -1;
    for (int i = 0; i < reopening->n; i++) {
        struct params params = {0};
        params_text(&params, job_id);
        params_int(&params, reopening->tasks[i]);
        if (pg_run(pg, &reopen, &params, NULL, error) < 0)
            return -1;
    }
    snprintf(text, sizeof text, "The best of %d %s is of templates that have changed since: searched again.",
             reopening->n, reopening->n == 1 ? "task" : "tasks");
    return log_text(pg, job_id, text, error) < 0 ? -1 : queue_add_tasks(pg, job_id, error);
}

int queue_reopen_tunes(struct db *db, const struct work_item *item, const int *tasks, int n, struct error *error) {
    return db_transaction(db, reopen_tunes, &(struct reopening){item, tasks, n}, error);
}
