/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h: keeps claimed work items ours while we work on them, and learns when one is lost.
 *
 * One thread renews every held lease at a fifth of its length. A lease is lost when its job was cancelled or paused, or
 * when it ran out; who works under it asks lease_lost between steps and drops the work. Thread-safe. The keeper's lock
 * is a leaf and is not held over database calls.
 */
#ifndef WARPTUNE_SCHEDULER_LEASE_H
#define WARPTUNE_SCHEDULER_LEASE_H

#include <stdbool.h>

#include "service/store/queue_store.h"

#define LEASE_S 15.0

struct lease_keeper;
struct lease; /* one held item */

int lease_keeper_start(struct db *db, struct lease_keeper **ret, struct error *error) MUST_CHECK;
void lease_keeper_stop(struct lease_keeper *keeper); /* after every lease was released; NULL-safe */

/* From now on renewed; `item` is copied. */
struct lease *lease_hold(struct lease_keeper *keeper, const struct work_item *item);
bool lease_lost(const struct lease *lease);
/* No longer renewed, and freed. */
void lease_release(struct lease_keeper *keeper, struct lease *lease);

#endif
