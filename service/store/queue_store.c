/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/queue_store.h"

#include <string.h>

#include "service/store/job_tx.h"
#include "service/store/pg.h"

/* Which items `o` a claimant may take now: $3 its kind of device, $5 its class, $6 its label, $7 the most attempts. */
#define MAY_TAKE                                                                                            \
    "NOT o.held AND o.available_at <= now() AND o.attempts < $7::int"                                       \
    " AND (o.device_kind = 'any' OR o.device_kind = $3) AND (o.device_key = '' OR o.device_key = $5::text)" \
    " AND (o.label = '' OR o.label = $6)"

/* The projects are gone through in turn until one has an item: the limit outside ends it. */
static const struct statement claim = {
    "queue_claim",
    "WITH found AS (SELECT item.id FROM (SELECT * FROM project_turns($3) WHERE NOT spent ORDER BY had, project_id) turn"
    "  CROSS JOIN LATERAL (SELECT o.id FROM queue o WHERE o.project_id = turn.project_id AND " MAY_TAKE
    "   ORDER BY o.priority DESC, o.job_id, o.promise DESC NULLS FIRST, o.id LIMIT 1 FOR UPDATE SKIP LOCKED) item"
    "  LIMIT 1) "
    "UPDATE queue q SET token = $1, worker_id = $2, worker_kind = $3, ordinal = $4, attempts = q.attempts + 1,"
    " available_at = now() + $8 * interval '1 second' FROM found WHERE q.id = found.id "
    "RETURNING q.id, q.kind, q.job_id, q.task, q.attempts, (SELECT state FROM jobs WHERE id = q.job_id)"};
static const struct statement renew = {
    "queue_renew", "UPDATE queue SET available_at = now() + $3 * interval '1 second' WHERE id = $1 AND token = $2"};
static const struct statement put_back = {
    "queue_put_back",
    "UPDATE queue SET token = NULL, worker_id = NULL, available_at = now() + $3 * interval '1 second',"
    " attempts = greatest(attempts - $4::int, 0) WHERE id = $1 AND token = $2"};
/*
 * Whether one that may be taken comes before this one in the order of claims: of its own project, or of one that had
 * less than this one would have had when it gave its lease up. It also is when its project has spent its GPU seconds.
 */
static const struct statement yield = {
    "queue_yield",
    "WITH turn AS MATERIALIZED (SELECT * FROM project_turns($3)),"
    " mine AS MATERIALIZED (SELECT q.*, turn.spent,"
    "  turn.had - 10 + extract(epoch FROM now() - q.charged_at)::float8 AS had"
    "  FROM queue q JOIN turn ON turn.project_id = q.project_id WHERE q.id = $1),"
    " other AS MATERIALIZED (SELECT mine.spent"
    "  OR EXISTS (SELECT FROM queue o WHERE o.project_id = mine.project_id AND o.id <> mine.id AND " MAY_TAKE
    "   AND (o.priority > mine.priority OR o.priority = mine.priority AND (o.job_id < mine.job_id"
    "    OR o.job_id = mine.job_id AND (o.promise IS NULL OR o.promise > $4::float8))))"
    "  OR EXISTS (SELECT FROM turn WHERE turn.project_id <> mine.project_id AND turn.had < mine.had AND NOT turn.spent"
    "   AND EXISTS (SELECT FROM queue o WHERE o.project_id = turn.project_id AND " MAY_TAKE ")) AS first FROM mine) "
    "UPDATE queue q SET promise = $4, attempts = 0, token = CASE WHEN other.first THEN NULL ELSE q.token END,"
    " worker_id = CASE WHEN other.first THEN NULL ELSE q.worker_id END,"
    " available_at = CASE WHEN other.first THEN now() ELSE q.available_at END "
    "FROM other WHERE q.id = $1 AND q.token = $2 RETURNING other.first"};
/*
 * What is dated further ahead than any lease or delay reaches was dated before the database's clock was set back: left
 * alone it would wait until the clock is there again. Whoever still works under a lease renews it in time.
 */
static const struct statement date_anew = {"queue_date_anew",
                                           "UPDATE queue SET available_at = CASE WHEN token IS NULL THEN now()"
                                           " ELSE now() + $1::float8 / 4 * interval '1 second' END"
                                           " WHERE available_at > now() + $1::float8 * interval '1 second'"};
