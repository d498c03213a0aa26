/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: a limit on how long a client may take to send the head of a request.
 *
 * libmicrohttpd's own limit is on silence, so that a byte now and then would hold a connection for ever. A thread of
 * the guard's shuts down the sockets of connections that have had no whole head for too long. Thread-safe; its lock is
 * a leaf.
 */
#ifndef WARPTUNE_API_GUARD_H
#define WARPTUNE_API_GUARD_H

#include <stdbool.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct guard;
struct guarded; /* one connection */

int guard_start(double limit_s, struct guard **ret, struct error *error) MUST_CHECK;
void guard_stop(struct guard *guard); /* after all connections left; NULL-safe */

/* A connection is there: it owes a head. */
struct guarded *guard_enter(struct guard *guard, int fd);
/* The head has come: a request is under way; or the request is over, and the next head is owed. */
void guard_set_busy(struct guard *guard, struct guarded *guarded, bool busy);
/* Before the socket is closed. Frees it. */
void guard_leave(struct guard *guard, struct guarded *guarded);

#endif
