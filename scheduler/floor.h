/* SPDX-License-Identifier: Apache-2.0 */
/* floor.h: the time below which no kernel can be, so that a search knows when it has arrived. */
#ifndef WARPTUNE_SCHEDULER_FLOOR_H
#define WARPTUNE_SCHEDULER_FLOOR_H

#include "gpu/device/device.h"
#include "service/model/workload.h"

/*
 * Seconds, from the device's peaks of arithmetic and memory and, on a GPU, the time that any kernel takes. A
 * convolution counts with the multiplications that Winograd's transform leaves. 0: nothing is known.
 */
double workload_floor_s(const struct workload *workload, const struct device_info *device);

#endif
