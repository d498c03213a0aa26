/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/search.h"

#include <math.h>
#include <stdlib.h>

#include "service/base/json.h"

struct search {
    const struct space *space;
    struct search_options options;
    struct tuner *tuner;
    struct search_progress progress;
    int64_t proposed; /* handed out so far */
    enum stop_reason reason;
};

const char *stop_reason_name(enum stop_reason reason) {
    static const char *const names[] = {
        [STOP_NONE] = "none",
        [STOP_TRIALS] = "trials",
        [STOP_EARLY_STOPPING] = "early_stopping",
        [STOP_SPACE_EXHAUSTED] = "space_exhausted",
        [STOP_BUDGET] = "budget",
        [STOP_AT_FLOOR] = "at_floor",
        [STOP_CANCELLED] = "cancelled",
        [STOP_ALL_FAILED] = "all_failed",
    };
    return names[reason];
}

struct search *search_new(const struct space *space, const struct search_options *options) {
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        abort();
    search->space = space;
    search->options = *options;
    search->tuner = options->tuner->create(space, options->seed);
    search->progress = (struct search_progress){.best_index = -1, .best_s = INFINITY, .baseline_s = INFINITY};
    return search;
}

void search_free(struct search *search) {
    if (!search)
        return;
    search->options.tuner->destroy(search->tuner);
    free(search);
}

/* Why the search is over before anything more is proposed, or STOP_NONE. */
static enum stop_reason due_reason(const struct search *search) {
    const struct search_progress *progress = &search->progress;
    if (search->proposed >= search->options.trials)
        return STOP_TRIALS;
    if (search->options.early_stopping > 0 && progress->best_index >= 0 &&
        progress->done >= progress->best_at + 1 + search->options.early_stopping)
        return STOP_EARLY_STOPPING;
    return STOP_NONE;
}

/* The tuner's next index that is not the baseline, which was proposed before it. */
static bool propose_other(struct search *search, int64_t *ret_index) {
    do {
        if (search->options.tuner->propose(search->tuner, ret_index, 1) == 0)
            return false;
    } while (*ret_index == search->options.fallback);
    return true;
}

int search_next(struct search *search, int64_t *ret_index, int n) {
    if (search->reason == STOP_NONE)
        search->reason = due_reason(search);
    if (search->reason != STOP_NONE)
        return 0;
    int got = 0;
    while (got < n && search->proposed < search->options.trials) {
        if (search->proposed == 0)
            ret_index[got] = search->options.fallback;
        else if (!propose_other(search, &ret_index[got]))
            break;
        got++;
        search->proposed++;
    }
    if (got == 0)
        search->reason = STOP_SPACE_EXHAUSTED;
    return got;
}

void search_record(struct search *search, int64_t index, enum trial_error error_no, double cost_s) {
    struct search_progress *progress = &search->progress;
    progress->errors[error_no]++;
    if (error_no == TRIAL_OK && index == search->options.fallback)
        progress->baseline_s = cost_s;
    if (error_no == TRIAL_OK && cost_s < progress->best_s) {
        progress->best_s = cost_s;
        progress->best_index = index;
        progress->best_at = progress->done;
    }
    progress->done++;
    if (search->options.tuner->learn)
        search->options.tuner->learn(search->tuner, index, error_no == TRIAL_OK ? cost_s : INFINITY);
}

const struct search_progress *search_progress(const struct search *search) {
    return &search->progress;
}

enum stop_reason search_reason(const struct search *search) {
    if (search->reason != STOP_NONE && search->progress.best_index < 0)
        return STOP_ALL_FAILED;
    return search->reason;
}

static struct json_object *seconds_or_null(double seconds) {
    return isfinite(seconds) ? json_object_new_double(seconds) : NULL;
}

struct json_object *search_save(const struct search *search) {
    const struct search_progress *progress = &search->progress;
    struct json_object *state = json_object_new_object();
    json_add_int(state, "proposed", search->proposed);
    json_add_int(state, "done", progress->done);
    json_add_int(state, "best_index", progress->best_index);
    json_add_int(state, "best_at", progress->best_at);
    json_add(state, "best_s", seconds_or_null(progress->best_s));
    json_add(state, "baseline_s", seconds_or_null(progress->baseline_s));
    struct json_object *errors = json_object_new_array();
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        json_object_array_add(errors, json_object_new_int64(progress->errors[i]));
    json_add(state, "errors", errors);
    json_add(state, "tuner", search->options.tuner->save(search->tuner));
    return state;
}

/* A number, or infinity for null. */
static double number_or_infinity(struct json_object *state, const char *field) {
    struct json_object *value = NULL;
    if (!json_object_object_get_ex(state, field, &value) || !value)
        return INFINITY;
    return json_object_get_double(value);
}

int search_restore(struct search *search, struct json_object *state, struct error *error) {
    struct search_progress *progress = &search->progress;
    struct json_object *errors, *tuner;
    if (json_read_int(state, "proposed", JSON_REQUIRED, 0, INT64_MAX, &search->proposed, error) < 0 ||
        json_read_int(state, "done", JSON_REQUIRED, 0, INT64_MAX, &progress->done, error) < 0 ||
        json_read_int(state, "best_index", JSON_REQUIRED, -1, search->space->size - 1, &progress->best_index, error) <
            0 ||
        json_read_int(state, "best_at", JSON_REQUIRED, 0, INT64_MAX, &progress->best_at, error) < 0 ||
        json_read_array(state, "errors", JSON_REQUIRED, &errors, error) < 0 ||
        json_read_object(state, "tuner", JSON_REQUIRED, &tuner, error) < 0)
        return -1;
    progress->best_s = number_or_infinity(state, "best_s");
    progress->baseline_s = number_or_infinity(state, "baseline_s");
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        progress->errors[i] = json_object_get_int64(json_object_array_get_idx(errors, (size_t)i));
    return search->options.tuner->restore(search->tuner, tuner, error);
}
