/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_feed.h: the latest events of a job, or of all jobs of a project, as text, read once for all who follow them.
 *
 * When a job changes, all its streams wake and want the same events: the first asks the database, the others are given
 * what it got, the same bytes in the same memory. Events never change, so what follows an event is right for whoever
 * has come that far; that nothing follows holds as long as nobody was told of a change, and for a second at most.
 * Thread-safe.
 */
#ifndef WARPTUNE_API_EVENT_FEED_H
#define WARPTUNE_API_EVENT_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/base/error.h"
#include "service/store/db.h"

struct event_feed;

/* Some events, one after the other. Shared, never changed. */
struct event_batch;

struct event_feed *event_feed_new(struct db *db);
/* Nobody may be using it. Batches stay their holders'. NULL-safe. */
void event_feed_free(struct event_feed *feed);

/*
 * The events after `after` of the job, or the project, of that id, or the first of them when there are many; none is no
 * error. `seen`: hub_generation of the id, from before. The caller releases the batch.
 */
int event_feed_take(struct event_feed *feed, const char *id, bool whole_project, int64_t after, uint64_t seen,
                    struct event_batch **ret, struct error *error) MUST_CHECK;

/* As lines of a text/event-stream; *ret_len 0: none. */
const char *event_batch_text(const struct event_batch *batch, size_t *ret_len);
/* The number of the last event; `after` when there is none. */
int64_t event_batch_last(const struct event_batch *batch);
/* Whether the job has ended, by the last `state` event in it; `before` when there is none. */
bool event_batch_ended(const struct event_batch *batch, bool before);
/* NULL-safe. */
void event_batch_release(struct event_batch *batch);

#endif
