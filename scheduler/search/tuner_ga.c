/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ga: AutoTVM's genetic tuner. A population of 100, the 3 best of all time kept among the parents; a child takes its
 * first knobs from one parent and the rest from another, each chosen in proportion to its throughput, and each knob
 * mutates with a probability of 0.1. A child that was measured before mutates on until it is new.
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler/search/heard.h"
#include "scheduler/search/tuner_state.h"

enum { POPULATION = 100, ELITE = 3 };
#define MUTATION 0.1
#define UNHEARD (-1.0)

struct gene {
    int64_t index;
    double score; /* executions a second, 0 for a failure, UNHEARD before it was measured */
};

struct tuner {
    const struct space *space;
    struct heard heard;
    struct rng rng;
    struct gene genes[POPULATION], elite[ELITE];
    int n_genes, n_elite;
    int next;   /* the first gene not proposed yet */
    int scored; /* genes whose score is known */
};

static bool take_random(struct tuner *tuner, int64_t *ret) {
    struct point point;
    if (!heard_take_random(&tuner->heard, 0, tuner->space, &tuner->rng, &point))
        return false;
    *ret = point.index;
    return true;
}

static void start_generation(struct tuner *tuner) {
    tuner->n_genes = tuner->next = tuner->scored = 0;
}

static void first_generation(struct tuner *tuner) {
    int64_t index;
    start_generation(tuner);
    while (tuner->n_genes < POPULATION && take_random(tuner, &index))
        tuner->genes[tuner->n_genes++] = (struct gene){index, UNHEARD};
}

static struct tuner *ga_create(const struct tuner_options *options) {
    struct tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner)
        abort();
    tuner->space = options->domains[0].space;
    heard_init(&tuner->heard);
    rng_seed(&tuner->rng, options->seed);
    first_generation(tuner);
    return tuner;
}

static void ga_destroy(struct tuner *tuner) {
    heard_free(&tuner->heard);
    free(tuner);
}

static int ga_propose(struct tuner *tuner, struct point *ret, int n) {
    int got = 0;
    int64_t index;
    while (got < n && tuner->next < tuner->n_genes)
        ret[got++] = (struct point){0, tuner->genes[tuner->next++].index};
    /* More than the generation has, before it is scored: at random, so that no builder idles. */
    while (got < n && take_random(tuner, &index))
        ret[got++] = (struct point){0, index};
    return got;
}

/* ---- the next generation ---- */

static int better_first(const void *a, const void *b) {
    const struct gene *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static const struct gene *choose(const struct gene *parents, int n, double total, struct rng *rng) {
    double at = rng_unit(rng) * total;
    for (int i = 0; i < n - 1; i++) {
        at -= parents[i].score + 1e-8;
        if (at < 0)
            return &parents[i];
    }
    return &parents[n - 1];
}

static void mutate(const struct space *space, int knob, int64_t *digit, struct rng *rng) {
    digit[knob] = (int64_t)rng_below(rng, (uint64_t)space->knobs[knob].n_candidates);
}

static int64_t breed(const struct space *space, const struct gene *first, const struct gene *second, struct rng *rng) {
    int64_t child[SPACE_MAX_KNOBS], other[SPACE_MAX_KNOBS];
    int cut = (int)rng_below(rng, (uint64_t)space->n_knobs);
    space_digits(space, first->index, child);
    space_digits(space, second->index, other);
    for (int k = 0; k < space->n_knobs; k++) {
        if (k >= cut)
            child[k] = other[k];
        if (rng_unit(rng) < MUTATION)
            mutate(space, k, child, rng);
    }
    return space_index(space, child);
}

/* A child that nobody has seen: one knob after another changes until it is. False when mutation finds none. */
static bool make_new(struct tuner *tuner, int64_t *index) {
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(tuner->space, *index, digit);
    for (int tries = 0; tries < 64 * tuner->space->n_knobs; tries++) {
        *index = space_index(tuner->space, digit);
        if (point_set_add(&tuner->heard.taken, (struct point){0, *index}))
            return true;
        mutate(tuner->space, (int)rng_below(&tuner->rng, (uint64_t)tuner->space->n_knobs), digit, &tuner->rng);
    }
    return take_random(tuner, index);
}

static void next_generation(struct tuner *tuner) {
    struct gene parents[POPULATION + ELITE];
    int n = 0;
    double total = 0;
    for (int i = 0; i < tuner->n_genes; i++)
        parents[n++] = tuner->genes[i];
    for (int i = 0; i < tuner->n_elite; i++)
        parents[n++] = tuner->elite[i];
    qsort(parents, (size_t)n, sizeof *parents, better_first);
    tuner->n_elite = n < ELITE ? n : ELITE;
    for (int i = 0; i < tuner->n_elite; i++)
        tuner->elite[i] = parents[i];
    for (int i = 0; i < n; i++)
        total += parents[i].score + 1e-8;
    start_generation(tuner);
    while (tuner->n_genes < POPULATION) {
        int64_t child = breed(tuner->space, choose(parents, n, total, &tuner->rng),
                              choose(parents, n, total, &tuner->rng), &tuner->rng);
        if (!make_new(tuner, &child))
            return;
        tuner->genes[tuner->n_genes++] = (struct gene){child, UNHEARD};
    }
}

static void ga_learn(struct tuner *tuner, const struct measured *measured) {
    heard_add(&tuner->heard, measured);
    /* A gene not proposed yet may be known as well: the baseline is measured before any. */
    for (int i = 0; i < tuner->n_genes; i++)
        if (tuner->genes[i].index == measured->point.index && tuner->genes[i].score == UNHEARD) {
            tuner->genes[i].score = isfinite(measured->cost_s) && measured->cost_s > 0 ? 1 / measured->cost_s : 0;
            tuner->scored++;
        }
    if (tuner->n_genes > 0 && tuner->scored == tuner->n_genes)
        next_generation(tuner);
}

/* ---- state ---- */

static void add_genes(struct json_object *state, const char *field, const struct gene *genes, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++) {
        struct json_object *gene = json_object_new_object();
        json_add_int(gene, "index", genes[i].index);
        json_add_double(gene, "score", genes[i].score);
        json_object_array_add(array, gene);
    }
    json_add(state, field, array);
}

