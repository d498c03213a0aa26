/* SPDX-License-Identifier: Apache-2.0 */
/*
 * annealing.h: simulated annealing over a space by a scorer: many chains, each stepping to a neighbour in one knob. The
 * chains persist from plan to plan. AutoTVM's numbers: 128 chains, 500 iterations, temperature 1 to 0, an end after 50
 * iterations that changed nothing in what is kept.
 */
#ifndef WARPTUNE_SEARCH_ANNEALING_H
#define WARPTUNE_SEARCH_ANNEALING_H

#include "scheduler/search/scorer.h"

enum { ANNEALING_CHAINS = 128 };

struct annealing {
    int64_t chains[ANNEALING_CHAINS];
    bool begun; /* the chains stand somewhere */
};

/*
 * The best-scored points that are not taken, at most n, the best first; *ret_n says how many. diversity > 1: of the n ×
 * diversity best, those that together show the most values of each knob (AutoTVM's diversity filter); 0: off.
 */
int annealing_plan(struct annealing *annealing, struct scorer *scorer, const struct space *space,
                   const struct point_set *taken, double diversity, struct rng *rng, int64_t *ret, int n, int *ret_n,
                   struct error *error) MUST_CHECK;

#endif
