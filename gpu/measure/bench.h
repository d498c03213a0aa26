/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h: one workload on an open device: its inputs, the outputs that the plain kernel gives, and candidates held
 * against them and timed. Lives in the runner child.
 *
 * Timing rotates over several sets of operands, so that a kernel does not find all it reads in the cache.
 */
#ifndef WARPTUNE_MEASURE_BENCH_H
#define WARPTUNE_MEASURE_BENCH_H

#include <stdbool.h>

#include "gpu/device/device.h"
#include "gpu/measure/measure.h"

struct bench;
struct pool;
struct shelf;
struct steady;

/* An open device and what outlives a workload on it. */
struct bench_device {
    const struct device_class *class;
    struct device *device;
    struct shelf *shelf;
    struct steady *steady;
    struct pool *pool; /* to compare with; NULL: none */
};

/* Loads the inputs and runs `plain` on them. The workload, and what `on` points to, are borrowed. */
int bench_new(const struct bench_device *on, const struct target *target, const struct workload *workload,
              const struct program *plain, const struct buf *plain_code, struct bench **ret,
              struct error *error) MUST_CHECK;
void bench_free(struct bench *bench); /* NULL-safe */

struct bench_result {
    enum trial_error error_no;
    char text[1024];
    bool poisoned; /* memory or device may be damaged: end this process */
    double costs_s[TRIAL_MAX_COSTS];
    int n_costs;
    unsigned flags; /* of enum trial_flag */
    int again;
    struct device_state state;
    double load_s, verify_s, time_s;
};

/* Verifies and times a candidate; a failure is in the result. */
void bench_trial(struct bench *bench, const struct program *program, const struct buf *code,
                 const struct measure_options *options, double bound_s, struct bench_result *ret);

#endif
