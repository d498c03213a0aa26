/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_tune.c: the search of one task: propose, measure, record, until the search says that it is over; then the best
 * is raced against the baseline, in turn, before it is published.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/search/search.h"
#include "scheduler/step.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/store/config_store.h"
#include "service/store/job_store.h"
#include "service/store/trial_store.h"

#define MAX_BATCH 64

/* What one search works with; all of it lives as long as the step. */
struct tuning {
    struct step *step;
    struct job_row *job;
    struct task_row *task;
    struct job_options options;
    struct workload *workload;
    const struct template *template;
    struct space *space;
    struct search *search;
    int64_t best_seen; /* index whose spread is kept */
    double best_spread_s;
    int64_t fallback;
    int64_t winner; /* of the race; -1: nothing succeeded */
    double winner_s, baseline_s;
    enum stop_reason cut; /* why it ends before the search itself would */
};

static void release_search(void *data) {
    search_free(data);
}

static struct task_row *task_of(struct job_row *job, int number) {
    for (int i = 0; i < job->n_tasks; i++)
        if (job->tasks[i].number == number)
            return &job->tasks[i];
    return NULL;
}

/* A search with the state that was stored last, when there is one. */
static int open_search(struct tuning *tuning, struct error *error) {
    struct step *step = tuning->step;
    const char *state_text;
    const struct target *target = &step->device->target;
    int64_t planned = tuning->options.trials < tuning->space->size ? tuning->options.trials : tuning->space->size;
    if (queue_begin_tune(step->db, step->item, tuning->template->name, planned, step->arena, &state_text, error) < 0)
        return -1;
    tuning->fallback = tuning->template->fallback(tuning->workload, target, tuning->space);
    struct search_options options = {.tuner = tuning->options.tuner,
                                     .trials = tuning->options.trials,
                                     .early_stopping = tuning->options.early_stopping,
                                     .seed = (uint64_t)tuning->options.seed + (uint64_t)tuning->task->number,
                                     .fallback = tuning->fallback};
    tuning->search = search_new(tuning->space, &options);
    arena_defer(step->arena, release_search, tuning->search);
    if (!state_text)
        return 0;
    struct json_object *state;
    if (json_parse(state_text, strlen(state_text), &state, error) < 0)
        return -1;
    int status = search_restore(tuning->search, state, error);
    json_object_put(state);
    return status;
}

static int open_tuning(struct step *step, struct tuning *tuning, struct error *error) {
    *tuning = (struct tuning){.step = step, .best_seen = -1};
    if (step_load_job(step, &tuning->job, &tuning->options, error) < 0)
        return -1;
    tuning->task = task_of(tuning->job, step->item->task);
    if (!tuning->task)
        return error_set(error, ERROR_INTERNAL, "no-such-task", NULL, "The job has no task %d.", step->item->task);
    tuning->best_spread_s = isfinite(tuning->task->best_spread_s) ? tuning->task->best_spread_s : 0;
    if (workload_parse(tuning->task->workload, step->arena, &tuning->workload, error) < 0)
        return -1;
    tuning->template = template_for(template_builtin, tuning->workload, &step->device->target);
    if (!tuning->template)
        return error_set(error, ERROR_DEVICE, "no-template", NULL, "No kernel serves %.600s.", tuning->task->workload);
    tuning->space = tuning->template->space(tuning->workload, &step->device->target, step->arena);
    return open_search(tuning, error);
}

static int open_measurer(struct step *step, struct error *error) {
    if (*step->measurer)
        return 0;
    struct measurer_config config = {.program = step->program,
                                     .kind = step->device->target.kind,
                                     .ordinal = step->device->ordinal,
                                     .cache_dir = arena_printf(step->arena, "%s/code", step->data_dir),
                                     .builders = step->builders,
                                     .templates = template_builtin};
    return measurer_new(&config, step->measurer, error);
}

/* Half the distance between the fastest and slowest repeat. */
static double spread_of(const struct trial *trial) {
    double low = INFINITY, high = 0;
    for (int i = 0; i < trial->n_costs; i++) {
        low = fmin(low, trial->costs_s[i]);
        high = fmax(high, trial->costs_s[i]);
    }
    return trial->n_costs ? (high - low) / 2 : 0;
}

static struct trial_row row_of(struct tuning *tuning, struct arena *arena, const struct trial *trial) {
    struct json_object *entity CLEANUP(json_put_p) = space_entity(tuning->space, trial->index);
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
                              .finished_us = trial->finished_us};
}

/* The batch's results go to the search, and with its new state to the database, in one transaction. */
static int record_batch(struct tuning *tuning, struct trial *trials, int n, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct trial_row *rows = arena_array(arena, (size_t)n, sizeof *rows);
    for (int i = 0; i < n; i++) {
        search_record(tuning->search, trials[i].index, trials[i].error_no, trial_cost(&trials[i]));
        if (search_progress(tuning->search)->best_index == trials[i].index && tuning->best_seen != trials[i].index) {
            tuning->best_seen = trials[i].index;
            tuning->best_spread_s = spread_of(&trials[i]);
        }
        rows[i] = row_of(tuning, arena, &trials[i]);
    }
    struct json_object *state CLEANUP(json_put_p) = search_save(tuning->search);
    struct trial_batch batch = {.trials = rows,
                                .n = n,
                                .baseline_s = search_progress(tuning->search)->baseline_s,
                                .state = json_text(state, NULL)};
    return trial_insert(tuning->step->db, tuning->step->item, &batch, error);
}

static bool over_budget(const struct tuning *tuning) {
    double budget_s = tuning->options.budget_s;
    return budget_s > 0 && (double)(clock_wall_us() - tuning->job->started_us) > budget_s * 1e6;
}

