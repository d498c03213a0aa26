/* SPDX-License-Identifier: Apache-2.0 */
/*
 * periodic.h: housekeeping: a thread of low priority that calls a function at once, and again some time after each call
 * has returned, until it is stopped. The function sleeps with periodic_sleep, so that a stop need not wait for it.
 */
#ifndef WARPTUNE_BASE_PERIODIC_H
#define WARPTUNE_BASE_PERIODIC_H

#include <stdbool.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct periodic;

typedef void periodic_work(struct periodic *periodic, void *data);

int periodic_start(double every_s, periodic_work *work, void *data, struct periodic **ret,
                   struct error *error) MUST_CHECK;
/* For the function: true as soon as it is to return. */
bool periodic_sleep(struct periodic *periodic, double seconds);
/* Returns when the function has. NULL-safe. */
void periodic_stop(struct periodic *periodic);

#endif
