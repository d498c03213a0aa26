/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h: what proposes configurations: one interface, a row for each tuner.
 *
 * A search ranges over domains: each is one template's space for the task's workload. A tuner proposes points in
 * batches and hears the cost of each. It never proposes a point twice, so a finite space ends. What it has heard is in
 * the database anyway, so its state holds only the rest (the generator, positions, a population): restored, it hears
 * the measured points again, in order, and continues exactly where it was. A tuner is used by one thread at a time.
 */
#ifndef WARPTUNE_SEARCH_TUNER_H
#define WARPTUNE_SEARCH_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/template/template.h"
#include "service/base/error.h"

struct json_object;
struct tuner; /* each class has its own */

/* One template's space for a workload on a target. All of it is borrowed. */
struct domain {
    const struct template *template;
    const struct workload *workload;
    const struct target *target;
    const struct space *space;
};

struct point {
    int domain; /* number in the tuner's list */
    int64_t index;
};

/* A point that was measured; cost in seconds, INFINITY for a failure. */
struct measured {
    struct point point;
    double cost_s;
};

/* What is known of one other task (another workload, or an earlier job's): transfer learning starts from it. */
struct past_task {
    struct domain domain; /* its template is one of the search's */
    const int64_t *index;
    const double *cost_s; /* seconds, INFINITY for a failure */
    int n;
};
/* Number of its fastest point; -1 when all failed. */
int past_task_best(const struct past_task *past);
/* Throughput of its point i relative to its fastest: 1 for that, 0 for a failure. */
float past_task_score(const struct past_task *past, int best, int i);

enum feature_kind { FEATURE_ITERVAR, FEATURE_KNOB, FEATURE_CURVE };
const char *feature_name(enum feature_kind kind); /* "itervar", "knob", "curve" */

/* reg: the cost itself. rank: the order of pairs. rank-binary: which are in the better half. */
enum loss_kind { LOSS_REG, LOSS_RANK, LOSS_RANK_BINARY };
const char *loss_name(enum loss_kind loss); /* "reg", "rank", "rank-binary" */

struct tuner_options {
    const struct domain *domains; /* the preferred first */
    int n_domains;
    uint64_t seed;
    enum feature_kind feature; /* xgb, xgb_rank */
    enum loss_kind loss;       /* xgb */
    double diversity;          /* xgb, xgb_rank: AutoTVM's diversity_filter_ratio, above 1; 0: none */
    const struct past_task *past;
    int n_past;
};

struct tuner_class {
    const char *name;
    bool all_domains; /* else it searches the first one alone */
    /* What the options point at is borrowed and outlives the tuner. */
    struct tuner *(*create)(const struct tuner_options *options);
    /* Up to n new points; fewer only when the space is exhausted. Returns how many. */
    int (*propose)(struct tuner *tuner, struct point *ret, int n);
    /* The cost of a proposed point (or of the baseline, which no tuner proposed). Optional. */
    void (*learn)(struct tuner *tuner, const struct measured *measured);
    struct json_object *(*save)(const struct tuner *tuner); /* caller releases */
    /* `state` as saved; `measured`: all that was learnt, in order. Only on a new tuner. */
    int (*restore)(struct tuner *tuner, struct json_object *state, const struct measured *measured, int n,
                   struct error *error);
    void (*destroy)(struct tuner *tuner);
};

/* The tuners by name; ERROR_INVALID lists the names. */
int tuner_find(const char *name, const struct tuner_class **ret, struct error *error) MUST_CHECK;

/* Warptune's own, over all domains: estimates, the past, coordinate descent, a model (tuner_auto.c). */
extern const struct tuner_class tuner_auto;
/* AutoTVM's: boosted trees with simulated annealing; a genetic algorithm. */
extern const struct tuner_class tuner_xgb;
extern const struct tuner_class tuner_xgb_rank;
extern const struct tuner_class tuner_ga;
/* random: every point once, in an order drawn from the seed. gridsearch: in the order of the index. */
extern const struct tuner_class tuner_random;
extern const struct tuner_class tuner_gridsearch;

#endif
