/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h: how many answers of each route had which status, and how long they took, for /metrics.
 *
 * The labels come from the table of routes and a fixed list of statuses, so that no client can make more of them.
 * Thread-safe without a lock.
 */
#ifndef WARPTUNE_API_STATS_H
#define WARPTUNE_API_STATS_H

#include "api/http.h"

struct stats;

struct stats *stats_new(void);
void stats_free(struct stats *stats); /* NULL-safe */

/* An answer began; route NULL: none matched. seconds < 0: it waited because it was asked to, its time says nothing. */
void stats_add(struct stats *stats, const struct route *route, unsigned status, double seconds);
/* In Prometheus' text format. */
void stats_write(struct stats *stats, struct buf *out);

#endif
