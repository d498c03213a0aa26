/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/tuning.h"

#include <math.h>
#include <string.h>

#include "scheduler/domains.h"
#include "scheduler/floor.h"
#include "scheduler/history.h"
#include "scheduler/libraries.h"
#include "scheduler/trial_context.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/store/trial_store.h"

/* What a node is taken to cost while no trial of its task has succeeded. */
#define UNKNOWN_S 1e-3

static void release_search(void *data) {
    search_free(data);
}

static struct task_row *task_of(struct job_row *job, int number) {
    for (int i = 0; i < job->n_tasks; i++)
        if (job->tasks[i].number == number)
            return &job->tasks[i];
    return NULL;
}

/* ---- opening ---- */

/*
 * What was measured already, in order. Points of a template that is no longer there, another now, or not the one that
 * the tuner searches, are not told.
 */
static int load_measured(struct tuning *tuning, struct measured **ret, int *ret_count, struct error *error) {
    struct step *step = tuning->step;
    struct trial_point *points;
    int n, kept = 0;
    if (trial_points(step->db, step->item->job_id, step->item->task, step->arena, &points, &n, error) < 0)
        return -1;
    struct measured *measured = arena_array(step->arena, (size_t)n + 1, sizeof *measured);
    for (int i = 0; i < n; i++) {
        int domain = domains_find(tuning->domains, tuning->n_domains, points[i].template, points[i].version);
        if (domain < 0 || (domain > 0 && !tuning->options.tuner->all_domains) ||
            points[i].index >= tuning->domains[domain].space->size)
            continue;
        measured[kept] = (struct measured){{domain, points[i].index}, points[i].cost_s};
        fastest_add(&tuning->fastest, &measured[kept++]);
    }
    *ret = measured;
    *ret_count = kept;
    return 0;
}

/* The templates are not those that the search began with. */
static int renew(struct tuning *tuning, const struct measured *measured, int n, struct error *error) {
    if (search_renew(tuning->search, measured, n, error) < 0)
        return -1;
    struct json_object *state CLEANUP(json_put_p) = search_save(tuning->search);
    return queue_renew_tune(tuning->step->db, tuning->step->item, n, json_text(state, NULL), error);
}

static int restore(struct tuning *tuning, const char *text, struct error *error) {
    struct json_object *state CLEANUP(json_put_p) = NULL;
    struct measured *measured;
    int n;
    if (json_parse(text, strlen(text), &state, error) < 0 || load_measured(tuning, &measured, &n, error) < 0)
        return -1;
    if (search_continues(tuning->search, state))
        return search_restore(tuning->search, state, measured, n, error);
    return renew(tuning, measured, n, error);
}

static int load_history(struct tuning *tuning, struct past_task **ret, int *ret_count, struct error *error) {
    struct step *step = tuning->step;
    struct history_request request = {.device_key = step->device->key,
                                      .job_id = step->item->job_id,
                                      .task = step->item->task,
                                      .workload = tuning->task->workload,
                                      .domains = tuning->domains,
                                      .n_domains = tuning->n_domains};
    *ret = NULL;
    *ret_count = 0;
    return tuning->options.reuse != REUSE_NOTHING ? history_load(step->db, &request, step->arena, ret, ret_count, error)
                                                  : 0;
}

static int open_search(struct tuning *tuning, struct error *error) {
    struct step *step = tuning->step;
    const struct job_options *asked = &tuning->options;
    const struct domain *first = &tuning->domains[0];
    const char *state;
    struct past_task *past;
    int n_past;
    int64_t points = domains_points(tuning->domains, tuning->n_domains, asked->tuner);
    tuning->planned = asked->trials < points ? asked->trials : points;
    struct tune_begin begin = {
        .template = first->template->name, .trials_planned = tuning->planned, .floor_s = tuning->floor_s};
    if (load_history(tuning, &past, &n_past, error) < 0 ||
        queue_begin_tune(step->db, step->item, &begin, step->arena, &state, error) < 0)
        return -1;
    struct search_options options = {.tuner = asked->tuner,
                                     .tuner_options = {.domains = tuning->domains,
                                                       .n_domains = tuning->n_domains,
                                                       .seed = (uint64_t)asked->seed + (uint64_t)tuning->task->number,
                                                       .feature = asked->feature,
                                                       .loss = asked->loss,
                                                       .diversity = asked->diversity,
                                                       .past = past,
                                                       .n_past = n_past},
                                     .trials = asked->trials,
                                     .early_stopping = asked->early_stopping,
                                     .fallback =
                                         first->template->fallback(first->workload, first->target, first->space),
                                     .floor_s = tuning->floor_s};
    tuning->search = search_new(&options);
    arena_defer(step->arena, release_search, tuning->search);
    return state ? restore(tuning, state, error) : 0;
}

