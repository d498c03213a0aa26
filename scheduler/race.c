/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/race.h"

#include <math.h>

/* Closer than this share of the cost, it does not matter which of two is taken. */
#define INDIFFERENT 0.003
/*
 * Rounds of one race lie closer together than the same race on another day, with other addresses and clocks: on an H200
 * the same 19 winners differed by up to 1.5 % between two jobs, where the races' own spreads were 0.04 to 0.8 %.
 */
#define BETWEEN_RUNS 0.01
/* The third and later enter when the search saw them within this factor of the best, or as far as figures moved since.
 */
#define LUCK 1.05

void fastest_add(struct fastest *fastest, const struct measured *measured) {
    if (!isfinite(measured->cost_s))
        return;
    int at = fastest->n < RACE_FASTEST ? fastest->n++ : RACE_FASTEST;
    for (; at > 0 && fastest->list[at - 1].cost_s > measured->cost_s; at--)
        if (at < RACE_FASTEST)
            fastest->list[at] = fastest->list[at - 1];
    if (at < RACE_FASTEST)
        fastest->list[at] = *measured;
}

/* The largest factor between a contestant's figure in the search and its first one here. */
static double luck_of(const struct race *race) {
    double luck = LUCK;
    for (int i = 0; i < race->n; i++) {
        const struct contestant *it = &race->contestants[i];
        if (it->rounds > 0 && it->searched_s > 0 && isfinite(it->cost_s[0]))
            luck = fmax(luck, fmax(it->cost_s[0] / it->searched_s, it->searched_s / it->cost_s[0]));
    }
    return luck;
}

static bool same(struct point a, struct point b) {
    return a.domain == b.domain && a.index == b.index;
}

static struct contestant *enter(struct race *race, struct point point) {
    for (int i = 0; i < race->n; i++)
        if (same(race->contestants[i].point, point))
            return &race->contestants[i];
    race->contestants[race->n] = (struct contestant){.point = point};
    return &race->contestants[race->n++];
}

void race_add_fastest(struct race *race, const struct fastest *fastest) {
    double luck = luck_of(race);
    for (int i = 0; i < fastest->n; i++)
        if (i < 2 || fastest->list[i].cost_s <= luck * fastest->list[0].cost_s)
            enter(race, fastest->list[i].point)->searched_s = fastest->list[i].cost_s;
}

void race_add(struct race *race, struct point point, bool baseline) {
    enter(race, point)->baseline |= baseline;
}

void race_record(struct race *race, int contestant, double cost_s) {
    struct contestant *runner = &race->contestants[contestant];
    runner->cost_s[runner->rounds++] = cost_s;
}

double contestant_median(const struct contestant *contestant) {
    double sorted[RACE_MOST_ROUNDS];
    int n = contestant->rounds;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > contestant->cost_s[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = contestant->cost_s[i];
    }
    return n == 0 ? INFINITY : n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double contestant_spread(const struct contestant *contestant) {
    double low = INFINITY, high = 0;
    for (int i = 0; i < contestant->rounds; i++) {
        if (!isfinite(contestant->cost_s[i]))
            continue;
        low = fmin(low, contestant->cost_s[i]);
        high = fmax(high, contestant->cost_s[i]);
    }
    return high > low ? (high - low) / 2 : 0;
}

double contestant_stated_spread(const struct contestant *contestant) {
    return fmax(contestant_spread(contestant), BETWEEN_RUNS * contestant_median(contestant));
}

static int leader_of(const struct race *race) {
    int leader = -1;
    double best_s = INFINITY;
    for (int i = 0; i < race->n; i++) {
        double median_s = contestant_median(&race->contestants[i]);
        if (median_s < best_s) {
            best_s = median_s;
            leader = i;
        }
    }
    return leader;
}

/* Whether more rounds may turn the two around, and it would matter. */
static bool within_reach(const struct contestant *leader, const struct contestant *other) {
    double lead_s = contestant_median(other) - contestant_median(leader);
    return lead_s >= INDIFFERENT * contestant_median(leader) &&
           lead_s <= contestant_spread(leader) + contestant_spread(other);
}

int race_next(const struct race *race, int ret[RACE_CONTESTANTS]) {
    int rounds = 0, n = 0, leader = leader_of(race);
    bool all = false; /* run: somebody, perhaps one who entered after the first round, has not run the least */
    for (int i = 0; i < race->n; i++) {
        rounds = race->contestants[i].rounds > rounds ? race->contestants[i].rounds : rounds;
        all |= race->contestants[i].rounds < RACE_LEAST_ROUNDS;
    }
    if (rounds >= race->most_rounds && !all)
        return 0;
    for (int i = 0; i < race->n; i++) {
        int number = (i + rounds) % race->n;
        if (all || number == leader ||
            (leader >= 0 && within_reach(&race->contestants[leader], &race->contestants[number])))
            ret[n++] = number;
    }
    return all || n > 1 ? n : 0;
}

int race_baseline(const struct race *race) {
    for (int i = 0; i < race->n; i++)
        if (race->contestants[i].baseline)
            return i;
    return -1;
}

int race_winner(const struct race *race) {
    int leader = leader_of(race), baseline = race_baseline(race);
    if (leader < 0 || baseline < 0)
        return leader;
    const struct contestant *fastest = &race->contestants[leader], *untuned = &race->contestants[baseline];
    double spread_s = fmax(contestant_spread(fastest), contestant_spread(untuned));
    return contestant_median(untuned) - contestant_median(fastest) <= spread_s ? baseline : leader;
}
