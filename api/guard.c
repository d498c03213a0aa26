/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guard.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "service/base/clock.h"

struct guarded {
    struct guarded *next, **link;
    int fd;
    bool busy;
    int64_t deadline; /* for the head, unless busy */
};

struct guard {
    pthread_mutex_t lock; /* guards the list and what is in it */
    pthread_cond_t stop;
    bool stopping;
    double limit_s;
    struct guarded *connections;
    pthread_t thread;
};

/* The socket stays open, and its number taken, until libmicrohttpd has seen the end and left. */
static void shut_late_ones(struct guard *guard) {
    int64_t now = clock_now_ns();
    for (struct guarded *guarded = guard->connections; guarded; guarded = guarded->next)
        if (!guarded->busy && guarded->deadline <= now)
            shutdown(guarded->fd, SHUT_RDWR);
}

static void *guard_main(void *data) {
    struct guard *guard = data;
    pthread_mutex_lock(&guard->lock);
    while (!guard->stopping) {
        shut_late_ones(guard);
        int64_t next = deadline_in_s(guard->limit_s / 4);
        struct timespec until = {next / NS_PER_S, next % NS_PER_S};
        pthread_cond_timedwait(&guard->stop, &guard->lock, &until);
    }
    pthread_mutex_unlock(&guard->lock);
    return NULL;
}

static void guard_free(struct guard *guard) {
    pthread_cond_destroy(&guard->stop);
    pthread_mutex_destroy(&guard->lock);
    free(guard);
}

int guard_start(double limit_s, struct guard **ret, struct error *error) {
    struct guard *guard = calloc(1, sizeof *guard);
    if (!guard)
        abort();
    guard->limit_s = limit_s;
    pthread_mutex_init(&guard->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&guard->stop, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = pthread_create(&guard->thread, NULL, guard_main, guard);
    if (code != 0) {
        guard_free(guard);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for slow clients: %s.",
                         strerror(code));
    }
    *ret = guard;
    return 0;
}

void guard_stop(struct guard *guard) {
    if (!guard)
        return;
    pthread_mutex_lock(&guard->lock);
    guard->stopping = true;
    pthread_cond_signal(&guard->stop);
    pthread_mutex_unlock(&guard->lock);
    pthread_join(guard->thread, NULL);
    guard_free(guard);
}

struct guarded *guard_enter(struct guard *guard, int fd) {
    struct guarded *guarded = calloc(1, sizeof *guarded);
    if (!guarded)
        abort();
    guarded->fd = fd;
    guarded->deadline = deadline_in_s(guard->limit_s);
    pthread_mutex_lock(&guard->lock);
    guarded->next = guard->connections;
    guarded->link = &guard->connections;
    if (guarded->next)
        guarded->next->link = &guarded->next;
    guard->connections = guarded;
    pthread_mutex_unlock(&guard->lock);
    return guarded;
}

void guard_set_busy(struct guard *guard, struct guarded *guarded, bool busy) {
    int64_t deadline = deadline_in_s(guard->limit_s);
    pthread_mutex_lock(&guard->lock);
    guarded->busy = busy;
    guarded->deadline = deadline;
    pthread_mutex_unlock(&guard->lock);
}

void guard_leave(struct guard *guard, struct guarded *guarded) {
    pthread_mutex_lock(&guard->lock);
    *guarded->link = guarded->next;
    if (guarded->next)
        guarded->next->link = guarded->link;
    pthread_mutex_unlock(&guard->lock);
    free(guarded);
}
