/* SPDX-License-Identifier: Apache-2.0 */
/* job_records.c: every trial of a job as a file of lines, in bounded memory. */
#include <string.h>

#include "api/autotvm.h"
#include "api/files.h"
#include "api/handlers.h"
#include "api/json_write.h"
#include "api/server.h"
#include "gpu/measure/measure.h"
#include "service/store/trial_store.h"

struct records {
    struct text_file file;
    struct arena *arena;
    const struct job_row *job;
    struct autotvm_task *tasks; /* of AutoTVM's format, made when the first trial of each comes */
};

static const struct task_row *task_of(const struct records *records, const struct trial_row *trial, int *ret_index) {
    for (int i = 0; i < records->job->n_tasks; i++)
        if (records->job->tasks[i].number == trial->task) {
            *ret_index = i;
            return &records->job->tasks[i];
        }
    return NULL;
}

static void write_costs(struct buf *out, const struct trial_row *trial) {
    write_array(out, "costs_us");
    for (int i = 0; i < trial->n_costs; i++)
        write_fixed(out, NULL, trial->costs_s[i] * 1e6);
    write_end(out, ']');
}

static int put_json(void *data, const struct trial_row *trial, struct error *error) {
    struct records *records = data;
    struct buf *out = &records->file.text;
    int index;
    const struct task_row *task = task_of(records, trial, &index);
    buf_putc(out, '{');
    write_int(out, "task", trial->task);
    write_int(out, "number", trial->number);
    write_text(out, "workload", task ? task->workload : NULL);
    write_text(out, "template", trial->template);
    write_int(out, "version", trial->version);
    write_int(out, "index", trial->index);
    write_raw(out, "entity", trial->entity);
    write_int(out, "error_no", trial->error_no);
    write_text(out, "error", trial_error_name((enum trial_error)trial->error_no));
    write_text(out, "error_text", trial->error_text);
    write_costs(out, trial);
    write_fixed(out, "cost_us", trial->cost_s * 1e6);
    write_fixed(out, "build_s", trial->build_s);
    write_fixed(out, "run_s", trial->run_s);
    write_time(out, "finished_at", trial->finished_us);
    write_raw(out, "context", trial->context);
    buf_puts(out, "}\n");
    return text_file_flush(&records->file, error);
}

static int put_autotvm(void *data, const struct trial_row *trial, struct error *error) {
    struct records *records = data;
    const struct job_row *job = records->job;
    int index;
    const struct task_row *task = task_of(records, trial, &index);
    if (!task)
        return 0; /* its task was made after we read them */
    if (!records->tasks[index].target && autotvm_task_init(&records->tasks[index], job->device_kind, job->device_key,
                                                           task->workload, records->arena, error) < 0)
        return -1;
    autotvm_write(&records->file.text, &records->tasks[index], trial);
    return text_file_flush(&records->file, error);
}

struct record_format {
    const char *name;
    int (*put)(void *data, const struct trial_row *trial, struct error *error);
};

static const struct record_format formats[] = {{"json", put_json}, {"autotvm", put_autotvm}};

static int read_format(const struct request *request, const struct record_format **ret, struct error *error) {
    const char *name = request_query(request, "format");
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (strcmp(name ? name : "json", formats[i].name) == 0) {
            *ret = &formats[i];
            return 0;
        }
    return error_set(error, ERROR_INVALID, "bad-query", "format", "'format' is '%.40s', but must be json or autotvm.",
                     name);
}

static int write_all(struct request *request, struct records *records, const struct record_format *format,
                     struct response *ret, struct error *error) {
    if (trial_each(request->api->db, records->job->id, -1, format->put, records, error) < 0)
        return -1;
    return response_text_file(ret, &records->file, "application/x-ndjson", error);
}

int job_records(struct request *request, struct response *ret, struct error *error) {
    const struct record_format *format = NULL;
    struct job_row *job;
    if (read_format(request, &format, error) < 0 ||
        job_get(request->api->db, request->params[0], request->arena, &job, error) < 0)
        return -1;
    struct records records = {.arena = request->arena, .job = job};
    records.tasks = arena_array(request->arena, (size_t)job->n_tasks + 1, sizeof *records.tasks);
    if (text_file_open(request, &records.file, error) < 0)
        return -1;
    int status = write_all(request, &records, format, ret, error);
    text_file_release(&records.file);
    return status;
}
