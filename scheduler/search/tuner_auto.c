/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto: the default tuner.
 *
 *   1. What past tasks of the same templates found best, brought to this task's space, nearest workload first.
 *   2. The best of the estimates, and some spread over the better half of them; what needs no compile first.
 *   3. From then on, in each batch: neighbours in one knob of the best points measured (coordinate descent), the
 *      candidates that a model of all measured points thinks best, and a few on the estimate's word alone.
 * Where a template has a bank, its points come from there, but for those one knob away from the very fastest: what has
 * its shapes as constants is compiled only for finalists. A batch depends only on the seed and on what was heard.
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler/search/auto_model.h"
#include "scheduler/search/auto_pool.h"
#include "scheduler/search/neighbour.h"
#include "scheduler/search/tuner_state.h"
#include "service/model/workload_distance.h"

enum { SEEDS = 8, FIRST_ROUND = 24, PARENTS = 3, MOST_NEIGHBOURS = 256, MOST_JUDGED = 1024 };
#define EXPLORED 0.1 /* of a batch, on the estimate's word */

struct tuner {
    struct tuner_options options;
    struct heard heard;
    struct auto_pool pool;
    struct auto_model *model;
    struct rng rng;
    int learned; /* points that the model has heard */
    int proposed;
};

static struct tuner *auto_create(const struct tuner_options *options) {
    struct tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner)
        abort();
    tuner->options = *options;
    heard_init(&tuner->heard);
    auto_pool_init(&tuner->pool, options);
    tuner->model = auto_model_new(&tuner->options);
    rng_seed(&tuner->rng, options->seed);
    return tuner;
}

static void auto_destroy(struct tuner *tuner) {
    heard_free(&tuner->heard);
    auto_pool_free(&tuner->pool);
    auto_model_free(tuner->model);
    free(tuner);
}

static bool take(struct tuner *tuner, struct point point, struct point *ret) {
    if (!point_set_add(&tuner->heard.taken, point))
        return false;
    *ret = point;
    return true;
}

/* ---- 1. the past ---- */

/* The nearest past task not used yet, or -1. `used`: one flag a task. */
static int nearest_past(const struct tuner *tuner, const char *used, int domain) {
    int best = -1;
    double least = INFINITY;
    for (int p = 0; p < tuner->options.n_past; p++) {
        const struct past_task *past = &tuner->options.past[p];
        double distance = workload_distance(tuner->options.domains[domain].workload, past->domain.workload);
        if (!used[p] && past->domain.template == tuner->options.domains[domain].template && distance < least) {
            least = distance;
            best = p;
        }
    }
    return best;
}

static int propose_past(struct tuner *tuner, struct point *ret, int n) {
    int got = 0, p;
    char *used = calloc((size_t)tuner->options.n_past + 1, 1);
    if (!used)
        abort();
    for (int d = 0; d < tuner->options.n_domains; d++)
        for (int tries = 0; got < n && tries < SEEDS && (p = nearest_past(tuner, used, d)) >= 0; tries++) {
            const struct past_task *past = &tuner->options.past[p];
            int best = past_task_best(past);
            used[p] = 1;
            if (best >= 0) {
                struct point point = {
                    d, neighbour_map(tuner->options.domains[d].space, past->domain.space, past->index[best])};
                got +=
                    isfinite(auto_estimate(&tuner->options.domains[d], point.index)) && take(tuner, point, &ret[got]);
            }
        }
    free(used);
    return got;
}

/* ---- 2. the estimates ---- */

static int propose_estimated(struct tuner *tuner, struct point *ret, int n, bool bank_only) {
    int got = 0;
    for (int i = 0; i < tuner->pool.n && got < n; i++)
        if (!bank_only || !tuner->pool.points[i].compiles)
            got += take(tuner, tuner->pool.points[i].point, &ret[got]);
    return got;
}

/* From the better half of the order, evenly. */
static int propose_spread(struct tuner *tuner, struct point *ret, int n) {
    int got = 0, half = (tuner->pool.n + 1) / 2;
    for (int tries = 0; half > 0 && tries < 8 * n && got < n; tries++) {
        const struct pool_point *at = &tuner->pool.points[rng_below(&tuner->rng, (uint64_t)half)];
        if (!at->compiles)
            got += take(tuner, at->point, &ret[got]);
    }
    return got;
}

static int propose_first(struct tuner *tuner, struct point *ret, int n) {
    int got = propose_past(tuner, ret, n < SEEDS ? n : SEEDS);
    got += propose_estimated(tuner, ret + got, (n - got + 1) / 2, true);
    got += propose_spread(tuner, ret + got, n - got);
    return got;
}

/* ---- 3. descent and model ---- */

struct judged {
    struct point point;
    float score;
};

static int higher_first(const void *a, const void *b) {
    const struct judged *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->point.domain != y->point.domain)
        return x->point.domain - y->point.domain;
    return (x->point.index > y->point.index) - (x->point.index < y->point.index);
}

/* Takes the n best of the points, as the model sees them, that are not taken yet. */
static int take_best(struct tuner *tuner, const struct point *points, int count, struct point *ret, int n) {
    float *scores = calloc((size_t)count + 1, sizeof *scores);
    struct judged *order = calloc((size_t)count + 1, sizeof *order);
    int got = 0;
    if (!scores || !order)
        abort();
    auto_model_score(tuner->model, points, count, scores);
    for (int i = 0; i < count; i++)
        order[i] = (struct judged){points[i], scores[i]};
    qsort(order, (size_t)count, sizeof *order, higher_first);
    for (int i = 0; i < count && got < n; i++)
        got += take(tuner, order[i].point, &ret[got]);
    free(scores);
    free(order);
    return got;
}

