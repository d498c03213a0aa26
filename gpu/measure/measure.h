/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure.h: configurations in, verified times out.
 *
 * A measurer owns a few builder children, which render and compile, and one runner child, which owns the device: it
 * verifies each candidate against the plain template's kernel on the same device (inputs small integers, outputs
 * poisoned with NaN, canaries around every buffer) and only then times it. A child that hangs past its time, crashes
 * or poisons its device is killed and replaced; the trial that did it gets its own error number and text, its
 * neighbours are measured. Builds go on while the runner measures. One thread uses a measurer, and must outlive it.
 */
#ifndef WARPTUNE_MEASURE_MEASURE_H
#define WARPTUNE_MEASURE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/device/device.h"
#include "gpu/template/template.h"

/* AutoTVM's numbers. */
enum trial_error {
    TRIAL_OK = 0,
    TRIAL_INSTANTIATION = 1,  /* the template cannot be instantiated so, or the device cannot hold it */
    TRIAL_COMPILE_HOST = 2,   /* the system's C compiler refused (CPU device) */
    TRIAL_COMPILE_DEVICE = 3, /* NVRTC refused */
    TRIAL_RUNTIME = 4,        /* it crashed, or the device reported an error */
    TRIAL_WRONG_ANSWER = 5,
    TRIAL_BUILD_TIMEOUT = 6,
    TRIAL_RUN_TIMEOUT = 7,
    TRIAL_UNKNOWN = 8,
};
#define TRIAL_ERROR_COUNT 9
const char *trial_error_name(enum trial_error error_no); /* "none", "instantiation", … */

#define TRIAL_MAX_COSTS 32

struct measure_options {
    int number;             /* executions in one repeat; the cost of a repeat is their mean */
    int repeat;             /* costs of a trial; at most TRIAL_MAX_COSTS */
    double min_repeat_ms;   /* number grows until a repeat lasts this long; a repeat is at most 100000 executions */
    double timeout_s;       /* of one trial's verification and timing; waiting for the device does not count */
    double build_timeout_s; /* of one compile; waiting for a builder, and its start, do not count */
    double cooldown_s;      /* between trials */
};

/*
 * number 0 (chosen so that a repeat lasts min_repeat_ms), repeat 3, min_repeat_ms 2, timeout_s 10, build 20, cooldown
 * 0: enough to rank candidates, at more than 100 a second. A final race should measure longer.
 */
extern const struct measure_options measure_defaults;

/* What a reader of a trial should know of its figures. */
enum trial_flag {
    TRIAL_CUT_SHORT = 1, /* above 1.5 times its bound after one repeat, or 4 times when verified: not repeated */
    TRIAL_THROTTLED = 2, /* the device's clock was held down or had fallen, also when measured again */
    TRIAL_SHARED = 4,    /* another process computed on the device, also when measured again */
};

struct trial {
    const struct template *template; /* in */
    int64_t index;                   /* in: configuration */
    double bound_s;                  /* in: costs far above this need no precision; 0: none */
    enum trial_error error_no;       /* out, as all that follows */
    char error_text[1024];           /* empty when none */
    double costs_s[TRIAL_MAX_COSTS]; /* seconds of one execution */
    int n_costs;
    double build_s, run_s;           /* spent compiling (0 when it was compiled before), and verifying and timing */
    double load_s, verify_s, time_s; /* of run_s: loading code and taking buffers, verifying, timing */
    int64_t finished_us;             /* wall clock */
    unsigned flags;                  /* of enum trial_flag */
    int again;                       /* times it was measured again because the device was throttled or shared */
    struct device_state state;       /* of the device when it was timed; figures it cannot tell are -1 */
};

/* Median of the costs, in seconds; 1e9 for a failed trial. */
double trial_cost(const struct trial *trial);

struct measurer_config {
    const char *program; /* the executable that answers `child build` and `child run`; NULL: this one */
    const char *kind;    /* "cpu", "cuda" */
    int ordinal;
    const char *cache_dir; /* compiled code; made when missing */
    int builders;          /* 0: one for each core */
    const struct template *const *templates;
};

struct measurer;

int measurer_new(const struct measurer_config *config, struct measurer **ret, struct error *error) MUST_CHECK;
const struct device_info *measurer_device(const struct measurer *measurer);
void measurer_free(struct measurer *measurer); /* ends the children; NULL-safe */

struct measure_callbacks {
    void *data;
    /* Called from the measurer's thread for each trial as it ends, in the order of ending. Optional. */
    void (*done)(void *data, struct trial *trial);
    /* Asked between trials and at least twice a second; true: stop soon, trials not yet ended stay unmeasured.
     * Optional. */
    bool (*stop)(void *data);
};

/*
 * Measures n trials of one workload. Returns 0 when each ended with its own result, however bad; -1 only when
 * measuring itself is impossible (the device went away, children cannot be started, the plain kernel fails) or with
 * ERROR_CANCELLED when stopped.
 */
int measurer_run(struct measurer *measurer, const struct workload *workload, const struct measure_options *options,
                 struct trial *trials, int n, const struct measure_callbacks *callbacks,
                 struct error *error) MUST_CHECK;

/* `warptune child build` and `warptune child run`: serve requests on standard input until it closes. Exit status. */
int builder_child_main(const struct template *const *templates);
int runner_child_main(const struct template *const *templates);

#endif
