/* SPDX-License-Identifier: Apache-2.0 */
#include "api/feed.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/event_text.h"
#include "service/base/clock.h"
#include "service/store/event_store.h"
#include "service/store/uuid.h"

enum { SLOTS = 256 /* a newcomer takes the place of what was there */, BATCH = 256, MOST_TEXT = 16 << 20 };
#define ENOUGH_TEXT (64 << 10) /* one who reads slowly holds no more than this and an event */
#define TRUST_S 5              /* that nothing is new, as long as no notification came */

/* The furthest that a project's followers have read. */
struct slot {
    char project_id[UUID_TEXT];
    struct feed_text *text;
    bool at_end;   /* nothing followed, as of `seen` */
    uint64_t seen; /* the hub's generation before the database was asked */
    int64_t until;
};

struct feed {
    struct db *db;
    pthread_mutex_t lock; /* guards the slots; texts are counted and never change */
    struct slot slots[SLOTS];
};

struct feed *feed_new(struct db *db) {
    struct feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        abort();
    feed->db = db;
    pthread_mutex_init(&feed->lock, NULL);
    return feed;
}

void feed_text_release(struct feed_text *text) {
    if (!text || atomic_fetch_sub(&text->holders, 1) > 1)
        return;
    buf_release(&text->text);
    free(text);
}

void feed_free(struct feed *feed) {
    if (!feed)
        return;
    for (int i = 0; i < SLOTS; i++)
        feed_text_release(feed->slots[i].text);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

/* The end of a UUID is random, but for that of the project `default`. */
static struct slot *slot_of(struct feed *feed, const char *project_id) {
    return &feed->slots[strtoul(project_id + UUID_TEXT - 5, NULL, 16) % SLOTS];
}

static struct feed_text *hold(struct feed_text *text) {
    atomic_fetch_add(&text->holders, 1);
    return text;
}

/* Whether the slot knows what follows `after`; *ret then is that, or NULL. */
static bool recall(struct feed *feed, const char *project_id, int64_t after, uint64_t seen, struct feed_text **ret) {
    pthread_mutex_lock(&feed->lock);
    const struct slot *slot = slot_of(feed, project_id);
    bool ours = slot->text && strcmp(slot->project_id, project_id) == 0;
    bool follows = ours && slot->text->from == after && slot->text->to > after;
    bool at_end = ours && slot->at_end && slot->text->to == after && slot->seen == seen && clock_now_ns() < slot->until;
    *ret = follows ? hold(slot->text) : NULL;
    pthread_mutex_unlock(&feed->lock);
    return follows || at_end;
}

/* What was read goes into the slot, unless others are further on already. */
static void remember(struct feed *feed, const char *project_id, struct feed_text *text, bool at_end, uint64_t seen) {
    struct feed_text *old = NULL;
    pthread_mutex_lock(&feed->lock);
    struct slot *slot = slot_of(feed, project_id);
    bool ours = slot->text && strcmp(slot->project_id, project_id) == 0;
    if (!ours || text->to >= slot->text->to) {
        old = slot->text;
        *slot = (struct slot){.text = hold(text), .at_end = at_end, .seen = seen, .until = deadline_in_s(TRUST_S)};
        memcpy(slot->project_id, project_id, UUID_TEXT);
    }
    pthread_mutex_unlock(&feed->lock);
    feed_text_release(old);
}

static struct feed_text *text_new(int64_t from) {
    struct feed_text *text = calloc(1, sizeof *text);
    if (!text)
        abort();
    buf_init(&text->text, MOST_TEXT);
    text->from = text->to = from;
    text->holders = 1;
    return text;
}

/* Asks the database. *ret_at_end: there was no more. */
static int fill(struct feed *feed, const char *project_id, struct feed_text *text, bool *ret_at_end,
                struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct event_row *events;
    int n, written = 0;
    if (event_list_project(feed->db, project_id, text->from, BATCH, arena, &events, &n, error) < 0)
        return -1;
    while (written < n && text->text.len < ENOUGH_TEXT) {
        bool ended;
        event_write(&text->text, &events[written], &ended);
        text->to = events[written++].number;
    }
    *ret_at_end = written == n && n < BATCH;
    return buf_check(&text->text, "events", error);
}

int feed_read(struct feed *feed, const char *project_id, int64_t after, uint64_t seen, struct feed_text **ret,
              struct error *error) {
    if (recall(feed, project_id, after, seen, ret))
        return 0;
    struct feed_text *text = text_new(after);
    bool at_end;
    if (fill(feed, project_id, text, &at_end, error) < 0) {
        feed_text_release(text);
        return -1;
    }
    remember(feed, project_id, text, at_end, seen);
    if (text->to == after) {
        feed_text_release(text);
        text = NULL;
    }
    *ret = text;
    return 0;
}
