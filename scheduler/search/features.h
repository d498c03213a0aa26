/* SPDX-License-Identifier: Apache-2.0 */
/*
 * features.h: a point as a row of numbers for the cost model, of AutoTVM's three kinds.
 *
 * itervar  for each loop of the nest: log2 of extent, nesting, products above and below, its kind (one-hot),
 * operations, and for each access the stride, the elements touched, the reuse, the same among threads knob     a
 * split's factors and a choice's value curve    for each access, touched elements against reuse, sampled at 20 places
 * A template without a loop nest has knob features whatever was asked for. Rows of one template have the same length
 * for every workload, so that what was learnt of one serves another.
 */
#ifndef WARPTUNE_SEARCH_FEATURES_H
#define WARPTUNE_SEARCH_FEATURES_H

#include "scheduler/search/tuner.h"

/* Numbers in a row. */
int features_count(const struct domain *domain, enum feature_kind kind);
/* Finite numbers only. Thread-safe. */
void features_write(const struct domain *domain, int64_t index, enum feature_kind kind, float *ret);

#endif
