/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configs.c: the best configurations known: listed, exported, and looked up. A lookup says how well what it found
 * matches what was asked for, and never passes one for another.
 */
#include "api/configs.h"

#include <string.h>

#include "api/autotvm.h"
#include "api/files.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/utf8.h"

enum { MOST_LIST = 64 << 20, MOST_DEVICES = 500 };

void config_write_members(struct buf *out, const struct config_row *config) {
    write_text(out, "device_key", config->device_key);
    write_text(out, "template", config->template);
    write_int(out, "version", config->version);
    write_int(out, "index", config->index);
    write_raw(out, "entity", config->entity);
    write_fixed(out, "cost_us", config->cost_s * 1e6);
    write_fixed(out, "spread_us", config->spread_s * 1e6);
    write_fixed(out, "baseline_us", config->baseline_s * 1e6);
    write_raw(out, "provenance", config->provenance);
    write_text(out, "job_id", config->job_id);
    write_text(out, "project", config->project);
    write_text(out, "visibility", visibility_name(config->visibility));
    write_time(out, "updated_at", config->updated_us);
}

static void write_config(struct buf *out, const char *name, const struct config_row *config) {
    write_object(out, name);
    write_text(out, "workload", config->workload);
    config_write_members(out, config);
    write_end(out, '}');
}

/* A text to look for in the database; NULL when absent. */
static int read_text(const struct request *request, const char *name, size_t max, const char **ret,
                     struct error *error) {
    const char *text = request_query(request, name);
    size_t len = text ? strlen(text) : 0;
    if (text && (len == 0 || len > max))
        return error_set(error, ERROR_INVALID, "bad-query", name, "'%s' must have 1 to %zu bytes.", name, max);
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_sequence(text + at, len - at);
        if (n == 0 || (unsigned char)text[at] < 0x20)
            return error_set(error, ERROR_INVALID, "bad-query", name, "'%s' must be printable UTF-8 text.", name);
    }
    *ret = text;
    return 0;
}

int config_read_device(const struct request *request, const char **ret, struct error *error) {
    return read_text(request, "device", CONFIG_MAX_DEVICE_KEY, ret, error);
}

int config_device_target(const char *device, struct target *ret, struct error *error) {
    if (strchr(device, '/') && autotvm_target(device, ret, error) == 0)
        return 0;
    return error_set(error, ERROR_INVALID, "bad-query", "device",
                     "'device' is '%.100s', but a class of devices begins with cpu/ or cuda/.", device);
}

static int read_filter(const struct request *request, struct config_filter *ret, struct error *error) {
    ret->viewer = request->project_id;
    return read_text(request, "workload", CONFIG_MAX_WORKLOAD, &ret->workload, error) < 0
               ? -1
               : config_read_device(request, &ret->device_key, error);
}

/* ---- list ---- */

/* A cursor is "workload|device_key": no workload's text has a bar. */
static int read_cursor(struct request *request, const char *cursor, struct config_filter *ret, struct error *error) {
    const char *bar = cursor ? strchr(cursor, '|') : NULL;
    if (!cursor)
        return 0;
    if (!bar || strlen(cursor) > CONFIG_MAX_WORKLOAD + CONFIG_MAX_DEVICE_KEY + 1)
        return error_set(error, ERROR_INVALID, "bad-query", "cursor", "'cursor' is none that a page of this list had.");
    ret->after_workload = arena_strndup(request->arena, cursor, (size_t)(bar - cursor));
    ret->after_device_key = bar + 1;
    return 0;
}

