/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/auto_model.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/search/auto_pool.h"
#include "scheduler/search/features.h"
#include "service/base/log.h"

enum { LEAST_SAMPLES = 12, MOST_PAST = 2000, ROUNDS = 80, PATIENCE = 20, PLAN = 16 };

struct auto_model {
    const struct tuner_options *options;
    struct cost_model **models; /* of each domain; NULL: none yet */
    double *best_estimate_s;    /* of each domain, among what was measured */
};

static void *array(size_t n, size_t size) {
    void *memory = calloc(n ? n : 1, size);
    if (!memory)
        abort();
    return memory;
}

static int width_of(const struct domain *domain) {
    int knobs = features_count(domain, FEATURE_KNOB);
    return knobs + (domain->template->nest ? features_count(domain, FEATURE_ITERVAR) : 0) + 1;
}

static void write_row(const struct domain *domain, int64_t index, float *ret) {
    int knobs = features_count(domain, FEATURE_KNOB), at = knobs;
    double estimate_s = auto_estimate(domain, index);
    features_write(domain, index, FEATURE_KNOB, ret);
    if (domain->template->nest) {
        features_write(domain, index, FEATURE_ITERVAR, ret + at);
        at += features_count(domain, FEATURE_ITERVAR);
    }
    ret[at] = isfinite(estimate_s) && estimate_s > 0 ? (float)log2(estimate_s) : 0;
}

struct auto_model *auto_model_new(const struct tuner_options *options) {
    struct auto_model *model = array(1, sizeof *model);
    model->options = options;
    model->models = array((size_t)options->n_domains, sizeof(struct cost_model *));
    model->best_estimate_s = array((size_t)options->n_domains, sizeof *model->best_estimate_s);
    return model;
}

void auto_model_free(struct auto_model *model) {
    if (!model)
        return;
    for (int d = 0; d < model->options->n_domains; d++)
        cost_model_free(model->models[d]);
    free(model->models);
    free(model->best_estimate_s);
    free(model);
}

struct samples {
    float *rows, *labels;
    int n, most, width;
};

static void add(struct samples *samples, const struct domain *domain, int64_t index, double label) {
    if (samples->n == samples->most)
        return;
    write_row(domain, index, samples->rows + (size_t)samples->n * (size_t)samples->width);
    samples->labels[samples->n++] = (float)label;
}

/* Estimates of other tasks say nothing of this one's speed, their order of configurations does. */
static void add_past(struct samples *samples, const struct tuner_options *options, const struct domain *domain) {
    for (int p = 0; p < options->n_past; p++) {
        const struct past_task *past = &options->past[p];
        double best_s = INFINITY;
        if (past->domain.template != domain->template || width_of(&past->domain) != samples->width)
            continue;
        for (int i = 0; i < past->n; i++)
            best_s = fmin(best_s, past->cost_s[i]);
        for (int i = 0; i < past->n; i++)
            add(samples, &past->domain, past->index[i], isfinite(past->cost_s[i]) ? best_s / past->cost_s[i] : 0);
    }
}

static void learn_domain(struct auto_model *model, int d, const struct heard *heard) {
    const struct domain *domain = &model->options->domains[d];
    struct samples samples = {.most = heard->n + MOST_PAST, .width = width_of(domain)};
    struct error error;
    samples.rows = array((size_t)samples.most * (size_t)samples.width, sizeof *samples.rows);
    samples.labels = array((size_t)samples.most, sizeof *samples.labels);
    for (int i = 0; i < heard->n; i++)
        if (heard->list[i].point.domain == d)
            add(&samples, domain, heard->list[i].point.index, heard_score(heard, i));
    bool enough = samples.n >= LEAST_SAMPLES;
    add_past(&samples, model->options, domain);
    cost_model_free(model->models[d]);
    model->models[d] = NULL;
    struct cost_model_options options = {
        .loss = LOSS_REG, .rounds = ROUNDS, .patience = PATIENCE, .plan = PLAN, .n_threads = 1, .seed = 1};
    struct sample_rows rows = {samples.rows, samples.labels, NULL, samples.n, samples.width};
    if (enough && cost_model_fit(&options, &rows, &model->models[d], &error) < 0) {
        log_error(LOG_WARN, "the cost model failed; the search goes by its estimates", &error);
        model->models[d] = NULL;
    }
    free(samples.rows);
    free(samples.labels);
}

void auto_model_learn(struct auto_model *model, const struct heard *heard) {
    for (int d = 0; d < model->options->n_domains; d++) {
        learn_domain(model, d, heard);
        model->best_estimate_s[d] = INFINITY;
    }
    for (int i = 0; i < heard->n; i++) {
        const struct point *point = &heard->list[i].point;
        double estimate_s = auto_estimate(&model->options->domains[point->domain], point->index);
        if (estimate_s > 0)
            model->best_estimate_s[point->domain] = fmin(model->best_estimate_s[point->domain], estimate_s);
    }
}

static float judge(const struct auto_model *model, const struct point *point) {
    double estimate_s = auto_estimate(&model->options->domains[point->domain], point->index);
    double best_s = model->best_estimate_s[point->domain];
    return isfinite(estimate_s) && estimate_s > 0 && isfinite(best_s) ? (float)(best_s / estimate_s) : 0;
}

void auto_model_score(struct auto_model *model, const struct point *points, int n, float *ret) {
    for (int d = 0; d < model->options->n_domains; d++) {
        const struct domain *domain = &model->options->domains[d];
        int width = width_of(domain), count = 0;
        float *rows = array((size_t)n * (size_t)width, sizeof *rows), *scores = array((size_t)n, sizeof *scores);
        struct error error;
        for (int i = 0; i < n; i++)
            if (points[i].domain == d)
                write_row(domain, points[i].index, rows + (size_t)count++ * (size_t)width);
        bool judged = model->models[d] && cost_model_predict(model->models[d], rows, NULL, count, scores, &error) == 0;
        count = 0;
        for (int i = 0; i < n; i++)
            if (points[i].domain == d)
                ret[i] = judged ? scores[count++] : judge(model, &points[i]);
        free(rows);
        free(scores);
    }
}
