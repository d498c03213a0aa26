/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/device_list.h"
#include "scheduler/lease.h"
#include "scheduler/slot.h"
#include "service/base/arena.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/base/log.h"
#include "service/base/scratch.h"
#include "service/store/worker_store.h"

#define HEARTBEAT_S 5
#define SILENT_S 60.0 /* a worker not heard of for so long is taken off the list */

struct worker {
    struct db *db;
    struct arena *arena; /* config texts, the row */
    struct device_info devices[DEVICE_LIST_MAX];
    int n_devices;
    struct worker_row row;
    struct lease_keeper *keeper;
    struct slot *slots[DEVICE_LIST_MAX];
    int64_t busy_told[DEVICE_LIST_MAX]; /* the heartbeat's: what it told last */
    pthread_t heart;
    bool has_heart;
    pthread_mutex_t lock; /* guards stopping */
    pthread_cond_t changed;
    bool stopping;
};

static const char *info_json(struct arena *arena, const struct device_info *info) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(object, "name", info->name);
    json_add_string(object, "arch", info->target.arch);
    json_add_string(object, "uuid", info->uuid);
    json_add_int(object, "units", info->target.units);
    json_add_int(object, "memory_bytes", info->memory_bytes);
    json_add_string(object, "driver", info->driver);
    json_add_string(object, "compiler", info->compiler);
    json_add_double(object, "peak_gflops", info->peak_flops / 1e9);
    json_add_double(object, "peak_gb_per_s", info->peak_bytes_per_s / 1e9);
    return arena_strdup(arena, json_text(object, NULL));
}

static void add_known(struct json_object *object, const char *field, int64_t value) {
    if (value >= 0)
        json_add_int(object, field, value);
}

/* What a device says of itself now; NULL when it says nothing. */
static const char *state_json(struct arena *arena, const struct device_info *info) {
    struct device_state state;
    struct error ignored;
    if (device_class_find(info->target.kind)->state(info->ordinal, &state, &ignored) < 0)
        return NULL;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    add_known(object, "sm_clock_mhz", state.sm_clock_mhz);
    add_known(object, "memory_clock_mhz", state.memory_clock_mhz);
    add_known(object, "temperature_c", state.temperature_c);
    add_known(object, "power_w", state.power_w);
    add_known(object, "utilization_percent", state.utilization_percent);
    add_known(object, "memory_used_bytes", state.memory_used_bytes);
    add_known(object, "other_processes", state.other_processes);
    return arena_strdup(arena, json_text(object, NULL));
}

/* Work under way counts as it goes on. *told never falls, though we may look between the two stores that end it. */
static const char *counters_json(struct arena *arena, const struct counters *counters, int64_t *told) {
    int64_t since = atomic_load(&counters->busy_since);
    int64_t busy = atomic_load(&counters->busy_ns) + (since ? clock_now_ns() - since : 0);
    if (busy > *told)
        *told = busy;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object(), *trials = json_object_new_array();
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        json_object_array_add(trials, json_object_new_int64(atomic_load(&counters->trials[i])));
    json_add(object, "trials", trials);
    json_add_double(object, "busy_s", (double)*told / NS_PER_S);
    return arena_strdup(arena, json_text(object, NULL));
}

static void describe(struct worker *worker, const char *key) {
    char host[256] = "unknown";
    gethostname(host, sizeof host - 1);
    struct worker_device *devices = arena_array(worker->arena, (size_t)worker->n_devices, sizeof *devices);
    for (int i = 0; i < worker->n_devices; i++)
        devices[i] = (struct worker_device){.kind = worker->devices[i].target.kind,
                                            .ordinal = worker->devices[i].ordinal,
                                            .key = worker->devices[i].key,
                                            .info = info_json(worker->arena, &worker->devices[i]),
                                            .task = -1};
    uuid_make(worker->row.id);
    worker->row.host = arena_strdup(worker->arena, host);
    worker->row.version = WARPTUNE_VERSION;
    worker->row.label = arena_strdup(worker->arena, key);
    worker->row.pid = getpid();
    worker->row.devices = devices;
    worker->row.n_devices = worker->n_devices;
}

