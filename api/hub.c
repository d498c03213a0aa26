/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hub.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/store/listener.h"

#define BUCKETS 4096 /* a power of two */

struct bucket {
    struct hub_waiter *waiters;
    uint64_t generation; /* counts the changes of the bucket's jobs */
};

struct hub {
    pthread_mutex_t lock; /* guards all below but the listener, which is the thread's */
    struct bucket buckets[BUCKETS];
    int waiting, max_waiters;
    bool draining, stopping;
    pthread_t thread;
    struct listener *listener;
};

static uint64_t hash_of(const char *job_id) {
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    for (const char *c = job_id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
    return hash;
}

static void unlink_waiter(struct hub *hub, struct hub_waiter *waiter) {
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    waiter->link = NULL;
    hub->waiting--;
}

/* Moves a waiter out of its bucket into a list of those to wake; the lock is held. */
static void take(struct hub *hub, struct hub_waiter *waiter, struct hub_waiter **list) {
    unlink_waiter(hub, waiter);
    waiter->next = *list;
    *list = waiter;
}

/* Takes the waiters of a job that changed; one that must not be woken yet will be by the clock. */
static void take_changed(struct hub *hub, struct bucket *bucket, uint64_t job_hash, int64_t now,
                         struct hub_waiter **list) {
    struct hub_waiter *next;
    for (struct hub_waiter *waiter = bucket->waiters; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->job_hash != job_hash)
            continue;
        if (waiter->earliest <= now)
            take(hub, waiter, list);
        else if (waiter->earliest < waiter->deadline)
            waiter->deadline = waiter->earliest;
    }
}

/* Takes those whose deadline is at or before `due`. */
static void take_due(struct hub *hub, struct bucket *bucket, int64_t due, struct hub_waiter **list) {
    struct hub_waiter *next;
    for (struct hub_waiter *waiter = bucket->waiters; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->deadline <= due)
            take(hub, waiter, list);
    }
}

static void wake_list(struct hub_waiter *list) {
    while (list) {
        struct hub_waiter *next = list->next;
        list->wake(list);
        list = next;
    }
}

static void wake_job(struct hub *hub, const char *job_id) {
    struct hub_waiter *list = NULL;
    uint64_t hash = hash_of(job_id);
    struct bucket *bucket = &hub->buckets[hash % BUCKETS];
    pthread_mutex_lock(&hub->lock);
    bucket->generation++;
    take_changed(hub, bucket, hash, clock_now_ns(), &list);
    pthread_mutex_unlock(&hub->lock);
    wake_list(list);
}

/* Wakes all whose deadline is at or before `due`; with `changed`, as if every job had changed. */
static void wake_due(struct hub *hub, int64_t due, bool changed) {
    struct hub_waiter *list = NULL;
    pthread_mutex_lock(&hub->lock);
    for (int i = 0; i < BUCKETS; i++) {
        hub->buckets[i].generation += changed;
        take_due(hub, &hub->buckets[i], due, &list);
    }
    pthread_mutex_unlock(&hub->lock);
    wake_list(list);
}

static bool is_stopping(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    bool stopping = hub->stopping;
    pthread_mutex_unlock(&hub->lock);
    return stopping;
}

#define TICK_S 0.25 /* how late a deadline may be noticed */

static void *hub_main(void *data) {
    struct hub *hub = data;
    int64_t next_tick = deadline_in_s(TICK_S);
    while (!is_stopping(hub)) {
        char payload[LISTENER_PAYLOAD];
        struct error ignored; /* the deadline; or PostgreSQL is away, which the listener itself mends */
        if (listener_wait(hub->listener, next_tick, payload, &ignored) == 0) {
            if (*payload)
                wake_job(hub, payload);
            else
                wake_due(hub, INT64_MAX, true); /* connected anew: whatever was said meanwhile was missed */
        }
        int64_t now = clock_now_ns();
        if (now >= next_tick) {
            wake_due(hub, now, false);
            next_tick = deadline_in_s(TICK_S);
        }
    }
    return NULL;
}

int hub_new(const char *database_url, int max_waiters, struct hub **ret, struct error *error) {
    struct listener *listener;
    if (listener_open(database_url, CHANNEL_JOB, &listener, error) < 0)
        return -1;
    struct hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        abort();
    pthread_mutex_init(&hub->lock, NULL);
    hub->max_waiters = max_waiters;
    hub->listener = listener;
    int code = pthread_create(&hub->thread, NULL, hub_main, hub);
    if (code != 0) {
        listener_close(listener);
        pthread_mutex_destroy(&hub->lock);
        free(hub);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for waiting requests: %s.",
                         strerror(code));
    }
    *ret = hub;
    return 0;
}

uint64_t hub_generation(struct hub *hub, const char *job_id) {
    pthread_mutex_lock(&hub->lock);
    uint64_t generation = hub->buckets[hash_of(job_id) % BUCKETS].generation;
    pthread_mutex_unlock(&hub->lock);
    return generation;
}

/* Why nobody may sleep now, if so; the lock is held. */
static int refuse(const struct hub *hub, struct error *error) {
    if (hub->draining)
        return error_set(error, ERROR_CANCELLED, "stopping", NULL, "The server is stopping; ask again in a moment.");
    if (hub->waiting >= hub->max_waiters)
        return error_set(error, ERROR_BUSY, "too-many-waiters", NULL,
                         "%d requests wait already, which is the limit (max-waiters); ask without waiting, or later.",
                         hub->max_waiters);
    return 0;
}

static void insert(struct hub *hub, struct bucket *bucket, struct hub_waiter *waiter) {
    waiter->next = bucket->waiters;
    waiter->link = &bucket->waiters;
    if (waiter->next)
        waiter->next->link = &waiter->next;
    bucket->waiters = waiter;
    hub->waiting++;
}

int hub_wait(struct hub *hub, struct hub_waiter *waiter, const char *job_id, uint64_t seen, int64_t deadline,
             struct error *error) {
    uint64_t hash = hash_of(job_id);
    struct bucket *bucket = &hub->buckets[hash % BUCKETS];
    pthread_mutex_lock(&hub->lock);
    int status = refuse(hub, error);
    bool changed = bucket->generation != seen, at_once = changed && waiter->earliest <= clock_now_ns();
    if (status == 0 && !at_once) {
        waiter->deadline = changed && waiter->earliest < deadline ? waiter->earliest : deadline;
        waiter->job_hash = hash;
        insert(hub, bucket, waiter);
    }
    pthread_mutex_unlock(&hub->lock);
    if (status == 0 && at_once)
        waiter->wake(waiter);
    return status;
}

int hub_check(struct hub *hub, struct error *error) {
    pthread_mutex_lock(&hub->lock);
    int status = refuse(hub, error);
    pthread_mutex_unlock(&hub->lock);
    return status;
}

void hub_drain(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    hub->draining = true;
    pthread_mutex_unlock(&hub->lock);
    wake_due(hub, INT64_MAX, true);
}

bool hub_draining(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    bool draining = hub->draining;
    pthread_mutex_unlock(&hub->lock);
    return draining;
}

int hub_waiting(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    int waiting = hub->waiting;
    pthread_mutex_unlock(&hub->lock);
    return waiting;
}

void hub_free(struct hub *hub) {
    if (!hub)
        return;
    pthread_mutex_lock(&hub->lock);
    hub->stopping = true;
    pthread_mutex_unlock(&hub->lock);
    listener_interrupt(hub->listener);
    pthread_join(hub->thread, NULL);
    listener_close(hub->listener);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}
