/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h: the search of one task: which configurations to measure next, what is best so far, when to stop and why.
 *
 * The first trial is always the template's fallback configuration: it is the baseline that every gain is stated
 * against. Then a tuner proposes. Early stopping is AutoTVM's: the search ends at a batch's edge once `early_stopping`
 * trials have passed since the best one; failures before the first success do not end it. The state (a JSON object) is
 * stored after each batch; a search restored from it continues without measuring anything twice. No I/O, one thread.
 */
#ifndef WARPTUNE_SEARCH_SEARCH_H
#define WARPTUNE_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/measure/measure.h"
#include "scheduler/search/tuner.h"

enum stop_reason {
    STOP_NONE,
    STOP_TRIALS, /* as many as were asked for */
    STOP_EARLY_STOPPING,
    STOP_SPACE_EXHAUSTED,
    STOP_BUDGET,   /* the job's wall-clock budget */
    STOP_AT_FLOOR, /* as fast as the device allows */
    STOP_CANCELLED,
    STOP_ALL_FAILED, /* every trial failed: there is no best */
};
const char *stop_reason_name(enum stop_reason reason); /* "trials", "early_stopping", … */

struct search_options {
    const struct tuner_class *tuner;
    int64_t trials;         /* at most so many, the baseline included */
    int64_t early_stopping; /* 0: never */
    uint64_t seed;
    int64_t fallback; /* index of the baseline configuration */
};

struct search_progress {
    int64_t done;              /* trials recorded */
    int64_t best_index;        /* -1: none succeeded yet */
    double best_s, baseline_s; /* seconds; infinity when none */
    int64_t best_at;           /* number (from 0) of the best trial */
    int64_t errors[TRIAL_ERROR_COUNT];
};

struct search;

/* `space` is borrowed and outlives the search. */
struct search *search_new(const struct space *space, const struct search_options *options);
/* Up to n indices to measure. 0 when it is over; then search_reason says why. */
int search_next(struct search *search, int64_t *ret_index, int n);
/* The result of one of those, in any order. */
void search_record(struct search *search, int64_t index, enum trial_error error_no, double cost_s);
const struct search_progress *search_progress(const struct search *search);
enum stop_reason search_reason(const struct search *search);
struct json_object *search_save(const struct search *search); /* caller releases */
int search_restore(struct search *search, struct json_object *state, struct error *error) MUST_CHECK;
void search_free(struct search *search); /* NULL-safe */

#endif
