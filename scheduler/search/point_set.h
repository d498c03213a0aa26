/* SPDX-License-Identifier: Apache-2.0 */
/* point_set.h: a set of points, each with a number: what was proposed already, what was computed already. */
#ifndef WARPTUNE_SEARCH_POINT_SET_H
#define WARPTUNE_SEARCH_POINT_SET_H

#include <stdbool.h>

#include "scheduler/search/tuner.h"

struct point_set {
    struct point_entry {
        struct point point; /* index -1: free */
        int64_t value;
    } * entries;
    int64_t n, cap; /* cap: a power of two, or 0 */
};

/* A set all zero is empty. */
void point_set_free(struct point_set *set);
bool point_set_has(const struct point_set *set, struct point point);
/* False when it was there already; its value stays. */
bool point_set_add(struct point_set *set, struct point point, int64_t value);
/* The value of a point, or -1. */
int64_t point_set_get(const struct point_set *set, struct point point);

#endif
