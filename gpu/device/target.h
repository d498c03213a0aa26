/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h: what code is made for. Everything that rendering and compiling depend on, so that they work on a machine
 * without the device; plain data that fits into a message.
 */
#ifndef WARPTUNE_DEVICE_TARGET_H
#define WARPTUNE_DEVICE_TARGET_H

#include <stdint.h>

#include "service/base/error.h"

struct json_object;

struct target {
    char kind[8];         /* "cpu" or "cuda" */
    char arch[24];        /* "x86-64-v4", "x86-64-v3", "x86-64-v2"; "sm_75" … "sm_90a" */
    int units;            /* SMs, or cores used */
    int64_t cache_bytes;  /* L2: of the GPU, or of one core */
    int64_t shared_bytes; /* CUDA: the most shared memory of one block; else 0 */
    int64_t max_threads;  /* CUDA: threads of one block; else 0 */
    int64_t registers;    /* CUDA: 32-bit registers of one SM; else 0 */
};

/* The target that stands for `arch` when no device is there to ask ("sm_90a": an H200). ERROR_INVALID lists them. */
int target_of_arch(const char *arch, struct target *ret, struct error *error) MUST_CHECK;
struct json_object *target_to_json(const struct target *target); /* caller releases */
int target_from_json(struct json_object *object, struct target *ret, struct error *error) MUST_CHECK;

#endif
