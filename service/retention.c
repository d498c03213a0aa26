/* SPDX-License-Identifier: Apache-2.0 */
#include "service/retention.h"

#include <stdlib.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/base/periodic.h"

#define EVERY_S 3600.0
#define LEAST_PAUSE_S 0.02
#define MOST_PAUSE_S 2.0

struct retention_thread {
    struct db *db;
    struct retention_stats *stats;
    struct retention retention;
    struct periodic *periodic; /* the starter's */
    struct periodic *self;     /* the same, the thread's own, as the rest */
    int64_t worked_since;
    int64_t rows[RETAINED_COUNT];
};

/* As long as the last transaction took: the database is ours for half of the time at most. */
static bool pause_after(void *data) {
    struct retention_thread *thread = data;
    double took = (double)(clock_now_ns() - thread->worked_since) / NS_PER_S;
    bool stop = periodic_sleep(thread->self, took < LEAST_PAUSE_S  ? LEAST_PAUSE_S
                                             : took > MOST_PAUSE_S ? MOST_PAUSE_S
                                                                   : took);
    thread->worked_since = clock_now_ns();
    return stop;
}

static void note_deleted(void *data, enum retained kind, int64_t rows) {
    struct retention_thread *thread = data;
    thread->rows[kind] += rows;
    atomic_fetch_add(&thread->stats->deleted[kind], rows);
}

static void log_pass(const struct retention_thread *thread) {
    struct log_field fields[RETAINED_COUNT];
    int n = 0;
    for (int kind = 0; kind < RETAINED_COUNT; kind++)
        if (thread->rows[kind] > 0)
            fields[n++] = (struct log_field){retained_name((enum retained)kind), NULL, (double)thread->rows[kind]};
    if (n > 0)
        log_fields(LOG_INFO, "deleted what was kept long enough", fields, n);
}

static void work(struct periodic *periodic, void *data) {
    struct retention_thread *thread = data;
    struct error error;
    bool ran;
    thread->self = periodic;
    memset(thread->rows, 0, sizeof thread->rows);
    thread->worked_since = clock_now_ns();
    if (retention_pass(thread->db, &thread->retention, &ran, &error) < 0) {
        atomic_fetch_add(&thread->stats->failures, 1);
        log_error(LOG_WARN, "deleting what is old", &error);
    } else if (ran) {
        atomic_fetch_add(&thread->stats->passes, 1);
    }
    log_pass(thread);
}

static bool keeps_all(const struct retention *retention) {
    for (int kind = 0; kind < RETAINED_COUNT; kind++)
        if (retention->days[kind] > 0)
            return false;
    return true;
}

int retention_start(struct db *db, const struct settings *settings, struct retention_stats *stats,
                    struct retention_thread **ret, struct error *error) {
    struct retention_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        abort();
    thread->db = db;
    thread->stats = stats;
    thread->retention =
        (struct retention){.days = {settings->keep_events_days, settings->keep_logs_days, settings->keep_trials_days,
                                    settings->keep_jobs_days, settings->keep_models_days},
                           .pause = pause_after,
                           .deleted = note_deleted,
                           .data = thread};
    *ret = NULL;
    if (keeps_all(&thread->retention)) {
        free(thread);
        return 0;
    }
    if (periodic_start(EVERY_S, work, thread, &thread->periodic, error) < 0) {
        free(thread);
        return -1;
    }
    *ret = thread;
    return 0;
}

void retention_stop(struct retention_thread *thread) {
    if (!thread)
        return;
    periodic_stop(thread->periodic);
    free(thread);
}
