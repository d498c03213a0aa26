/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/slot.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/step.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/log.h"
#include "service/store/event_store.h"
#include "service/store/listener.h"

#define LOOK_S 2.0  /* how often to look for work that no notification told of */
#define IDLE_S 30.0 /* after so long without work the device's children end */
#define TELL_FULL_S 600.0
#define RETRY_DELAY_S 3.0 /* before an item whose step failed for a passing reason is tried again */

struct slot {
    struct slot_config config;
    struct listener *listener;
    struct measurer *measurer; /* the thread's */
    int64_t idle_since;
    int64_t full_told_ns; /* when a job's log last heard of a full disk; 0: never */
    struct counters counters;
    pthread_t thread;
    atomic_bool stopping, hurry, stopped;
};

typedef int step_function(struct step *step, struct error *error);

static step_function *const steps[] = {[WORK_PLAN] = step_plan, [WORK_TUNE] = step_tune, [WORK_BUILD] = step_build};

/*
 * Whether the same step on the same item may go better next time. The plain kernel fails for good only when the device
 * or the compiler is broken; when its child was killed (memory ran out) it works again, so it gets all attempts but the
 * last, which tells the reason.
 */
static bool may_pass(const struct work_item *item, const struct error *why) {
    switch (why->class) {
    case ERROR_IO:
    case ERROR_DB:
    case ERROR_BUSY:
    case ERROR_TIMEOUT:
        return true;
    default:
        return strcmp(why->code, "plain-kernel-failed") == 0 && item->attempts < QUEUE_MAX_ATTEMPTS;
    }
}

/*
 * Nobody's fault but the disk's: no attempt is used up, however long it takes until somebody makes room. The job's log
 * says so, now and then: on a full disk that may fail, too.
 */
static int wait_for_room(struct slot *slot, const struct work_item *item, const struct error *why,
                         struct error *error) {
    int64_t now = clock_now_ns();
    log_error(LOG_WARN, "work put back", why);
    if (slot->full_told_ns == 0 || now - slot->full_told_ns > (int64_t)(TELL_FULL_S * NS_PER_S)) {
        slot->full_told_ns = now;
        if (event_log(slot->config.db, item, "warn", why->text, error) < 0)
            log_error(LOG_WARN, "telling the job's log", error);
    }
    return queue_put_back(slot->config.db, item, RETRY_DELAY_S, false, error);
}

/* What becomes of an item whose step did not complete it. */
static void settle_failure(struct slot *slot, const struct work_item *item, const struct error *why) {
    struct error error;
    int status = 0;
    if (strcmp(why->code, "lease-lost") == 0) {
        log_error(LOG_INFO, "work dropped", why);
    } else if (why->class == ERROR_CANCELLED) {
        status = queue_put_back(slot->config.db, item, 0, false, &error);
    } else if (strcmp(why->code, DISK_FULL) == 0) {
        status = wait_for_room(slot, item, why, &error);
    } else if (may_pass(item, why)) {
        log_error(LOG_WARN, "work put back", why);
        status = queue_put_back(slot->config.db, item, RETRY_DELAY_S, true, &error);
    } else {
        log_error(LOG_WARN, "job failed", why);
        status = queue_fail(slot->config.db, item, why, &error);
    }
    if (status < 0)
        log_error(LOG_WARN, "returning work", &error);
}

/* A measurer whose children are in doubt is not used again. */
static void drop_measurer(struct slot *slot) {
    measurer_free(slot->measurer);
    slot->measurer = NULL;
}

static void do_item(struct slot *slot, const struct claimant *claimant, const struct work_item *item) {
    struct error error = {0};
    struct lease *lease = lease_hold(slot->config.keeper, item);
    struct step step = {.db = slot->config.db,
                        .device = &slot->config.device,
                        .claimant = claimant,
                        .data_dir = slot->config.data_dir,
                        .program = slot->config.program,
                        .builders = slot->config.builders,
                        .measurer = &slot->measurer,
                        .item = item,
                        .lease = lease,
                        .stopping = &slot->stopping,
                        .hurry = &slot->hurry,
                        .counters = &slot->counters,
                        .arena = arena_new(0)};
    log_context("job", item->job_id);
    int64_t began = clock_now_ns();
    atomic_store(&slot->counters.busy_since, began);
    int status = steps[item->kind](&step, &error);
    atomic_store(&slot->counters.busy_since, 0);
    atomic_fetch_add(&slot->counters.busy_ns, clock_now_ns() - began);
    lease_release(slot->config.keeper, lease);
    if (status < 0)
        settle_failure(slot, item, &error);
    if (status < 0 && error.class == ERROR_DEVICE)
        drop_measurer(slot);
    arena_free(step.arena);
    log_context("job", NULL);
}

static void wait_for_work(struct slot *slot) {
    char payload[LISTENER_PAYLOAD];
    struct error ignored;
    if (slot->measurer && clock_now_ns() - slot->idle_since > (int64_t)(IDLE_S * NS_PER_S))
        drop_measurer(slot);
    (void)!listener_wait(slot->listener, deadline_in_s(LOOK_S), payload, &ignored);
}

static void *slot_main(void *data) {
    struct slot *slot = data;
    struct claimant claimant = {.worker_id = slot->config.worker_id,
                                .device_kind = slot->config.device.target.kind,
                                .ordinal = slot->config.device.ordinal,
                                .device_key = slot->config.device.key,
                                .label = slot->config.key,
                                .lease_s = LEASE_S};
    while (!atomic_load(&slot->stopping)) {
        struct work_item item;
        struct error error;
        bool found = false;
        if (queue_claim(slot->config.db, &claimant, &item, &found, &error) < 0)
            log_error(LOG_WARN, "looking for work", &error);
        if (found) {
            do_item(slot, &claimant, &item);
            slot->idle_since = clock_now_ns();
        } else {
            wait_for_work(slot);
        }
    }
    drop_measurer(slot);
    atomic_store(&slot->stopped, true);
    return NULL;
}

int slot_start(const struct slot_config *config, struct slot **ret, struct error *error) {
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        abort();
    slot->config = *config;
    if (listener_open(db_url(config->db), CHANNEL_QUEUE, &slot->listener, error) < 0) {
        free(slot);
        return -1;
    }
    int code = pthread_create(&slot->thread, NULL, slot_main, slot);
    if (code != 0) {
        listener_close(slot->listener);
        free(slot);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for a device: %s.",
                         strerror(code));
    }
    *ret = slot;
    return 0;
}

void slot_ask_stop(struct slot *slot) {
    atomic_store(&slot->stopping, true);
    listener_interrupt(slot->listener);
}

const struct counters *slot_counters(const struct slot *slot) {
    return &slot->counters;
}

bool slot_stopped(const struct slot *slot) {
    return atomic_load(&slot->stopped);
}

void slot_stop(struct slot *slot) {
    if (!slot)
        return;
    atomic_store(&slot->hurry, true);
    slot_ask_stop(slot);
    pthread_join(slot->thread, NULL);
    listener_close(slot->listener);
    free(slot);
}
