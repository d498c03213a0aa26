/* SPDX-License-Identifier: Apache-2.0 */
/* point_set.h: a set of points: what was proposed already, what was seen already. */
#ifndef WARPTUNE_SEARCH_POINT_SET_H
#define WARPTUNE_SEARCH_POINT_SET_H

#include <stdbool.h>

#include "scheduler/search/tuner.h"

struct point_set {
    struct point *slots; /* a hash table; index -1: free */
    int64_t n, cap;      /* cap: a power of two, or 0 */
};

/* A set all zero is empty. */
void point_set_free(struct point_set *set);
bool point_set_has(const struct point_set *set, struct point point);
/* False when it was there already. */
bool point_set_add(struct point_set *set, struct point point);

#endif
