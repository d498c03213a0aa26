/* SPDX-License-Identifier: Apache-2.0 */
/* worker_store.h: who works, on which devices, and when they were last heard of (by the database's clock). */
#ifndef WARPTUNE_STORE_WORKER_STORE_H
#define WARPTUNE_STORE_WORKER_STORE_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/store/db.h"
#include "service/store/uuid.h"

struct worker_device {
    const char *kind; /* "cpu", "cuda" */
    int ordinal;
    const char *key;      /* the class of devices */
    const char *info;     /* JSON text: what it is */
    const char *state;    /* JSON text: clocks, temperature, memory now; NULL: not known */
    const char *counters; /* JSON text: what it has done since the worker started; NULL: not told */
    /* On reading: what it is doing. Empty job: nothing. */
    char job_id[UUID_TEXT];
    const char *work; /* "plan", "tune", "build"; NULL: nothing */
    int task;         /* -1: none */
    int64_t lease_until_us;
};

struct worker_row {
    char id[UUID_TEXT]; /* a new one at each start: uuid_make */
    const char *host, *version, *label;
    int64_t pid;
    struct worker_device *devices;
    int n_devices;
    int64_t started_us, seen_us; /* on reading */
    double silent_s;             /* on reading: since seen_us */
};

/* The worker and its devices appear; the same id again replaces them. */
int worker_register(struct db *db, const struct worker_row *worker, struct error *error) MUST_CHECK;
/* It lives, and its devices are in these states (of the devices only kind, ordinal, state and counters are read).
 * ERROR_NOT_FOUND "no-such-worker": it expired; register again. */
int worker_heartbeat(struct db *db, const struct worker_row *worker, struct error *error) MUST_CHECK;
/* It leaves in good order. */
int worker_remove(struct db *db, const char *id, struct error *error) MUST_CHECK;
/* Removes those silent for longer; ret_removed (optional): how many. */
int worker_expire(struct db *db, double silent_s, int *ret_removed, struct error *error) MUST_CHECK;
/* All of them in one array, oldest first. */
int worker_list(struct db *db, struct arena *arena, struct worker_row **ret, int *ret_count,
                struct error *error) MUST_CHECK;

#endif
