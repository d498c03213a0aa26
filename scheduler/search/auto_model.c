/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/auto_model.h"

#include <math.h>
#include <string.h>

#include "scheduler/search/auto_pool.h"
#include "scheduler/search/features.h"
#include "service/base/arena.h"
#include "service/base/log.h"

enum { LEAST_SAMPLES = 12, MOST_PAST = 2000, ROUNDS = 80, PATIENCE = 20, PLAN = 16 };

/* Rows to learn from. */
struct samples {
    float *rows, *labels;
    int n, most, width;
};

/* What is known of one domain. */
struct judge {
    const struct domain *domain;
    struct samples past;      /* of other tasks: written once, for they do not change */
    struct cost_model *model; /* NULL: none yet */
    double best_estimate_s;   /* among what was measured */
};

struct auto_model {
    struct arena *arena;
    struct judge *judges; /* one a domain */
    int n_judges;
};

static int width_of(const struct domain *domain) {
    int knobs = features_count(domain, FEATURE_KNOB);
    return knobs + (domain->template->nest ? features_count(domain, FEATURE_ITERVAR) : 0) + 1;
}

static void write_row(const struct domain *domain, int64_t index, float *ret) {
    int at = features_count(domain, FEATURE_KNOB);
    double estimate_s = auto_estimate(domain, index);
    features_write(domain, index, FEATURE_KNOB, ret);
    if (domain->template->nest) {
        features_write(domain, index, FEATURE_ITERVAR, ret + at);
        at += features_count(domain, FEATURE_ITERVAR);
    }
    ret[at] = isfinite(estimate_s) && estimate_s > 0 ? (float)log2(estimate_s) : 0;
}

static struct samples samples_new(struct arena *arena, int most, int width) {
    return (struct samples){.rows = arena_array(arena, (size_t)most * (size_t)width, sizeof(float)),
                            .labels = arena_array(arena, (size_t)most, sizeof(float)),
                            .most = most,
                            .width = width};
}

static void add(struct samples *samples, const struct domain *domain, int64_t index, float label) {
    if (samples->n == samples->most)
        return;
    write_row(domain, index, samples->rows + (size_t)samples->n * (size_t)samples->width);
    samples->labels[samples->n++] = label;
}

static void add_past(struct samples *samples, const struct tuner_options *options, const struct domain *domain) {
    for (int p = 0; p < options->n_past; p++) {
        const struct past_task *past = &options->past[p];
        if (past->domain.template != domain->template || width_of(&past->domain) != samples->width)
            continue;
        int best = past_task_best(past);
        for (int i = 0; i < past->n; i++)
            add(samples, &past->domain, past->index[i], past_task_score(past, best, i));
    }
}

struct auto_model *auto_model_new(const struct tuner_options *options) {
    struct arena *arena = arena_new(0);
    struct auto_model *model = arena_alloc(arena, sizeof *model);
    *model = (struct auto_model){arena, arena_array(arena, (size_t)options->n_domains, sizeof *model->judges),
                                 options->n_domains};
    for (int d = 0; d < model->n_judges; d++) {
        struct judge *judge = &model->judges[d];
        judge->domain = &options->domains[d];
        judge->past = samples_new(arena, options->n_past > 0 ? MOST_PAST : 1, width_of(judge->domain));
        add_past(&judge->past, options, judge->domain);
    }
    return model;
}

void auto_model_free(struct auto_model *model) {
    if (!model)
        return;
    for (int d = 0; d < model->n_judges; d++)
        cost_model_free(model->judges[d].model);
    arena_free(model->arena);
}

/* The domain's own samples, and behind them those of the past. */
static struct samples collect(const struct judge *judge, int number, const struct heard *heard, struct arena *arena,
                              int *ret_own) {
    const struct samples *past = &judge->past;
    struct samples all = samples_new(arena, heard->n + past->n + 1, past->width);
    for (int i = 0; i < heard->n; i++)
        if (heard->list[i].point.domain == number)
            add(&all, judge->domain, heard->list[i].point.index, heard_score(heard, i));
    *ret_own = all.n;
    memcpy(all.rows + (size_t)all.n * (size_t)all.width, past->rows,
           (size_t)past->n * (size_t)past->width * sizeof *past->rows);
    memcpy(all.labels + all.n, past->labels, (size_t)past->n * sizeof *past->labels);
    all.n += past->n;
    return all;
}

static void learn_domain(struct judge *judge, int number, const struct heard *heard) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct error error;
    int own;
    struct samples all = collect(judge, number, heard, arena, &own);
    cost_model_free(judge->model);
    judge->model = NULL;
    struct cost_model_options options = {
        .loss = LOSS_REG, .rounds = ROUNDS, .patience = PATIENCE, .plan = PLAN, .n_threads = 1, .seed = 1};
    struct sample_rows rows = {all.rows, all.labels, NULL, all.n, all.width};
    if (own >= LEAST_SAMPLES && cost_model_fit(&options, &rows, &judge->model, &error) < 0) {
        log_error(LOG_WARN, "the cost model failed; the search goes by its estimates", &error);
        judge->model = NULL;
    }
}

void auto_model_learn(struct auto_model *model, const struct heard *heard) {
    for (int d = 0; d < model->n_judges; d++) {
        learn_domain(&model->judges[d], d, heard);
        model->judges[d].best_estimate_s = INFINITY;
    }
    for (int i = 0; i < heard->n; i++) {
        struct judge *judge = &model->judges[heard->list[i].point.domain];
        double estimate_s = auto_estimate(judge->domain, heard->list[i].point.index);
        if (estimate_s > 0)
            judge->best_estimate_s = fmin(judge->best_estimate_s, estimate_s);
    }
}

static float by_estimate(const struct judge *judge, int64_t index) {
    double estimate_s = auto_estimate(judge->domain, index), best_s = judge->best_estimate_s;
    return isfinite(estimate_s) && estimate_s > 0 && isfinite(best_s) ? (float)(best_s / estimate_s) : 0;
}

/* Scores of the points of one domain, put where they stand among all. */
static void score_domain(struct judge *judge, int number, const struct point *points, int n, float *ret) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    int width = judge->past.width, count = 0;
    float *rows = arena_array(arena, (size_t)n * (size_t)width + 1, sizeof *rows);
    float *scores = arena_array(arena, (size_t)n + 1, sizeof *scores);
    struct error error;
    for (int i = 0; i < n && judge->model; i++)
        if (points[i].domain == number)
            write_row(judge->domain, points[i].index, rows + (size_t)count++ * (size_t)width);
    bool judged = judge->model && cost_model_predict(judge->model, rows, NULL, count, scores, &error) == 0;
    count = 0;
    for (int i = 0; i < n; i++)
        if (points[i].domain == number)
            ret[i] = judged ? scores[count++] : by_estimate(judge, points[i].index);
}

void auto_model_score(struct auto_model *model, const struct point *points, int n, float *ret) {
    for (int d = 0; d < model->n_judges; d++)
        score_domain(&model->judges[d], d, points, n, ret);
}
