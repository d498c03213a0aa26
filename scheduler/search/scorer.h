/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scorer.h: a cost model applied to the points of one domain: features in, scores out. Learns from what was heard of
 * the task and, when there is enough of it, from past tasks of the same template (transfer): a first model of those
 * gives a margin that the task's own model starts from and that fades as the task's own samples grow.
 */
#ifndef WARPTUNE_SEARCH_SCORER_H
#define WARPTUNE_SEARCH_SCORER_H

#include "scheduler/search/cost_model.h"
#include "scheduler/search/features.h"
#include "scheduler/search/heard.h"

struct scorer; /* one thread at a time */

/* The options' first domain; learns of past tasks at once. */
struct scorer *scorer_new(const struct tuner_options *options, enum loss_kind loss, int plan);
void scorer_free(struct scorer *scorer); /* NULL-safe */
/* Learns anew from all that was heard of the domain. */
int scorer_learn(struct scorer *scorer, const struct heard *heard, struct error *error) MUST_CHECK;
/* Scores of n points; higher is better. Only after a scorer_learn that succeeded. */
int scorer_score(struct scorer *scorer, const int64_t *index, int n, float *ret, struct error *error) MUST_CHECK;

#endif
