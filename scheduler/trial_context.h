/* SPDX-License-Identifier: Apache-2.0 */
/* trial_context.h: under what circumstances a trial was measured, as JSON for its record. */
#ifndef WARPTUNE_SCHEDULER_TRIAL_CONTEXT_H
#define WARPTUNE_SCHEDULER_TRIAL_CONTEXT_H

#include "gpu/measure/measure.h"
#include "service/base/arena.h"

/* Clocks, temperature, power, other processes (where the device tells), flags, measurements again, driver, compiler. */
const char *trial_context(const struct trial *trial, const struct device_info *device, struct arena *arena);

#endif
