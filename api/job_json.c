/* SPDX-License-Identifier: Apache-2.0 */
#include "api/job_json.h"

#include <math.h>

#include "api/json_write.h"
#include "gpu/measure/measure.h"

/* How many trials ended with each error, and one text of each. */
void job_write_errors(struct buf *out, const struct task_row *task) {
    write_object(out, "errors");
    for (int i = 0; i < TASK_ERROR_COUNT; i++)
        if (task->errors[i] || i == TRIAL_OK)
            write_int(out, trial_error_name((enum trial_error)i), task->errors[i]);
    write_end(out, '}');
    write_object(out, "error_texts");
    for (int i = 0; i < TASK_ERROR_COUNT; i++)
        if (task->error_texts[i])
            write_text(out, trial_error_name((enum trial_error)i), task->error_texts[i]);
    write_end(out, '}');
}

static void write_best(struct buf *out, const struct task_row *task) {
    if (!task->best_template) {
        write_raw(out, "best", NULL);
        return;
    }
    write_object(out, "best");
    write_text(out, "template", task->best_template);
    write_int(out, "index", task->best_index);
    write_raw(out, "entity", task->best_entity);
    write_end(out, '}');
}

static void write_task(struct buf *out, const struct task_row *task) {
    write_object(out, NULL);
    write_int(out, "number", task->number);
    write_text(out, "workload", task->workload);
    write_text(out, "name", task->name);
    write_int(out, "count", task->count);
    write_int(out, "flops", task->flops);
    write_int(out, "bytes", task->bytes);
    write_text(out, "state", job_state_name(task->state));
    write_text(out, "template", task->template && *task->template ? task->template : NULL);
    write_int(out, "trials_planned", task->trials_planned);
    write_int(out, "trials_done", task->trials_done);
    job_write_errors(out, task);
    write_fixed(out, "best_us", task->best_s * 1e6);
    write_fixed(out, "baseline_us", task->baseline_s * 1e6);
    write_fixed(out, "spread_us", task->best_spread_s * 1e6);
    write_fixed(out, "best_gflops", isfinite(task->best_s) ? (double)task->flops / task->best_s / 1e9 : INFINITY);
    write_best(out, task);
    write_double(out, "floor_s", task->floor_s);
    write_fixed(out, "search_s", task->search_s);
    write_text(out, "stop_reason", task->stop_reason);
    write_raw(out, "served_by", task->served);
    write_time(out, "started_at", task->started_us);
    write_time(out, "finished_at", task->finished_us);
    write_end(out, '}');
}

static void write_progress(struct buf *out, const struct job_row *job) {
    write_object(out, "progress");
    write_int(out, "tasks", job->n_tasks);
    write_int(out, "tasks_ended", job->n_tasks_ended);
    write_int(out, "trials_planned", job->trials_planned);
    write_int(out, "trials_done", job->trials_done);
    write_end(out, '}');
}

static void write_error(struct buf *out, const struct job_row *job) {
    if (!job->error_code) {
        write_raw(out, "error", NULL);
        return;
    }
    write_object(out, "error");
    write_text(out, "code", job->error_code);
    write_text(out, "text", job->error_text);
    write_end(out, '}');
}

static const char *or_null(const char *text) {
    return text && *text ? text : NULL;
}

void job_write_head(struct buf *out, const struct job_row *job) {
    write_object(out, NULL);
    write_text(out, "id", job->id);
    write_text(out, "model_id", job->model_id);
    write_text(out, "state", job_state_name(job->state));
    write_text(out, "device", job->device);
    write_text(out, "device_kind", or_null(job->device_kind));
    write_text(out, "device_key", or_null(job->device_key));
    write_text(out, "key", or_null(job->key));
    write_int(out, "priority", job->priority);
    write_time(out, "created_at", job->created_us);
    write_time(out, "started_at", job->started_us);
    write_time(out, "finished_at", job->finished_us);
}

void job_write_elapsed(struct buf *out, double elapsed_s) {
    write_fixed(out, "elapsed_s", elapsed_s);
}

void job_write_tail(struct buf *out, const struct job_row *job) {
    write_int(out, "last_event", job->last_event);
    write_raw(out, "options", job->options);
    write_raw(out, "labels", job->labels);
    write_progress(out, job);
    write_error(out, job);
    write_raw(out, "result", job->result);
    write_text(out, "module_so", or_null(job->module_so));
    write_text(out, "module_tar", or_null(job->module_tar));
    if (job->tasks) {
        write_array(out, "tasks");
        for (int i = 0; i < job->n_tasks; i++)
            write_task(out, &job->tasks[i]);
        write_end(out, ']');
    }
    write_end(out, '}');
}

void job_write(struct buf *out, const struct job_row *job) {
    job_write_head(out, job);
    job_write_elapsed(out, job->elapsed_s);
    job_write_tail(out, job);
}
