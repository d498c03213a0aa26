/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.h: one device of a worker, with the thread that keeps it busy: claim an item, do its step, again. Sleeps on
 * PostgreSQL's notifications (and looks every few seconds besides) when there is nothing to do. Internal to the worker.
 */
#ifndef WARPTUNE_SCHEDULER_SLOT_H
#define WARPTUNE_SCHEDULER_SLOT_H

#include "gpu/device/device.h"
#include "scheduler/counters.h"
#include "scheduler/lease.h"

struct slot_config {
    struct db *db;
    const char *worker_id, *key, *data_dir, *program;
    int builders;
    struct lease_keeper *keeper; /* as db, outlives the slot */
    struct device_info device;
};

struct slot;

int slot_start(const struct slot_config *config, struct slot **ret, struct error *error) MUST_CHECK;
/* Asks it to claim nothing more and to stop after what is under way; returns at once. */
void slot_ask_stop(struct slot *slot);
/* What its device has done, as long as the slot lives. */
const struct counters *slot_counters(const struct slot *slot);
/* Whether it has stopped. */
bool slot_stopped(const struct slot *slot);
/* Ends what is under way, waits until it has stopped, frees it. NULL-safe. */
void slot_stop(struct slot *slot);

#endif
