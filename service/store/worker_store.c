/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/worker_store.h"

#include <string.h>

#include "service/store/pg.h"

static const struct statement put_worker = {
    "worker_put", "INSERT INTO workers (id, host, pid, version, label) VALUES ($1, $2, $3, $4, $5) "
                  "ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, version = excluded.version,"
                  " label = excluded.label"};
static const struct statement put_heartbeat = {"worker_put_heartbeat",
                                               "INSERT INTO worker_heartbeats (worker_id) VALUES ($1) "
                                               "ON CONFLICT (worker_id) DO UPDATE SET seen_at = now()"};
static const struct statement drop_devices = {"worker_drop_devices", "DELETE FROM devices WHERE worker_id = $1"};
static const struct statement put_device = {
    "worker_put_device",
    "INSERT INTO devices (worker_id, kind, ordinal, device_key, info, state) VALUES ($1, $2, $3, $4, $5, $6)"};
static const struct statement beat = {"worker_beat",
                                      "UPDATE worker_heartbeats SET seen_at = now() WHERE worker_id = $1"};
static const struct statement set_state = {
    "worker_set_state",
    "UPDATE devices SET state = $4, counters = $5 WHERE worker_id = $1 AND kind = $2 AND ordinal = $3"};
static const struct statement remove_worker = {"worker_remove", "DELETE FROM workers WHERE id = $1"};
static const struct statement expire = {"worker_expire",
                                        "DELETE FROM workers w USING worker_heartbeats h WHERE h.worker_id = w.id"
                                        " AND (h.seen_at < now() - $1 * interval '1 second'"
                                        "  OR h.seen_at > now() + $1 * interval '1 second')"};
static const struct statement list = {
    "worker_list",
    "SELECT w.id, w.host, w.pid, w.version, w.label, w.started_at, h.seen_at,"
    " greatest(extract(epoch FROM now() - h.seen_at), 0),"
    " d.kind, d.ordinal, d.device_key, d.info, d.state, d.counters, q.job_id, q.kind, coalesce(q.task, -1), "
    "q.available_at "
    "FROM workers w JOIN worker_heartbeats h ON h.worker_id = w.id LEFT JOIN devices d ON d.worker_id = w.id "
    "LEFT JOIN LATERAL (SELECT job_id, kind, task, available_at FROM queue q WHERE q.worker_id = w.id"
    "  AND q.worker_kind = d.kind AND q.ordinal = d.ordinal AND q.token IS NOT NULL AND q.available_at > now()"
    "  ORDER BY q.id LIMIT 1) q ON true ORDER BY w.id, d.kind, d.ordinal"};
enum { FIRST_DEVICE_COLUMN = 8 };

static int run_for_worker(struct pg *pg, const struct statement *statement, const char *id, PGresult **ret_result,
                          struct error *error) {
    struct params params = {0};
    params_text(&params, id);
    return pg_run(pg, statement, &params, ret_result, error);
}

static int register_worker(struct pg *pg, void *data, struct error *error) {
    const struct worker_row *worker = data;
    struct params params = {0};
    params_text(&params, worker->id);
    params_text(&params, worker->host);
    params_int(&params, worker->pid);
    params_text(&params, worker->version);
    params_text(&params, worker->label ? worker->label : "");
    if (pg_run(pg, &put_worker, &params, NULL, error) < 0 ||
        run_for_worker(pg, &put_heartbeat, worker->id, NULL, error) < 0 ||
        run_for_worker(pg, &drop_devices, worker->id, NULL, error) < 0)
        return -1;
    for (int i = 0; i < worker->n_devices; i++) {
        const struct worker_device *device = &worker->devices[i];
        struct params row = {0};
        params_text(&row, worker->id);
        params_text(&row, device->kind);
        params_int(&row, device->ordinal);
        params_text(&row, device->key);
        params_text(&row, device->info);
        params_text(&row, device->state);
        if (pg_run(pg, &put_device, &row, NULL, error) < 0)
            return -1;
    }
    return 0;
}

int worker_register(struct db *db, const struct worker_row *worker, struct error *error) {
    return db_transaction(db, register_worker, (void *)(uintptr_t)worker, error);
}

static int heartbeat(struct pg *pg, void *data, struct error *error) {
    const struct worker_row *worker = data;
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (run_for_worker(pg, &beat, worker->id, &result, error) < 0)
        return -1;
    if (pg_affected(result) == 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-worker", NULL, "Worker %s is not registered (any more).",
                         worker->id);
    for (int i = 0; i < worker->n_devices; i++) {
        const struct worker_device *device = &worker->devices[i];
        struct params params = {0};
        params_text(&params, worker->id);
        params_text(&params, device->kind);
        params_int(&params, device->ordinal);
        params_text(&params, device->state);
        params_text(&params, device->counters);
        if (pg_run(pg, &set_state, &params, NULL, error) < 0)
            return -1;
    }
    return 0;
}

int worker_heartbeat(struct db *db, const struct worker_row *worker, struct error *error) {
    return db_transaction(db, heartbeat, (void *)(uintptr_t)worker, error);
}

int worker_remove(struct db *db, const char *id, struct error *error) {
    struct params params = {0};
    params_text(&params, id);
    return db_run(db, &remove_worker, &params, NULL, error);
}

int worker_expire(struct db *db, double silent_s, int *ret_removed, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_double(&params, silent_s);
    if (db_run(db, &expire, &params, &result, error) < 0)
        return -1;
    if (ret_removed)
        *ret_removed = (int)pg_affected(result);
    return 0;
}

static void read_worker(struct row *row, struct arena *arena, struct worker_row *ret) {
    row_copy(row, ret->id, sizeof ret->id);
    ret->host = row_text(row, arena);
    ret->pid = row_int(row);
    ret->version = row_text(row, arena);
    ret->label = row_text(row, arena);
    ret->started_us = row_time(row);
    ret->seen_us = row_time(row);
    ret->silent_s = row_double(row);
}

static void read_device(struct row *row, struct arena *arena, struct worker_device *ret) {
    ret->kind = row_text(row, arena);
    ret->ordinal = (int)row_int(row);
    ret->key = row_text(row, arena);
    ret->info = row_text(row, arena);
    ret->state = row_text(row, arena);
    ret->counters = row_text(row, arena);
    row_copy(row, ret->job_id, sizeof ret->job_id);
    ret->work = row_text(row, arena);
    ret->task = (int)row_int(row);
    ret->lease_until_us = row_time(row);
}

int worker_list(struct db *db, struct arena *arena, struct worker_row **ret, int *ret_count, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, &list, NULL, &result, error) < 0)
        return -1;
    int rows = PQntuples(result), count = 0;
    struct worker_row *workers = arena_array(arena, (size_t)rows + 1, sizeof *workers);
    struct worker_device *devices = arena_array(arena, (size_t)rows + 1, sizeof *devices);
    for (int i = 0; i < rows; i++) {
        struct row row = {result, i, 0};
        if (count == 0 || strcmp(workers[count - 1].id, PQgetvalue(result, i, 0)) != 0) {
            workers[count].devices = &devices[i];
            read_worker(&row, arena, &workers[count++]);
        }
        if (PQgetisnull(result, i, FIRST_DEVICE_COLUMN))
            continue;
        row.column = FIRST_DEVICE_COLUMN;
        struct worker_row *worker = &workers[count - 1];
        read_device(&row, arena, &worker->devices[worker->n_devices++]);
    }
    *ret = workers;
    *ret_count = count;
    return 0;
}
