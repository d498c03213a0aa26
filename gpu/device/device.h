/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h: something that runs and times kernels: one interface, two kinds, `cpu` and `cuda`.
 *
 * `cuda` opens the driver and NVRTC at run time through the table in cuda_api.h, so that this program runs where
 * neither is installed. `cpu` compiles C with the system's compiler and loads the shared object: do that in a child.
 * A device handle is used by one thread at a time; compile needs no handle and is thread-safe. After an ERROR_DEVICE
 * from a launch or a run the handle may be poisoned: close it, or end the process.
 */
#ifndef WARPTUNE_DEVICE_DEVICE_H
#define WARPTUNE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/device/program.h"
#include "gpu/device/target.h"
#include "service/base/buf.h"
#include "service/base/error.h"

struct device;      /* an open device */
struct device_code; /* compiled code, loaded */

struct device_info {
    struct target target;
    int ordinal;
    char name[96]; /* "NVIDIA H200", "Intel(R) Xeon(R) …" */
    char key[160]; /* the device class under which results are shared: "cuda/NVIDIA H200/sm_90a/132" */
    char uuid[48]; /* of this very device; empty when it has none */
    int64_t memory_bytes;
    char driver[32];         /* CUDA: driver version; CPU: empty */
    char compiler[64];       /* "NVRTC 13.0", "gcc 12.2.0" */
    double peak_flops;       /* FP32 without tensor cores, estimated from clocks and units; 0 unknown */
    double peak_bytes_per_s; /* memory, likewise; 0 unknown */
};

/* What the driver says now; a figure the device cannot tell is -1. */
struct device_state {
    int sm_clock_mhz, memory_clock_mhz, temperature_c, power_w, utilization_percent;
    int64_t memory_used_bytes;
    int other_processes; /* compute processes that are not ours */
};

/* One kernel with its addresses bound, in launch order. */
struct device_call {
    const struct launch *launch;
    struct device_code *code;
    uint64_t args[LAUNCH_MAX_ARGS]; /* device addresses (host pointers on the CPU) */
};

struct device_class {
    const char *kind;
    /* How many there are; 0 with `error` filled with why when there are none (no driver, no compiler). */
    int (*count)(struct error *error);
    int (*describe)(int ordinal, struct device_info *ret, struct error *error);
    int (*state)(int ordinal, struct device_state *ret, struct error *error);
    int (*open)(int ordinal, struct device **ret, struct error *error);
    void (*close)(struct device *device); /* frees what is still loaded and allocated; NULL-safe */

    /*
     * Source to code (a cubin, or a shared object's bytes). What the compiler printed goes to ret_log either way.
     * ERROR_DEVICE "compile-failed" when it refuses; ERROR_TIMEOUT past the deadline (CPU only: NVRTC cannot be
     * interrupted, so run it in a child).
     */
    int (*compile)(const struct target *target, const char *source, int64_t deadline, struct buf *ret_code,
                   struct buf *ret_log, struct error *error);
    /* Changes with the compiler and its options: part of a compile cache's key. */
    int (*compiler_id)(const struct target *target, char ret_id[128], struct error *error);

    int (*load)(struct device *device, const void *code, size_t len, struct device_code **ret, struct error *error);
    void (*unload)(struct device *device, struct device_code *code);
    int (*alloc)(struct device *device, size_t bytes, uint64_t *ret, struct error *error); /* 256-byte aligned */
    void (*free)(struct device *device, uint64_t address);
    int (*write)(struct device *device, uint64_t to, const void *from, size_t bytes, struct error *error);
    int (*read)(struct device *device, void *to, uint64_t from, size_t bytes, struct error *error);
    int (*fill)(struct device *device, uint64_t to, uint32_t pattern, size_t words, struct error *error);
    /*
     * Runs the calls in order, the whole list `count` times, waits until all is done, and gives the seconds it took
     * on the device (events on CUDA, around replays of one captured graph; the clock on the CPU), or NULL.
     * On CUDA, what is timed is preceded by a few executions that are not counted.
     */
    int (*run)(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
               struct error *error);
};

extern const struct device_class device_cpu;
extern const struct device_class device_cuda;

/* "cpu" or "cuda"; NULL for anything else. */
const struct device_class *device_class_find(const char *kind);

#endif