static int measure_batch(struct tuning *tuning, const int64_t *index, int n, struct error *error) {
    struct step *step = tuning->step;
    struct trial *trials = calloc((size_t)n, sizeof *trials);
    if (!trials)
        abort();
    for (int i = 0; i < n; i++) {
        trials[i].template = tuning->template;
        trials[i].index = index[i];
    }
    struct measure_callbacks callbacks = {.data = step, .stop = step_must_stop};
    int status =
        measurer_run(*step->measurer, tuning->workload, &tuning->options.measure, trials, n, &callbacks, error);
    if (status < 0 && error->class == ERROR_CANCELLED)
        status = step_stopped(step, error);
    if (status == 0)
        status = record_batch(tuning, trials, n, error);
    free(trials);
    return status;
}

/* Small batches first: the first answer comes soon, and a stop loses little. */
static int batch_size(const struct step *step) {
    int size = 2 * (step->builders > 0 ? step->builders : (int)sysconf(_SC_NPROCESSORS_ONLN));
    return size < 4 ? 4 : size > MAX_BATCH ? MAX_BATCH : size;
}

static int search_loop(struct tuning *tuning, struct error *error) {
    int64_t index[MAX_BATCH];
    int size = batch_size(tuning->step), n;
    while ((n = search_next(tuning->search, index, size)) > 0) {
        if (over_budget(tuning) && search_progress(tuning->search)->done > 0) {
            tuning->cut = STOP_BUDGET;
            break;
        }
        if (step_must_stop(tuning->step))
            return step_stopped(tuning->step, error);
        if (measure_batch(tuning, index, n, error) < 0)
            return -1;
    }
    return 0;
}

#define RACE_ROUNDS 3

/*
 * Measures the best and the baseline in turn: over a whole search the machine's speed drifts, so a best that is no
 * faster when both run side by side gives way to the baseline.
 */
static int race(struct tuning *tuning, struct error *error) {
    const struct search_progress *progress = search_progress(tuning->search);
    struct trial trials[2 * RACE_ROUNDS] = {0};
    struct measure_callbacks callbacks = {.data = tuning->step, .stop = step_must_stop};
    double best_s = INFINITY, baseline_s = INFINITY;
    tuning->winner = progress->best_index;
    tuning->winner_s = progress->best_s;
    tuning->baseline_s = progress->baseline_s;
    if (progress->best_index < 0 || progress->best_index == tuning->fallback)
        return 0;
    for (int i = 0; i < 2 * RACE_ROUNDS; i++)
        trials[i] =
            (struct trial){.template = tuning->template, .index = i % 2 ? tuning->fallback : progress->best_index};
    if (measurer_run(*tuning->step->measurer, tuning->workload, &tuning->options.measure, trials, 2 * RACE_ROUNDS,
                     &callbacks, error) < 0)
        return error->class == ERROR_CANCELLED ? step_stopped(tuning->step, error) : -1;
    for (int i = 0; i < 2 * RACE_ROUNDS; i++) {
        double *fastest = i % 2 ? &baseline_s : &best_s;
        *fastest = fmin(*fastest, trial_cost(&trials[i]));
    }
    if (baseline_s < best_s) {
        tuning->winner = tuning->fallback;
        tuning->winner_s = tuning->baseline_s = baseline_s;
    }
    return 0;
}

static const char *provenance_of(const struct tuning *tuning, struct arena *arena) {
    const struct device_info *device = tuning->step->device;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(object, "device", device->name);
    json_add_string(object, "driver", device->driver);
    json_add_string(object, "compiler", device->compiler);
    json_add_int(object, "template_version", tuning->template->version);
    json_add_string(object, "tuner", tuning->options.tuner->name);
    json_add_int(object, "trials", search_progress(tuning->search)->done);
    return arena_strdup(arena, json_text(object, NULL));
}

static int complete(struct tuning *tuning, struct error *error) {
    struct step *step = tuning->step;
    bool succeeded = tuning->winner >= 0;
    enum stop_reason reason = tuning->cut != STOP_NONE && succeeded ? tuning->cut : search_reason(tuning->search);
    if (!succeeded)
        reason = STOP_ALL_FAILED;
    struct tune_result result = {.succeeded = succeeded,
                                 .stop_reason = stop_reason_name(reason),
                                 .best_s = tuning->winner_s,
                                 .best_spread_s = tuning->best_spread_s,
                                 .baseline_s = tuning->baseline_s};
    if (succeeded) {
        struct json_object *entity CLEANUP(json_put_p) = space_entity(tuning->space, tuning->winner);
        result.best_template = tuning->template->name;
        result.best_index = tuning->winner;
        result.best_entity = arena_strdup(step->arena, json_text(entity, NULL));
        struct config_row config = {.workload = tuning->task->workload,
                                    .device_key = step->device->key,
                                    .template = tuning->template->name,
                                    .version = tuning->template->version,
                                    .index = tuning->winner,
                                    .entity = result.best_entity,
                                    .cost_s = tuning->winner_s,
                                    .spread_s = tuning->best_spread_s,
                                    .baseline_s = tuning->baseline_s,
                                    .provenance = provenance_of(tuning, step->arena),
                                    .job_id = step->item->job_id};
        if (config_put(step->db, &config, NULL, error) < 0)
            return -1;
    } else {
        step_log(step, "warn", "task %d: every trial failed; the plain kernel will be used", tuning->task->number);
    }
    return queue_complete_tune(step->db, step->item, &result, error);
}

int step_tune(struct step *step, struct error *error) {
    struct tuning tuning;
    if (open_tuning(step, &tuning, error) < 0 || open_measurer(step, error) < 0 || search_loop(&tuning, error) < 0 ||
        race(&tuning, error) < 0)
        return -1;
    return complete(&tuning, error);
}
