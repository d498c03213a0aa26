/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_store.h: who is told of jobs' states, and the deliveries of it.
 *
 * A job gets its webhook when it is made (job_store.h), and a delivery is written by each change of its state, in the
 * same transaction. Any server may send it: claimed for a lease like an item of the queue, so that a delivery whose
 * server died is sent by another. It is sent at least once; receivers know a repeat by its id.
 */
#ifndef WARPTUNE_STORE_WEBHOOK_STORE_H
#define WARPTUNE_STORE_WEBHOOK_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

struct webhook_lease {
    char id[UUID_TEXT], token[UUID_TEXT], job_id[UUID_TEXT];
    int attempts; /* this one included */
};

/* One to send now. */
struct webhook_delivery {
    struct webhook_lease lease;
    const char *url, *secret, *payload;
};
/* Those that are due, the oldest first, at most `limit`, for lease_s. */
int webhook_claim(struct db *db, int limit, double lease_s, struct arena *arena, struct webhook_delivery **ret,
                  int *ret_count, struct error *error) MUST_CHECK;

struct webhook_attempt {
    int status;        /* of HTTP; 0: no answer came */
    const char *error; /* for people; NULL: none */
};
/* How an attempt ended. A lease that was lost meanwhile is no error: then nothing changes. */
int webhook_delivered(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                      struct error *error) MUST_CHECK;
/* Again in retry_s; INFINITY: never. */
int webhook_failed(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                   double retry_s, struct error *error) MUST_CHECK;
/* The receiver wants no more: neither of what waits nor of later states. */
int webhook_gone(struct db *db, const struct webhook_lease *lease, const struct webhook_attempt *attempt,
                 struct error *error) MUST_CHECK;
/* Not attempted after all: due at once, and none of its attempts. */
int webhook_put_back(struct db *db, const struct webhook_lease *lease, struct error *error) MUST_CHECK;

struct webhook_row {
    const char *url; /* NULL: the job has none */
    int64_t disabled_us;
};
/* ERROR_NOT_FOUND "no-such-job". */
int webhook_get(struct db *db, const char *job_id, struct arena *arena, struct webhook_row *ret,
                struct error *error) MUST_CHECK;

struct delivery_row {
    char id[UUID_TEXT];
    int64_t event;
    const char *state; /* "pending", "delivered", "failed", "cancelled" */
    int attempts;
    int last_status; /* 0: none */
    const char *last_error;
    const char *payload;                               /* JSON text */
    int64_t next_us, last_us, created_us, finished_us; /* next: 0 once it has ended */
};
/* Newest first, those before event `before` (0: all), at most `limit`. */
int webhook_list(struct db *db, const char *job_id, int64_t before, int limit, struct arena *arena,
                 struct delivery_row **ret, int *ret_count, bool *ret_more, struct error *error) MUST_CHECK;
/* Sends it again now, with all its attempts before it; a disabled webhook works again. ERROR_NOT_FOUND
 * "no-such-delivery". */
int webhook_redeliver(struct db *db, const char *job_id, const char *id, struct arena *arena, struct delivery_row *ret,
                      struct error *error) MUST_CHECK;

/* Deletes deliveries that ended longer ago, so many at a time; ret_removed (optional): how many in all. */
int webhook_sweep(struct db *db, double max_age_s, int batch, int64_t *ret_removed, struct error *error) MUST_CHECK;

#endif
