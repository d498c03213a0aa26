/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_model.h: how good points promise to be, judged by trees fitted to what was measured of this task and of past
 * tasks of the same templates: one model a domain, over its knobs, its loop nest and its estimate.
 */
#ifndef WARPTUNE_SEARCH_AUTO_MODEL_H
#define WARPTUNE_SEARCH_AUTO_MODEL_H

#include "scheduler/search/cost_model.h"
#include "scheduler/search/heard.h"

struct auto_model;

struct auto_model *auto_model_new(const struct tuner_options *options);
void auto_model_free(struct auto_model *model); /* NULL-safe */
/* Learns anew. A domain with too few samples, or whose fit fails, is judged by its estimate alone. */
void auto_model_learn(struct auto_model *model, const struct heard *heard);
/* Scores of n points: throughput relative to the best known, 1 as good as it. */
void auto_model_score(struct auto_model *model, const struct point *points, int n, float *ret);

#endif
