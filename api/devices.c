/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c: who works, on which devices, and what they are doing now. */
#include "api/auth.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/server.h"
#include "service/store/worker_store.h"

enum { MOST_DEVICES = 64 << 20 };

/* The work of other projects is work of somebody. */
static void write_doing(const struct request *request, struct buf *out, const struct worker_device *device) {
    struct error ignored;
    if (!device->work) {
        write_raw(out, "doing", NULL);
        return;
    }
    write_object(out, "doing");
    write_text(out, "work", device->work);
    bool own = auth_owns_job(request, device->job_id, &ignored) == 0;
    write_text(out, "job_id", own ? device->job_id : NULL);
    if (own && device->task >= 0)
        write_int(out, "task", device->task);
    write_time(out, "lease_until", device->lease_until_us);
    write_end(out, '}');
}

/* The members of a device, into the object that is open. */
static void write_device(const struct request *request, struct buf *out, const struct worker_device *device) {
    write_text(out, "kind", device->kind);
    write_int(out, "ordinal", device->ordinal);
    write_text(out, "device_key", device->key);
    write_raw(out, "info", device->info);
    write_raw(out, "now", device->state);
    write_doing(request, out, device);
}

static void write_worker(struct buf *out, const struct worker_row *worker) {
    write_text(out, "id", worker->id);
    write_text(out, "host", worker->host);
    write_int(out, "pid", worker->pid);
    write_text(out, "version", worker->version);
    write_text(out, "key", *worker->label ? worker->label : NULL);
    write_time(out, "started_at", worker->started_us);
    write_time(out, "seen_at", worker->seen_us);
    write_fixed(out, "silent_s", worker->silent_s);
}

int device_page(struct request *request, struct response *ret, struct error *error) {
    struct worker_row *workers;
    int n;
    if (worker_list(request->api->db, request->arena, &workers, &n, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_DEVICES);
    write_object(json, NULL);
    write_array(json, "devices");
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < workers[i].n_devices; d++) {
            write_object(json, NULL);
            write_device(request, json, &workers[i].devices[d]);
            write_object(json, "worker");
            write_worker(json, &workers[i]);
            write_end(json, '}');
            write_end(json, '}');
        }
    }
    write_end(json, ']');
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}

int worker_page(struct request *request, struct response *ret, struct error *error) {
    struct worker_row *workers;
    int n;
    if (worker_list(request->api->db, request->arena, &workers, &n, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_DEVICES);
    write_object(json, NULL);
    write_array(json, "workers");
    for (int i = 0; i < n; i++) {
        write_object(json, NULL);
        write_worker(json, &workers[i]);
        write_array(json, "devices");
        for (int d = 0; d < workers[i].n_devices; d++) {
            write_object(json, NULL);
            write_device(request, json, &workers[i].devices[d]);
            write_end(json, '}');
        }
        write_end(json, ']');
        write_end(json, '}');
    }
    write_end(json, ']');
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}
