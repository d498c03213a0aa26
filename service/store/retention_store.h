/* SPDX-License-Identifier: Apache-2.0 */
/*
 * retention_store.h: deletes what is older than it is to be kept.
 *
 * A pass walks along the jobs that ended long enough ago, oldest first, and deletes at most RETENTION_BATCH rows in a
 * transaction, with a pause after each. It never touches an open job. Of trials the record of every best configuration
 * stays: of its task, of those shared by all jobs, of a golden set; and a job that one of the latter two came from
 * stays as a whole. The event of each state stays as long as its job. One process at a time works on a database.
 */
#ifndef WARPTUNE_STORE_RETENTION_STORE_H
#define WARPTUNE_STORE_RETENTION_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/store/db.h"

#define RETENTION_BATCH 1000

enum retained {
    RETAINED_EVENTS, /* of progress and of trials */
    RETAINED_LOGS,   /* lines of jobs' logs */
    RETAINED_TRIALS,
    RETAINED_JOBS,   /* with all that hangs on them; their modules become blobs that nothing refers to */
    RETAINED_MODELS, /* that no job has used for so long, with their bytes */
    RETAINED_COUNT
};
const char *retained_name(enum retained kind); /* "events", "logs", … */

struct retention {
    int64_t days[RETAINED_COUNT]; /* how long each is kept after its job's end; 0: for ever */
    bool (*pause)(void *data);    /* called between transactions; true: stop */
    void (*deleted)(void *data, enum retained kind, int64_t rows);
    void *data;
};

/* *ret_ran false: another process is at it, and nothing was done. Stopped by `pause` is no error. */
int retention_pass(struct db *db, const struct retention *retention, bool *ret_ran, struct error *error) MUST_CHECK;

/* What a process has deleted since it started, for /metrics. */
struct retention_stats {
    atomic_llong deleted[RETAINED_COUNT];
    atomic_llong passes, failures;
};

#endif
