/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_plan.c: what is there to tune: the model's distinct workloads become the job's tasks, on this slot's device.
 * A task whose answer is known already, where that was asked for, is over at once.
 */
#include "scheduler/domains.h"
#include "scheduler/libraries.h"
#include "scheduler/reuse.h"
#include "scheduler/step.h"
#include "service/base/clock.h"
#include "service/model/inspect.h"

#define INSPECT_S 120

/* As many trials as were asked for, or as there are points to search. */
static int planned_trials(struct step *step, const struct job_options *options, const char *key, int64_t *ret,
                          struct error *error) {
    struct workload *workload;
    if (workload_parse(key, step->arena, &workload, error) < 0)
        return -1;
    struct domain *domains;
    int n;
    if (domains_of(workload, &step->device->target, options->template, libraries_wanted(&step->device->target, options),
                   step->arena, &domains, &n, error) < 0)
        return -1;
    int64_t points = domains_points(domains, n, options->tuner);
    *ret = options->trials < points ? options->trials : points;
    return 0;
}

/* From the record of a search that is over, where the job asks for that and there is one. */
static int serve(struct step *step, const struct job_options *options, struct task_new *task, struct error *error) {
    struct reuse_request request = {step->device, options, step->item->job_id, task->workload, task->trials_planned};
    struct task_served *served;
    if (reuse_serve(step->db, &request, step->arena, &served, error) < 0)
        return -1;
    task->served = served;
    if (served)
        task->trials_planned = 0;
    return 0;
}

int step_plan(struct step *step, struct error *error) {
    struct job_row *job;
    struct job_options options;
    const char *path;
    struct model_summary *summary;
    if (step_load_job(step, &job, &options, error) < 0 || step_fetch_model(step, job, &path, error) < 0)
        return -1;
    struct inspect_options inspect = {
        .program = step->program, .batch = options.batch, .precision = options.precision, .layout = options.layout};
    if (model_inspect(path, &inspect, deadline_in_s(INSPECT_S), step->arena, &summary, error) < 0)
        return -1;
    struct task_new *tasks = arena_array(step->arena, (size_t)summary->n_tasks, sizeof *tasks);
    for (int i = 0; i < summary->n_tasks; i++) {
        const struct model_task *found = &summary->tasks[i];
        tasks[i] = (struct task_new){.workload = found->workload,
                                     .name = found->first,
                                     .count = found->count,
                                     .flops = found->flops,
                                     .bytes = found->bytes};
        if (planned_trials(step, &options, found->workload, &tasks[i].trials_planned, error) < 0 ||
            serve(step, &options, &tasks[i], error) < 0)
            return -1;
    }
    struct plan_result result = {step->device->target.kind, step->device->key, tasks, summary->n_tasks};
    return queue_complete_plan(step->db, step->item, &result, error);
}
