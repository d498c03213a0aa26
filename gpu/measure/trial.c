/* SPDX-License-Identifier: Apache-2.0 */
/* What a trial's numbers mean; the promise is in measure.h. */
#include <stdlib.h>

#include "gpu/measure/measure.h"

#define FAILED_COST 1e9

const struct measure_options measure_defaults = {
    .number = 0,
    .repeat = 3,
    .min_repeat_ms = 2,
    .timeout_s = 10,
    .build_timeout_s = 20,
    .cooldown_s = 0,
};

const char *trial_error_name(enum trial_error error_no) {
    static const char *const names[TRIAL_ERROR_COUNT] = {
        [TRIAL_OK] = "none",
        [TRIAL_INSTANTIATION] = "instantiation",
        [TRIAL_COMPILE_HOST] = "compile_host",
        [TRIAL_COMPILE_DEVICE] = "compile_device",
        [TRIAL_RUNTIME] = "runtime",
        [TRIAL_WRONG_ANSWER] = "wrong_answer",
        [TRIAL_BUILD_TIMEOUT] = "build_timeout",
        [TRIAL_RUN_TIMEOUT] = "run_timeout",
        [TRIAL_UNKNOWN] = "unknown",
    };
    return (unsigned)error_no < TRIAL_ERROR_COUNT ? names[error_no] : names[TRIAL_UNKNOWN];
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double trial_cost(const struct trial *trial) {
    double sorted[TRIAL_MAX_COSTS];
    int n = trial->n_costs;
    if (trial->error_no != TRIAL_OK || n < 1 || n > TRIAL_MAX_COSTS)
        return FAILED_COST;
    for (int i = 0; i < n; i++)
        sorted[i] = trial->costs_s[i];
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
