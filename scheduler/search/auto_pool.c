/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/auto_pool.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/search/permutation.h"

enum { MOST_POINTS = 20000 };

double auto_estimate(const struct domain *domain, int64_t index) {
    const struct template *template = domain->template;
    return template->estimate ? template->estimate(domain->workload, domain->target, domain->space, index) : 0;
}

bool auto_compiles(const struct domain *domain, int64_t index) {
    return domain->template->banked && !domain->template->banked(domain->space, index);
}

static void add_domain(struct auto_pool *pool, const struct tuner_options *options, int number, int most) {
    const struct domain *domain = &options->domains[number];
    struct permutation order;
    permutation_init(&order, (uint64_t)domain->space->size, options->seed + (uint64_t)number);
    int64_t n = domain->space->size < most ? domain->space->size : most;
    for (int64_t i = 0; i < n; i++) {
        struct point point = {number, (int64_t)permutation_at(&order, (uint64_t)i)};
        double estimate_s = auto_estimate(domain, point.index);
        if (!isfinite(estimate_s))
            continue;
        pool->points[pool->n] = (struct pool_point){point, estimate_s, pool->n, auto_compiles(domain, point.index)};
        pool->n++;
    }
}

/* Equals, and all that have no estimate, stay in their random order. */
static int by_estimate(const void *a, const void *b) {
    const struct pool_point *x = a, *y = b;
    if (x->estimate_s != y->estimate_s)
        return x->estimate_s < y->estimate_s ? -1 : 1;
    return x->drawn - y->drawn;
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
