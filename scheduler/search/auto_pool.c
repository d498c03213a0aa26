/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/auto_pool.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/search/neighbour.h"
#include "scheduler/search/permutation.h"

enum { MOST_POINTS = 20000, DESCENTS = 24, MOST_STEPS = 12, MOST_NEIGHBOURS = 256 };

double auto_estimate(const struct domain *domain, int64_t index) {
    const struct template *template = domain->template;
    return template->estimate ? template->estimate(domain->workload, domain->target, domain->space, index) : 0;
}

bool auto_compiles(const struct domain *domain, int64_t index) {
    return domain->template->banked && !domain->template->banked(domain->space, index);
}

static void add_point(struct auto_pool *pool, const struct domain *domain, struct point point, double estimate_s) {
    pool->points[pool->n] = (struct pool_point){point, estimate_s, pool->n, auto_compiles(domain, point.index)};
    pool->n++;
}

/* Equals, and all that have no estimate, stay in their random order. */
static int by_estimate(const void *a, const void *b) {
    const struct pool_point *x = a, *y = b;
    if (x->estimate_s != y->estimate_s)
        return x->estimate_s < y->estimate_s ? -1 : 1;
    return x->drawn - y->drawn;
}

/* From a point to the best that differs in one knob, as long as that is better; the points on the way are added. */
static void descend(struct auto_pool *pool, const struct domain *domain, struct pool_point at) {
    int64_t near[MOST_NEIGHBOURS];
    for (int step = 0; step < MOST_STEPS; step++) {
        struct pool_point best = at;
        int n = neighbour_list(domain->space, at.point.index, near, MOST_NEIGHBOURS);
        for (int i = 0; i < n; i++) {
            double estimate_s = auto_estimate(domain, near[i]);
            if (estimate_s < best.estimate_s)
                best = (struct pool_point){.point = {at.point.domain, near[i]}, .estimate_s = estimate_s};
        }
        if (best.estimate_s >= at.estimate_s)
            return;
        add_point(pool, domain, best.point, best.estimate_s);
        at = best;
    }
}

static void add_domain(struct auto_pool *pool, const struct tuner_options *options, int number, int most) {
    const struct domain *domain = &options->domains[number];
    struct permutation order;
    bool all = domain->space->size <= most;
    int64_t n = all ? domain->space->size : most - DESCENTS * MOST_STEPS;
    int first = pool->n;
    permutation_init(&order, (uint64_t)domain->space->size, options->seed + (uint64_t)number);
    for (int64_t i = 0; i < n; i++) {
        struct point point = {number, (int64_t)permutation_at(&order, (uint64_t)i)};
        double estimate_s = auto_estimate(domain, point.index);
        if (isfinite(estimate_s))
            add_point(pool, domain, point, estimate_s);
    }
    if (all || !domain->template->estimate)
        return;
    qsort(pool->points + first, (size_t)(pool->n - first), sizeof pool->points[0], by_estimate);
    for (int last = pool->n, i = first; i < last && i < first + DESCENTS; i++)
        descend(pool, domain, pool->points[i]);
}

void auto_pool_init(struct auto_pool *pool, const struct tuner_options *options) {
    int most = MOST_POINTS / options->n_domains;
    *pool = (struct auto_pool){.points = calloc((size_t)MOST_POINTS, sizeof *pool->points)};
    if (!pool->points)
        abort();
    for (int d = 0; d < options->n_domains; d++)
        add_domain(pool, options, d, most);
    qsort(pool->points, (size_t)pool->n, sizeof pool->points[0], by_estimate);
}

void auto_pool_free(struct auto_pool *pool) {
    free(pool->points);
}
