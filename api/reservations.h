/* SPDX-License-Identifier: Apache-2.0 */
/* reservations.h: the Idempotency-Keys that a server's requests have reserved, renewed while they are worked on. */
#ifndef WARPTUNE_API_RESERVATIONS_H
#define WARPTUNE_API_RESERVATIONS_H

#include "service/base/error.h"
#include "service/store/uuid.h"

struct db;
struct reservations;

#define RESERVATION_S 15.0 /* for how long one is taken or renewed; it is renewed three times as often */

/* Lives on the stack of the request that holds it. */
struct reservation {
    char token[UUID_TEXT];
    struct reservation *next, **link; /* the list's */
};

/* Thread-safe; its lock is a leaf. */
int reservations_start(struct db *db, struct reservations **ret, struct error *error) MUST_CHECK;
void reservations_add(struct reservations *reservations, struct reservation *reservation);
void reservations_remove(struct reservations *reservations, struct reservation *reservation);
void reservations_stop(struct reservations *reservations); /* after all requests; NULL-safe */

#endif
