/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/webhook_store.h"

#include <math.h>
#include <string.h>

#include "service/store/job_tx.h"

static const struct statement add = {"webhook_add", "INSERT INTO webhooks (job_id, url, secret) VALUES ($1, $2, $3)"};
static const struct statement note = {
    "webhook_note",
    "INSERT INTO webhook_deliveries (id, job_id, event, payload) SELECT $2, j.id, j.last_event, json_build_object("
    "  'type', 'job.' || j.state, 'timestamp', to_char(now(), 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),"
    "  'data', json_build_object('job_id', j.id, 'model_id', j.model_id, 'event', j.last_event, 'state', j.state,"
    "   'previous_state', $3::text, 'error_code', j.error_code, 'error_text', j.error_text, 'labels', j.labels)) "
    "FROM jobs j JOIN webhooks w ON w.job_id = j.id WHERE j.id = $1 AND w.disabled_at IS NULL"};
static const struct statement claim = {
    "webhook_claim",
    "WITH due AS (SELECT id FROM webhook_deliveries WHERE state = 'pending' AND next_at <= now()"
    "  ORDER BY next_at LIMIT $1 FOR UPDATE SKIP LOCKED) "
    "UPDATE webhook_deliveries d SET token = $2, next_at = now() + $3 * interval '1 second', attempts = d.attempts + 1 "
    "FROM due, webhooks w WHERE d.id = due.id AND w.job_id = d.job_id "
    "RETURNING d.id, d.token, d.job_id, d.attempts, w.url, w.secret, d.payload"};
static const struct statement end = {
    "webhook_end",
    "UPDATE webhook_deliveries SET state = $3, token = NULL, last_at = now(), last_status = $4, last_error = $5,"
    " next_at = CASE WHEN $3 = 'pending' THEN now() + $6::float8 * interval '1 second' END,"
    " finished_at = CASE WHEN $3 <> 'pending' THEN now() END WHERE id = $1 AND token = $2"};
static const struct statement put_back = {
    "webhook_put_back", "UPDATE webhook_deliveries SET token = NULL, next_at = now(), attempts = attempts - 1 "
                        "WHERE id = $1 AND token = $2"};
static const struct statement disable = {"webhook_disable",
                                         "UPDATE webhooks SET disabled_at = now() WHERE job_id = $1"};
static const struct statement cancel = {
    "webhook_cancel", "UPDATE webhook_deliveries SET state = 'cancelled', token = NULL, next_at = NULL,"
                      " finished_at = now() WHERE job_id = $1 AND state = 'pending'"};
static const struct statement get = {"webhook_get", "SELECT w.url, w.disabled_at FROM jobs j "
                                                    "LEFT JOIN webhooks w ON w.job_id = j.id WHERE j.id = $1"};
#define DELIVERY_COLUMNS \
    "id, event, state, attempts, last_status, last_error, payload, next_at, last_at, created_at, finished_at"
static const struct statement list = {
    "webhook_list", "SELECT " DELIVERY_COLUMNS " FROM webhook_deliveries WHERE job_id = $1 AND ($2 = 0 OR event < $2) "
                    "ORDER BY event DESC LIMIT $3"};
static const struct statement again = {
    "webhook_again", "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, token = NULL, next_at = now(),"
                     " finished_at = NULL WHERE job_id = $1 AND id = $2 RETURNING " DELIVERY_COLUMNS};
static const struct statement enable = {"webhook_enable", "UPDATE webhooks SET disabled_at = NULL WHERE job_id = $1"};
static const struct statement sweep = {
    "webhook_sweep", "DELETE FROM webhook_deliveries WHERE id IN (SELECT id FROM webhook_deliveries "
                     "WHERE finished_at < now() - $1 * interval '1 second' LIMIT $2 FOR UPDATE SKIP LOCKED)"};

/* --- Written with the job --- */

int webhook_add(struct pg *pg, const char *job_id, const char *url, const char *secret, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    params_text(&params, url);
    params_text(&params, secret);
    return pg_run(pg, &add, &params, NULL, error) < 0 ? -1 : webhook_note(pg, job_id, NULL, error);
}

int webhook_note(struct pg *pg, const char *job_id, const char *from, struct error *error) {
    char id[UUID_TEXT];
    struct params params = {0};
    uuid_make(id);
    params_text(&params, job_id);
    params_text(&params, id);
    params_text(&params, from);
    return pg_run(pg, &note, &params, NULL, error);
}

/* --- Sending --- */

int webhook_claim(struct db *db, int limit, double lease_s, struct arena *arena, struct webhook_delivery **ret,
                  int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    char token[UUID_TEXT];
    uuid_make(token);
    params_int(&params, limit);
    params_text(&params, token);
    params_double(&params, lease_s);
    if (db_run(db, &claim, &params, &result, error) < 0)
        return -1;
    int count = PQntuples(result);
    struct webhook_delivery *deliveries = arena_array(arena, (size_t)count + 1, sizeof *deliveries);
    for (int i = 0; i < count; i++) {
        struct row row = {result, i, 0};
        struct webhook_delivery *delivery = &deliveries[i];
        row_copy(&row, delivery->lease.id, sizeof delivery->lease.id);
        row_copy(&row, delivery->lease.token, sizeof delivery->lease.token);
        row_copy(&row, delivery->lease.job_id, sizeof delivery->lease.job_id);
        delivery->lease.attempts = (int)row_int(&row);
        delivery->url = row_raw(&row);
        delivery->secret = row_raw(&row);
        delivery->payload = row_raw(&row);
    }
    pg_keep(&result, arena);
    *ret = deliveries;
    *ret_count = count;
    return 0;
}

