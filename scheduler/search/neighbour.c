/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/neighbour.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OF_A_KNOB = 24 };

int neighbour_list(const struct space *space, int64_t index, int64_t *ret, int most) {
    int64_t digit[SPACE_MAX_KNOBS];
    int n = 0;
    space_digits(space, index, digit);
    for (int k = 0; k < space->n_knobs; k++) {
        int64_t here = digit[k], count = space->knobs[k].n_candidates;
        int64_t first = here - MOST_OF_A_KNOB / 2 > 0 ? here - MOST_OF_A_KNOB / 2 : 0;
        for (int64_t d = first; d < count && d <= first + MOST_OF_A_KNOB && n < most; d++) {
            if (d == here)
                continue;
            digit[k] = d;
            ret[n++] = space_index(space, digit);
        }
        digit[k] = here;
    }
    return n;
}

static double distance(const int64_t *a, const int64_t *b, int parts) {
    double sum = 0;
    for (int p = 0; p < parts; p++) {
        /* The first factor of a split is what the others leave: with another extent it must differ. */
        double weight = parts > 1 && p == 0 ? 0.1 : 1;
        sum += weight * fabs(log2((double)llabs(a[p]) + 1) - log2((double)llabs(b[p]) + 1));
    }
    return sum;
}

static int64_t nearest(const struct knob *knob, const int64_t *values) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t c = 0; c < knob->n_candidates; c++) {
        double d = distance(&knob->values[c * knob->parts], values, knob->parts);
        if (d < least) {
            least = d;
            best = c;
        }
    }
    return best;
}

int64_t neighbour_map(const struct space *space, const struct space *other, int64_t other_index) {
    int64_t digit[SPACE_MAX_KNOBS] = {0}, other_digit[SPACE_MAX_KNOBS];
    space_digits(other, other_index, other_digit);
    for (int k = 0; k < space->n_knobs; k++) {
        const struct knob *knob = &space->knobs[k];
        for (int o = 0; o < other->n_knobs; o++) {
            const struct knob *from = &other->knobs[o];
            if (strcmp(from->name, knob->name) == 0 && from->parts == knob->parts)
                digit[k] = nearest(knob, &from->values[other_digit[o] * from->parts]);
        }
    }
    return space_index(space, digit);
}
