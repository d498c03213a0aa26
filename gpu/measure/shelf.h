/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shelf.h: guarded buffers that are kept from one trial, and one workload, to the next: taking and freeing device
 * memory would cost more than a short kernel's whole timing.
 *
 * A buffer comes with fresh canaries and whatever data the last user left. Idle memory is bounded: what is over the
 * limit, or in the way of a larger buffer, goes back to the device.
 */
#ifndef WARPTUNE_MEASURE_SHELF_H
#define WARPTUNE_MEASURE_SHELF_H

#include "gpu/measure/guarded.h"

struct shelf;

struct shelf *shelf_new(const struct device_class *class, struct device *device, size_t most_idle_bytes);
int shelf_take(struct shelf *shelf, size_t bytes, uint32_t canary, struct guarded *ret, struct error *error) MUST_CHECK;
/* Gives it back and zeroes it; nothing for one that was never taken. */
void shelf_give(struct shelf *shelf, struct guarded *guarded);
size_t shelf_idle_bytes(const struct shelf *shelf);
void shelf_free(struct shelf *shelf); /* frees what is idle; NULL-safe */

#endif
