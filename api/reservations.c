/* SPDX-License-Identifier: Apache-2.0 */
#include "api/reservations.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/base/buf.h"
#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/store/idempotency_store.h"

enum { MOST_TOKENS_TEXT = 16 << 20 };

struct reservations {
    struct db *db;
    pthread_t thread;
    pthread_mutex_t lock; /* a leaf; guards the rest */
    pthread_cond_t stopped;
    bool stopping;
    struct reservation *first;
};

/* The tokens as a PostgreSQL array; empty when there are none. Under the lock. */
static void list_tokens(const struct reservations *reservations, struct buf *ret) {
    for (const struct reservation *at = reservations->first; at; at = at->next)
        buf_printf(ret, "%s%s", at == reservations->first ? "{" : ",", at->token);
    if (reservations->first)
        buf_putc(ret, '}');
}

static void renew(struct reservations *reservations) {
    struct buf tokens CLEANUP(buf_release) = BUF_INIT(MOST_TOKENS_TEXT);
    struct error error;
    pthread_mutex_lock(&reservations->lock);
    list_tokens(reservations, &tokens);
    pthread_mutex_unlock(&reservations->lock);
    if (tokens.len && idempotency_renew(reservations->db, buf_str(&tokens), RESERVATION_S, &error) < 0)
        log_error(LOG_WARN, "renewing reservations", &error);
}

static void *reservations_main(void *data) {
    struct reservations *reservations = data;
    pthread_mutex_lock(&reservations->lock);
    while (!reservations->stopping) {
        int64_t next = deadline_in_s(RESERVATION_S / 3);
        struct timespec until = {next / NS_PER_S, next % NS_PER_S};
        while (!reservations->stopping &&
               pthread_cond_timedwait(&reservations->stopped, &reservations->lock, &until) == 0)
            continue;
        pthread_mutex_unlock(&reservations->lock);
        renew(reservations);
        pthread_mutex_lock(&reservations->lock);
    }
    pthread_mutex_unlock(&reservations->lock);
    return NULL;
}

int reservations_start(struct db *db, struct reservations **ret, struct error *error) {
    struct reservations *reservations = calloc(1, sizeof *reservations);
    if (!reservations)
        abort();
    reservations->db = db;
    pthread_mutex_init(&reservations->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&reservations->stopped, &attributes);
    pthread_condattr_destroy(&attributes);
    int code = pthread_create(&reservations->thread, NULL, reservations_main, reservations);
    if (code != 0) {
        free(reservations);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for reservations: %s.",
                         strerror(code));
    }
    *ret = reservations;
    return 0;
}

void reservations_add(struct reservations *reservations, struct reservation *reservation) {
    pthread_mutex_lock(&reservations->lock);
    reservation->next = reservations->first;
    reservation->link = &reservations->first;
    if (reservation->next)
        reservation->next->link = &reservation->next;
    reservations->first = reservation;
    pthread_mutex_unlock(&reservations->lock);
}

void reservations_remove(struct reservations *reservations, struct reservation *reservation) {
    pthread_mutex_lock(&reservations->lock);
    *reservation->link = reservation->next;
    if (reservation->next)
        reservation->next->link = reservation->link;
    pthread_mutex_unlock(&reservations->lock);
}

void reservations_stop(struct reservations *reservations) {
    if (!reservations)
        return;
    pthread_mutex_lock(&reservations->lock);
    reservations->stopping = true;
    pthread_cond_signal(&reservations->stopped);
    pthread_mutex_unlock(&reservations->lock);
    pthread_join(reservations->thread, NULL);
    pthread_cond_destroy(&reservations->stopped);
    pthread_mutex_destroy(&reservations->lock);
    free(reservations);
}
