/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_files.h: the ONNX networks of the shared folder ($WARPTUNE_SHARED, or ../shared), and one of them compiled,
 * run and held against its expected outputs. Shared by the unit tests and the GPU's test program.
 */
#ifndef WARPTUNE_TESTS_MODEL_FILES_H
#define WARPTUNE_TESTS_MODEL_FILES_H

#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/module/module_compile.h"
#include "gpu/module/module_run.h"
#include "service/model/onnx_import.h"

enum { MODEL_MAX_FOLDER = 1024 };

/* The folder with the networks; NULL, with a word on standard error, when it is not there. */
static inline const char *model_folder(char path[MODEL_MAX_FOLDER]) {
    const char *shared = getenv("WARPTUNE_SHARED");
    snprintf(path, MODEL_MAX_FOLDER, "%s/models", shared && *shared ? shared : "../shared");
    if (access(path, R_OK) == 0)
        return path;
    fprintf(stderr, "skipped: there is no folder %s with ONNX networks (WARPTUNE_SHARED names its parent)\n", path);
    return NULL;
}

/* What a network's outputs may differ by, relative to the largest: sums of light_* are long, their weights all alike.
 */
static inline double model_tolerance(const char *name) {
    return strncmp(name, "light_", 6) == 0 ? 1e-3 : 1e-4;
}

/* Where and for what networks are compiled. */
struct model_place {
    const char *folder; /* with the networks */
    const char *work;   /* scratch: code cache, modules */
    struct target target;
    enum layout layout;
    const struct template *const *templates;
    enum precision precision;
};

/* The numbers of light_*, whose weights are all alike, grow beyond f16's range. */
static inline bool model_fits(const struct model_place *place, const char *name) {
    return place->precision == PRECISION_FP32 || strncmp(name, "light_", 6) != 0;
}

static inline double model_limit(const struct model_place *place, const char *name) {
    static const double limits[PRECISION_COUNT] = {
        [PRECISION_FP16] = 3e-3, [PRECISION_BF16] = 2.4e-2, [PRECISION_TF32] = 1e-3};
    return place->precision == PRECISION_FP32 ? model_tolerance(name) : limits[place->precision];
}

static inline int model_compile(const struct model_place *place, const char *model_path, const char *so_path,
                                struct error *error) {
    char cache[PATH_MAX];
    struct buf manifest = BUF_INIT(1 << 26);
    snprintf(cache, sizeof cache, "%s/code", place->work);
    struct module_request request = {.model_path = model_path,
                                     .target = place->target,
                                     .precision = place->precision,
                                     .layout = place->layout,
                                     .cache_dir = cache,
                                     .so_path = so_path,
                                     .build_timeout_s = 300};
    int rc = module_compile_here(&request, place->templates, &manifest, error);
    buf_release(&manifest);
    return rc;
}

/* Inputs from NAME_input_I.pb; a network without such a file gets arange(n)/n. */
static inline int model_feed(const struct model_place *place, const char *name, struct module *module,
                             struct arena *arena, struct error *error) {
    const struct warptune_tensor *inputs;
    int n = module_inputs(module, &inputs);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct value tensor;
        size_t count = inputs[i].bytes / sizeof(float);
        float *ramp = arena_alloc(arena, inputs[i].bytes);
        const void *data = ramp;
        module_fill_ramp(ramp, count);
        snprintf(path, sizeof path, "%s/%s_input_%d.pb", place->folder, name, i);
        if (access(path, R_OK) == 0) {
            if (onnx_read_tensor(path, arena, &tensor, error) < 0)
                return -1;
            if ((size_t)shape_count(&tensor.shape) != count)
                return error_set(error, ERROR_INVALID, "wrong-size", NULL, "%s has not the input's size.", path);
            data = tensor.data;
        }
        if (module_set_input(module, i, data, inputs[i].bytes, error) < 0)
            return -1;
    }
    return 0;
}

/* The largest error over all outputs. */
static inline int model_judge(const struct model_place *place, const char *name, struct module *module,
                              struct arena *arena, double *ret_error, struct error *error) {
    const struct warptune_tensor *outputs;
    int n = module_outputs(module, &outputs);
    *ret_error = 0;
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        struct value tensor;
        float *got = arena_alloc(arena, outputs[i].bytes);
        snprintf(path, sizeof path, "%s/%s_output_%d.pb", place->folder, name, i);
        if (module_get_output(module, i, got, outputs[i].bytes, error) < 0 ||
            onnx_read_tensor(path, arena, &tensor, error) < 0)
            return -1;
        if ((size_t)shape_count(&tensor.shape) * sizeof(float) != outputs[i].bytes)
            return error_set(error, ERROR_INVALID, "wrong-size", NULL, "%s has not the output's size.", path);
        *ret_error = fmax(*ret_error, module_error(got, tensor.data, outputs[i].bytes / sizeof(float)));
    }
    return 0;
}

/* Compiles, runs twice (nothing may be left over from the first run) and compares. */
static inline int model_check(const struct model_place *place, const char *name, double *ret_error,
                              struct error *error) {
    char model_path[PATH_MAX], so_path[PATH_MAX];
    struct module *module;
    snprintf(model_path, sizeof model_path, "%s/%s.onnx", place->folder, name);
    snprintf(so_path, sizeof so_path, "%s/%s.so", place->work, name);
    if (model_compile(place, model_path, so_path, error) < 0 || module_open(so_path, 0, &module, error) < 0)
        return -1;
    struct arena *arena = arena_new(0);
    int rc = -1;
    if (model_feed(place, name, module, arena, error) == 0 && module_run(module, error) == 0 &&
        module_run(module, error) == 0)
        rc = model_judge(place, name, module, arena, ret_error, error);
    module_close(module);
    arena_free(arena);
    unlink(so_path);
    return rc;
}

/* Calls fn(data, name) for each network of the folder; returns how many there are. */
static inline int model_each(const char *folder, void (*fn)(void *data, const char *name), void *data) {
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.onnx", folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    int n = (int)found.gl_pathc;
    for (int i = 0; i < n; i++) {
        const char *base = strrchr(found.gl_pathv[i], '/') + 1;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(base, "."), base);
        fn(data, name);
    }
    globfree(&found);
    return n;
}

#endif