int tuning_open(struct step *step, struct tuning *ret, struct error *error) {
    int64_t now = clock_now_ns();
    *ret = (struct tuning){.step = step, .opened_ns = now, .stored_ns = now};
    if (step_load_job(step, &ret->job, &ret->options, error) < 0)
        return -1;
    ret->task = task_of(ret->job, step->item->task);
    if (!ret->task)
        return error_set(error, ERROR_INTERNAL, "no-such-task", NULL, "The job has no task %d.", step->item->task);
    if (workload_parse(ret->task->workload, step->arena, &ret->workload, error) < 0 ||
        domains_of(ret->workload, &step->device->target, ret->options.template,
                   libraries_wanted(&step->device->target, &ret->options), step->arena, &ret->domains, &ret->n_domains,
                   error) < 0)
        return -1;
    ret->floor_s = workload_floor_s(ret->workload, step->device);
    return open_search(ret, error);
}

/* ---- recording ---- */

static struct trial_row row_of(const struct tuning *tuning, const struct space *space, const struct trial *trial,
                               struct arena *arena) {
    struct json_object *entity CLEANUP(json_put_p) = space_entity(space, trial->index);
    return (struct trial_row){.template = trial->template->name,
                              .version = trial->template->version,
                              .index = trial->index,
                              .entity = arena_strdup(arena, json_text(entity, NULL)),
                              .error_no = trial->error_no,
                              .error_text = trial->error_no ? trial->error_text : NULL,
                              .costs_s = trial->costs_s,
                              .n_costs = trial->error_no ? 0 : trial->n_costs,
                              .cost_s = trial->error_no ? INFINITY : trial_cost(trial),
                              .build_s = trial->build_s,
                              .run_s = trial->run_s,
                              .finished_us = trial->finished_us,
                              .context = trial_context(trial, tuning->step->device, arena)};
}

int tuning_record(struct tuning *tuning, const struct point *point, struct trial *trials, int n, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct trial_row *rows = arena_array(arena, (size_t)n, sizeof *rows);
    for (int i = 0; i < n; i++) {
        rows[i] = row_of(tuning, tuning->domains[point[i].domain].space, &trials[i], arena);
        search_record(tuning->search, point[i], trials[i].error_no, trial_cost(&trials[i]));
        fastest_add(&tuning->fastest, &(struct measured){point[i], rows[i].cost_s});
    }
    struct json_object *state CLEANUP(json_put_p) = search_save(tuning->search);
    struct trial_batch batch = {.trials = rows,
                                .n = n,
                                .baseline_s = search_progress(tuning->search)->baseline_s,
                                .state = json_text(state, NULL),
                                .spent_s = tuning_spent_s(tuning)};
    tuning->stored_ns = clock_now_ns();
    if (trial_insert(tuning->step->db, tuning->step->item, &batch, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        atomic_fetch_add(&tuning->step->counters->trials[trials[i].error_no], 1);
    return 0;
}

/* ---- what it asks of the job ---- */

bool tuning_due(const struct tuning *tuning) {
    return search_due(tuning->search) || search_progress(tuning->search)->done >= tuning->planned;
}

bool tuning_over_budget(const struct tuning *tuning) {
    double since_s = (double)(clock_now_ns() - tuning->opened_ns) / NS_PER_S;
    return tuning->options.budget_s > 0 && tuning->job->elapsed_s + since_s > tuning->options.budget_s;
}

double tuning_spent_s(const struct tuning *tuning) {
    return (double)(clock_now_ns() - tuning->stored_ns) / NS_PER_S;
}

double tuning_promise(const struct tuning *tuning) {
    double best_s = search_progress(tuning->search)->best_s;
    return tuning->task->count * (isfinite(best_s) ? best_s : UNKNOWN_S) * search_promise(tuning->search);
}
