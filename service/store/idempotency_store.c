/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/idempotency_store.h"

#include <string.h>

#include "service/store/pg.h"

#define TOO_OLD "i.created_at < now() - $4 * interval '1 second'"
/* Nobody renews it any more, or the statement runs again after its connection was lost. */
#define MAY_TAKE "(i.request = excluded.request AND (i.lease_until < now() OR i.token = excluded.token))"

static const struct statement find = {
    "idempotency_find", "SELECT i.request, i.status, i.type, i.location, i.body FROM idempotency i "
                        "WHERE i.scope = $1 AND i.key = $2 AND NOT ($3 = i.request AND coalesce(i.lease_until < now(),"
                        " false)) AND NOT " TOO_OLD};
static const struct statement reserve = {
    "idempotency_reserve",
    "INSERT INTO idempotency AS i (scope, key, request, token, lease_until)"
    " VALUES ($1, $2, $3, $5, now() + $6 * interval '1 second') "
    "ON CONFLICT (scope, key) DO UPDATE SET request = excluded.request, token = excluded.token,"
    " lease_until = excluded.lease_until, status = NULL, type = NULL, location = NULL, body = NULL,"
    " created_at = excluded.created_at WHERE " MAY_TAKE " OR " TOO_OLD};
static const struct statement renew = {
    "idempotency_renew",
    "UPDATE idempotency SET lease_until = now() + $2 * interval '1 second' WHERE token = ANY ($1::uuid[])"};
static const struct statement complete = {
    "idempotency_complete",
    "UPDATE idempotency SET token = NULL, lease_until = NULL, status = $4, type = $5, location = $6, body = $7 "
    "WHERE scope = $1 AND key = $2 AND token = $3"};
static const struct statement release = {"idempotency_release",
                                         "DELETE FROM idempotency WHERE scope = $1 AND key = $2 AND token = $3"};
static const struct statement put = {
    "idempotency_put", "INSERT INTO idempotency AS i (scope, key, request, status, type, location, body)"
                       " VALUES ($1, $2, $3, $5, $6, $7, $8) "
                       "ON CONFLICT (scope, key) DO UPDATE SET request = excluded.request, token = NULL,"
                       " lease_until = NULL, status = excluded.status, type = excluded.type,"
                       " location = excluded.location, body = excluded.body, created_at = excluded.created_at "
                       "WHERE " TOO_OLD};
static const struct statement sweep = {
    "idempotency_sweep", "DELETE FROM idempotency WHERE (scope, key) IN (SELECT scope, key FROM idempotency "
                         "WHERE created_at < now() - $1 * interval '1 second' LIMIT $2 FOR UPDATE SKIP LOCKED)"};

static void key_params(struct params *params, const struct idempotency_key *key) {
    params_text(params, key->scope);
    params_text(params, key->key);
}

static void answer_params(struct params *params, const struct idempotency_answer *answer) {
    params_int(params, answer->status);
    params_text(params, answer->type);
    params_text(params, answer->location);
    params_text(params, answer->body);
}

static int in_progress(struct error *error) {
    return error_set(error, ERROR_CONFLICT, "idempotency-in-progress", "Idempotency-Key",
                     "The first request with this Idempotency-Key is still being worked on.");
}

int idempotency_find(struct db *db, const struct idempotency_key *key, struct arena *arena,
                     struct idempotency_answer **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    key_params(&params, key);
    params_text(&params, key->request);
    params_double(&params, IDEMPOTENCY_KEPT_S);
    if (db_run(db, &find, &params, &result, error) < 0)
        return -1;
    *ret = NULL;
    if (PQntuples(result) == 0)
        return 0;
    struct row row = {result, 0, 0};
    if (strcmp(row_raw(&row), key->request) != 0)
        return error_set(error, ERROR_INVALID, "idempotency-key-reused", "Idempotency-Key",
                         "This Idempotency-Key came with another request before. Use a new key for a new request.");
    struct idempotency_answer answer = {.status = (int)row_int(&row)};
    if (answer.status == 0)
        return in_progress(error);
    answer.type = row_raw(&row);
    answer.location = row_raw(&row);
    answer.body = row_raw(&row);
    pg_keep(&result, arena);
    *ret = arena_alloc(arena, sizeof **ret);
    **ret = answer;
    return 0;
}

int idempotency_reserve(struct db *db, const struct idempotency_key *key, const char *token, double lease_s,
                        struct arena *arena, struct idempotency_answer **ret, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    key_params(&params, key);
    params_text(&params, key->request);
    params_double(&params, IDEMPOTENCY_KEPT_S);
    params_text(&params, token);
    params_double(&params, lease_s);
    if (db_run(db, &reserve, &params, &result, error) < 0)
        return -1;
    *ret = NULL;
    if (pg_affected(result) == 1)
        return 0;
    if (idempotency_find(db, key, arena, ret, error) < 0)
        return -1;
    return *ret ? 0 : in_progress(error); /* it was released in this moment: the client comes again */
}

int idempotency_renew(struct db *db, const char *tokens, double lease_s, struct error *error) {
    struct params params = {0};
    params_text(&params, tokens);
    params_double(&params, lease_s);
    return db_run(db, &renew, &params, NULL, error);
}

int idempotency_complete(struct db *db, const struct idempotency_key *key, const char *token,
                         const struct idempotency_answer *answer, struct error *error) {
    struct params params = {0};
    key_params(&params, key);
    params_text(&params, token);
    answer_params(&params, answer);
    return db_run(db, &complete, &params, NULL, error);
}

int idempotency_release(struct db *db, const struct idempotency_key *key, const char *token, struct error *error) {
    struct params params = {0};
    key_params(&params, key);
    params_text(&params, token);
    return db_run(db, &release, &params, NULL, error);
}

int idempotency_put(struct pg *pg, const struct idempotency_key *key, const struct idempotency_answer *answer,
                    struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    key_params(&params, key);
    params_text(&params, key->request);
    params_double(&params, IDEMPOTENCY_KEPT_S);
    answer_params(&params, answer);
    if (pg_run(pg, &put, &params, &result, error) < 0)
        return -1;
    return pg_affected(result) == 1 ? 0 : in_progress(error);
}

struct keeping {
    const struct idempotency_key *key;
    const struct idempotency_answer *answer;
};

static int put_alone(struct pg *pg, void *data, struct error *error) {
    struct keeping *keeping = data;
    return idempotency_put(pg, keeping->key, keeping->answer, error);
}

int idempotency_keep(struct db *db, const struct idempotency_key *key, const struct idempotency_answer *answer,
                     struct error *error) {
    return db_with(db, put_alone, &(struct keeping){key, answer}, error);
}

int idempotency_sweep(struct db *db, double max_age_s, int batch, int64_t *ret_removed, struct error *error) {
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
