/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_model.h: gradient-boosted trees (libxgboost) that learn how good a row of features is. Higher is better.
 * One thread uses a model at a time; different models are independent.
 */
#ifndef WARPTUNE_SEARCH_COST_MODEL_H
#define WARPTUNE_SEARCH_COST_MODEL_H

#include "scheduler/search/tuner.h"

struct cost_model; /* fitted */

struct cost_model_options {
    enum loss_kind loss;
    int rounds;    /* at most; AutoTVM: 8000, and 400 for transfer */
    int patience;  /* rounds without better recall of the top `plan` after which it stops; AutoTVM: 20, and 100 */
    int plan;      /* AutoTVM: 64 */
    int n_threads; /* of the fit; 0: as many as the rows are worth, at most 8 */
    uint64_t seed;
};

struct sample_rows {
    const float *rows;   /* n × width, row-major, finite */
    const float *labels; /* n; throughput relative to the best, in [0, 1]; 0: it failed */
    const float *margin; /* n predictions of an earlier model to start from, or NULL */
    int n, width;
};

/* AutoTVM's parameters: depth 3, eta 0.3, gamma 1e-4, min_child_weight 1, lambda 1. */
int cost_model_fit(const struct cost_model_options *options, const struct sample_rows *samples, struct cost_model **ret,
                   struct error *error) MUST_CHECK;
/* A score for each of n rows of the width it was fitted with. margin: as in sample_rows, or NULL. */
int cost_model_predict(struct cost_model *model, const float *rows, const float *margin, int n, float *ret,
                       struct error *error) MUST_CHECK;
void cost_model_free(struct cost_model *model); /* NULL-safe */

#endif
