/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many verified trials a second: random configurations of every template that serves ResNet-18's convolutions,
 * first with an empty code cache, so that each is compiled, then the same ones again.
 *
 *     bench_trials [--kind cuda] [--trials 32] [--batch 32] [--layers 11] [--bound]
 *
 * --trials: of each layer and template; --batch: trials of one call; --bound: later batches know the best time so far,
 * as a search does. Prints one JSON object. A plain program, its own children.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/measure.h"
#include "gpu/template/template.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "service/base/rng.h"

enum { MOST_TRIALS = 512 };

#define CONV(c, h, k, r, s, oh, p)                                                                                   \
    "conv2d(f32:nhwc:1x" #c "x" #h "x" #h ", f32:row:" #k "x" #c "x" #r "x" #r ", f32:row:" #k ") -> f32:nhwc:1x" #k \
    "x" #oh "x" #oh " {stride=" #s "x" #s ", dilation=1x1, pad=" #p "x" #p "x" #p "x" #p ", groups=1} bias act=relu"

static const char *const layers[] = {
    CONV(3, 224, 64, 7, 2, 112, 3),  CONV(64, 56, 64, 3, 1, 56, 1),   CONV(64, 56, 128, 3, 2, 28, 1),
    CONV(64, 56, 128, 1, 2, 28, 0),  CONV(128, 28, 128, 3, 1, 28, 1), CONV(128, 28, 256, 3, 2, 14, 1),
    CONV(128, 28, 256, 1, 2, 14, 0), CONV(256, 14, 256, 3, 1, 14, 1), CONV(256, 14, 512, 3, 2, 7, 1),
    CONV(256, 14, 512, 1, 2, 7, 0),  CONV(512, 7, 512, 3, 1, 7, 1),
};

struct settings {
    const char *kind;
    int trials, batch, layers;
    bool bound;
};

/* What one pass over all layers came to. */
struct pass {
    double seconds; /* of measuring, without the first trial of a layer, which loads the plain kernel */
    int trials, verified, cut_short, disturbed, errors[TRIAL_ERROR_COUNT];
    double build_s, load_s, verify_s, time_s; /* sums */
};

static bool read_settings(int argc, char **argv, struct settings *ret) {
    *ret = (struct settings){"cuda", 32, 32, ARRAY_COUNT(layers), false};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--bound") == 0) {
            ret->bound = true;
            continue;
        }
        if (strcmp(argv[i], "--kind") == 0)
            ret->kind = value;
        else if (strcmp(argv[i], "--trials") == 0)
            ret->trials = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--batch") == 0)
            ret->batch = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--layers") == 0)
            ret->layers = (int)strtol(value, NULL, 10);
        else
            return false;
        i++;
    }
    return ret->trials > 0 && ret->trials <= MOST_TRIALS && ret->batch > 0 && ret->layers > 0 &&
           ret->layers <= (int)ARRAY_COUNT(layers) && device_class_find(ret->kind);
}

static void tally(struct pass *pass, const struct trial *trial) {
    pass->trials++;
    pass->errors[trial->error_no]++;
    pass->verified += trial->error_no == TRIAL_OK;
    pass->cut_short += (trial->flags & TRIAL_CUT_SHORT) != 0;
    pass->disturbed += (trial->flags & (TRIAL_THROTTLED | TRIAL_SHARED)) != 0;
    pass->build_s += trial->build_s;
    pass->load_s += trial->load_s;
    pass->verify_s += trial->verify_s;
    pass->time_s += trial->time_s;
}

static int measure_layer(struct measurer *measurer, const struct template *template, const struct workload *workload,
                         const struct settings *settings, struct pass *pass, struct error *error) {
    static struct trial trials[MOST_TRIALS];
    const struct target *target = &measurer_device(measurer)->target;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct space *space = template->space(workload, target, arena);
    struct trial first = {.template = template, .index = template->fallback(workload, target, space)};
    struct rng rng;
    rng_seed(&rng, 5);
    for (int i = 0; i < settings->trials; i++)
        trials[i] = (struct trial){.template = template, .index = (int64_t)rng_below(&rng, (uint64_t)space->size)};
    if (measurer_run(measurer, workload, &measure_defaults, &first, 1, NULL, error) < 0)
        return -1;
    double best = trial_cost(&first);
    for (int done = 0; done < settings->trials; done += settings->batch) {
        int n = settings->trials - done < settings->batch ? settings->trials - done : settings->batch;
        for (int i = done; i < done + n; i++)
            trials[i].bound_s = settings->bound ? best : 0;
        int64_t begin = clock_now_ns();
        if (measurer_run(measurer, workload, &measure_defaults, trials + done, n, NULL, error) < 0)
            return -1;
        pass->seconds += (double)(clock_now_ns() - begin) / NS_PER_S;
        for (int i = done; i < done + n; i++) {
            tally(pass, &trials[i]);
            best = trial_cost(&trials[i]) < best ? trial_cost(&trials[i]) : best;
        }
    }
    return 0;
}

