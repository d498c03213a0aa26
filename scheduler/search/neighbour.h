/* SPDX-License-Identifier: Apache-2.0 */
/* neighbour.h: points near others: those that differ in one knob, and the nearest to a point of another space. */
#ifndef WARPTUNE_SEARCH_NEIGHBOUR_H
#define WARPTUNE_SEARCH_NEIGHBOUR_H

#include "gpu/template/space.h"

/* Every point that differs from `index` in one knob, at most `most` of them (of a knob with very many candidates those
 * nearest in the list). Returns how many. */
int neighbour_list(const struct space *space, int64_t index, int64_t *ret, int most);
/* The point of `space` whose knobs are nearest, in log2 of their values, to those of a point of `other`, a space of the
 * same template for another workload. */
int64_t neighbour_map(const struct space *space, const struct space *other, int64_t other_index);

#endif
