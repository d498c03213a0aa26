/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.h: the search of one task: which configurations to measure next, what is best so far, when to stop and why.
 *
 * The first trial is always the template's fallback configuration: it is the baseline that every gain is stated
 * against. Then a tuner proposes. Early stopping is AutoTVM's: the search ends at a batch's edge once `early_stopping`
 * trials have passed since the best one; failures before the first success do not end it. The state (a JSON object) is
 * stored after each batch; restored from it and from the measured points, which are in the database, a search continues
 * without measuring anything twice. No I/O, one thread.
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
    struct tuner_options tuner_options; /* what it points at is borrowed and outlives the search */
    int64_t trials;                     /* at most so many, the baseline included */
    int64_t early_stopping;             /* 0: never */
    int64_t fallback;                   /* index of the baseline configuration, in the first domain */
    double floor_s;                     /* no kernel can be faster; 0: not known */
};

struct search_progress {
    int64_t done;              /* trials recorded */
    struct point best;         /* index -1: none succeeded yet */
    double best_s, baseline_s; /* seconds; infinity when none */
    int64_t best_at;           /* number (from 0) of the best trial */
    int64_t errors[TRIAL_ERROR_COUNT];
};

struct search;

struct search *search_new(const struct search_options *options);
/* Up to n points to measure. 0 when it is over; then search_reason says why. */
int search_next(struct search *search, struct point *ret, int n);
/* The result of one of those, in any order. */
void search_record(struct search *search, struct point point, enum trial_error error_no, double cost_s);
const struct search_progress *search_progress(const struct search *search);
/*
 * The part of the best time that further trials may still save, from 0 (over) to 1 (not begun), for sharing trials
 * among tasks: times the calls of a task and its best time, it is the time that the network may gain. It is the larger
 * of what the last SEARCH_RECENT trials gained, 1 − best now / best then, and SEARCH_HOPE / (SEARCH_HOPE + trials),
 * which fades whatever came of them; and at most the headroom, 1 − floor / best.
 */
#define SEARCH_RECENT 32
#define SEARCH_HOPE 4
double search_promise(const struct search *search);
/* Nothing more will be proposed, as far as one knows without asking the tuner. */
bool search_due(const struct search *search);
enum stop_reason search_reason(const struct search *search);
struct json_object *search_save(const struct search *search); /* caller releases */
/* On a new search: `state` as saved, `measured` every point recorded until then, in that order. */
int search_restore(struct search *search, struct json_object *state, const struct measured *measured, int n,
                   struct error *error) MUST_CHECK;
/* Whether a state is of a search over the same domains: the same templates in the same versions, spaces of a size. */
bool search_continues(const struct search *search, struct json_object *state);
/*
 * On a new search, in place of one over other domains: `measured` are those of its points that are in these as well.
 * They count as the first trials, and are not proposed again.
 */
int search_renew(struct search *search, const struct measured *measured, int n, struct error *error) MUST_CHECK;
void search_free(struct search *search); /* NULL-safe */

#endif
