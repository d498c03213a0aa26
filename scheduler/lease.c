/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/base/clock.h"
#include "service/base/log.h"

struct lease {
    struct work_item item;
    atomic_bool lost;
    bool renewing;      /* the keeper is using it just now: release waits */
    int64_t renewed_ns; /* when it was last renewed, or taken */
    struct lease *next;
};

struct lease_keeper {
    struct db *db;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the list and its members but `lost` */
    pthread_cond_t changed;
    struct lease *leases;
    bool stopping;
};

/* The lease whose renewal is due first, marked as being renewed; or NULL and how long until one is due. */
static struct lease *take_due(struct lease_keeper *keeper, int64_t *ret_next) {
    int64_t now = clock_now_ns(), interval = (int64_t)(LEASE_S / 5 * NS_PER_S);
    *ret_next = now + interval;
    for (struct lease *lease = keeper->leases; lease; lease = lease->next) {
        if (atomic_load(&lease->lost))
            continue;
        if (lease->renewed_ns + interval <= now) {
            lease->renewing = true;
            return lease;
        }
        if (lease->renewed_ns + interval < *ret_next)
            *ret_next = lease->renewed_ns + interval;
    }
    return NULL;
}

static void renew(struct lease_keeper *keeper, struct lease *lease) {
    struct error error;
    if (queue_renew(keeper->db, &lease->item, LEASE_S, &error) == 0)
        return;
    if (error.class == ERROR_CONFLICT) {
        atomic_store(&lease->lost, true);
    } else {
        /* The database is away: keep trying; if it takes too long the item's next write will find the lease lost. */
        log_error(LOG_WARN, "renewing a lease", &error);
    }
}

static void *keeper_main(void *data) {
    struct lease_keeper *keeper = data;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stopping) {
        int64_t next;
        struct lease *lease = take_due(keeper, &next);
        if (lease) {
            pthread_mutex_unlock(&keeper->lock);
            renew(keeper, lease);
            pthread_mutex_lock(&keeper->lock);
            lease->renewed_ns = clock_now_ns();
            lease->renewing = false;
            pthread_cond_broadcast(&keeper->changed);
        } else {
            struct timespec until = {next / NS_PER_S, next % NS_PER_S};
            pthread_cond_timedwait(&keeper->changed, &keeper->lock, &until);
        }
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

int lease_keeper_start(struct db *db, struct lease_keeper **ret, struct error *error) {
    struct lease_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        abort();
    keeper->db = db;
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = pthread_create(&keeper->thread, NULL, keeper_main, keeper);
    if (code != 0) {
        free(keeper);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made to keep leases: %s.",
                         strerror(code));
    }
    *ret = keeper;
    return 0;
}

void lease_keeper_stop(struct lease_keeper *keeper) {
    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

struct lease *lease_hold(struct lease_keeper *keeper, const struct work_item *item) {
    struct lease *lease = calloc(1, sizeof *lease);
    if (!lease)
        abort();
    lease->item = *item;
    lease->renewed_ns = clock_now_ns();
    pthread_mutex_lock(&keeper->lock);
    lease->next = keeper->leases;
    keeper->leases = lease;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    return lease;
}

bool lease_lost(const struct lease *lease) {
    return atomic_load(&lease->lost);
}

void lease_release(struct lease_keeper *keeper, struct lease *lease) {
    pthread_mutex_lock(&keeper->lock);
    while (lease->renewing)
        pthread_cond_wait(&keeper->changed, &keeper->lock);
    struct lease **link = &keeper->leases;
    while (*link != lease)
        link = &(*link)->next;
    *link = lease->next;
    pthread_mutex_unlock(&keeper->lock);
    free(lease);
}
