/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h: what of the things that tuning uses is on this machine, and for each that is missing what to do about it.
 */
#ifndef WARPTUNE_DOCTOR_H
#define WARPTUNE_DOCTOR_H

#include "service/base/buf.h"

/*
 * Appends a report in lines: the CUDA driver with its GPUs, NVRTC, NVML, cuDNN, the C compiler with the CPU,
 * PostgreSQL, and what bounds children. Starts the compiler and `postgres` for their versions; changes nothing.
 */
void doctor_report(struct buf *ret);

#endif
