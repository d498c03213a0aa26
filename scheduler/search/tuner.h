/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.h: what proposes configurations: one interface, a row for each tuner.
 *
 * A tuner sees a search space as the numbers [0, size) and proposes indices in batches; it hears the cost of each. It
 * never proposes an index twice, so a finite space ends. Its state is a JSON object, small enough to be stored after
 * every batch, from which it continues exactly where it was. A tuner is used by one thread at a time.
 */
#ifndef WARPTUNE_SEARCH_TUNER_H
#define WARPTUNE_SEARCH_TUNER_H

#include <stdint.h>

#include "gpu/template/space.h"
#include "service/base/error.h"

struct json_object;
struct tuner; /* each class has its own */

struct tuner_class {
    const char *name;
    /* `space` is borrowed and outlives the tuner. */
    struct tuner *(*create)(const struct space *space, uint64_t seed);
    /* Up to n new indices; fewer only when the space is exhausted. Returns how many. */
    int (*propose)(struct tuner *tuner, int64_t *ret_index, int n);
    /* The cost of a proposed index in seconds, infinity for a failure. Optional. */
    void (*learn)(struct tuner *tuner, int64_t index, double cost_s);
    struct json_object *(*save)(const struct tuner *tuner); /* caller releases */
    int (*restore)(struct tuner *tuner, struct json_object *state, struct error *error);
    void (*destroy)(struct tuner *tuner);
};

/* The tuners by name; ERROR_INVALID lists the names. */
int tuner_find(const char *name, const struct tuner_class **ret, struct error *error) MUST_CHECK;

/* random: every point once, in an order drawn from the seed. gridsearch: in the order of the index. */
extern const struct tuner_class tuner_random;
extern const struct tuner_class tuner_gridsearch;

#endif
