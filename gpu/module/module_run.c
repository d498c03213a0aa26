/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/module_run.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/module/runtime/format.h"
#include "service/base/file.h"
#include "service/base/rng.h"

struct module {
    void *library;
    struct warptune_module *handle;
    struct warptune_module *(*open)(int, char *, size_t);
    int (*inputs)(struct warptune_module *, const struct warptune_tensor **);
    int (*outputs)(struct warptune_module *, const struct warptune_tensor **);
    int (*set_input)(struct warptune_module *, int, const void *, size_t);
    int (*run)(struct warptune_module *);
    int (*get_output)(struct warptune_module *, int, void *, size_t);
    int (*time)(struct warptune_module *, int, double *);
    const char *(*error)(struct warptune_module *);
    void (*close)(struct warptune_module *);
};

#define FUNCTION(name) \
    { "warptune_module_" #name, offsetof(struct module, name) }
static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {FUNCTION(open), FUNCTION(inputs),     FUNCTION(outputs), FUNCTION(set_input), FUNCTION(run),
                 FUNCTION(time), FUNCTION(get_output), FUNCTION(error),   FUNCTION(close)};

/* ---- opening ---- */

static int bad(struct error *error, const char *path, const char *what) {
    (void)error_set(error, ERROR_INVALID, "bad-module", NULL, "%.400s is not a module that can be used: %.500s.", path,
                    what);
    return -1;
}

/* The system's loader believes what a library says about itself: so look first whether all of it is there. */
static int check_file(const char *path, struct error *error) {
    struct file_map map;
    struct format_footer footer;
    const char *what = NULL;
    if (file_map(path, &map, error) < 0)
        return -1;
    if (map.len > sizeof footer)
        memcpy(&footer, (const char *)map.data + map.len - sizeof footer, sizeof footer);
    if (map.len <= sizeof footer || memcmp(footer.magic, FORMAT_FOOTER_MAGIC, sizeof footer.magic) != 0)
        what = "it does not end as one does, or was cut off";
    else if (footer.file_bytes != map.len || footer.front_bytes > map.len)
        what = "its length is not what it says";
    else if (footer.checksum != format_checksum(map.data, footer.front_bytes))
        what = "it is damaged: its checksum is wrong";
    file_unmap(&map);
    return what ? bad(error, path, what) : 0;
}

static int load(const char *path, struct module *module, struct error *error) {
    char absolute[PATH_MAX];
    if (!realpath(path, absolute)) {
        (void)error_set(error, ERROR_NOT_FOUND, "no-such-file", NULL, "Cannot open %.400s: %m.", path);
        return -1;
    }
    if (check_file(absolute, error) < 0)
        return -1;
    module->library = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
    if (!module->library) {
        const char *reason = dlerror();
        return bad(error, path, reason ? reason : "it cannot be loaded");
    }
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        void *symbol = dlsym(module->library, functions[i].symbol);
        if (!symbol)
            return bad(error, path, "it lacks functions of warptune_module.h");
        memcpy((char *)module + functions[i].offset, &symbol, sizeof symbol);
    }
    return 0;
}

int module_open(const char *path, int ordinal, struct module **ret, struct error *error) {
    struct module *module = calloc(1, sizeof *module);
    char reason[512] = "";
    if (!module)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to open a module.");
    if (load(path, module, error) < 0) {
        module_close(module);
        return -1;
    }
    module->handle = module->open(ordinal, reason, sizeof reason);
    if (!module->handle) {
        module_close(module);
        return error_set(error, ERROR_DEVICE, "module-failed", NULL, "%s cannot be opened: %s", path, reason);
    }
    *ret = module;
    return 0;
}

void module_close(struct module *module) {
    if (!module)
        return;
    if (module->handle)
        module->close(module->handle);
    if (module->library)
        dlclose(module->library);
    free(module);
}

/* ---- running ---- */

static int result(struct module *module, int rc, struct error *error) {
    return rc == 0 ? 0 : error_set(error, ERROR_DEVICE, "module-failed", NULL, "%s", module->error(module->handle));
}

int module_inputs(struct module *module, const struct warptune_tensor **ret) {
    return module->inputs(module->handle, ret);
}

int module_outputs(struct module *module, const struct warptune_tensor **ret) {
    return module->outputs(module->handle, ret);
}

int module_set_input(struct module *module, int index, const void *data, size_t bytes, struct error *error) {
    return result(module, module->set_input(module->handle, index, data, bytes), error);
}

int module_run(struct module *module, struct error *error) {
    return result(module, module->run(module->handle), error);
}

int module_get_output(struct module *module, int index, void *data, size_t bytes, struct error *error) {
    return result(module, module->get_output(module->handle, index, data, bytes), error);
}

int module_time(struct module *module, int count, double *ret_seconds, struct error *error) {
    return result(module, module->time(module->handle, count, ret_seconds), error);
}

/* ---- inputs and judgement ---- */

void module_fill_ramp(float *data, size_t n) {
    for (size_t i = 0; i < n; i++)
        data[i] = (float)((double)i / (double)n);
}

void module_fill_random(float *data, size_t n, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++)
        data[i] = (float)(2 * rng_unit(&rng) - 1);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* By the nearest rank. */
static double percentile_us(const double *sorted, int n, double p) {
    int rank = (int)ceil(p * n);
    return sorted[rank < 1 ? 0 : rank - 1] * 1e6;
}

struct module_latency module_latency(double *seconds, int n) {
    struct module_latency latency = {.runs = n};
    double sum = 0;
    if (n <= 0)
        return latency;
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    for (int i = 0; i < n; i++)
        sum += seconds[i];
    latency.p50_us = percentile_us(seconds, n, 0.5);
    latency.p90_us = percentile_us(seconds, n, 0.9);
    latency.p99_us = percentile_us(seconds, n, 0.99);
    latency.min_us = seconds[0] * 1e6;
    latency.mean_us = sum / n * 1e6;
    return latency;
}

/* An expected output of nothing but zeros counts as one of size 1. */
double module_error(const float *got, const float *expected, size_t n) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - (double)expected[i]);
        if (isnan(difference) && !(isinf(got[i]) && got[i] == expected[i]))
            return INFINITY;
        if (isfinite(expected[i]) && fabs((double)expected[i]) > largest)
            largest = fabs((double)expected[i]);
        if (difference > worst)
            worst = difference;
    }
    return worst / (largest > 0 ? largest : 1);
}
