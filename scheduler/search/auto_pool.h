/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_pool.h: the candidates of a search in the order of their estimates: what a hard limit rules out is left out; of
 * a space too large to list there is a sample, and what a descent by the estimate passes from the best of it. A
 * template without an estimate gives its points in a random order.
 */
#ifndef WARPTUNE_SEARCH_AUTO_POOL_H
#define WARPTUNE_SEARCH_AUTO_POOL_H

#include "scheduler/search/tuner.h"

struct auto_pool {
    struct pool_point {
        struct point point;
        double estimate_s; /* 0: its template makes none */
        int drawn;         /* its place in the random order */
        bool compiles;     /* as auto_compiles says */
    } * points;
    int n;
};

void auto_pool_init(struct auto_pool *pool, const struct tuner_options *options);
void auto_pool_free(struct auto_pool *pool);
/* The estimate of any point, in seconds; INFINITY where it cannot be; 0 when its template makes none. */
double auto_estimate(const struct domain *domain, int64_t index);
/* The point needs a compile of its own, though others of its template come from the bank. */
bool auto_compiles(const struct domain *domain, int64_t index);

#endif