static void beat(struct worker *worker) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct worker_row row = worker->row;
    struct worker_device devices[DEVICE_LIST_MAX];
    struct error error;
    row.devices = devices;
    for (int i = 0; i < worker->n_devices; i++) {
        devices[i] = worker->row.devices[i];
        devices[i].state = state_json(arena, &worker->devices[i]);
        devices[i].counters = counters_json(arena, slot_counters(worker->slots[i]), &worker->busy_told[i]);
    }
    int status = worker_heartbeat(worker->db, &row, &error);
    if (status < 0 && error.class == ERROR_NOT_FOUND)
        status = worker_register(worker->db, &worker->row, &error);
    if (status < 0 || worker_expire(worker->db, SILENT_S, NULL, &error) < 0 ||
        queue_expire(worker->db, NULL, &error) < 0)
        log_error(LOG_WARN, "heartbeat", &error);
}

static void *heart_main(void *data) {
    struct worker *worker = data;
    pthread_mutex_lock(&worker->lock);
    while (!worker->stopping) {
        pthread_mutex_unlock(&worker->lock);
        beat(worker);
        int64_t next = deadline_in_s(HEARTBEAT_S);
        struct timespec until = {next / NS_PER_S, next % NS_PER_S};
        pthread_mutex_lock(&worker->lock);
        if (!worker->stopping)
            pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

static int start_slots(struct worker *worker, const struct worker_config *config, struct error *error) {
    struct slot_config slot = {.db = config->db,
                               .worker_id = worker->row.id,
                               .key = worker->row.label,
                               .data_dir = arena_strdup(worker->arena, config->data_dir),
                               .program = config->program ? arena_strdup(worker->arena, config->program) : NULL,
                               .builders = config->builders,
                               .keeper = worker->keeper};
    for (int i = 0; i < worker->n_devices; i++) {
        slot.device = worker->devices[i];
        if (slot_start(&slot, &worker->slots[i], error) < 0)
            return -1;
    }
    return 0;
}

/* What a worker that was killed left at work, compilers' files and modules, in this data folder. */
static void sweep(struct worker *worker, const char *data_dir) {
    scratch_sweep(arena_printf(worker->arena, "%s/code", data_dir));
    scratch_sweep(arena_printf(worker->arena, "%s/work", data_dir));
}

static int start_parts(struct worker *worker, const struct worker_config *config, struct error *error) {
    if (device_list(config->devices, worker->devices, &worker->n_devices, error) < 0)
        return -1;
    describe(worker, config->key ? config->key : "");
    sweep(worker, config->data_dir);
    if (worker_register(worker->db, &worker->row, error) < 0 ||
        lease_keeper_start(worker->db, &worker->keeper, error) < 0 || start_slots(worker, config, error) < 0)
        return -1;
    int code = pthread_create(&worker->heart, NULL, heart_main, worker);
    if (code != 0)
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made for the heartbeat: %s.",
                         strerror(code));
    worker->has_heart = true;
    return 0;
}

int worker_start(const struct worker_config *config, struct worker **ret, struct error *error) {
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        abort();
    worker->db = config->db;
    worker->arena = arena_new(0);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (start_parts(worker, config, error) < 0) {
        worker_stop(worker);
        return -1;
    }
    *ret = worker;
    return 0;
}

void worker_ask_stop(struct worker *worker) {
    for (int i = 0; i < worker->n_devices; i++)
        if (worker->slots[i])
            slot_ask_stop(worker->slots[i]);
}

bool worker_stopped(const struct worker *worker) {
    for (int i = 0; i < worker->n_devices; i++)
        if (worker->slots[i] && !slot_stopped(worker->slots[i]))
            return false;
    return true;
}

void worker_stop(struct worker *worker) {
    if (!worker)
        return;
    struct error error;
    pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    worker_ask_stop(worker);
    for (int i = 0; i < worker->n_devices; i++)
        slot_stop(worker->slots[i]);
    if (worker->has_heart)
        pthread_join(worker->heart, NULL);
    lease_keeper_stop(worker->keeper);
    if (worker->row.host && worker_remove(worker->db, worker->row.id, &error) < 0)
        log_error(LOG_WARN, "leaving", &error);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    arena_free(worker->arena);
    free(worker);
}
