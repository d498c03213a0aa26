/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h: hears PostgreSQL's notifications on a connection of its own.
 *
 * A notification is a hint: after a reconnect some were missed, which an empty payload tells; read the state again
 * then, and poll it every few seconds besides. A listener is used by one thread; listener_interrupt may come from any.
 */
#ifndef WARPTUNE_STORE_LISTENER_H
#define WARPTUNE_STORE_LISTENER_H

#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/error.h"

/* Payload: the id of a job that has a new event, or of its project. */
#define CHANNEL_JOB "warptune_job"
/* Payload: the kind of device that there is new work for ("cpu", "cuda", "any"). */
#define CHANNEL_QUEUE "warptune_queue"

#define LISTENER_PAYLOAD 64

struct listener;

/* ERROR_DB when the server cannot be reached now. */
int listener_open(const char *url, const char *channel, struct listener **ret, struct error *error) MUST_CHECK;
/*
 * Waits for one notification. An empty payload: the connection was made anew, anything may have changed.
 * ERROR_TIMEOUT at the deadline (see clock.h), also while the server is away (an attempt to reconnect to a host that
 * does not answer may take 10 s longer); ERROR_CANCELLED once interrupted.
 */
int listener_wait(struct listener *listener, int64_t deadline, char ret_payload[LISTENER_PAYLOAD],
                  struct error *error) MUST_CHECK;
/* Ends the wait under way and all later ones. */
void listener_interrupt(struct listener *listener);
void listener_close(struct listener *listener); /* NULL-safe */

#endif
