/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_direct_fallback.c: a configuration from the shapes alone. Neighbouring columns go to neighbouring threads,
 * rows fill the block up, a thread's sums run over channels, and a step stages some 64 weights a channel.
 */
#include "gpu/template/autotvm_direct.h"

/* The most of each; channels of the sum and taps that one step stages. */
struct wish {
    int64_t f_vthreads, f_threads, y_vthreads, pixel_threads, x_threads, channels, weights;
};

static const struct wish wishes[] = {
    {4, 8, 2, 64, 32, 16, 64},
    {2, 8, 2, 64, 32, 16, 64},
    {1, 8, 1, 64, 32, 16, 64},
    {1, 4, 1, 16, 16, 4, 16},
};
/* Stages a single input at a time: whatever window and strides are, it fits. */
static const struct wish last_resort = {1, 64, 1, 1, 1, 1, 1};

/* Factors within the limits (the first is what remains): their product, and threads before virtual threads. */
static int64_t worth(const int64_t *factor, int parts, const int64_t limit[LEVEL_COUNT]) {
    int64_t product = 1;
    for (int part = 1; part < parts; part++) {
        if (factor[part] > limit[part])
            return 0;
        product *= factor[part];
    }
    return 2 * product + (parts == LEVEL_COUNT && factor[LEVEL_THREAD] > factor[LEVEL_VTHREAD]);
}

/* The candidate of a split that is worth most; `second`: the limit of a step's part, where that is what is split. */
static int64_t largest(const struct knob *knob, int64_t second, int64_t threads) {
    const int64_t limit[LEVEL_COUNT] = {0, second, threads, 1};
    int64_t best = 0, most = 0;
    for (int64_t c = 0; c < knob->n_candidates; c++) {
        int64_t value = worth(knob->values + c * knob->parts, knob->parts, limit);
        if (value > most) {
            most = value;
            best = c;
        }
    }
    return best;
}

static int64_t factor_of(const struct knob *knob, int64_t digit, int part) {
    return knob->values[digit * knob->parts + part];
}

/* The first knobs of the space are those of the axes that have one, then the sum's. */
static int64_t grant(const struct wish *wish, const struct direct_kind *kind, const struct space *space) {
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    int f = 0;
    for (int a = 0; a < AXIS_F; a++) {
        if (kind->levels[a] > 1) {
            digit[f] = largest(&space->knobs[f], 1, 1);
            f++;
        }
    }
    const int y = f + 1, x = f + 2, rc = f + 3, ry = f + 4, rx = f + 5;
    const struct knob *knobs = space->knobs;
    digit[f] = largest(&knobs[f], wish->f_vthreads, wish->f_threads);
    digit[x] = largest(&knobs[x], 1, wish->x_threads);
    digit[y] = largest(&knobs[y], wish->y_vthreads, wish->pixel_threads / factor_of(&knobs[x], digit[x], 2));
    digit[rx] = largest(&knobs[rx], wish->weights, 1);
    int64_t left = wish->weights / factor_of(&knobs[rx], digit[rx], 1);
    digit[ry] = largest(&knobs[ry], left, 1);
    left /= factor_of(&knobs[ry], digit[ry], 1);
    digit[rc] = largest(&knobs[rc], left < wish->channels ? left : wish->channels, 1);
    digit[rx + 1] = 1; /* auto_unroll_max_step 512 */
    digit[rx + 2] = 1; /* unroll_explicit */
    return space_index(space, digit);
}

int64_t autotvm_direct_fallback(const struct direct_kind *kind, const struct conv2d_shape *shape,
                                const struct target *target, const struct space *space) {
    int64_t best = grant(&last_resort, kind, space);
    for (size_t i = 0; i < ARRAY_COUNT(wishes); i++) {
        int64_t index = grant(&wishes[i], kind, space);
        struct autotvm_direct direct = autotvm_direct_of(kind, shape, space, index);
        struct error ignored;
        if (autotvm_direct_check(&direct, target, &ignored) < 0)
            continue;
        best = index;
        if (direct.grid[0] * direct.grid[1] * direct.grid[2] >= target->units)
            break;
    }
    return best;
}