int config_page(struct request *request, struct response *ret, struct error *error) {
    struct config_filter filter = {0};
    struct config_row *configs;
    const char *cursor, *next = NULL;
    int n;
    bool more;
    if (page_read(request, &cursor, &filter.limit, error) < 0 || read_filter(request, &filter, error) < 0 ||
        read_cursor(request, cursor, &filter, error) < 0 ||
        config_list(request->api->db, &filter, request->arena, &configs, &n, &more, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_array(json, "configs");
    for (int i = 0; i < n; i++)
        write_config(json, NULL, &configs[i]);
    if (more)
        next = arena_printf(request->arena, "%s|%s", configs[n - 1].workload, configs[n - 1].device_key);
    return response_page(request, ret, json, next, error);
}

/* ---- export ---- */

static int put_json(void *data, const struct config_row *config, struct error *error) {
    struct text_file *file = data;
    /* Each line begins anew: no comma goes between them. */
    struct buf line CLEANUP(buf_release) = BUF_INIT(1 << 20);
    write_config(&line, NULL, config);
    buf_putc(&line, '\n');
    if (buf_check(&line, "a line of the answer", error) < 0)
        return -1;
    buf_append(&file->text, line.data, line.len);
    return text_file_flush(file, error);
}

static int put_autotvm(void *data, const struct config_row *config, struct error *error) {
    struct text_file *file = data;
    if (autotvm_write_config(&file->text, config, error) < 0)
        return -1;
    return text_file_flush(file, error);
}

struct export_format {
    const char *name;
    int (*put)(void *data, const struct config_row *config, struct error *error);
};

static const struct export_format formats[] = {{"json", put_json}, {"autotvm", put_autotvm}};

static int read_format(const struct request *request, const struct export_format **ret, struct error *error) {
    const char *name = request_query(request, "format");
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (strcmp(name ? name : "json", formats[i].name) == 0) {
            *ret = &formats[i];
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-query", "format", "'format' is '%.40s', but must be json or autotvm.",
                     name);
}

int config_export(struct request *request, struct response *ret, struct error *error) {
    const struct export_format *format = NULL;
    struct config_filter filter = {0};
    struct text_file file CLEANUP(text_file_release) = {.fd = -1};
    if (read_format(request, &format, error) < 0 || read_filter(request, &filter, error) < 0 ||
        text_file_open(request, &file, error) < 0 ||
        config_each(request->api->db, &filter, format->put, &file, error) < 0)
        return -1;
    return response_text_file(ret, &file, "application/x-ndjson", error);
}

/* ---- lookup ---- */

struct lookup {
    struct request *request;
    const char *key, *device;
    struct workload *workload;
    struct target target; /* of the device */
    const char *match;    /* what of the answer is found so far; NULL: nothing */
    struct config_row *config;
    const char *note;
    double distance; /* near */
};

static int read_lookup(struct request *request, struct lookup *ret, struct error *error) {
    struct config_filter filter = {0};
    if (read_filter(request, &filter, error) < 0)
        return -1;
    const char *missing = !filter.workload ? "workload" : !filter.device_key ? "device" : NULL;
    if (missing)
        return error_set(error, ERROR_INVALID, "missing-query", missing, "'%s' is missing; a lookup needs it.",
                         missing);
    ret->request = request;
    ret->key = filter.workload;
    ret->device = filter.device_key;
    if (workload_parse(ret->key, request->arena, &ret->workload, error) < 0)
        return -1;
    return config_device_target(ret->device, &ret->target, error);
}

/* Why a configuration is not what its template would make of it today; NULL when it is. */
static const char *staleness(struct arena *arena, const char *name, int version) {
    const struct template *template = template_find(template_builtin, name);
    if (!template)
        return arena_printf(arena, "There is no template %s any more: tune the workload again.", name);
    if (template->version != version)
        return arena_printf(arena, "It was measured with version %d of %s, which is at version %d: tune it again.",
                            version, name, template->version);
    return NULL;
}

static void found(struct lookup *lookup, const char *match, struct config_row *config, const char *note) {
    lookup->match = match;
    lookup->config = config;
    lookup->note = note;
}

static int look_here(struct lookup *lookup, struct error *error) {
    struct arena *arena = lookup->request->arena;
    struct config_row *config;
    const char *viewer = lookup->request->project_id;
    if (config_get(lookup->request->api->db, viewer, lookup->key, lookup->device, arena, &config, error) < 0)
        return -1;
    if (!config)
        return 0;
    const char *stale = staleness(arena, config->template, config->version);
    found(lookup, stale ? "stale" : "exact", config, stale);
    return 0;
}

/* The same template could be used for the workload that was asked for. */
static bool is_usable(void *data, const char *name, int version) {
    const struct lookup *lookup = data;
    const struct template *template = template_find(template_builtin, name);
    return template && template->version == version && strcmp(template->device, lookup->target.kind) == 0 &&
           template->serves(lookup->workload, &lookup->target);
}

static int look_near(struct lookup *lookup, struct error *error) {
    struct config_wish wish = {lookup->request->project_id, lookup->workload, lookup->device, is_usable, lookup};
    struct config_row *config;
    if (config_nearest(lookup->request->api->db, &wish, lookup->request->arena, &config, &lookup->distance, error) < 0)
        return -1;
    if (config)
        found(lookup, "near", config,
              "It was measured for another shape: its factors may not divide this one, and its cost says nothing of "
              "it.");
    return 0;
}

/* The fastest that is known on other devices of the kind. */
static int look_elsewhere(struct lookup *lookup, struct error *error) {
    struct config_filter filter = {
        .viewer = lookup->request->project_id, .workload = lookup->key, .limit = MOST_DEVICES};
    struct config_row *configs, *best = NULL;
    int n;
    bool more;
    if (config_list(lookup->request->api->db, &filter, lookup->request->arena, &configs, &n, &more, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (is_usable(lookup, configs[i].template, configs[i].version) && (!best || configs[i].cost_s < best->cost_s))
            best = &configs[i];
    if (best)
        found(lookup, "other-device", best,
              "It was measured on another class of devices: it may fail or be slow on this one, and its cost says "
              "nothing of it.");
    return 0;
}

/*
 * {"match", "workload", "device", "config", "note"}; `match` is
 *   exact         measured for this workload on this class of devices
 *   stale         the same, but its template has changed since
 *   near          of the closest shape, with its `distance` (workload_distance), on this class of devices
 *   other-device  for this workload on another class of devices
 *   none          nothing is known; `config` is null
 */
int config_lookup(struct request *request, struct response *ret, struct error *error) {
    struct lookup lookup = {0};
    if (read_lookup(request, &lookup, error) < 0 || look_here(&lookup, error) < 0 ||
        (!lookup.match && look_near(&lookup, error) < 0) || (!lookup.match && look_elsewhere(&lookup, error) < 0))
        return -1;
    struct buf *json = request_buf(request, 1 << 20);
    write_object(json, NULL);
    write_text(json, "match", lookup.match ? lookup.match : "none");
    write_text(json, "workload", lookup.key);
    write_text(json, "device", lookup.device);
    if (lookup.match && strcmp(lookup.match, "near") == 0)
        write_fixed(json, "distance", lookup.distance);
    if (lookup.config)
        write_config(json, "config", lookup.config);
    else
        write_raw(json, "config", NULL);
    write_text(json, "note", lookup.note);
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}
