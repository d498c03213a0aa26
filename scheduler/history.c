/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/history.h"

#include <string.h>

#include "service/store/config_store.h"
#include "service/store/trial_store.h"

#define MOST_TRIALS 3000

static const struct domain *domain_of(const struct history_request *request, const char *template) {
    for (int i = 0; i < request->n_domains; i++)
        if (strcmp(request->domains[i].template->name, template) == 0)
            return &request->domains[i];
    return NULL;
}

/* The domain in which an earlier task's points lie: the same template's, over that task's workload. */
static bool past_domain(const struct domain *like, const char *text, struct arena *arena, struct domain *ret) {
    struct workload *workload;
    struct error ignored; /* a text that an earlier version wrote */
    if (workload_parse(text, arena, &workload, &ignored) < 0 || !like->template->serves(workload, like->target))
        return false;
    *ret =
        (struct domain){like->template, workload, like->target, like->template->space(workload, like->target, arena)};
    return true;
}

static void keep_points(const struct history_task *task, struct arena *arena, struct past_task *ret) {
    int64_t *index = arena_array(arena, (size_t)task->n, sizeof *index);
    double *cost_s = arena_array(arena, (size_t)task->n, sizeof *cost_s);
    for (int i = 0; i < task->n; i++) {
        if (task->index[i] < 0 || task->index[i] >= ret->domain.space->size)
            continue;
        index[ret->n] = task->index[i];
        cost_s[ret->n++] = task->cost_s[i];
    }
    ret->index = index;
    ret->cost_s = cost_s;
}

/* Whether anything of it is left for this search. */
static bool keep_task(const struct domain *like, const struct history_task *task, struct arena *arena,
                      struct past_task *ret) {
    *ret = (struct past_task){0};
    if (!like || !past_domain(like, task->workload, arena, &ret->domain))
        return false;
    keep_points(task, arena, ret);
    return ret->n > 0;
}

static int load_trials(struct db *db, const struct history_request *request, struct arena *arena,
                       struct history_task **ret, int *ret_count, struct error *error) {
    const char **templates = arena_array(arena, (size_t)request->n_domains, sizeof *templates);
    int *versions = arena_array(arena, (size_t)request->n_domains, sizeof *versions);
    for (int i = 0; i < request->n_domains; i++) {
        templates[i] = request->domains[i].template->name;
        versions[i] = request->domains[i].template->version;
    }
    struct history_query query = {.device_key = request->device_key,
                                  .job_id = request->job_id,
                                  .task = request->task,
                                  .templates = templates,
                                  .versions = versions,
                                  .n_templates = request->n_domains,
                                  .trials = MOST_TRIALS};
    return trial_history(db, &query, arena, ret, ret_count, error);
}

int history_load(struct db *db, const struct history_request *request, struct arena *arena, struct past_task **ret,
                 int *ret_count, struct error *error) {
    char viewer[UUID_TEXT];
    struct config_row *config;
    struct history_task *tasks;
    int n, kept = 0;
    if (project_of_job(db, request->job_id, viewer, error) < 0 ||
        config_get(db, viewer, request->workload, request->device_key, arena, &config, error) < 0 ||
        load_trials(db, request, arena, &tasks, &n, error) < 0)
        return -1;
    struct past_task *past = arena_array(arena, (size_t)n + 1, sizeof *past);
    const struct domain *own = config ? domain_of(request, config->template) : NULL;
    if (own && own->template->version == config->version) {
        struct history_task known = {request->workload, config->template, &config->index, &config->cost_s, 1};
        kept += keep_task(own, &known, arena, &past[kept]);
    }
    for (int i = 0; i < n; i++)
        kept += keep_task(domain_of(request, tasks[i].template), &tasks[i], arena, &past[kept]);
    *ret = past;
    *ret_count = kept;
    return 0;
}
