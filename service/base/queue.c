/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "service/base/clock.h"

/* A ring: `count` pointers from items[first] on. All fields but the lock's own are under `lock`. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    bool closed;
    size_t capacity, first, count;
    void *items[];
};

static void must(bool ok) {
    if (ok)
        return;
    fputs("out of memory: a queue could not be made\n", stderr);
    abort();
}

static void cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes; /* deadlines are of the monotonic clock */
    must(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(cond, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
}

struct queue *queue_new(size_t capacity) {
    size_t size;
    capacity = capacity ? capacity : 1;
    must(!__builtin_mul_overflow(capacity, sizeof(void *), &size) &&
         !__builtin_add_overflow(size, sizeof(struct queue), &size));
    struct queue *queue = calloc(1, size);
    must(queue && pthread_mutex_init(&queue->lock, NULL) == 0);
    cond_init(&queue->filled);
    cond_init(&queue->emptied);
    queue->capacity = capacity;
    return queue;
}

/* Waits for a signal; false at the deadline. */
static bool wait_until(struct queue *queue, pthread_cond_t *cond, int64_t deadline) {
    if (deadline == DEADLINE_NEVER)
        return pthread_cond_wait(cond, &queue->lock) == 0;
    if (deadline <= clock_now_ns())
        return false;
    struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    return pthread_cond_timedwait(cond, &queue->lock, &until) != ETIMEDOUT;
}

static int closed(struct error *error) {
    return error_set(error, ERROR_CANCELLED, "queue-closed", NULL, "The queue is closed.");
}

static int timed_out(struct error *error, const char *state) {
    return error_set(error, ERROR_TIMEOUT, "queue-timeout", NULL, "The queue was still %s at the deadline.", state);
}

int queue_push(struct queue *queue, void *item, int64_t deadline, struct error *error) {
    int rc = 0;
    pthread_mutex_lock(&queue->lock);
    bool in_time = true;
    while (!queue->closed && queue->count == queue->capacity && in_time)
        in_time = wait_until(queue, &queue->emptied, deadline);
    if (queue->closed) {
        rc = closed(error);
    } else if (queue->count == queue->capacity) {
        rc = timed_out(error, "full");
    } else {
        queue->items[(queue->first + queue->count++) % queue->capacity] = item;
        pthread_cond_signal(&queue->filled);
    }
    pthread_mutex_unlock(&queue->lock);
    return rc;
}

int queue_pop(struct queue *queue, int64_t deadline, void **ret_item, struct error *error) {
    int rc = 0;
    pthread_mutex_lock(&queue->lock);
    bool in_time = true;
    while (!queue->closed && queue->count == 0 && in_time)
        in_time = wait_until(queue, &queue->filled, deadline);
    if (queue->count > 0) {
        *ret_item = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->capacity;
        queue->count--;
        pthread_cond_signal(&queue->emptied);
    } else {
        rc = queue->closed ? closed(error) : timed_out(error, "empty");
    }
    pthread_mutex_unlock(&queue->lock);
    return rc;
}

void queue_close(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->filled);
    pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}

void queue_free(struct queue *queue) {
    if (!queue)
        return;
    pthread_cond_destroy(&queue->filled);
    pthread_cond_destroy(&queue->emptied);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}
