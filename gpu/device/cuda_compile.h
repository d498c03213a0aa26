/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_compile.h: CUDA C to a cubin through NVRTC, with no device and no header of NVIDIA's. Thread-safe. */
#ifndef WARPTUNE_DEVICE_CUDA_COMPILE_H
#define WARPTUNE_DEVICE_CUDA_COMPILE_H

#include "gpu/device/device.h"

/* "NVRTC 13.0", for people; "" when there is none. */
void cuda_compiler_name(char *ret_name, size_t size);

/* device_cuda's functions of the same names. */
int cuda_compiler_id(const struct target *target, char ret_id[128], struct error *error) MUST_CHECK;
int cuda_compile(const struct target *target, const char *source, int64_t deadline, struct buf *ret_code,
                 struct buf *ret_log, struct error *error) MUST_CHECK;

#endif
