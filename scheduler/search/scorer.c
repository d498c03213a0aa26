/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/scorer.h"

#include <math.h>
#include <stdlib.h>

#include "service/base/arena.h"

/* AutoTVM's: how long each model is trained at most, and when past records are enough to learn from. */
enum { OWN_ROUNDS = 8000, OWN_PATIENCE = 20, PAST_ROUNDS = 400, PAST_PATIENCE = 100, LEAST_PAST = 500 };
#define LEAST_MARGIN 0.05

struct scorer {
    const struct tuner_options *options;
    struct cost_model_options model_options;
    struct cost_model *own, *past;
    int width;
    double margin_weight; /* of the past model's scores; 0: none */
};

static bool comparable(const struct scorer *scorer, const struct past_task *past) {
    return past->domain.template == scorer->options->domains[0].template &&
           features_count(&past->domain, scorer->options->feature) == scorer->width;
}

static void add_past(const struct scorer *scorer, const struct past_task *past, float *rows, float *labels) {
    int best = past_task_best(past);
    for (int i = 0; i < past->n; i++) {
        features_write(&past->domain, past->index[i], scorer->options->feature,
                       rows + (size_t)i * (size_t)scorer->width);
        labels[i] = past_task_score(past, best, i);
    }
}

/* Past records that teach nothing (too few, or a fit that fails) are done without. */
static void learn_past(struct scorer *scorer) {
    const struct tuner_options *options = scorer->options;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct error error;
    int n = 0, at = 0;
    for (int p = 0; p < options->n_past; p++)
        n += comparable(scorer, &options->past[p]) ? options->past[p].n : 0;
    if (n < LEAST_PAST)
        return;
    float *rows = arena_array(arena, (size_t)n * (size_t)scorer->width, sizeof *rows);
    float *labels = arena_array(arena, (size_t)n, sizeof *labels);
    for (int p = 0; p < options->n_past; p++)
        if (comparable(scorer, &options->past[p])) {
            add_past(scorer, &options->past[p], rows + (size_t)at * (size_t)scorer->width, labels + at);
            at += options->past[p].n;
        }
    struct cost_model_options model = scorer->model_options;
    model.rounds = PAST_ROUNDS;
    model.patience = PAST_PATIENCE;
    if (cost_model_fit(&model, &(struct sample_rows){rows, labels, NULL, n, scorer->width}, &scorer->past, &error) < 0)
        scorer->past = NULL;
}

struct scorer *scorer_new(const struct tuner_options *options, enum loss_kind loss, int plan) {
    struct scorer *scorer = calloc(1, sizeof *scorer);
    if (!scorer)
        abort();
    scorer->options = options;
    scorer->model_options = (struct cost_model_options){
        .loss = loss, .rounds = OWN_ROUNDS, .patience = OWN_PATIENCE, .plan = plan, .seed = options->seed};
    scorer->width = features_count(&options->domains[0], options->feature);
    learn_past(scorer);
    return scorer;
}

void scorer_free(struct scorer *scorer) {
    if (!scorer)
        return;
    cost_model_free(scorer->own);
    cost_model_free(scorer->past);
    free(scorer);
}

/* The past model's word on the rows, weighted, in the arena: NULL when it has none. */
static int margin_of(struct scorer *scorer, const float *rows, int n, struct arena *arena, float **ret,
                     struct error *error) {
    *ret = NULL;
    if (!scorer->past || scorer->margin_weight <= 0)
        return 0;
    float *margin = arena_array(arena, (size_t)n, sizeof *margin);
    if (cost_model_predict(scorer->past, rows, NULL, n, margin, error) < 0)
        return -1;
    for (int i = 0; i < n; i++)
        margin[i] *= (float)scorer->margin_weight;
    *ret = margin;
    return 0;
}

int scorer_learn(struct scorer *scorer, const struct heard *heard, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    float *rows = arena_array(arena, (size_t)heard->n * (size_t)scorer->width + 1, sizeof *rows), *margin;
    float *labels = arena_array(arena, (size_t)heard->n + 1, sizeof *labels);
    int n = 0;
    for (int i = 0; i < heard->n; i++) {
        if (heard->list[i].point.domain != 0)
            continue;
        features_write(&scorer->options->domains[0], heard->list[i].point.index, scorer->options->feature,
                       rows + (size_t)n * (size_t)scorer->width);
        labels[n++] = heard_score(heard, i);
    }
    scorer->margin_weight = exp2(-(double)n / scorer->model_options.plan);
    if (scorer->margin_weight < LEAST_MARGIN)
        scorer->margin_weight = 0;
    cost_model_free(scorer->own);
    scorer->own = NULL;
    if (margin_of(scorer, rows, n, arena, &margin, error) < 0)
        return -1;
    struct sample_rows samples = {rows, labels, margin, n, scorer->width};
    return cost_model_fit(&scorer->model_options, &samples, &scorer->own, error);
}

int scorer_score(struct scorer *scorer, const int64_t *index, int n, float *ret, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    float *rows = arena_array(arena, (size_t)n * (size_t)scorer->width, sizeof *rows), *margin;
    for (int i = 0; i < n; i++)
        features_write(&scorer->options->domains[0], index[i], scorer->options->feature,
                       rows + (size_t)i * (size_t)scorer->width);
    if (margin_of(scorer, rows, n, arena, &margin, error) < 0)
        return -1;
    return cost_model_predict(scorer->own, rows, margin, n, ret, error);
}
