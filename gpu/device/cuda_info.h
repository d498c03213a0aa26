/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_info.h: which GPUs there are and what they are doing, without a context on any. device_cuda's functions. */
#ifndef WARPTUNE_DEVICE_CUDA_INFO_H
#define WARPTUNE_DEVICE_CUDA_INFO_H

#include "gpu/device/cuda_api.h"
#include "gpu/device/device.h"

/* Opens the driver and initialises it. ERROR_DEVICE "no-driver" or "cuda-failed". */
int cuda_start(struct cuda_driver *ret, struct error *error) MUST_CHECK;
/* 0 when status is 0; else ERROR_DEVICE with CUDA's name for it: "out-of-memory", "out-of-resources", "cuda-failed". */
int cuda_check(const struct cuda_driver *driver, unsigned status, const char *what, struct error *error) MUST_CHECK;
/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; empty when the driver does not say. */
void cuda_uuid(const struct cuda_driver *driver, int gpu, char *ret, size_t size);

int cuda_count(struct error *error) MUST_CHECK;
int cuda_describe(int ordinal, struct device_info *ret, struct error *error) MUST_CHECK;
int cuda_state(int ordinal, struct device_state *ret, struct error *error) MUST_CHECK;

#endif
