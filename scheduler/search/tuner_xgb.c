/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xgb and xgb_rank: AutoTVM's model-based tuners. Random points until a plan's worth is measured; then, each time as
 * many more were, trees are fitted to all of it and simulated annealing makes the next plan, its last twentieth at
 * random.
 */
#include <stdlib.h>

#include "scheduler/search/annealing.h"
#include "scheduler/search/tuner_state.h"
#include "service/base/log.h"

enum { PLAN = 64, RANDOM_LAST = PLAN / 20 };

struct tuner {
    struct tuner_options options;
    enum loss_kind loss;
    struct heard heard;
    struct scorer *scorer; /* NULL until the first fit */
    struct annealing annealing;
    struct rng rng;
    int64_t plan[PLAN];
    int n_plan, next;
    int fits; /* tried so far */
};

static struct tuner *create_with(const struct tuner_options *options, enum loss_kind loss) {
    struct tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner)
        abort();
    tuner->options = *options;
    tuner->loss = loss;
    heard_init(&tuner->heard);
    rng_seed(&tuner->rng, options->seed);
    return tuner;
}

static struct tuner *xgb_create(const struct tuner_options *options) {
    return create_with(options, options->loss);
}

static struct tuner *xgb_rank_create(const struct tuner_options *options) {
    return create_with(options, options->loss == LOSS_RANK_BINARY ? LOSS_RANK_BINARY : LOSS_RANK);
}

static void xgb_destroy(struct tuner *tuner) {
    heard_free(&tuner->heard);
    scorer_free(tuner->scorer);
    free(tuner);
}

static bool next_of_plan(struct tuner *tuner, struct point *ret) {
    while (tuner->next < tuner->n_plan - RANDOM_LAST) {
        *ret = (struct point){0, tuner->plan[tuner->next++]};
        if (point_set_add(&tuner->heard.taken, *ret))
            return true;
    }
    return false;
}

static int xgb_propose(struct tuner *tuner, struct point *ret, int n) {
    int got = 0;
    while (got < n && (next_of_plan(tuner, &ret[got]) ||
                       heard_take_random(&tuner->heard, 0, tuner->options.domains[0].space, &tuner->rng, &ret[got])))
        got++;
    return got;
}

static void make_plan(struct tuner *tuner) {
    struct error error;
    tuner->fits++;
    tuner->n_plan = tuner->next = 0;
    if (!tuner->scorer)
        tuner->scorer = scorer_new(&tuner->options, tuner->loss, PLAN);
    if (scorer_learn(tuner->scorer, &tuner->heard, &error) < 0 ||
        annealing_plan(&tuner->annealing, tuner->scorer, tuner->options.domains[0].space, &tuner->heard.taken,
                       tuner->options.diversity, &tuner->rng, tuner->plan, PLAN, &tuner->n_plan, &error) < 0)
        log_error(LOG_WARN, "the cost model failed; the next trials are drawn at random", &error);
}

static void xgb_learn(struct tuner *tuner, const struct measured *measured) {
    heard_add(&tuner->heard, measured);
    if (tuner->heard.n >= PLAN * (tuner->fits + 1) && tuner->heard.best_s < 1e9)
        make_plan(tuner);
}

static struct json_object *xgb_save(const struct tuner *tuner) {
    struct json_object *state = json_object_new_object();
    state_add_rng(state, &tuner->rng);
    json_add_int(state, "fits", tuner->fits);
    json_add_int(state, "next", tuner->next);
    state_add_list(state, "plan", tuner->plan, tuner->n_plan);
    state_add_list(state, "chains", tuner->annealing.chains, tuner->annealing.begun ? ANNEALING_CHAINS : 0);
    return state;
}

static int xgb_restore(struct tuner *tuner, struct json_object *state, const struct measured *measured, int n,
                       struct error *error) {
    int64_t size = tuner->options.domains[0].space->size, fits = 0, next = 0;
    int n_chains = 0;
    if (state_read_rng(state, &tuner->rng, error) < 0 ||
        json_read_int(state, "fits", JSON_REQUIRED, 0, INT32_MAX, &fits, error) < 0 ||
        json_read_int(state, "next", JSON_REQUIRED, 0, PLAN, &next, error) < 0 ||
        state_read_list(state, "plan", size, tuner->plan, PLAN, &tuner->n_plan, error) < 0 ||
        state_read_list(state, "chains", size, tuner->annealing.chains, ANNEALING_CHAINS, &n_chains, error) < 0)
        return -1;
    tuner->fits = (int)fits;
    tuner->next = (int)next;
    tuner->annealing.begun = n_chains == ANNEALING_CHAINS;
    for (int i = 0; i < n; i++)
        heard_add(&tuner->heard, &measured[i]);
    return 0;
}

const struct tuner_class tuner_xgb = {
    .name = "xgb",
    .create = xgb_create,
    .propose = xgb_propose,
    .learn = xgb_learn,
    .save = xgb_save,
    .restore = xgb_restore,
    .destroy = xgb_destroy,
};

const struct tuner_class tuner_xgb_rank = {
    .name = "xgb_rank",
    .create = xgb_rank_create,
    .propose = xgb_propose,
    .learn = xgb_learn,
    .save = xgb_save,
    .restore = xgb_restore,
    .destroy = xgb_destroy,
};
