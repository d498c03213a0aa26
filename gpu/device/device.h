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

/* Why the clock is below what it could be; the bits are NVML's. */
enum throttle_reason {
    THROTTLE_IDLE = 0x1,    /* nothing runs */
    THROTTLE_SETTING = 0x2, /* somebody set the clocks */
    THROTTLE_POWER_CAP = 0x4,
    THROTTLE_HARDWARE = 0x8, /* too hot, or the power brake */
    THROTTLE_THERMAL = 0x20,
    THROTTLE_HARDWARE_THERMAL = 0x40,
    THROTTLE_POWER_BRAKE = 0x80,
};

/* What the driver says now; a figure the device cannot tell is -1. */
struct device_state {
    int sm_clock_mhz, memory_clock_mhz, temperature_c, power_w, utilization_percent;
    int64_t memory_used_bytes;
    int other_processes;  /* compute processes that are not ours */
    int throttle_reasons; /* of enum throttle_reason */
};

extern const struct device_state device_state_unknown;
struct json_object *device_state_to_json(const struct device_state *state); /* known figures; caller releases */
int device_state_from_json(struct json_object *object, struct device_state *ret, struct error *error) MUST_CHECK;

/* One kernel with its addresses bound, in launch order. */
struct device_call {
    const struct launch *launch;
    struct device_code *code;
    uint64_t args[LAUNCH_MAX_ARGS]; /* device addresses (host pointers on the CPU), values as they are */
};

#define DEVICE_MOST_REPEATS 32

struct device_class {
    const char *kind;
    /* How many there are; 0 with `error` filled with why when there are none (no driver, no compiler). */
    int (*count)(struct error *error);
    int (*describe)(int ordinal, struct device_info *ret, struct error *error);
    int (*state)(int ordinal, struct device_state *ret, struct error *error);
    /*
     * The state of an open device, cheap enough to be asked around each measurement: clocks, temperature and throttling
     * are those of now, the rest is up to a quarter of a second old unless `fresh`. Processes that appeared together
     * with the device's own context count as ours, whatever numbers the driver calls them by (in a container those of
     * the host). Never fails: what is not known is -1.
     */
    void (*watch)(struct device *device, bool fresh, struct device_state *ret);
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
    /* Memory of the host that the device copies to and from fastest. */
    int (*host_alloc)(struct device *device, size_t bytes, void **ret, struct error *error);
    void (*host_free)(struct device *device, void *data); /* NULL-safe; all of it before close */
    int (*write)(struct device *device, uint64_t to, const void *from, size_t bytes, struct error *error);
    int (*read)(struct device *device, void *to, uint64_t from, size_t bytes, struct error *error);
    /* Takes place before all that is asked for later; nobody waits for it. */
    int (*fill)(struct device *device, uint64_t to, uint32_t pattern, size_t words, struct error *error);
    /*
     * Runs the calls in order, the whole list `count` times, waits until all is done, and gives the seconds it took
     * on the device, or NULL. Seconds are taken as by `time`; on CUDA there are uncounted executions then.
     */
    int (*run)(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
               struct error *error);
    /*
     * The same `repeats` times over (1 to DEVICE_MOST_REPEATS), each timed, preceded by some executions that are not
     * counted: on CUDA by events between replays of one captured graph, all queued while the GPU is still busy with
     * the uncounted ones, so that the host's launch times stay out; on the CPU by the clock.
     */
    int (*time)(struct device *device, const struct device_call *calls, int n_calls, int count, int repeats,
                double *ret_seconds, struct error *error);
};

extern const struct device_class device_cpu;
extern const struct device_class device_cuda;

/* "cpu" or "cuda"; NULL for anything else. */
const struct device_class *device_class_find(const char *kind);

#endif
