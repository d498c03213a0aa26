/* SPDX-License-Identifier: Apache-2.0 */
/* golden.c: the golden sets, one for each class of devices: set, looked at, ended; what was golden when, and how two
 * differ. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/configs.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "service/base/json.h"
#include "service/store/golden_store.h"

enum { MOST_ANSWER = 64 << 20, MOST_NOTE = 1000 };

/* ---- as JSON ---- */

static void write_config(struct buf *out, const char *name, const struct golden_config *config) {
    write_object(out, name);
    write_text(out, "workload", config->workload);
    write_text(out, "name", config->name);
    write_int(out, "count", config->count);
    write_text(out, "template", config->template);
    write_int_if(out, "version", config->version, config->version);
    write_int(out, "index", config->index);
    write_raw(out, "entity", config->entity);
    write_fixed(out, "cost_us", config->cost_s * 1e6);
    write_fixed(out, "spread_us", config->spread_s * 1e6);
    write_fixed(out, "baseline_us", config->baseline_s * 1e6);
    write_end(out, '}');
}

static void write_golden(struct buf *out, const char *name, const struct golden_row *golden) {
    write_object(out, name);
    write_int(out, "number", golden->number);
    write_text(out, "device_key", golden->device_key);
    write_text(out, "job_id", golden->job_id);
    write_text(out, "model_id", golden->model_id);
    write_text(out, "note", golden->note);
    write_time(out, "set_at", golden->set_us);
    write_time(out, "ended_at", golden->ended_us);
    write_raw(out, "result", golden->result);
    write_int(out, "n_configs", golden->n_configs);
    if (golden->configs) {
        write_array(out, "configs");
        for (int i = 0; i < golden->n_configs; i++)
            write_config(out, NULL, &golden->configs[i]);
        write_end(out, ']');
    }
    write_end(out, '}');
}

/* ---- set, look, end ---- */

