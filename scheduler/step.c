/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/step.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "service/base/json.h"
#include "service/store/blob_store.h"
#include "service/store/event_store.h"
#include "service/store/job_store.h"
#include "service/store/model_store.h"

static void release_json(void *data) {
    json_object_put(data);
}

int step_load_job(struct step *step, struct job_row **ret_job, struct job_options *ret_options, struct error *error) {
    struct json_object *options;
    if (job_get(step->db, step->item->job_id, step->arena, ret_job, error) < 0)
        return -1;
    const char *text = (*ret_job)->options;
    if (json_parse(text, strlen(text), &options, error) < 0)
        return -1;
    arena_defer(step->arena, release_json, options);
    return job_options_read(options, ret_options, error);
}

int step_fetch_model(struct step *step, const struct job_row *job, const char **ret_path, struct error *error) {
    struct model_row *model;
    char path[PATH_MAX];
    const char *cache = arena_printf(step->arena, "%s/blobs", step->data_dir);
    if (model_get(step->db, job->model_id, step->arena, &model, error) < 0 ||
        blob_fetch(step->db, cache, model->sha256, path, sizeof path, error) < 0)
        return -1;
    *ret_path = arena_strdup(step->arena, path);
    return 0;
}

bool step_must_stop(void *data) {
    const struct step *step = data;
    return atomic_load(step->hurry) || lease_lost(step->lease);
}

bool step_should_stop(const struct step *step) {
    return atomic_load(step->stopping) || lease_lost(step->lease);
}

int step_stopped(const struct step *step, struct error *error) {
    if (lease_lost(step->lease))
        return error_set(error, ERROR_CONFLICT, "lease-lost", NULL,
                         "The job was cancelled or paused, or the lease ran out.");
    return error_set(error, ERROR_CANCELLED, "stopping", NULL, "The worker is stopping.");
}

void step_log(struct step *step, const char *level, const char *format, ...) {
    struct error ignored;
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(step->arena, format, args);
    va_end(args);
    (void)!event_log(step->db, step->item, level, text, &ignored);
}
