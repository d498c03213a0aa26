/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_run.h: loads a module file, runs it, compares and times it. For `warptune run` and for judging a job's module.
 */
#ifndef WARPTUNE_MODULE_MODULE_RUN_H
#define WARPTUNE_MODULE_MODULE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/module/runtime/warptune_module.h"
#include "service/base/arena.h"
#include "service/base/error.h"
#include "service/base/sandbox.h"

/* A module's functions, as dlopen found them. */
struct module;

int module_open(const char *path, int ordinal, struct module **ret, struct error *error) MUST_CHECK;
int module_inputs(struct module *module, const struct warptune_tensor **ret);
int module_outputs(struct module *module, const struct warptune_tensor **ret);
int module_set_input(struct module *module, int index, const void *data, size_t bytes, struct error *error) MUST_CHECK;
int module_run(struct module *module, struct error *error) MUST_CHECK;
int module_get_output(struct module *module, int index, void *data, size_t bytes, struct error *error) MUST_CHECK;
int module_time(struct module *module, int count, double *ret_seconds, struct error *error) MUST_CHECK;
void module_close(struct module *module); /* NULL-safe */

/* arange(n)/n in a tensor's shape, and seeded uniform numbers in [-1, 1). */
void module_fill_ramp(float *data, size_t n);
void module_fill_random(float *data, size_t n, uint64_t seed);

/* Percentiles of `n` samples, in microseconds; sorts them. */
struct module_latency {
    double p50_us, p90_us, p99_us, min_us, mean_us;
    int runs;
};
struct module_latency module_latency(double *seconds, int n);

/* Largest absolute difference over the largest absolute expected value; NaN anywhere gives infinity. */
double module_error(const float *got, const float *expected, size_t n);

/*
 * `warptune child evaluate`: one request {model, batch, module, baseline, ordinal, seconds} on standard input; the
 * tuned and the baseline module are timed in turn, and the tuned one's outputs held against eval.h's on a seeded
 * random input. One answer {latency…, baseline…, error, batch} on standard output. Exit status.
 */
int evaluate_child_main(void);

struct module_evaluation {
    struct module_latency tuned, baseline;
    double error;  /* relative to the largest expected output */
    int64_t batch; /* samples of one run: the first dimension of the first input */
};

struct module_evaluate_request {
    const char *program; /* NULL: this one */
    const char *model_path;
    int64_t batch;
    const char *module_path, *baseline_path;
    int ordinal;
    double seconds;           /* how long to time each */
    enum sandbox sandbox;     /* the child's */
    int64_t memory_bytes;     /* the most that the child may map; 0: no limit (CUDA maps far more than it uses) */
    bool (*stop)(void *data); /* asked twice a second; true: ERROR_CANCELLED. Optional */
    void *data;
};

/* Runs that child. */
int module_evaluate(const struct module_evaluate_request *request, int64_t deadline, struct module_evaluation *ret,
                    struct error *error) MUST_CHECK;

#endif
