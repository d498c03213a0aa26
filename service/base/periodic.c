/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/periodic.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "service/base/clock.h"

enum { NICE = 10 };

struct periodic {
    double every_s;
    periodic_work *work;
    void *data;
    pthread_t thread;
    pthread_mutex_t lock; /* guards stopping */
    pthread_cond_t stop;
    bool stopping;
};

bool periodic_sleep(struct periodic *periodic, double seconds) {
    int64_t deadline = deadline_in_s(seconds);
    struct timespec until = {deadline / NS_PER_S, deadline % NS_PER_S};
    pthread_mutex_lock(&periodic->lock);
    while (!periodic->stopping && pthread_cond_timedwait(&periodic->stop, &periodic->lock, &until) == 0)
        continue;
    bool stopping = periodic->stopping;
    pthread_mutex_unlock(&periodic->lock);
    return stopping;
}

static void *periodic_main(void *data) {
    struct periodic *periodic = data;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* a thread's own, on Linux */
    do
        periodic->work(periodic, periodic->data);
    while (!periodic_sleep(periodic, periodic->every_s));
    return NULL;
}

static void periodic_free(struct periodic *periodic) {
    pthread_cond_destroy(&periodic->stop);
    pthread_mutex_destroy(&periodic->lock);
    free(periodic);
}

int periodic_start(double every_s, periodic_work *work, void *data, struct periodic **ret, struct error *error) {
    struct periodic *periodic = calloc(1, sizeof *periodic);
    if (!periodic)
        abort();
    periodic->every_s = every_s;
    periodic->work = work;
    periodic->data = data;
    pthread_mutex_init(&periodic->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&periodic->stop, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = pthread_create(&periodic->thread, NULL, periodic_main, periodic);
    if (code != 0) {
        periodic_free(periodic);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for housekeeping: %s.",
                         strerror(code));
    }
    *ret = periodic;
    return 0;
}

void periodic_stop(struct periodic *periodic) {
    if (!periodic)
        return;
    pthread_mutex_lock(&periodic->lock);
    periodic->stopping = true;
    pthread_cond_signal(&periodic->stop);
    pthread_mutex_unlock(&periodic->lock);
    pthread_join(periodic->thread, NULL);
    periodic_free(periodic);
}