struct ending {
    const struct webhook_lease *lease;
    const struct webhook_attempt *attempt;
    const char *state;
    double retry_s;
};

static int end_attempt(struct pg *pg, const struct ending *ending, bool *ret_ended, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, ending->lease->id);
    params_text(&params, ending->lease->token);
    params_text(&params, ending->state);
    if (ending->attempt->status)
        params_int(&params, ending->attempt->status);
    else
        params_text(&params, NULL);
    params_text(&params, ending->attempt->error);
    params_double(&params, ending->retry_s);
    if (pg_run(pg, &end, &params, &result, error) < 0)
        return -1;
    *ret_ended = pg_affected(result) == 1;
    return 0;
}

static int end_alone(struct pg *pg, void *data, struct error *error) {
    bool ended;
    return end_attempt(pg, data, &ended, error);
}

int webhook_delivered(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                      struct error *error) {
    return db_with(db, end_alone, &(struct ending){lease, attempt, "delivered", INFINITY}, error);
}

int webhook_failed(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                   double retry_s, struct error *error) {
    const char *state = isfinite(retry_s) ? "pending" : "failed";
    return db_with(db, end_alone, &(struct ending){lease, attempt, state, retry_s}, error);
}

static int run_for_job(struct pg *pg, const struct statement *statement, const char *job_id, struct error *error) {
    struct params params = {0};
    params_text(&params, job_id);
    return pg_run(pg, statement, &params, NULL, error);
}

static int end_gone(struct pg *pg, void *data, struct error *error) {
    const struct ending *ending = data;
    bool ended;
    if (end_attempt(pg, ending, &ended, error) < 0)
        return -1;
    if (!ended)
        return 0;
    if (run_for_job(pg, &cancel, ending->lease->job_id, error) < 0)
        return -1;
    return run_for_job(pg, &disable, ending->lease->job_id, error);
}

int webhook_gone(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                 struct error *error) {
    return db_transaction(db, end_gone, &(struct ending){lease, attempt, "failed", INFINITY}, error);
}

int webhook_put_back(struct db *db, const struct webhook_lease *lease, struct error *error) {
    struct params params = {0};
    params_text(&params, lease->id);
    params_text(&params, lease->token);
    return db_run(db, &put_back, &params, NULL, error);
}

/* --- Looking --- */

int webhook_get(struct db *db, const char *job_id, struct arena *arena, struct webhook_row *ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, job_id);
    if (uuid_valid(job_id) && db_run(db, &get, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-job", NULL, "There is no job %.64s.", job_id);
    struct row row = {result, 0, 0};
    ret->url = row_text(&row, arena);
    ret->disabled_us = row_time(&row);
    return 0;
}

static void read_delivery(struct row *row, struct delivery_row *ret) {
    row_copy(row, ret->id, sizeof ret->id);
    ret->event = row_int(row);
    ret->state = row_raw(row);
    ret->attempts = (int)row_int(row);
    ret->last_status = (int)row_int(row);
    ret->last_error = row_raw(row);
    ret->payload = row_raw(row);
    ret->next_us = row_time(row);
    ret->last_us = row_time(row);
    ret->created_us = row_time(row);
    ret->finished_us = row_time(row);
}

int webhook_list(struct db *db, const char *job_id, int64_t before, int limit, struct arena *arena,
                 struct delivery_row **ret, int *ret_count, bool *ret_more, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, job_id);
    params_int(&params, before);
    params_int(&params, limit + 1);
    if (uuid_valid(job_id) && db_run(db, &list, &params, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = rows > limit ? limit : rows;
    struct delivery_row *deliveries = arena_array(arena, (size_t)count + 1, sizeof *deliveries);
    for (int i = 0; i < count; i++)
        read_delivery(&(struct row){result, i, 0}, &deliveries[i]);
    pg_keep(&result, arena);
    *ret = deliveries;
    *ret_count = count;
    *ret_more = rows > limit;
    return 0;
}

struct resending {
    const char *job_id, *id;
    struct arena *arena;
    struct delivery_row *ret;
};

static int send_again(struct pg *pg, void *data, struct error *error) {
    struct resending *resending = data;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, resending->job_id);
    params_text(&params, resending->id);
    if (uuid_valid(resending->job_id) && uuid_valid(resending->id) && pg_run(pg, &again, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-delivery", NULL, "There is no delivery %.64s of job %.64s.",
                         resending->id, resending->job_id);
    read_delivery(&(struct row){result, 0, 0}, resending->ret);
    pg_keep(&result, resending->arena);
    return run_for_job(pg, &enable, resending->job_id, error);
}

int webhook_redeliver(struct db *db, const char *job_id, const char *id, struct arena *arena, struct delivery_row *ret,
                      struct error *error) {
    return db_transaction(db, send_again, &(struct resending){job_id, id, arena, ret}, error);
}

int webhook_sweep(struct db *db, double max_age_s, int batch, int64_t *ret_removed, struct error *error) {
    int64_t removed = 0, last;
    do {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        params_double(&params, max_age_s);
        params_int(&params, batch);
        if (db_run(db, &sweep, &params, &result, error) < 0)
            return -1;
        last = pg_affected(result);
        removed += last;
    } while (last == batch);
    if (ret_removed)
        *ret_removed = removed;
    return 0;
}
