/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.h: who is published. Over a whole search a machine's speed drifts and the luckiest figure wins; so the fastest
 * few and the baseline are measured once more, in turn, round after round, and compared by their medians.
 *
 * Every contestant runs three rounds; those within reach of the leader (the distance is no larger than what their
 * figures scatter) run on, up to the most rounds allowed. How far a figure of the search may be off, the first round
 * shows: more enter then where the first contestants are not what they were. Pure arithmetic: who measures records
 * here.
 */
#ifndef WARPTUNE_SCHEDULER_RACE_H
#define WARPTUNE_SCHEDULER_RACE_H

#include <stdbool.h>

#include "scheduler/search/tuner.h"

enum { RACE_FASTEST = 8, RACE_CONTESTANTS = RACE_FASTEST + 1, RACE_LEAST_ROUNDS = 3, RACE_MOST_ROUNDS = 9 };

/* The fastest points of a search, the fastest first; of equals the first measured. */
struct fastest {
    struct measured list[RACE_FASTEST];
    int n;
};
void fastest_add(struct fastest *fastest, const struct measured *measured); /* ignores failures */

struct contestant {
    struct point point;
    bool baseline;
    double searched_s;               /* the search's figure; 0: not known */
    double cost_s[RACE_MOST_ROUNDS]; /* a figure each round; INFINITY for a failure */
    int rounds;
};

struct race {
    struct contestant contestants[RACE_CONTESTANTS];
    int n;
    int most_rounds; /* RACE_LEAST_ROUNDS to RACE_MOST_ROUNDS */
};

/*
 * The fastest and its runner-up, and those of the others whose figures may be mere luck. To be called before the first
 * round, and again after it: by then it is known how far luck goes.
 */
void race_add_fastest(struct race *race, const struct fastest *fastest);
/* Adds it unless it is in the race already; then a `baseline` only marks it as such. */
void race_add(struct race *race, struct point point, bool baseline);
/* Who runs in the next round, by number; 0 when it is decided. Each round begins with another one. Who entered after
 * the first round makes the race a round longer where no more than the least are allowed. */
int race_next(const struct race *race, int ret[RACE_CONTESTANTS]);
void race_record(struct race *race, int contestant, double cost_s);
double contestant_median(const struct contestant *contestant); /* INFINITY before the first round */
double contestant_spread(const struct contestant *contestant); /* half the range of its figures */
/* The spread that is published: also of what differs between one run of a job and the next. */
double contestant_stated_spread(const struct contestant *contestant);
/* The fastest; the baseline unless that is slower by more than the spread. -1 when all failed. */
int race_winner(const struct race *race);
/* Number of the baseline, or -1. */
int race_baseline(const struct race *race);

#endif
