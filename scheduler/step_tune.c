/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_tune.c: the search of one task, a slice at a time: propose, measure, record. After each slice the item goes back
 * to the queue if another promises more; when the search is over, the best is raced before it is published.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "scheduler/libraries.h"
#include "scheduler/race.h"
#include "scheduler/step.h"
#include "scheduler/tuning.h"
#include "service/base/clock.h"
#include "service/base/json.h"
#include "service/store/config_store.h"

#define MAX_BATCH 64
#define SLICE_S 1.5             /* then the task's promise is weighed against the others' */
#define RACE_MIN_REPEAT_MS 10.0 /* at least; and twice the search's */

/* Why a claim stops working on the task. */
enum slice_end { SLICE_OVER, SEARCH_OVER, BUDGET_OVER };

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

static int measure(struct tuning *tuning, const struct measure_options *options, struct trial *trials, int n,
                   struct error *error) {
    struct step *step = tuning->step;
    struct measure_callbacks callbacks = {.data = step, .stop = step_must_stop};
    int status = measurer_run(*step->measurer, tuning->workload, options, trials, n, &callbacks, error);
    return status < 0 && error->class == ERROR_CANCELLED ? step_stopped(step, error) : status;
}

static struct trial trial_of(const struct tuning *tuning, struct point point) {
    return (struct trial){.template = tuning->domains[point.domain].template,
                          .index = point.index,
                          .bound_s = tuning->fastest.n > 0 ? tuning->fastest.list[0].cost_s : 0,
                          .state = {-1, -1, -1, -1, -1, -1, -1}};
}

/* ---- slices ---- */

static int measure_batch(struct tuning *tuning, const struct point *point, int n, struct error *error) {
    struct trial *trials = calloc((size_t)n, sizeof *trials);
    if (!trials)
        abort();
    for (int i = 0; i < n; i++)
        trials[i] = trial_of(tuning, point[i]);
    int status = measure(tuning, &tuning->options.measure, trials, n, error);
    if (status == 0)
        status = tuning_record(tuning, point, trials, n, error);
    free(trials);
    return status;
}

/* Small batches first: the first answer comes soon, and a stop loses little. */
static int batch_size(const struct step *step) {
    int size = 2 * (step->builders > 0 ? step->builders : (int)sysconf(_SC_NPROCESSORS_ONLN));
    return size < 4 ? 4 : size > MAX_BATCH ? MAX_BATCH : size;
}

/*
 * Batches until the time is up, one at least; a search that is due to end does so without waiting for another turn.
 * Past the budget a task that was not begun measures its baseline alone.
 */
static int run_slice(struct tuning *tuning, enum slice_end *ret, struct error *error) {
    struct point point[MAX_BATCH];
    int64_t end = deadline_in_s(SLICE_S);
    int n;
    do {
        bool late = tuning_over_budget(tuning);
        if ((n = search_next(tuning->search, point, late ? 1 : batch_size(tuning->step))) == 0) {
            *ret = SEARCH_OVER;
            return 0;
        }
        if (late && search_progress(tuning->search)->done > 0) {
            *ret = BUDGET_OVER;
            return 0;
        }
        if (step_should_stop(tuning->step))
            return step_stopped(tuning->step, error);
        if (measure_batch(tuning, point, n, error) < 0)
            return -1;
    } while (clock_now_ns() < end || tuning_due(tuning) || tuning_over_budget(tuning));
    *ret = SLICE_OVER;
    return 0;
}

/* ---- the race ---- */