static const struct statement find_exhausted = {
    "queue_find_exhausted",
    "SELECT id, job_id, kind, task FROM queue WHERE attempts >= $1::int AND available_at <= now() "
    "AND NOT held ORDER BY id LIMIT 100"};
static const struct statement still_exhausted = {
    "queue_still_exhausted", "SELECT 1 FROM queue WHERE id = $1 AND attempts >= $2::int AND available_at <= now()"};
static const struct statement depth = {
    "queue_depth", "SELECT count(*) FILTER (WHERE NOT held AND (token IS NULL OR available_at <= now())),"
                   " count(*) FILTER (WHERE NOT held AND token IS NOT NULL AND available_at > now()),"
                   " count(*) FILTER (WHERE held),"
                   " coalesce(extract(epoch FROM now() - min(available_at) FILTER (WHERE NOT held"
                   "  AND available_at <= now())), 0) FROM queue"};

static const struct statement waits = {
    "queue_waits",
    "SELECT queue_wait_bounds(), kind, device_kind, array_agg(n ORDER BY place), max(total_s) FROM ("
    " SELECT kind, device_kind, place, sum(n)::bigint AS n, sum(total_s) AS total_s"
    " FROM queue_waits, unnest(counts) WITH ORDINALITY AS c(n, place) GROUP BY kind, device_kind, place) s "
    "GROUP BY kind, device_kind ORDER BY kind, device_kind LIMIT $1"};

static const char *const kind_names[] = {[WORK_PLAN] = "plan", [WORK_TUNE] = "tune", [WORK_BUILD] = "build"};

const char *work_kind_name(enum work_kind kind) {
    return kind_names[kind];
}

static enum work_kind kind_of(const char *name) {
    return strcmp(name, "plan") == 0 ? WORK_PLAN : strcmp(name, "tune") == 0 ? WORK_TUNE : WORK_BUILD;
}

/* --- Claiming --- */

static int start_job(struct pg *pg, void *data, struct error *error) {
    const struct work_item *item = data;
    enum job_state state;
    if (item_hold(pg, item, &state, error) < 0)
        return -1;
    return state == JOB_QUEUED ? job_move(pg, item->job_id, state, JOB_RUNNING, NULL, error) : 0;
}

int queue_claim(struct db *db, const struct claimant *claimant, struct work_item *ret, bool *ret_found,
                struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct work_item item = {0};
    struct params params = {0};
    uuid_make(item.token);
    params_text(&params, item.token);
    params_text(&params, claimant->worker_id);
    params_text(&params, claimant->device_kind);
    params_int(&params, claimant->ordinal);
    params_text(&params, claimant->device_key);
    params_text(&params, claimant->label ? claimant->label : "");
    params_int(&params, QUEUE_MAX_ATTEMPTS);
    params_double(&params, claimant->lease_s);
    *ret_found = false;
    if (db_run(db, &claim, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return 0;
    struct row row = {result, 0, 0};
    item.id = row_int(&row);
    item.kind = kind_of(row_raw(&row));
    row_copy(&row, item.job_id, sizeof item.job_id);
    item.task = (int)row_int(&row);
    item.attempts = (int)row_int(&row);
    if (strcmp(row_raw(&row), "queued") == 0) {
        struct error failure;
        if (db_transaction(db, start_job, &item, &failure) < 0) {
            if (strcmp(failure.code, "lease-lost") == 0) /* cancelled or paused in this moment */
                return 0;
            if (error)
                *error = failure;
            return -1;
        }
    }
    *ret = item;
    *ret_found = true;
    return 0;
}

static int run_leased(struct db *db, const struct statement *statement, const struct params *params,
                      struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, statement, params, &result, error) < 0)
        return -1;
    return pg_affected(result) == 1 ? 0 : item_lost(error);
}

int queue_renew(struct db *db, const struct work_item *item, double lease_s, struct error *error) {
    struct params params = {0};
    params_int(&params, item->id);
    params_text(&params, item->token);
    params_double(&params, lease_s);
    return run_leased(db, &renew, &params, error);
}

int queue_put_back(struct db *db, const struct work_item *item, double delay_s, bool counts, struct error *error) {
    struct params params = {0};
    params_int(&params, item->id);
    params_text(&params, item->token);
    params_double(&params, delay_s);
    params_int(&params, counts ? 0 : 1);
    return run_leased(db, &put_back, &params, error);
}

