/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event_feed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/event_text.h"
#include "service/base/arena.h"
#include "service/base/clock.h"
#include "service/store/event_store.h"
#include "service/store/uuid.h"

enum { SLOTS = 128, EVENTS = 256, MOST_BATCH = 16 << 20, MOST_KEPT = 128 << 10 };
#define ENOUGH_TEXT (64 << 10) /* one who reads slowly holds no more than this and an event */
#define KEEP_S 1 /* retention deletes events; and when PostgreSQL's messages stay away nobody is told of a change */

struct event_batch {
    atomic_int holders;
    char id[UUID_TEXT]; /* the job's, or the project's */
    int64_t after, last;
    uint64_t seen;
    int64_t until;
    bool has_state, ended; /* what its last `state` event says, if it has one */
    struct buf text;
};

struct event_feed {
    struct db *db;
    pthread_mutex_t lock; /* a leaf; guards the slots, each of which holds its batch */
    struct event_batch *slots[SLOTS];
};

struct event_feed *event_feed_new(struct db *db) {
    struct event_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        abort();
    feed->db = db;
    pthread_mutex_init(&feed->lock, NULL);
    return feed;
}

void event_feed_free(struct event_feed *feed) {
    if (!feed)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        event_batch_release(feed->slots[i]);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

/* ---- what is known ---- */

static struct event_batch **slot_of(struct event_feed *feed, const char *id, int64_t after) {
    uint64_t hash = 14695981039346656037ULL ^ (uint64_t)after; /* FNV-1a */
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    return &feed->slots[(hash ^ hash >> 32) % SLOTS];
}

static bool holds(const struct event_batch *batch, const char *id, int64_t after, uint64_t seen) {
    return batch && batch->after == after && strcmp(batch->id, id) == 0 && (batch->text.len || batch->seen == seen) &&
           clock_now_ns() < batch->until;
}

static struct event_batch *recall(struct event_feed *feed, const char *id, int64_t after, uint64_t seen) {
    pthread_mutex_lock(&feed->lock);
    struct event_batch *batch = *slot_of(feed, id, after);
    if (holds(batch, id, after, seen))
        atomic_fetch_add(&batch->holders, 1);
    else
        batch = NULL;
    pthread_mutex_unlock(&feed->lock);
    return batch;
}

static void remember(struct event_feed *feed, struct event_batch *batch) {
    if (batch->text.len > MOST_KEPT)
        return;
    atomic_fetch_add(&batch->holders, 1);
    pthread_mutex_lock(&feed->lock);
    struct event_batch **slot = slot_of(feed, batch->id, batch->after), *before = *slot;
    *slot = batch;
    pthread_mutex_unlock(&feed->lock);
    event_batch_release(before);
}

/* ---- what is read ---- */

static struct event_batch *batch_new(const char *id, int64_t after, uint64_t seen) {
    struct event_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        abort();
    atomic_init(&batch->holders, 1);
    memcpy(batch->id, id, UUID_TEXT);
    batch->after = batch->last = after;
    batch->seen = seen;
    batch->until = deadline_in_s(KEEP_S);
    buf_init(&batch->text, MOST_BATCH);
    return batch;
}

static int fill(struct db *db, bool whole_project, struct event_batch *batch, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct event_row *events;
    int n, status = whole_project ? event_list_project(db, batch->id, batch->after, EVENTS, arena, &events, &n, error)
                                  : event_list(db, batch->id, NULL, batch->after, EVENTS, arena, &events, &n, error);
    if (status < 0)
        return -1;
    for (int i = 0; i < n && batch->text.len < ENOUGH_TEXT; i++) {
        event_write(&batch->text, &events[i], &batch->ended);
        batch->has_state |= strcmp(events[i].kind, "state") == 0;
        batch->last = events[i].number;
    }
    return buf_check(&batch->text, "events", error);
}

int event_feed_take(struct event_feed *feed, const char *id, bool whole_project, int64_t after, uint64_t seen,
                    struct event_batch **ret, struct error *error) {
    struct event_batch *batch = recall(feed, id, after, seen);
    if (!batch) {
        batch = batch_new(id, after, seen);
        if (fill(feed->db, whole_project, batch, error) < 0) {
            event_batch_release(batch);
            return -1;
        }
        remember(feed, batch);
    }
    *ret = batch;
    return 0;
}

/* ---- a batch ---- */

const char *event_batch_text(const struct event_batch *batch, size_t *ret_len) {
    *ret_len = batch->text.len;
    return batch->text.data;
}

int64_t event_batch_last(const struct event_batch *batch) {
    return batch->last;
}

bool event_batch_ended(const struct event_batch *batch, bool before) {
    return batch->has_state ? batch->ended : before;
}

void event_batch_release(struct event_batch *batch) {
    if (!batch || atomic_fetch_sub(&batch->holders, 1) > 1)
        return;
    buf_release(&batch->text);
    free(batch);
}
