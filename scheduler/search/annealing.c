/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/annealing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 500, PATIENCE = 50 };

/* The best so far, the worst of them on top of the heap. */
struct kept {
    struct kept_point {
        int64_t index;
        float score;
    } * heap;
    int n, most;
    struct point_set seen;
};

static void sift_down(struct kept *kept, int at) {
    for (int child; (child = 2 * at + 1) < kept->n; at = child) {
        if (child + 1 < kept->n && kept->heap[child + 1].score < kept->heap[child].score)
            child++;
        if (kept->heap[at].score <= kept->heap[child].score)
            return;
        struct kept_point swap = kept->heap[at];
        kept->heap[at] = kept->heap[child];
        kept->heap[child] = swap;
    }
}

static void sift_up(struct kept *kept, int at) {
    for (int parent; at > 0 && kept->heap[parent = (at - 1) / 2].score > kept->heap[at].score; at = parent) {
        struct kept_point swap = kept->heap[at];
        kept->heap[at] = kept->heap[parent];
        kept->heap[parent] = swap;
    }
}

/* True when it changed what is kept. */
static bool offer(struct kept *kept, const struct point_set *taken, int64_t index, float score) {
    struct point point = {0, index};
    if (kept->n == kept->most && score <= kept->heap[0].score)
        return false;
    if (point_set_has(taken, point) || !point_set_add(&kept->seen, point))
        return false;
    if (kept->n < kept->most) {
        kept->heap[kept->n] = (struct kept_point){index, score};
        sift_up(kept, kept->n++);
    } else {
        kept->heap[0] = (struct kept_point){index, score};
        sift_down(kept, 0);
    }
    return true;
}

static int higher_first(const void *a, const void *b) {
    const struct kept_point *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool accepts(float from, float to, double temperature, struct rng *rng) {
    return to >= from || rng_unit(rng) < exp(fmin(((double)to - from) / (temperature + 1e-5), 1));
}

static bool offer_all(struct kept *kept, const struct point_set *taken, const int64_t *index, const float *score) {
    bool changed = false;
    for (int c = 0; c < ANNEALING_CHAINS; c++)
        changed |= offer(kept, taken, index[c], score[c]);
    return changed;
}

static int anneal(struct annealing *annealing, struct scorer *scorer, const struct space *space,
                  const struct point_set *taken, struct rng *rng, struct kept *kept, struct error *error) {
    float score[ANNEALING_CHAINS], next_score[ANNEALING_CHAINS];
    int64_t next[ANNEALING_CHAINS];
    if (scorer_score(scorer, annealing->chains, ANNEALING_CHAINS, score, error) < 0)
        return -1;
    offer_all(kept, taken, annealing->chains, score);
    for (int i = 0, changed_at = 0; i < ITERATIONS && i - changed_at < PATIENCE; i++) {
        for (int c = 0; c < ANNEALING_CHAINS; c++)
            next[c] = space_neighbour(space, annealing->chains[c], rng);
        if (scorer_score(scorer, next, ANNEALING_CHAINS, next_score, error) < 0)
            return -1;
        for (int c = 0; c < ANNEALING_CHAINS; c++)
            if (accepts(score[c], next_score[c], 1 - (double)i / ITERATIONS, rng)) {
                annealing->chains[c] = next[c];
                score[c] = next_score[c];
            }
        if (offer_all(kept, taken, next, next_score))
            changed_at = i;
    }
    return 0;
}

/* How many of the point's knob values no chosen point shows yet. */
static int new_values(const struct space *space, int64_t index, char *const *shown) {
    int64_t digit[SPACE_MAX_KNOBS];
    int n = 0;
    space_digits(space, index, digit);
    for (int k = 0; k < space->n_knobs; k++)
        n += !shown[k][digit[k]];
    return n;
}

static void show(const struct space *space, int64_t index, char **shown) {
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(space, index, digit);
    for (int k = 0; k < space->n_knobs; k++)
        shown[k][digit[k]] = 1;
}

/* Greedily puts to the front what shows most values not shown before; the better score first among equals. */
static void diversify(const struct space *space, struct kept_point *points, int n, int wanted) {
    char *shown[SPACE_MAX_KNOBS];
    for (int k = 0; k < space->n_knobs; k++)
        if (!(shown[k] = calloc((size_t)space->knobs[k].n_candidates, 1)))
            abort();
    for (int i = 0; i < wanted && i < n; i++) {
        int best = i, most = -1;
        for (int j = i; j < n; j++) {
            int values = new_values(space, points[j].index, shown);
            if (values > most) {
                most = values;
                best = j;
            }
        }
        struct kept_point chosen = points[best];
        memmove(&points[i + 1], &points[i], (size_t)(best - i) * sizeof *points);
        points[i] = chosen;
        show(space, chosen.index, shown);
    }
    for (int k = 0; k < space->n_knobs; k++)
        free(shown[k]);
}

int annealing_plan(struct annealing *annealing, struct scorer *scorer, const struct space *space,
                   const struct point_set *taken, double diversity, struct rng *rng, int64_t *ret, int n, int *ret_n,
                   struct error *error) {
    struct kept kept = {.most = diversity > 1 ? (int)(n * diversity) : n};
    kept.heap = calloc((size_t)kept.most, sizeof *kept.heap);
    if (!kept.heap)
        abort();
    if (!annealing->begun)
        for (int c = 0; c < ANNEALING_CHAINS; c++)
            annealing->chains[c] = (int64_t)rng_below(rng, (uint64_t)space->size);
    annealing->begun = true;
    int rc = anneal(annealing, scorer, space, taken, rng, &kept, error);
    qsort(kept.heap, (size_t)kept.n, sizeof *kept.heap, higher_first);
    if (diversity > 1)
        diversify(space, kept.heap, kept.n, n);
    *ret_n = kept.n < n ? kept.n : n;
    for (int i = 0; i < *ret_n; i++)
        ret[i] = kept.heap[i].index;
    point_set_free(&kept.seen);
    free(kept.heap);
    return rc;
}
