/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/search.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/search/point_set.h"
#include "service/base/json.h"

struct search {
    struct search_options options;
    struct tuner *tuner;
    struct search_progress progress;
    int64_t proposed;             /* handed out so far, and those that came with a renewal */
    bool begun;                   /* the baseline was proposed */
    struct point_set known;       /* measured before this search, which its tuner may not know */
    double recent[SEARCH_RECENT]; /* the best time after each of the last trials; trial t's at t % SEARCH_RECENT */
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

struct search *search_new(const struct search_options *options) {
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        abort();
    search->options = *options;
    search->tuner = options->tuner->create(&options->tuner_options);
    search->progress = (struct search_progress){.best = {0, -1}, .best_s = INFINITY, .baseline_s = INFINITY};
    return search;
}

void search_free(struct search *search) {
    if (!search)
        return;
    search->options.tuner->destroy(search->tuner);
    point_set_free(&search->known);
    free(search);
}

/* A search is at its floor when its best is within so much of it. */
#define FLOOR_FACTOR 1.3

/* Why the search is over before anything more is proposed, or STOP_NONE. */
static enum stop_reason due_reason(const struct search *search) {
    const struct search_progress *progress = &search->progress;
    if (progress->best_s <= search->options.floor_s * FLOOR_FACTOR)
        return STOP_AT_FLOOR;
    if (search->proposed >= search->options.trials)
        return STOP_TRIALS;
    if (search->options.early_stopping > 0 && progress->best.index >= 0 &&
        progress->done >= progress->best_at + 1 + search->options.early_stopping)
        return STOP_EARLY_STOPPING;
    return STOP_NONE;
}

static bool is_baseline(const struct search *search, struct point point) {
    return point.domain == 0 && point.index == search->options.fallback;
}

/* The tuner's next points but for the baseline, which was proposed before them, and those that are known. */
static int propose_others(struct search *search, struct point *ret, int n) {
    int got = 0, fresh;
    while (got < n && (fresh = search->options.tuner->propose(search->tuner, ret + got, n - got)) > 0)
        for (int end = got + fresh, i = got; i < end; i++)
            if (!is_baseline(search, ret[i]) && !point_set_has(&search->known, ret[i]))
                ret[got++] = ret[i];
    return got;
}

int search_next(struct search *search, struct point *ret, int n) {
    int got = 0;
    if (search->reason == STOP_NONE)
        search->reason = due_reason(search);
    if (search->reason != STOP_NONE)
        return 0;
    if (n > search->options.trials - search->proposed)
        n = (int)(search->options.trials - search->proposed);
    if (!search->begun && n > 0)
        ret[got++] = (struct point){0, search->options.fallback};
    got += propose_others(search, ret + got, n - got);
    search->begun |= got > 0;
    search->proposed += got;
    if (got == 0)
        search->reason = STOP_SPACE_EXHAUSTED;
    return got;
}

/* What a result does to the progress, the tuner apart. */
static void count(struct search *search, const struct measured *measured) {
    struct search_progress *progress = &search->progress;
    if (isfinite(measured->cost_s) && is_baseline(search, measured->point))
        progress->baseline_s = measured->cost_s;
    if (measured->cost_s < progress->best_s) {
        progress->best_s = measured->cost_s;
        progress->best = measured->point;
        progress->best_at = progress->done;
    }
    search->recent[progress->done % SEARCH_RECENT] = progress->best_s;
    progress->done++;
}

void search_record(struct search *search, struct point point, enum trial_error error_no, double cost_s) {
    struct measured measured = {point, error_no == TRIAL_OK ? cost_s : INFINITY};
    search->progress.errors[error_no]++;
    count(search, &measured);
    if (search->options.tuner->learn)
        search->options.tuner->learn(search->tuner, &measured);
}

const struct search_progress *search_progress(const struct search *search) {
    return &search->progress;
}

double search_promise(const struct search *search) {
    const struct search_progress *progress = &search->progress;
    if (search->reason != STOP_NONE || due_reason(search) != STOP_NONE)
        return 0;
    if (progress->done == 0)
        return 1;
    double hope = SEARCH_HOPE / (double)(SEARCH_HOPE + progress->done);
    if (progress->best.index < 0)
        return hope;
    /* The oldest that is kept: SEARCH_RECENT trials ago, or the first. */
    double before = search->recent[progress->done < SEARCH_RECENT ? 0 : progress->done % SEARCH_RECENT];
    double gained = isfinite(before) ? 1 - progress->best_s / before : 1;
    return fmin(fmax(gained, hope), 1 - search->options.floor_s / progress->best_s);
}

bool search_due(const struct search *search) {
    return search->reason != STOP_NONE || due_reason(search) != STOP_NONE;
}

enum stop_reason search_reason(const struct search *search) {
    if (search->reason != STOP_NONE && search->progress.best.index < 0)
        return STOP_ALL_FAILED;
    return search->reason;
}

/* Of each domain what makes its points what they are. */
static struct json_object *domains_json(const struct search *search) {
    const struct tuner_options *options = &search->options.tuner_options;
    struct json_object *domains = json_object_new_array();
    for (int i = 0; i < options->n_domains; i++) {
        struct json_object *domain = json_object_new_object();
        json_add_string(domain, "template", options->domains[i].template->name);
        json_add_int(domain, "version", options->domains[i].template->version);
        json_add_int(domain, "points", options->domains[i].space->size);
        json_object_array_add(domains, domain);
    }
    return domains;
}

bool search_continues(const struct search *search, struct json_object *state) {
    struct json_object *here CLEANUP(json_put_p) = domains_json(search), *there;
    return json_object_object_get_ex(state, "domains", &there) && json_object_equal(here, there);
}

struct json_object *search_save(const struct search *search) {
    const struct search_progress *progress = &search->progress;
    struct json_object *state = json_object_new_object();
    json_add_int(state, "proposed", search->proposed);
    struct json_object *errors = json_object_new_array();
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        json_object_array_add(errors, json_object_new_int64(progress->errors[i]));
    json_add(state, "errors", errors);
    json_add(state, "domains", domains_json(search));
    json_add(state, "tuner", search->options.tuner->save(search->tuner));
    return state;
}

int search_restore(struct search *search, struct json_object *state, const struct measured *measured, int n,
                   struct error *error) {
    struct json_object *errors, *tuner;
    if (json_read_int(state, "proposed", JSON_REQUIRED, 0, INT64_MAX, &search->proposed, error) < 0 ||
        json_read_array(state, "errors", JSON_REQUIRED, &errors, error) < 0 ||
        json_read_object(state, "tuner", JSON_REQUIRED, &tuner, error) < 0)
        return -1;
    for (int i = 0; i < TRIAL_ERROR_COUNT; i++)
        search->progress.errors[i] = json_object_get_int64(json_object_array_get_idx(errors, (size_t)i));
    for (int i = 0; i < n; i++) {
        count(search, &measured[i]);
        point_set_add(&search->known, measured[i].point);
    }
    search->begun = search->proposed > 0;
    return search->options.tuner->restore(search->tuner, tuner, measured, n, error);
}

int search_renew(struct search *search, const struct measured *measured, int n, struct error *error) {
    struct json_object *fresh CLEANUP(json_put_p) = search_save(search);
    if (search_restore(search, fresh, measured, n, error) < 0)
        return -1;
    search->proposed = n;
    search->begun = point_set_has(&search->known, (struct point){0, search->options.fallback});
    return 0;
}
