/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h: what a device has done since its worker started. Its slot counts, the worker's heartbeat reads. */
#ifndef WARPTUNE_SCHEDULER_COUNTERS_H
#define WARPTUNE_SCHEDULER_COUNTERS_H

#include <stdatomic.h>

#include "gpu/measure/measure.h"

struct counters {
    atomic_llong trials[TRIAL_ERROR_COUNT]; /* recorded, by error number */
    atomic_llong busy_ns;                   /* spent on work that is over */
    atomic_llong busy_since;                /* on the work under way; 0: there is none */
};

#endif