int queue_yield(struct db *db, const struct claimant *claimant, const struct work_item *item, double promise,
                bool *ret_given_up, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, item->id);
    params_text(&params, item->token);
    params_text(&params, claimant->device_kind);
    params_double(&params, promise);
    params_text(&params, claimant->device_key);
    params_text(&params, claimant->label ? claimant->label : "");
    params_int(&params, QUEUE_MAX_ATTEMPTS);
    if (db_run(db, &yield, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return item_lost(error);
    *ret_given_up = row_bool(&(struct row){result, 0, 0});
    return 0;
}

/* --- Running out of attempts --- */

struct exhausted {
    int64_t id;
    char job_id[UUID_TEXT];
    const char *kind;
    int task;
    bool failed;
};

static int fail_exhausted(struct pg *pg, void *data, struct error *error) {
    struct exhausted *exhausted = data;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    enum job_state state;
    exhausted->failed = false;
    if (job_lock(pg, exhausted->job_id, &state, error) < 0)
        return -1;
    params_int(&params, exhausted->id);
    params_int(&params, QUEUE_MAX_ATTEMPTS);
    if (pg_run(pg, &still_exhausted, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0 || job_state_ended(state))
        return 0;
    struct error why;
    if (exhausted->task >= 0)
        error_set(&why, ERROR_INTERNAL, "work-lost", NULL,
                  "The search of task %d was begun %d times, and each time its worker was lost without progress.",
                  exhausted->task, QUEUE_MAX_ATTEMPTS);
    else
        error_set(&why, ERROR_INTERNAL, "work-lost", NULL,
                  "The job's %s was begun %d times, and each time its worker was lost before the end.", exhausted->kind,
                  QUEUE_MAX_ATTEMPTS);
    exhausted->failed = true;
    if (job_move(pg, exhausted->job_id, state, JOB_FAILED, &why, error) < 0 ||
        queue_drop(pg, exhausted->job_id, error) < 0)
        return -1;
    return tasks_cancel(pg, exhausted->job_id, error);
}

int queue_expire(struct db *db, int *ret_failed, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    struct params farthest = {0};
    int failed = 0;
    params_double(&farthest, QUEUE_MOST_AHEAD_S);
    params_int(&params, QUEUE_MAX_ATTEMPTS);
    if (db_run(db, &date_anew, &farthest, NULL, error) < 0 || db_run(db, &find_exhausted, &params, &result, error) < 0)
        return -1;
    for (int i = 0; i < PQntuples(result); i++) {
        struct row row = {result, i, 0};
        struct exhausted exhausted = {.id = row_int(&row)};
        row_copy(&row, exhausted.job_id, sizeof exhausted.job_id);
        exhausted.kind = row_raw(&row);
        exhausted.task = (int)row_int(&row);
        struct error failure;
        if (db_transaction(db, fail_exhausted, &exhausted, &failure) == 0) {
            failed += exhausted.failed;
        } else if (failure.class != ERROR_NOT_FOUND) {
            if (error)
                *error = failure;
            return -1;
        }
    }
    if (ret_failed)
        *ret_failed = failed;
    return 0;
}

int queue_depth(struct db *db, struct queue_depth *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, &depth, NULL, &result, error) < 0)
        return -1;
    struct row row = {result, 0, 0};
    ret->waiting = row_int(&row);
    ret->leased = row_int(&row);
    ret->held = row_int(&row);
    ret->oldest_s = row_double(&row);
    return 0;
}

int queue_waits(struct db *db, struct arena *arena, struct queue_waits *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_int(&params, QUEUE_MOST_WAITS);
    if (db_run(db, &waits, &params, &result, error) < 0)
        return -1;
    ret->n = PQntuples(result);
    ret->n_bounds = 0;
    ret->of = arena_array(arena, (size_t)ret->n + 1, sizeof *ret->of);
    for (int i = 0; i < ret->n; i++) {
        struct row row = {result, i, 0};
        ret->n_bounds = row_doubles(&row, ret->bounds_s, QUEUE_MOST_BOUNDS);
        ret->of[i].kind = kind_of(row_raw(&row));
        ret->of[i].device_kind = row_text(&row, arena);
        row_ints(&row, ret->of[i].counts, QUEUE_MOST_BOUNDS + 1);
        ret->of[i].total_s = row_double(&row);
    }
    return 0;
}
