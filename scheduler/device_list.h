/* SPDX-License-Identifier: Apache-2.0 */
/* device_list.h: from a setting's text ("auto", "all", "cpu,cuda:0") to devices that are really here. */
#ifndef WARPTUNE_SCHEDULER_DEVICE_LIST_H
#define WARPTUNE_SCHEDULER_DEVICE_LIST_H

#include "gpu/device/device.h"

#define DEVICE_LIST_MAX 64

/*
 * auto: every GPU, else the CPU; all: every GPU and the CPU. At most DEVICE_LIST_MAX. ERROR_INVALID for text that names
 * no device, ERROR_DEVICE when one that was named is not here, with the reason.
 */
int device_list(const char *text, struct device_info ret[DEVICE_LIST_MAX], int *ret_count,
                struct error *error) MUST_CHECK;

#endif