static int run_round(struct tuning *tuning, struct race *race, const int *number, int n, struct error *error) {
    struct trial trials[RACE_CONTESTANTS];
    struct measure_options options = tuning->options.measure;
    options.min_repeat_ms = fmax(RACE_MIN_REPEAT_MS, 2 * options.min_repeat_ms);
    for (int i = 0; i < n; i++)
        trials[i] = trial_of(tuning, race->contestants[number[i]].point);
    if (measure(tuning, &options, trials, n, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        race_record(race, number[i], trials[i].error_no ? INFINITY : trial_cost(&trials[i]));
    return 0;
}

static int run_race(struct tuning *tuning, bool late, struct race *race, struct error *error) {
    const struct domain *first = &tuning->domains[0];
    int number[RACE_CONTESTANTS], n;
    *race = (struct race){.most_rounds = late ? RACE_LEAST_ROUNDS : RACE_MOST_ROUNDS};
    race_add_fastest(race, &tuning->fastest);
    if (isfinite(search_progress(tuning->search)->baseline_s))
        race_add(race, (struct point){0, first->template->fallback(first->workload, first->target, first->space)},
                 true);
    for (int round = 0; (n = race_next(race, number)) > 0; round++) {
        if (run_round(tuning, race, number, n, error) < 0)
            return -1;
        if (round == 0)
            race_add_fastest(race, &tuning->fastest);
    }
    return 0;
}

/* ---- the end ---- */

/* What is published: as the race says, or, had everything failed in it, as the search did. */
static struct tune_result result_of(const struct tuning *tuning, const struct race *race, struct point *ret_winner) {
    const struct search_progress *progress = search_progress(tuning->search);
    int winner = race_winner(race), baseline = race_baseline(race);
    struct tune_result result = {.succeeded = progress->best.index >= 0,
                                 .best_s = progress->best_s,
                                 .baseline_s = progress->baseline_s,
                                 .spent_s = tuning_spent_s(tuning)};
    *ret_winner = progress->best;
    if (winner >= 0) {
        *ret_winner = race->contestants[winner].point;
        result.best_s = contestant_median(&race->contestants[winner]);
        result.best_spread_s = contestant_stated_spread(&race->contestants[winner]);
    }
    if (baseline >= 0 && isfinite(contestant_median(&race->contestants[baseline])))
        result.baseline_s = contestant_median(&race->contestants[baseline]);
    return result;
}

static const char *provenance_of(const struct tuning *tuning, const struct template *template) {
    const struct device_info *device = tuning->step->device;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_string(object, "device", device->name);
    json_add_string(object, "driver", device->driver);
    json_add_string(object, "compiler", device->compiler);
    json_add_int(object, "template_version", template->version);
    json_add_string(object, "tuner", tuning->options.tuner->name);
    libraries_note(template, object);
    json_add_int(object, "trials", search_progress(tuning->search)->done);
    return arena_strdup(tuning->step->arena, json_text(object, NULL));
}

static int share(const struct tuning *tuning, const struct template *template, const struct tune_result *result,
                 struct error *error) {
    struct config_row config = {.workload = tuning->task->workload,
                                .device_key = tuning->step->device->key,
                                .template = template->name,
                                .version = template->version,
                                .index = result->best_index,
                                .entity = result->best_entity,
                                .cost_s = result->best_s,
                                .spread_s = result->best_spread_s,
                                .baseline_s = result->baseline_s,
                                .provenance = provenance_of(tuning, template),
                                .job_id = tuning->step->item->job_id};
    return config_put(tuning->step->db, &config, NULL, error);
}

static int complete(struct tuning *tuning, const struct race *race, enum slice_end end, struct error *error) {
    struct step *step = tuning->step;
    struct point winner;
    struct tune_result result = result_of(tuning, race, &winner);
    enum stop_reason reason = end == BUDGET_OVER ? STOP_BUDGET : search_reason(tuning->search);
    result.stop_reason = stop_reason_name(result.succeeded ? reason : STOP_ALL_FAILED);
    if (result.succeeded) {
        const struct domain *domain = &tuning->domains[winner.domain];
        struct json_object *entity CLEANUP(json_put_p) = space_entity(domain->space, winner.index);
        result.best_template = domain->template->name;
        result.best_version = domain->template->version;
        result.best_index = winner.index;
        result.best_entity = arena_strdup(step->arena, json_text(entity, NULL));
        if (share(tuning, domain->template, &result, error) < 0)
            return -1;
    } else {
        step_log(step, "warn", "task %d: every trial failed; the plain kernel will be used", tuning->task->number);
    }
    return queue_complete_tune(step->db, step->item, &result, error);
}

int step_tune(struct step *step, struct error *error) {
    struct tuning tuning;
    struct race race;
    enum slice_end end = SLICE_OVER;
    if (tuning_open(step, &tuning, error) < 0 || open_measurer(step, error) < 0)
        return -1;
    while (end == SLICE_OVER) {
        bool given_up = false;
        if (run_slice(&tuning, &end, error) < 0)
            return -1;
        if (end == SLICE_OVER &&
            queue_yield(step->db, step->claimant, step->item, tuning_promise(&tuning), &given_up, error) < 0)
            return -1;
        if (given_up)
            return 0;
    }
    if (run_race(&tuning, end == BUDGET_OVER, &race, error) < 0)
        return -1;
    return complete(&tuning, &race, end, error);
}
