/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliverer.h: sends what webhooks are to be told, signed as the Standard Webhooks specification has it.
 *
 * One thread with many transfers at a time (libcurl's multi interface), so that a slow receiver holds up no other. It
 * looks for what is due once a second, because times pass without an event. Any number of servers share the work
 * through the database. A 2xx ends a delivery, 410 ends all of its job's; anything else, a redirect included, is tried
 * again later. Every address is checked as the socket to it is made, so that no name can lead to a private one.
 */
#ifndef WARPTUNE_API_DELIVERER_H
#define WARPTUNE_API_DELIVERER_H

#include <stdbool.h>

#include "service/base/backoff.h"

struct db;
struct deliverer;

struct deliverer_config {
    struct db *db;
    struct backoff backoff;
    bool allow_private; /* addresses that address_is_public refuses */
};

int deliverer_start(const struct deliverer_config *config, struct deliverer **ret, struct error *error) MUST_CHECK;
/* What is under way is cut off and left for the next server. NULL-safe. */
void deliverer_stop(struct deliverer *deliverer);

#endif
