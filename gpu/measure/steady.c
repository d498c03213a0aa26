/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/steady.h"

#include "gpu/measure/measure.h"

enum {
    HELD_DOWN =
        THROTTLE_POWER_CAP | THROTTLE_HARDWARE | THROTTLE_THERMAL | THROTTLE_HARDWARE_THERMAL | THROTTLE_POWER_BRAKE,
    PATIENCE = 3,
    PATIENCE_WHILE_RESTLESS = 1,
};
#define FALLEN 0.85
#define PAUSE_S 0.02

static bool is_held_down(const struct device_state *state) {
    return state->throttle_reasons > 0 && (state->throttle_reasons & HELD_DOWN) != 0;
}

static bool is_idle(const struct device_state *state) {
    return state->throttle_reasons > 0 && (state->throttle_reasons & THROTTLE_IDLE) != 0;
}

static bool has_fallen(const struct device_state *state, int top_clock_mhz) {
    return state->sm_clock_mhz > 0 && !is_idle(state) && state->sm_clock_mhz < FALLEN * top_clock_mhz;
}

unsigned steady_judge(const struct device_state *before, const struct device_state *after, int top_clock_mhz) {
    unsigned flags = 0;
    if (is_held_down(before) || is_held_down(after) || has_fallen(after, top_clock_mhz))
        flags |= TRIAL_THROTTLED;
    if (before->other_processes > 0 || after->other_processes > 0)
        flags |= TRIAL_SHARED;
    return flags;
}

void steady_note(struct steady *steady, const struct device_state *state) {
    if (state->sm_clock_mhz > steady->top_clock_mhz)
        steady->top_clock_mhz = state->sm_clock_mhz;
}

int steady_patience(const struct steady *steady) {
    return steady->restless ? PATIENCE_WHILE_RESTLESS : PATIENCE;
}

double steady_pause_s(int n) {
    return PAUSE_S * n;
}
