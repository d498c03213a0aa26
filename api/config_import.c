/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_import.c: the best configurations of an AutoTVM log. Lines are read one at a time from the spooled body, and
 * kept in transactions of a few hundred, so that memory is bounded whatever comes. What is in stays in when a later
 * line, or the time, ends the import; importing the same log again changes nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/configs.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/server.h"
#include "gpu/template/autotvm_log.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"

enum { BATCH = 256, MOST_KEYS = 32, MOST_SECONDS = 600, MOST_ANSWER = 4 << 20 };

struct import {
    struct request *request;
    const char *device;   /* the class of devices to keep it under; NULL: what each record says */
    struct target target; /* of that class */
    int64_t deadline;
    struct autotvm_mapper *mapper;
    struct arena *arena; /* of the batch */
    struct config_row batch[BATCH];
    int n;
    int64_t failed, imported, kept;
    struct autotvm_notes stale;
    const char *keys[MOST_KEYS]; /* classes of devices that records were kept under */
    int n_keys;
    bool foreign; /* a record said no class of ours */
};

/* ---- batches ---- */

static int by_cost(const void *left, const void *right) {
    const struct config_row *a = left, *b = right;
    int order = strcmp(a->workload, b->workload);
    if (order == 0)
        order = strcmp(a->device_key, b->device_key);
    return order ? order : (a->cost_s > b->cost_s) - (a->cost_s < b->cost_s);
}

static bool are_rivals(const struct config_row *a, const struct config_row *b) {
    return strcmp(a->workload, b->workload) == 0 && strcmp(a->device_key, b->device_key) == 0;
}

/* Of rivals within the batch only the fastest goes to the database. */
static int flush(struct import *import, struct error *error) {
    int n = 0, kept = 0;
    if (import->n)
        qsort(import->batch, (size_t)import->n, sizeof *import->batch, by_cost);
    for (int i = 0; i < import->n; i++)
        if (n == 0 || !are_rivals(&import->batch[n - 1], &import->batch[i]))
            import->batch[n++] = import->batch[i];
    if (config_put_all(import->request->api->db, import->batch, n, &kept, error) < 0)
        return -1;
    import->kept += kept;
    import->n = 0;
    arena_free(import->arena);
    import->arena = arena_new(0);
    return 0;
}

/* ---- records ---- */

static const char *device_of(struct import *import, const struct autotvm_record *record,
                             const struct autotvm_own *own) {
    const char *key = import->device ? import->device : own->device_key;
    if (!key) {
        key = autotvm_device_key(record->target, import->arena);
        import->foreign = true;
    }
    for (int i = 0; i < import->n_keys; i++)
        if (strcmp(import->keys[i], key) == 0)
            return import->keys[i];
    if (import->n_keys < MOST_KEYS)
        import->keys[import->n_keys++] = arena_strdup(import->request->arena, key);
    return arena_strdup(import->arena, key);
}

/* Half the distance between the fastest and slowest cost, as for our own trials. */
static double spread_of(const struct autotvm_record *record) {
    double low = INFINITY, high = 0;
    for (int i = 0; i < record->n_costs; i++) {
        low = fmin(low, record->costs_s[i]);
        high = fmax(high, record->costs_s[i]);
    }
    return (high - low) / 2;
}

static const char *provenance_of(struct arena *arena, const struct autotvm_record *record,
                                 const struct autotvm_own *own) {
    if (own->provenance)
        return arena_strdup(arena, json_text(own->provenance, NULL));
    struct json_object *provenance CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(provenance, "source", "autotvm");
    json_add_string(provenance, "target", record->target);
    json_add_string(provenance, "tvm_version", record->tvm_version);
    json_add_double(provenance, "timestamp_s", record->timestamp_s);
    return arena_strdup(arena, json_text(provenance, NULL));
}

static void add(struct import *import, const struct autotvm_record *record, const struct autotvm_own *own,
                const struct autotvm_fit *fit) {
    struct json_object *entity CLEANUP(json_put_p) = space_entity(fit->space, fit->index);
    import->batch[import->n++] = (struct config_row){.workload = arena_strdup(import->arena, fit->key),
                                                     .project_id = import->request->project_id,
                                                     .device_key = device_of(import, record, own),
                                                     .template = fit->template->name,
                                                     .version = fit->template->version,
                                                     .index = fit->index,
                                                     .entity = arena_strdup(import->arena, json_text(entity, NULL)),
                                                     .cost_s = autotvm_record_cost(record),
                                                     .spread_s = own->workload ? own->spread_s : spread_of(record),
                                                     .baseline_s = own->baseline_s,
                                                     .provenance = provenance_of(import->arena, record, own)};
    import->imported++;
}

