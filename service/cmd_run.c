/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/module/module_run.h"
#include "service/base/json.h"
#include "service/commands.h"
#include "service/options.h"
#include "service/tensor_files.h"

static const char help[] =
    "usage: warptune run MODULE [--input X.pb|ramp|random]… [--expect Y.pb]… [--repeat N] [--tolerance T] [--device "
    "N]\n\n"
    "Loads a compiled module, runs it N times (100 by default) and prints latency percentiles as JSON. Several inputs "
    "or\n"
    "expected outputs: the option again, in order; an input that is not given is `ramp`, arange(n)/n. Exit status 1 "
    "when\n"
    "an output differs from what is expected by more than T (1e-3; for a module of precision tf32 give 5e-3, of fp16\n"
    "1e-2, of bf16 5e-2) of the largest expected number.";

enum { INPUT, EXPECT, REPEAT, TOLERANCE, DEVICE, HELP };

static int set_inputs(struct module *module, const struct option_spec *spec, struct arena *arena, struct error *error) {
    const struct warptune_tensor *inputs;
    int n = module_inputs(module, &inputs);
    if (spec->n_values > n)
        return error_set(error, ERROR_INVALID, "too-many-inputs", "--input", "The module has %d inputs, not %d.", n,
                         spec->n_values);
    for (int i = 0; i < n; i++) {
        float *data;
        const char *source = i < spec->n_values ? spec->values[i] : "ramp";
        if (tensor_source(source, inputs[i].name, i, inputs[i].bytes / sizeof *data, arena, &data, error) < 0 ||
            module_set_input(module, i, data, inputs[i].bytes, error) < 0)
            return -1;
    }
    return 0;
}

/* The largest relative error over the outputs that have an expectation; infinity for a NaN. */
static int compare_outputs(struct module *module, const struct option_spec *spec, struct arena *arena, double *ret,
                           struct error *error) {
    const struct warptune_tensor *outputs;
    int n = module_outputs(module, &outputs);
    *ret = 0;
    if (spec->n_values > n)
        return error_set(error, ERROR_INVALID, "too-many-outputs", "--expect", "The module has %d outputs, not %d.", n,
                         spec->n_values);
    for (int i = 0; i < spec->n_values; i++) {
        size_t count = outputs[i].bytes / sizeof(float);
        float *got = arena_alloc(arena, outputs[i].bytes), *expected;
        if (tensor_source(spec->values[i], outputs[i].name, i, count, arena, &expected, error) < 0 ||
            module_get_output(module, i, got, outputs[i].bytes, error) < 0)
            return -1;
        *ret = fmax(*ret, module_error(got, expected, count));
    }
    return 0;
}

static void print_result(const struct module_latency *latency, bool compared, double difference, bool same) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    json_add_int(object, "runs", latency->runs);
    json_add_double(object, "p50_us", latency->p50_us);
    json_add_double(object, "p90_us", latency->p90_us);
    json_add_double(object, "p99_us", latency->p99_us);
    json_add_double(object, "min_us", latency->min_us);
    json_add_double(object, "mean_us", latency->mean_us);
    if (compared) {
        json_add_double(object, "relative_error", difference);
        json_add_bool(object, "matches", same);
    }
    puts(json_text(object, NULL));
}

#define WARM_UP_S 0.3
#define WARM_UP_RUNS 1000 /* at most */

/* Processors and GPUs that were idle run slowly at first: what is timed comes after some runs that nobody counts. */
static int warm_up(struct module *module, struct error *error) {
    double seconds = 0, total = 0;
    for (int i = 0; i < WARM_UP_RUNS && total < WARM_UP_S; i++, total += seconds)
        if (module_time(module, 1, &seconds, error) < 0)
            return -1;
    return 0;
}

static int run_module(const char *path, const struct option_spec *specs, int repeat, int ordinal, double tolerance,
                      struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct module *module;
    if (module_open(path, ordinal, &module, error) < 0)
        return -1;
    double *seconds = arena_array(arena, (size_t)repeat, sizeof *seconds), difference = 0;
    int status = -1;
    if (set_inputs(module, &specs[INPUT], arena, error) < 0 || module_run(module, error) < 0 ||
        compare_outputs(module, &specs[EXPECT], arena, &difference, error) < 0 || warm_up(module, error) < 0 ||
        module_time(module, repeat, seconds, error) < 0)
        goto out;
    struct module_latency latency = module_latency(seconds, repeat);
    bool same = difference <= tolerance;
    print_result(&latency, specs[EXPECT].n_values > 0, difference, same);
    status = same ? 0 : 1;
out:
    module_close(module);
    return status;
}

int cmd_run(int argc, char **argv) {
    struct error error;
    struct option_spec specs[] = {
        [INPUT] = {"--input"},         [EXPECT] = {"--expect"}, [REPEAT] = {"--repeat"},
        [TOLERANCE] = {"--tolerance"}, [DEVICE] = {"--device"}, [HELP] = {"--help", "-h", true}};
    const char *path = NULL;
    int n_paths;
    int64_t repeat, ordinal;
    if (options_parse(argc, argv, specs, ARRAY_COUNT(specs), &path, 1, &n_paths, &error) < 0 ||
        option_number(&specs[REPEAT], 1, 10000000, 100, &repeat, &error) < 0 ||
        option_number(&specs[DEVICE], 0, 1023, 0, &ordinal, &error) < 0)
        return command_misused("run", "%s", error.text);
    if (specs[HELP].n_values) {
        puts(help);
        return 0;
    }
    if (!path)
        return command_misused("run", "Which module?");
    char *end;
    const char *tolerance_text = option_text(&specs[TOLERANCE], "1e-3");
    double tolerance = strtod(tolerance_text, &end);
    if (end == tolerance_text || *end || !(tolerance >= 0))
        return command_misused("run", "--tolerance is '%.40s', but must be a number of 0 or more.", tolerance_text);
    int status = run_module(path, specs, (int)repeat, (int)ordinal, tolerance, &error);
    return status < 0 ? command_failed("run", &error) : status;
}
