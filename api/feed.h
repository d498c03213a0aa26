/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.h: the newest events of projects as text, written once for all who follow.
 *
 * Followers of a project stand at the same event nearly always: the first that looks asks the database, the others
 * share the text, and that there is nothing new is known without asking. Thread-safe; the lock is a leaf.
 */
#ifndef WARPTUNE_API_FEED_H
#define WARPTUNE_API_FEED_H

#include <stdatomic.h>
#include <stdint.h>

#include "service/base/buf.h"

struct db;
struct feed;

/* Events of a project after one number, up to another; not changed any more. */
struct feed_text {
    struct buf text;
    int64_t from, to;
    atomic_int holders;
};

struct feed *feed_new(struct db *db);
void feed_free(struct feed *feed); /* NULL-safe */

/*
 * Some of what follows the event `after`; *ret is NULL when nothing does. `seen`: hub_generation of the project before
 * the call.
 */
int feed_read(struct feed *feed, const char *project_id, int64_t after, uint64_t seen, struct feed_text **ret,
              struct error *error) MUST_CHECK;
void feed_text_release(struct feed_text *text); /* NULL-safe */

#endif
