/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steady.h: whether a device was in a state in which times mean something, judged by its figures before and after a
 * timing and by the highest clock seen so far.
 */
#ifndef WARPTUNE_MEASURE_STEADY_H
#define WARPTUNE_MEASURE_STEADY_H

#include "gpu/device/device.h"

/* What a runner remembers of its device. Zeros to begin with. */
struct steady {
    int top_clock_mhz; /* the highest seen */
    bool restless;     /* the last trial stayed disturbed, however often it was measured */
};

/*
 * 0 for a steady device, else TRIAL_THROTTLED (heat, power or hardware held the clock down, or it fell below 85 % of
 * the top clock while something ran), TRIAL_SHARED (others compute on it), or both. A figure that is not known
 * disturbs nothing; nor do an idle device's low clock and clocks that somebody set.
 */
unsigned steady_judge(const struct device_state *before, const struct device_state *after, int top_clock_mhz);
/* Learns a state's clock. */
void steady_note(struct steady *steady, const struct device_state *state);
/* How often to measure a disturbed trial again: 3 times, or once while the disturbance goes on. */
int steady_patience(const struct steady *steady);
/* How long to pause before the n-th time again, n from 1. */
double steady_pause_s(int n);

#endif
