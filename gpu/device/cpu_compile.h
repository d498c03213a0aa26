/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_compile.h: C source to a shared object's bytes, by the system's C compiler. Thread-safe; needs no device.
 *
 * The compiler is $WARPTUNE_CC, or the first of cc, gcc and clang in PATH.
 */
#ifndef WARPTUNE_DEVICE_CPU_COMPILE_H
#define WARPTUNE_DEVICE_CPU_COMPILE_H

#include "gpu/device/device.h"

/* Its absolute path. ERROR_DEVICE "no-compiler" says how to get one. */
int cpu_compiler_path(char *ret_path, size_t size, struct error *error) MUST_CHECK;
/* "gcc 12.2.0", for people: asks the compiler. */
int cpu_compiler_name(char *ret_name, size_t size, struct error *error) MUST_CHECK;

/* device_cpu's functions of the same names. */
int cpu_compiler_id(const struct target *target, char ret_id[128], struct error *error) MUST_CHECK;
int cpu_compile(const struct target *target, const char *source, int64_t deadline, struct buf *ret_code,
                struct buf *ret_log, struct error *error) MUST_CHECK;

#endif
