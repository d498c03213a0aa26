/* SPDX-License-Identifier: Apache-2.0 */
/* job_results.c: what a job has found: its log, the best configurations, the compiled module. */
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/server.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/store/config_store.h"
#include "service/store/event_store.h"
#include "service/store/job_store.h"

enum { PAGE = 1000, MOST_CONFIG = 64 << 20 };

/* ---- log ---- */

static void put_line(struct buf *out, const struct event_row *event) {
    struct json_object *data CLEANUP(json_put_p) = NULL;
    struct error ignored; /* what is missing stays empty */
    const char *level = "", *text = "";
    char time[32];
    if (json_parse(event->data, strlen(event->data), &data, &ignored) < 0 ||
        json_read_string(data, "level", JSON_OPTIONAL, 40, &level, &ignored) < 0 ||
        json_read_string(data, "text", JSON_OPTIONAL, 1 << 20, &text, &ignored) < 0)
        return;
    clock_format(event->created_us, time);
    buf_printf(out, "%s %-5s ", time, level);
    buf_puts(out, text);
    buf_putc(out, '\n');
}

static int put_log(struct request *request, struct text_file *file, struct error *error) {
    int n = PAGE;
    for (int64_t after = 0; n == PAGE;) {
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        struct event_row *events;
        if (event_list(request->api->db, request->params[0], "log", after, PAGE, arena, &events, &n, error) < 0)
            return -1;
        for (int i = 0; i < n; i++) {
            put_line(&file->text, &events[i]);
            after = events[i].number;
        }
        if (text_file_flush(file, error) < 0)
            return -1;
    }
    return 0;
}

int job_log(struct request *request, struct response *ret, struct error *error) {
    struct job_row *job;
    if (job_get(request->api->db, request->params[0], request->arena, &job, error) < 0)
        return -1;
    struct text_file file CLEANUP(text_file_release) = {.fd = -1};
    if (text_file_open(request, &file, error) < 0 || put_log(request, &file, error) < 0)
        return -1;
    return response_text_file(ret, &file, "text/plain; charset=utf-8", error);
}

/* ---- config ---- */

/* Where and how it was measured; the details are kept with the shared configuration while that is this job's own. */
static int write_provenance(struct request *request, struct buf *out, const struct job_row *job,
                            const struct task_row *task, struct error *error) {
    struct config_filter filter = {.viewer = request->project_id,
                                   .own = true,
                                   .workload = task->workload,
                                   .device_key = job->device_key,
                                   .limit = 1};
    struct config_row *config;
    int n;
    bool more;
    if (config_list(request->api->db, &filter, request->arena, &config, &n, &more, error) < 0)
        return -1;
    bool own = n && config->job_id && strcmp(config->job_id, job->id) == 0;
    write_object(out, "provenance");
    write_text(out, "job_id", job->id);
    write_text(out, "device_key", job->device_key);
    write_int(out, "trials", task->trials_done);
    write_text(out, "stop_reason", task->stop_reason);
    write_time(out, "finished_at", task->finished_us);
    write_raw(out, "measured", own ? config->provenance : NULL);
    write_raw(out, "served_by", task->served);
    write_end(out, '}');
    return 0;
}

static int write_config(struct request *request, struct buf *out, const struct job_row *job,
                        const struct task_row *task, struct error *error) {
    write_object(out, NULL);
    write_text(out, "workload", task->workload);
    write_text(out, "name", task->name);
    write_int(out, "count", task->count);
    write_text(out, "template", task->best_template);
    write_int_if(out, "index", task->best_index, task->best_template);
    write_raw(out, "entity", task->best_entity);
    write_fixed(out, "cost_us", task->best_s * 1e6);
    write_fixed(out, "spread_us", task->best_spread_s * 1e6);
    write_fixed(out, "baseline_us", task->baseline_s * 1e6);
    if (write_provenance(request, out, job, task, error) < 0)
        return -1;
    write_end(out, '}');
    return 0;
}

int job_config(struct request *request, struct response *ret, struct error *error) {
    struct job_row *job;
    if (job_get(request->api->db, request->params[0], request->arena, &job, error) < 0)
        return -1;
    struct buf *json = request_buf(request, MOST_CONFIG);
    write_object(json, NULL);
    write_text(json, "job_id", job->id);
    write_text(json, "model_id", job->model_id);
    write_text(json, "state", job_state_name(job->state));
    write_bool(json, "complete", job->state == JOB_SUCCEEDED);
    write_text(json, "device_key", *job->device_key ? job->device_key : NULL);
    write_array(json, "configs");
    for (int i = 0; i < job->n_tasks; i++)
        if (write_config(request, json, job, &job->tasks[i], error) < 0)
            return -1;
    write_end(json, ']');
    write_end(json, '}');
    return response_written(request, ret, 200, json, error);
}

/* ---- module ---- */

struct module_format {
    const char *name, *content_type;
    size_t offset; /* of the blob's hash in struct job_row */
};

static const struct module_format formats[] = {
    {"so", "application/octet-stream", offsetof(struct job_row, module_so)},
    {"tar", "application/x-tar", offsetof(struct job_row, module_tar)},
};

static int read_format(const struct request *request, const struct module_format **ret, struct error *error) {
    const char *name = request_query(request, "format");
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (strcmp(name ? name : "so", formats[i].name) == 0) {
            *ret = &formats[i];
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-query", "format", "'format' is '%.40s', but must be so or tar.", name);
}

int job_module(struct request *request, struct response *ret, struct error *error) {
    const struct module_format *format = NULL;
    struct job_row *job;
    if (read_format(request, &format, error) < 0 ||
        job_get(request->api->db, request->params[0], request->arena, &job, error) < 0)
        return -1;
    if (!job_state_ended(job->state))
        return error_set(error, ERROR_CONFLICT, "job-not-finished", NULL,
                         "The job is %s; its module is there once it has succeeded.", job_state_name(job->state));
    const char *sha256 = (const char *)job + format->offset;
    if (!*sha256)
        return error_set(error, ERROR_NOT_FOUND, "no-module", NULL, "The job is %s and has no module.",
                         job_state_name(job->state));
    return response_blob(request, ret, sha256, format->content_type,
                         arena_printf(request->arena, "module-%s.%s", job->id, format->name), error);
}
