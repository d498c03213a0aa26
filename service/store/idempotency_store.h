/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idempotency_store.h: the answers that a repeated POST gets again, by the client's Idempotency-Key.
 *
 * Two ways to an answer. One transaction: idempotency_put beside whatever the request makes. Or a reservation, taken
 * before anything is done and completed with the answer; its server renews it, and once that stops, because the server
 * died, the same request may take it anew. A key that is older than 24 hours is as good as new.
 */
#ifndef WARPTUNE_STORE_IDEMPOTENCY_STORE_H
#define WARPTUNE_STORE_IDEMPOTENCY_STORE_H

#include "service/base/arena.h"
#include "service/base/sha256.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

#define IDEMPOTENCY_KEPT_S 86400.0

struct pg;

struct idempotency_key {
    const char *scope; /* within what the key is one: the route */
    const char *key;   /* the client's */
    char request[SHA256_HEX];
};

struct idempotency_answer {
    int status;
    const char *type;     /* Content-Type; NULL: none */
    const char *location; /* NULL: none */
    const char *body;
};

/*
 * The answer, or *ret NULL when the key is not known. While it is worked on: ERROR_CONFLICT "idempotency-in-progress".
 * Known with another request: ERROR_INVALID "idempotency-key-reused".
 */
int idempotency_find(struct db *db, const struct idempotency_key *key, struct arena *arena,
                     struct idempotency_answer **ret, struct error *error) MUST_CHECK;
/* The same; a key that is not known is now reserved under the token (from uuid_make) for lease_s. */
int idempotency_reserve(struct db *db, const struct idempotency_key *key, const char *token, double lease_s,
                        struct arena *arena, struct idempotency_answer **ret, struct error *error) MUST_CHECK;
/* `tokens`: a PostgreSQL array of those whose reservations last lease_s from now. */
int idempotency_renew(struct db *db, const char *tokens, double lease_s, struct error *error) MUST_CHECK;
/* Ends a reservation with its answer, or with none, so that the request may come anew. One that was lost stays so. */
int idempotency_complete(struct db *db, const struct idempotency_key *key, const char *token,
                         const struct idempotency_answer *answer, struct error *error) MUST_CHECK;
int idempotency_release(struct db *db, const struct idempotency_key *key, const char *token,
                        struct error *error) MUST_CHECK;

/* Key and answer at once, in the caller's transaction. The key is known: ERROR_CONFLICT "idempotency-in-progress". */
int idempotency_put(struct pg *pg, const struct idempotency_key *key, const struct idempotency_answer *answer,
                    struct error *error) MUST_CHECK;
/* The same in a transaction of its own. */
int idempotency_keep(struct db *db, const struct idempotency_key *key, const struct idempotency_answer *answer,
                     struct error *error) MUST_CHECK;

/* Deletes keys older than that, so many at a time; ret_removed (optional): how many in all. */
int idempotency_sweep(struct db *db, double max_age_s, int batch, int64_t *ret_removed, struct error *error) MUST_CHECK;

#endif
