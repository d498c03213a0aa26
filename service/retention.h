/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retention.h: the server's thread that deletes, once at start and then every hour, what is older than the settings
 * `keep-…-days` allow. It runs at low priority and leaves the database alone for as long as it has kept it busy.
 */
#ifndef WARPTUNE_RETENTION_H
#define WARPTUNE_RETENTION_H

#include "service/settings.h"
#include "service/store/retention_store.h"

struct retention_thread;

/* *ret NULL when everything is kept for ever. `stats` outlives the thread. */
int retention_start(struct db *db, const struct settings *settings, struct retention_stats *stats,
                    struct retention_thread **ret, struct error *error) MUST_CHECK;
void retention_stop(struct retention_thread *thread); /* within a transaction's time; NULL-safe */

#endif