static int run_pass(struct measurer *measurer, const struct settings *settings, struct pass *ret, struct error *error) {
    const struct target *target = &measurer_device(measurer)->target;
    const struct template *plain = template_plain(target);
    for (int l = 0; l < settings->layers; l++) {
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        struct workload *workload;
        if (workload_parse(layers[l], arena, &workload, error) < 0)
            return -1;
        for (const struct template *const *t = template_builtin; *t; t++)
            if (*t != plain && strcmp((*t)->device, target->kind) == 0 && (*t)->serves(workload, target) &&
                measure_layer(measurer, *t, workload, settings, ret, error) < 0)
                return -1;
    }
    return 0;
}

static struct json_object *pass_json(const struct pass *pass) {
    struct json_object *object = json_object_new_object(), *errors = json_object_new_object(),
                       *phases = json_object_new_object();
    double n = pass->trials > 0 ? pass->trials : 1;
    json_add_double(object, "trials_per_s", pass->trials / pass->seconds);
    json_add_double(object, "verified_per_s", pass->verified / pass->seconds);
    json_add_int(object, "trials", pass->trials);
    json_add_int(object, "verified", pass->verified);
    json_add_int(object, "cut_short", pass->cut_short);
    json_add_int(object, "disturbed", pass->disturbed);
    for (int i = 1; i < TRIAL_ERROR_COUNT; i++)
        if (pass->errors[i] > 0)
            json_add_int(errors, trial_error_name((enum trial_error)i), pass->errors[i]);
    json_add(object, "errors", errors);
    json_add_double(phases, "build", pass->build_s / n * 1e3);
    json_add_double(phases, "load", pass->load_s / n * 1e3);
    json_add_double(phases, "verify", pass->verify_s / n * 1e3);
    json_add_double(phases, "time", pass->time_s / n * 1e3);
    json_add_double(phases, "wall", pass->seconds / n * 1e3);
    json_add(object, "mean_ms", phases);
    return object;
}

static int bench(const struct settings *settings, const char *folder, struct error *error) {
    struct measurer *measurer;
    struct pass cold = {0}, warm = {0};
    struct measurer_config config = {.kind = settings->kind, .cache_dir = folder, .templates = template_builtin};
    if (measurer_new(&config, &measurer, error) < 0)
        return -1;
    int rc = run_pass(measurer, settings, &cold, error);
    if (rc == 0)
        rc = run_pass(measurer, settings, &warm, error);
    if (rc == 0) {
        struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
        json_add_string(object, "device", measurer_device(measurer)->key);
        json_add_string(object, "compiler", measurer_device(measurer)->compiler);
        json_add_double(object, "cold_per_s", cold.verified / cold.seconds);
        json_add_double(object, "warm_per_s", warm.verified / warm.seconds);
        json_add(object, "cold", pass_json(&cold));
        json_add(object, "warm", pass_json(&warm));
        puts(json_text(object, NULL));
    }
    measurer_free(measurer);
    return rc;
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/warptune-bench-XXXXXX";
    struct settings settings;
    struct error error = {0}, ignored;
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(template_builtin)
                                             : runner_child_main(template_builtin);
    if (!read_settings(argc, argv, &settings)) {
        fputs("usage: bench_trials [--kind cpu|cuda] [--trials N] [--batch N] [--layers N] [--bound]\n", stderr);
        return 2;
    }
    if (device_class_find(settings.kind)->count(&error) == 0) {
        printf("{\"skipped\": \"%s\"}\n", error.code);
        return 0;
    }
    int rc = mkdtemp(folder) ? bench(&settings, folder, &error) : -1;
    if (rc < 0)
        fprintf(stderr, "bench_trials: %s\n", error.text);
    (void)!file_remove_tree(folder, &ignored);
    return rc < 0;
}
