/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heard.h: what a learning tuner knows of its task: the points it must not propose again, and the costs it was told.
 */
#ifndef WARPTUNE_SEARCH_HEARD_H
#define WARPTUNE_SEARCH_HEARD_H

#include "scheduler/search/point_set.h"
#include "service/base/rng.h"

struct heard {
    struct point_set taken; /* proposed, or measured without having been */
    struct measured *list;  /* in the order of hearing */
    int n, cap;
    double best_s; /* INFINITY: nothing succeeded */
};

void heard_init(struct heard *heard);
void heard_free(struct heard *heard);
void heard_add(struct heard *heard, const struct measured *measured);
/* The cost relative to the best, as throughput: 1 for the best, 0 for a failure. */
float heard_score(const struct heard *heard, int i);
/* Takes a point of the domain that is not taken yet, at random; false when there is none. */
bool heard_take_random(struct heard *heard, int domain, const struct space *space, struct rng *rng, struct point *ret);

#endif