/* What the record means here; the reason when it is of no use. */
static int read_record(struct import *import, const struct autotvm_record *record, struct autotvm_own *ret_own,
                       struct autotvm_fit *ret_fit, struct error *reason) {
    if (autotvm_own_read(record, ret_own, reason) < 0 || autotvm_map(import->mapper, record, ret_fit, reason) < 0)
        return -1;
    if (import->device && strcmp(import->target.kind, ret_fit->template->device) != 0)
        return error_set(reason, ERROR_INVALID, "other-device", "device",
                         "The template %.100s is for %s, so its results cannot be kept for %.100s.",
                         ret_fit->template->name, ret_fit->template->device, import->device);
    return 0;
}

static int take(void *data, const struct autotvm_line *line, const struct autotvm_record *record, struct error *error) {
    struct import *import = data;
    struct autotvm_own own;
    struct autotvm_fit fit;
    struct error reason;
    if (clock_now_ns() > import->deadline)
        return error_set(error, ERROR_TIMEOUT, "import-too-long", NULL,
                         "The import took longer than %d s and ended at line %lld. What came before that line is kept; "
                         "send the rest by itself.",
                         MOST_SECONDS, (long long)line->number);
    if (autotvm_record_cost(record) >= AUTOTVM_FAILED_S) {
        import->failed++;
        return 0;
    }
    if (read_record(import, record, &own, &fit, &reason) < 0) {
        autotvm_note(&import->stale, line->number, &reason, import->request->arena);
        return 0;
    }
    add(import, record, &own, &fit);
    return import->n == BATCH ? flush(import, error) : 0;
}

/* ---- the answer ---- */

static void write_notes(struct buf *out, const char *name, const struct autotvm_notes *notes) {
    write_array(out, name);
    for (int i = 0; i < notes->n_first; i++) {
        write_object(out, NULL);
        write_int(out, "line", notes->first[i].line);
        write_text(out, "reason", notes->first[i].reason);
        write_end(out, '}');
    }
    write_end(out, ']');
}

static const char foreign_note[] =
    "Records that name no class of devices of ours are kept under their target's model, which no device here belongs "
    "to, so that a foreign GPU's time is never taken for one of ours. Pass device= to keep them under a class.";

/*
 * lines = imported + failed + stale + bad, and imported = kept + slower. `errors` names the first bad lines, `stale`
 * the first that are of no use here. A bad line is no record; a stale one is a record of a task, template or
 * configuration that is not served (any more).
 */
static int answer(struct import *import, const struct autotvm_log *log, struct response *ret, struct error *error) {
    struct buf *json = request_buf(import->request, MOST_ANSWER);
    write_object(json, NULL);
    write_int(json, "lines", log->lines);
    write_int(json, "imported", import->imported);
    write_int(json, "kept", import->kept);
    write_object(json, "dropped");
    write_int(json, "failed", import->failed);
    write_int(json, "stale", import->stale.count);
    write_int(json, "slower", import->imported - import->kept);
    write_end(json, '}');
    write_int(json, "bad", log->bad.count);
    write_notes(json, "errors", &log->bad);
    write_notes(json, "stale", &import->stale);
    write_array(json, "device_keys");
    for (int i = 0; i < import->n_keys; i++)
        write_text(json, NULL, import->keys[i]);
    write_end(json, ']');
    write_text(json, "note", import->foreign ? foreign_note : NULL);
    write_end(json, '}');
    return response_written(import->request, ret, 200, json, error);
}

int config_import(struct request *request, struct response *ret, struct error *error) {
    struct file_map map;
    struct autotvm_log log;
    struct import *import = arena_alloc(request->arena, sizeof *import);
    import->request = request;
    import->deadline = deadline_in_s(MOST_SECONDS);
    if (config_read_device(request, &import->device, error) < 0 ||
        (import->device && config_device_target(import->device, &import->target, error) < 0) ||
        file_map(request->upload.path, &map, error) < 0)
        return -1;
    import->mapper = autotvm_mapper_new(template_builtin);
    import->arena = arena_new(0);
    int status = autotvm_log_each(map.data, map.len, take, import, request->arena, &log, error);
    if (status == 0)
        status = flush(import, error);
    autotvm_mapper_free(import->mapper);
    arena_free(import->arena);
    file_unmap(&map);
    return status < 0 ? -1 : answer(import, &log, ret, error);
}