static int read_genes(struct json_object *state, const char *field, int64_t size, struct gene *ret, int most,
                      int *ret_n, struct error *error) {
    struct json_object *array;
    if (json_read_array(state, field, JSON_REQUIRED, &array, error) < 0)
        return -1;
    size_t n = json_object_array_length(array);
    if (n > (size_t)most)
        return error_set(error, ERROR_INVALID, "bad-state", field, "The search's stored state has too many genes.");
    for (size_t i = 0; i < n; i++) {
        struct json_object *gene = json_object_array_get_idx(array, i);
        if (json_read_int(gene, "index", JSON_REQUIRED, 0, size - 1, &ret[i].index, error) < 0 ||
            json_read_double(gene, "score", JSON_REQUIRED, UNHEARD, 1e300, &ret[i].score, error) < 0)
            return -1;
    }
    *ret_n = (int)n;
    return 0;
}

static struct json_object *ga_save(const struct tuner *tuner) {
    struct json_object *state = json_object_new_object();
    state_add_rng(state, &tuner->rng);
    json_add_int(state, "next", tuner->next);
    add_genes(state, "genes", tuner->genes, tuner->n_genes);
    add_genes(state, "elite", tuner->elite, tuner->n_elite);
    return state;
}

static int ga_restore(struct tuner *tuner, struct json_object *state, const struct measured *measured, int n,
                      struct error *error) {
    int64_t next = 0;
    heard_free(&tuner->heard); /* with it the first generation, which the stored one replaces */
    heard_init(&tuner->heard);
    if (state_read_rng(state, &tuner->rng, error) < 0 ||
        read_genes(state, "genes", tuner->space->size, tuner->genes, POPULATION, &tuner->n_genes, error) < 0 ||
        read_genes(state, "elite", tuner->space->size, tuner->elite, ELITE, &tuner->n_elite, error) < 0 ||
        json_read_int(state, "next", JSON_REQUIRED, 0, tuner->n_genes, &next, error) < 0)
        return -1;
    tuner->next = (int)next;
    tuner->scored = 0;
    for (int i = 0; i < tuner->n_genes; i++) {
        tuner->scored += tuner->genes[i].score != UNHEARD;
        point_set_add(&tuner->heard.taken, (struct point){0, tuner->genes[i].index});
    }
    for (int i = 0; i < n; i++)
        heard_add(&tuner->heard, &measured[i]);
    return 0;
}

const struct tuner_class tuner_ga = {
    .name = "ga",
    .create = ga_create,
    .propose = ga_propose,
    .learn = ga_learn,
    .save = ga_save,
    .restore = ga_restore,
    .destroy = ga_destroy,
};
