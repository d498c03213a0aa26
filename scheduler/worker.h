/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h: what tunes: for each device a thread (a slot) that claims work, does it, and records what it found; and one
 * thread that keeps the leases and the heartbeat.
 *
 * Everything durable happens in PostgreSQL under the item's lease, so that a worker that dies loses at most the trials
 * in flight: the lease runs out, another worker (or this one, started again) claims the item and goes on from the
 * search's stored state.
 */
#ifndef WARPTUNE_SCHEDULER_WORKER_H
#define WARPTUNE_SCHEDULER_WORKER_H

#include <stdbool.h>

#include "service/base/error.h"

struct db;

struct worker_config {
    struct db *db;        /* outlives the worker */
    const char *data_dir; /* blobs/, code/ and work/ lie in it */
    const char *devices;  /* "auto", "all", or "cpu,cuda:0" */
    const char *key;      /* label; empty: none */
    const char *program;  /* answers the `child` verbs; NULL: this one */
    int builders;         /* compiler processes of each device; 0: one for each core */
};

struct worker;

/* ERROR_INVALID or ERROR_DEVICE when a device that was named is not there, or none is. */
int worker_start(const struct worker_config *config, struct worker **ret, struct error *error) MUST_CHECK;
/* Claims nothing more, finishes the trials under way, puts the rest back; returns at once. */
void worker_ask_stop(struct worker *worker);
/* Whether all of that is done. */
bool worker_stopped(const struct worker *worker);
/* Stops claiming, ends the measurement under way, puts its work back, frees everything. NULL-safe. */
void worker_stop(struct worker *worker);

#endif