/* The numbers in `heard` of its fastest points, the fastest first. */
static int fastest(const struct heard *heard, int *ret, int most) {
    int n = 0;
    for (int i = 0; i < heard->n; i++) {
        if (!isfinite(heard->list[i].cost_s))
            continue;
        int at = n < most ? n++ : n;
        for (; at > 0 && heard->list[ret[at - 1]].cost_s > heard->list[i].cost_s; at--)
            if (at < most)
                ret[at] = ret[at - 1];
        if (at < most)
            ret[at] = i;
    }
    return n;
}

/* The untaken points one knob away from a measured one, without those that a hard limit rules out. */
static int neighbours_of(const struct tuner *tuner, struct point parent, bool bank_only, struct point *ret, int most) {
    const struct domain *domain = &tuner->options.domains[parent.domain];
    int64_t index[MOST_NEIGHBOURS];
    int n = neighbour_list(domain->space, parent.index, index, MOST_NEIGHBOURS), got = 0;
    for (int i = 0; i < n && got < most; i++) {
        struct point point = {parent.domain, index[i]};
        if (!point_set_has(&tuner->heard.taken, point) && isfinite(auto_estimate(domain, point.index)) &&
            !(bank_only && auto_compiles(domain, point.index)))
            ret[got++] = point;
    }
    return got;
}

static int propose_descent(struct tuner *tuner, struct point *ret, int n) {
    struct point points[PARENTS * MOST_NEIGHBOURS];
    int parents[PARENTS], count = 0, n_parents = fastest(&tuner->heard, parents, PARENTS);
    for (int p = 0; p < n_parents; p++)
        count += neighbours_of(tuner, tuner->heard.list[parents[p]].point, p > 0, points + count, MOST_NEIGHBOURS);
    return take_best(tuner, points, count, ret, n);
}

static bool is_open(const struct tuner *tuner, const struct pool_point *at) {
    return !at->compiles && !point_set_has(&tuner->heard.taken, at->point);
}

static int propose_modelled(struct tuner *tuner, struct point *ret, int n) {
    struct point points[MOST_JUDGED];
    int count = 0;
    for (int i = 0; i < tuner->pool.n && count < MOST_JUDGED / 2; i++)
        if (is_open(tuner, &tuner->pool.points[i]))
            points[count++] = tuner->pool.points[i].point;
    for (int i = 0; i < MOST_JUDGED / 2 && tuner->pool.n > 0; i++) {
        const struct pool_point *at = &tuner->pool.points[rng_below(&tuner->rng, (uint64_t)tuner->pool.n)];
        if (is_open(tuner, at))
            points[count++] = at->point;
    }
    return take_best(tuner, points, count, ret, n);
}

static int propose_learned(struct tuner *tuner, struct point *ret, int n) {
    if (tuner->learned != tuner->heard.n)
        auto_model_learn(tuner->model, &tuner->heard);
    tuner->learned = tuner->heard.n;
    int explored = (int)lround(n * EXPLORED);
    int got = propose_descent(tuner, ret, (n - explored + 1) / 2);
    got += propose_modelled(tuner, ret + got, n - explored - got);
    got += propose_estimated(tuner, ret + got, n - got, true);
    return got + propose_estimated(tuner, ret + got, n - got, false);
}

static int auto_propose(struct tuner *tuner, struct point *ret, int n) {
    int got = tuner->proposed < FIRST_ROUND
                  ? propose_first(tuner, ret, n < FIRST_ROUND - tuner->proposed ? n : FIRST_ROUND - tuner->proposed)
                  : 0;
    if (got == 0)
        got = propose_learned(tuner, ret, n);
    /* What the pool leaves out: points of a large space, and those that the estimate rules out, at the very end. */
    for (int d = 0; d < tuner->options.n_domains; d++)
        while (got == 0 && heard_take_random(&tuner->heard, d, tuner->options.domains[d].space, &tuner->rng, ret))
            got++;
    tuner->proposed += got;
    return got;
}

static void auto_learn(struct tuner *tuner, const struct measured *measured) {
    heard_add(&tuner->heard, measured);
}

static struct json_object *auto_save(const struct tuner *tuner) {
    struct json_object *state = json_object_new_object();
    state_add_rng(state, &tuner->rng);
    json_add_int(state, "proposed", tuner->proposed);
    return state;
}

static int auto_restore(struct tuner *tuner, struct json_object *state, const struct measured *measured, int n,
                        struct error *error) {
    int64_t proposed = 0;
    if (state_read_rng(state, &tuner->rng, error) < 0 ||
        json_read_int(state, "proposed", JSON_REQUIRED, 0, INT32_MAX, &proposed, error) < 0)
        return -1;
    tuner->proposed = (int)proposed;
    for (int i = 0; i < n; i++)
        heard_add(&tuner->heard, &measured[i]);
    return 0;
}

const struct tuner_class tuner_auto = {
    .name = "auto",
    .all_domains = true,
    .create = auto_create,
    .propose = auto_propose,
    .learn = auto_learn,
    .save = auto_save,
    .restore = auto_restore,
    .destroy = auto_destroy,
};
