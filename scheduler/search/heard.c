/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/heard.h"

#include <math.h>
#include <stdlib.h>

enum { TRIES = 64 };

void heard_init(struct heard *heard) {
    *heard = (struct heard){.best_s = INFINITY};
}

void heard_free(struct heard *heard) {
    point_set_free(&heard->taken);
    free(heard->list);
}

void heard_add(struct heard *heard, const struct measured *measured) {
    if (heard->n == heard->cap) {
        heard->cap = heard->cap ? 2 * heard->cap : 64;
        heard->list = realloc(heard->list, (size_t)heard->cap * sizeof *heard->list);
        if (!heard->list)
            abort();
    }
    point_set_add(&heard->taken, measured->point);
    heard->list[heard->n++] = *measured;
    heard->best_s = fmin(heard->best_s, measured->cost_s);
}

float heard_score(const struct heard *heard, int i) {
    double cost_s = heard->list[i].cost_s;
    return isfinite(cost_s) && cost_s > 0 ? (float)(heard->best_s / cost_s) : 0;
}

bool heard_take_random(struct heard *heard, int domain, const struct space *space, struct rng *rng, struct point *ret) {
    *ret = (struct point){domain, 0};
    for (int i = 0; i < TRIES; i++) {
        ret->index = (int64_t)rng_below(rng, (uint64_t)space->size);
        if (point_set_add(&heard->taken, *ret))
            return true;
    }
    int64_t start = (int64_t)rng_below(rng, (uint64_t)space->size);
    for (int64_t i = 0; i < space->size; i++) {
        ret->index = (start + i) % space->size;
        if (point_set_add(&heard->taken, *ret))
            return true;
    }
    return false;
}
