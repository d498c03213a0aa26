/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuners that do not learn: each is an order of the whole space, so its state is how far it has come.
 */
#include <stdlib.h>

#include "scheduler/search/permutation.h"
#include "scheduler/search/tuner.h"
#include "service/base/json.h"

struct tuner {
    int64_t size;
    int64_t position;         /* of the next proposal in the order */
    struct permutation order; /* random only */
};

static struct tuner *ordered_create(const struct tuner_options *options) {
    struct tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner)
        abort();
    tuner->size = options->domains[0].space->size;
    permutation_init(&tuner->order, (uint64_t)tuner->size, options->seed);
    return tuner;
}

static int gridsearch_propose(struct tuner *tuner, struct point *ret, int n) {
    int got = 0;
    while (got < n && tuner->position < tuner->size)
        ret[got++] = (struct point){0, tuner->position++};
    return got;
}

static int random_propose(struct tuner *tuner, struct point *ret, int n) {
    int got = 0;
    while (got < n && tuner->position < tuner->size)
        ret[got++] = (struct point){0, (int64_t)permutation_at(&tuner->order, (uint64_t)tuner->position++)};
    return got;
}

static struct json_object *ordered_save(const struct tuner *tuner) {
    struct json_object *state = json_object_new_object();
    json_add_int(state, "position", tuner->position);
    return state;
}

static int ordered_restore(struct tuner *tuner, struct json_object *state, const struct measured *measured, int n,
                           struct error *error) {
    (void)measured;
    (void)n;
    return json_read_int(state, "position", JSON_REQUIRED, 0, tuner->size, &tuner->position, error);
}

static void ordered_destroy(struct tuner *tuner) {
    free(tuner);
}

const struct tuner_class tuner_random = {
    .name = "random",
    .create = ordered_create,
    .propose = random_propose,
    .save = ordered_save,
    .restore = ordered_restore,
    .destroy = ordered_destroy,
};

const struct tuner_class tuner_gridsearch = {
    .name = "gridsearch",
    .create = ordered_create,
    .propose = gridsearch_propose,
    .save = ordered_save,
    .restore = ordered_restore,
    .destroy = ordered_destroy,
};
