/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/reuse.h"

#include <string.h>

#include "scheduler/floor.h"
#include "scheduler/libraries.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/store/project_store.h"
#include "service/store/reuse_store.h"

struct question {
    const struct reuse_request *request;
    const struct workload *workload;
    struct arena *arena;
};

/* A job that names a template gets no other, where that one serves. */
static bool is_asked_for(const struct question *question, const struct template *template) {
    const char *only = question->request->options->template;
    const struct template *named = *only ? template_find(template_builtin, only) : NULL;
    const struct target *target = &question->request->device->target;
    return !named || named == template || strcmp(named->device, target->kind) != 0 ||
           !named->serves(question->workload, target);
}

static bool is_usable(void *data, const struct config_row *config) {
    const struct question *question = data;
    const struct target *target = &question->request->device->target;
    const struct template *template = template_find(template_builtin, config->template);
    return template && template->version == config->version && strcmp(template->device, target->kind) == 0 &&
           template->serves(question->workload, target) && is_asked_for(question, template) &&
           (!template->library || libraries_wanted(target, question->request->options)) &&
           libraries_same(template, config->provenance) && config->index >= 0 &&
           config->index < template->space(question->workload, target, question->arena)->size;
}

/* What the job says of it; an imported configuration has neither job nor trial. */
static const char *describe(const struct reuse_record *record, struct arena *arena) {
    const struct config_row *config = &record->config;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object(), *provenance = NULL;
    struct error ignored; /* the store took it as JSON */
    char found_at[32];
    clock_format(config->updated_us, found_at);
    json_add_string(object, "job_id", config->job_id);
    json_add(object, "trial", record->trial >= 0 ? json_object_new_int64(record->trial) : NULL);
    json_add_string(object, "template", config->template);
    json_add_int(object, "version", config->version);
    json_add_int(object, "index", config->index);
    json_add_double(object, "cost_us", config->cost_s * 1e6);
    json_add_double(object, "spread_us", config->spread_s * 1e6);
    json_add_string(object, "found_at", found_at);
    json_add_int(object, "trials", record->trials);
    if (json_parse(config->provenance, strlen(config->provenance), &provenance, &ignored) == 0)
        json_add(object, "provenance", provenance);
    return arena_strdup(arena, json_text(object, NULL));
}

int reuse_serve(struct db *db, const struct reuse_request *request, struct arena *arena, struct task_served **ret,
                struct error *error) {
    struct workload *workload;
    struct reuse_record *record;
    char viewer[UUID_TEXT];
    *ret = NULL;
    if (request->options->reuse != REUSE_EXACT)
        return 0;
    if (workload_parse(request->workload, arena, &workload, error) < 0 ||
        project_of_job(db, request->job_id, viewer, error) < 0)
        return -1;
    struct question question = {request, workload, arena};
    struct reuse_wish wish = {.viewer = viewer,
                              .workload = request->workload,
                              .device_key = request->device->key,
                              .trials = request->trials,
                              .early_stopping = request->options->early_stopping,
                              .usable = is_usable,
                              .data = &question};
    if (reuse_find(db, &wish, arena, &record, error) < 0)
        return -1;
    if (!record)
        return 0;
    *ret = arena_alloc(arena, sizeof **ret);
    **ret = (struct task_served){.record = describe(record, arena),
                                 .version = record->config.version,
                                 .template = record->config.template,
                                 .index = record->config.index,
                                 .entity = record->config.entity,
                                 .cost_s = record->config.cost_s,
                                 .spread_s = record->config.spread_s,
                                 .baseline_s = record->config.baseline_s,
                                 .floor_s = workload_floor_s(workload, request->device)};
    return 0;
}