int golden_put(struct request *request, struct response *ret, struct error *error) {
    static const char *const fields[] = {"job_id", "note", NULL};
    const char *job_id, *note = "";
    struct golden_row *golden;
    bool made;
    if (json_only_fields(request->json, fields, error) < 0 ||
        json_read_string(request->json, "job_id", JSON_REQUIRED, 64, &job_id, error) < 0 ||
        json_read_string(request->json, "note", JSON_OPTIONAL, MOST_NOTE, &note, error) < 0 ||
        golden_set(request->api->db, request->project_id, job_id, note, request->arena, &golden, &made, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_ANSWER);
    write_golden(json, NULL, golden);
    return response_written(request, ret, made ? 201 : 200, json, error);
}

static int nothing_golden(const char *device, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-golden", "device", "Nothing is golden for %.160s.", device);
}

int golden_show(struct request *request, struct response *ret, struct error *error) {
    struct golden_row *rows;
    const char *device;
    int n;
    if (config_read_device(request, &device, error) < 0 ||
        golden_now(request->api->db, request->project_id, device, request->arena, &rows, &n, error) < 0)
        return -1;
    if (device && n == 0)
        return nothing_golden(device, error);
    struct buf *json = request_buf(request, MOST_ANSWER);
    write_object(json, NULL);
    write_array(json, "golden");
    for (int i = 0; i < n; i++)
        write_golden(json, NULL, &rows[i]);
    write_end(json, ']');
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}

int golden_remove(struct request *request, struct response *ret, struct error *error) {
    const char *device;
    if (config_read_device(request, &device, error) < 0)
        return -1;
    if (!device)
        return error_set(error, ERROR_INVALID, "missing-query", "device",
                         "'device' is missing; it says for which class of devices nothing is golden any more.");
    if (golden_end(request->api->db, request->project_id, device, error) < 0)
        return -1;
    response_text(request, ret, 204, NULL, "", 0);
    return 0;
}

/* ---- history ---- */

int golden_page(struct request *request, struct response *ret, struct error *error) {
    struct golden_filter filter = {.project_id = request->project_id};
    struct golden_row *rows;
    const char *cursor, *next = NULL;
    int n;
    bool more;
    if (config_read_device(request, &filter.device_key, error) < 0 ||
        page_read(request, &cursor, &filter.limit, error) < 0 ||
        (cursor && request_query_int(request, "cursor", 1, INT64_MAX, 0, &filter.before, error) < 0) ||
        golden_history(request->api->db, &filter, request->arena, &rows, &n, &more, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_ANSWER);
    write_object(json, NULL);
    write_array(json, "golden");
    for (int i = 0; i < n; i++)
        write_golden(json, NULL, &rows[i]);
    if (more)
        next = arena_printf(request->arena, "%" PRId64, rows[n - 1].number);
    return response_page(request, ret, json, next, error);
}

/* ---- diff ---- */

static bool is_same(const struct golden_config *a, const struct golden_config *b) {
    return strcmp(a->template, b->template) == 0 && a->version == b->version && a->index == b->index;
}

/* Which of the two lists, both in order of workload, has the next workload: below 0 the first, 0 both. */
static int next_of(const struct golden_row *from, int i, const struct golden_row *to, int k) {
    if (i == from->n_configs || k == to->n_configs)
        return i == from->n_configs ? 1 : -1;
    return strcmp(from->configs[i].workload, to->configs[k].workload);
}

/* The two may have been measured days apart, so costs are told but do not make a difference by themselves. */
static void write_change(struct buf *out, const struct golden_config *from, const struct golden_config *to) {
    write_object(out, NULL);
    write_text(out, "workload", to->workload);
    write_double(out, "ratio", to->cost_s / from->cost_s);
    write_config(out, "from", from);
    write_config(out, "to", to);
    write_end(out, '}');
}

enum part { PART_ADDED, PART_REMOVED, PART_CHANGED };

/* One part of the difference; how many workloads both have alike. */
static int write_part(struct buf *out, const char *name, enum part part, const struct golden_row *from,
                      const struct golden_row *to) {
    int same = 0;
    write_array(out, name);
    for (int i = 0, k = 0; i < from->n_configs || k < to->n_configs;) {
        int order = next_of(from, i, to, k);
        if (order > 0 && part == PART_ADDED)
            write_config(out, NULL, &to->configs[k]);
        else if (order < 0 && part == PART_REMOVED)
            write_config(out, NULL, &from->configs[i]);
        else if (order == 0 && is_same(&from->configs[i], &to->configs[k]))
            same++;
        else if (order == 0 && part == PART_CHANGED)
            write_change(out, &from->configs[i], &to->configs[k]);
        i += order <= 0;
        k += order >= 0;
    }
    write_end(out, ']');
    return same;
}

static int read_golden(struct request *request, const char *name, struct golden_row **ret, struct error *error) {
    int64_t number;
    if (!request_query(request, name))
        return error_set(error, ERROR_INVALID, "missing-query", name,
                         "'%s' is missing; it is the number of a golden set, as the history has it.", name);
    if (request_query_int(request, name, 1, INT64_MAX, 0, &number, error) < 0)
        return -1;
    return golden_get(request->api->db, request->project_id, number, request->arena, ret, error);
}

static void write_end_of(struct buf *out, const char *name, const struct golden_row *golden) {
    struct golden_row head = *golden;
    head.configs = NULL;
    write_golden(out, name, &head);
}

int golden_diff(struct request *request, struct response *ret, struct error *error) {
    struct golden_row *from, *to;
    if (read_golden(request, "from", &from, error) < 0 || read_golden(request, "to", &to, error) < 0)
        return -1;
    if (strcmp(from->device_key, to->device_key) != 0)
        return error_set(error, ERROR_CONFLICT, "other-device", "to",
                         "Set %" PRId64 " is of %.160s and set %" PRId64 " of %.160s: they do not compare.",
                         from->number, from->device_key, to->number, to->device_key);
    struct buf *json = request_buf(request, MOST_ANSWER);
    write_object(json, NULL);
    write_end_of(json, "from", from);
    write_end_of(json, "to", to);
    write_part(json, "added", PART_ADDED, from, to);
    write_part(json, "removed", PART_REMOVED, from, to);
    write_int(json, "same", write_part(json, "changed", PART_CHANGED, from, to));
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}
