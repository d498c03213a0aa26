/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub.h: who waits for which job: sleeping requests by job id, woken by PostgreSQL's notifications. A project's id does
 * as well: it is told of each change of the project's jobs.
 *
 * A thread of the hub's own listens on the database's channel and keeps the deadlines. The order that loses no wake-up:
 * read hub_generation, look at the job, then hub_wait with that generation; a change between is seen at once. Waking
 * calls the waiter's function from the hub's thread, or from hub_wait itself, exactly once for each hub_wait; from then
 * on the waiter's memory is its owner's again. Thread-safe. The hub's lock is a leaf: wake functions run outside it.
 */
#ifndef WARPTUNE_API_HUB_H
#define WARPTUNE_API_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/error.h"

struct hub;

struct hub_waiter {
    void (*wake)(struct hub_waiter *waiter);
    int64_t earliest; /* changes before this time wake it then: a busy job's changes are looked at together; 0: none */
    struct hub_waiter *next, **link; /* the hub's, as the rest */
    int64_t deadline;
    uint64_t job_hash;
};

/* `max_waiters`: how many may sleep at a time. */
int hub_new(const char *database_url, int max_waiters, struct hub **ret, struct error *error) MUST_CHECK;
uint64_t hub_generation(struct hub *hub, const char *job_id);
/* Sleeps until the job changes or the deadline. ERROR_BUSY when too many sleep already, ERROR_CANCELLED once drained.
 */
int hub_wait(struct hub *hub, struct hub_waiter *waiter, const char *job_id, uint64_t seen, int64_t deadline,
             struct error *error) MUST_CHECK;
/* ERROR_BUSY or ERROR_CANCELLED when a hub_wait would fail so now: to say it before an answer has begun. */
int hub_check(struct hub *hub, struct error *error) MUST_CHECK;
/* Wakes everybody now, and lets nobody sleep from now on, so that a server can stop. */
void hub_drain(struct hub *hub);
bool hub_draining(struct hub *hub);
int hub_waiting(struct hub *hub); /* how many sleep */
void hub_free(struct hub *hub);   /* after hub_drain and after all waiters left; NULL-safe */

#endif
