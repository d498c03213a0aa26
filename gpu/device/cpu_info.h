/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_info.h: what the host's processor is: its architecture level, caches, clock. device_cpu's describe and state. */
#ifndef WARPTUNE_DEVICE_CPU_INFO_H
#define WARPTUNE_DEVICE_CPU_INFO_H

#include "gpu/device/device.h"

int cpu_describe(int ordinal, struct device_info *ret, struct error *error) MUST_CHECK;
int cpu_state(int ordinal, struct device_state *ret, struct error *error) MUST_CHECK;

#endif
