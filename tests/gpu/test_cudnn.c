/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cudnn.c: cuDNN's plans as candidates and as steps of modules. A plain program, for GPU hosts have no test
 * framework:
 *     test_cudnn FOLDER      with ONNX networks and their expected outputs, as ../shared/models
 * It is its own children (`test_cudnn child build`, `child run`). Without a GPU or cuDNN it says so and succeeds.
 */
#include <stdbool.h>

#include "gpu/device/cudnn_plan.h"
#include "gpu/device/device.h"
#include "gpu/measure/measure.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/model/fuse.h"
#include "tests/unit/model_files.h"

enum { MOST_POINTS = 32 };

struct tally {
    int passed, failed;
};

static void report(struct tally *tally, bool ok, const char *what, const char *text) {
    printf("%s - %s: %s\n", ok ? "ok" : "not ok", what, text);
    fflush(stdout);
    tally->passed += ok;
    tally->failed += !ok;
}

/* ---- trials ---- */

/* The geometry of a layer: its stride and pads both ways, its groups. */
#define ATTR(s, p, g) " {stride=" s "x" s ", dilation=1x1, pad=" p "x" p "x" p "x" p ", groups=" g "}"

static const char *const keys[] = {
    "conv2d(f32:nhwc:1x64x14x14, f32:row:32x64x3x3, f32:row:32) -> f32:nhwc:1x32x14x14" ATTR("1", "1",
                                                                                             "1") " bias act=relu",
    "conv2d(f32:row:2x24x15x15, f32:row:40x24x3x3) -> f32:row:2x40x8x8" ATTR("2", "1", "1"),
    "conv2d(f16:nhwc:1x64x28x28, f16:row:128x64x3x3, f32:row:128) -> f16:nhwc:1x128x14x14" ATTR(
        "2", "1", "1") " bias act=clip:0:6",
    "conv2d(f16:nhwc:4x64x14x14, f16:row:64x64x1x1, f32:row:64, f16:nhwc:4x64x14x14) -> f16:nhwc:4x64x14x14" ATTR(
        "1", "0", "1") " bias residual act=relu",
    "conv2d(f16:nhwc:1x64x56x56, f16:row:64x1x3x3, f32:row:64) -> f16:nhwc:1x64x56x56" ATTR("1", "1",
                                                                                            "64") " bias act=relu",
    "conv2d(f16:row:1x32x14x14, f16:row:32x32x3x3, f32:row:32) -> f16:row:1x32x14x14" ATTR("1", "1",
                                                                                           "1") " bias act=relu",
    "dense(f16:row:8x512, f16:row:1000x512, f32:row:1000) -> f16:row:8x1000 bias",
    "dense(f32:row:1x512, f32:row:1000x512, f32:row:1000) -> f32:row:1x1000 bias act=leaky-relu:0.1",
};

/* Every point runs and is right, or is refused as one that cannot be; one at least runs. */
static void judge(const struct trial *trials, int n, const char *key, struct tally *tally) {
    int good = 0, bad = 0;
    double best = 1e9;
    char text[400];
    for (int i = 0; i < n; i++) {
        good += trials[i].error_no == TRIAL_OK;
        bad += trials[i].error_no != TRIAL_OK && trials[i].error_no != TRIAL_INSTANTIATION;
        best = fmin(best, trial_cost(&trials[i]));
        if (trials[i].error_no != TRIAL_OK)
            printf("#   %d: %s: %.250s\n", i, trial_error_name(trials[i].error_no), trials[i].error_text);
    }
    snprintf(text, sizeof text, "%d of %d run, best %.2f us, %.100s", good, n, best * 1e6, key);
    report(tally, good > 0 && bad == 0, "trials", text);
}

static void test_trials(struct measurer *measurer, const char *key, struct tally *tally) {
    struct trial trials[MOST_POINTS] = {0};
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const struct target *target = &measurer_device(measurer)->target;
    struct workload *workload;
    struct error error = {0};
    if (workload_parse(key, arena, &workload, &error) < 0 || !cudnn_cuda.serves(workload, target)) {
        report(tally, false, key, error.text);
        return;
    }
    int size = (int)cudnn_cuda.space(workload, target, arena)->size, n = 0;
    for (int i = 0; i < size; i += i % 8 == 1 ? 6 : 1) /* the first two and the last of each kind */
        trials[n++] = (struct trial){.template = &cudnn_cuda, .index = i};
    if (measurer_run(measurer, workload, &measure_defaults, trials, n, NULL, &error) < 0)
        report(tally, false, key, error.text);
    else
        judge(trials, n, key, tally);
}

/* ---- modules ---- */

static const char *const networks[] = {"resnet_narrow", "mobilenet_v2_035", "odd_grouped", "odd_dilated"};

/* cuDNN's first plan for every workload that it serves; of FP16 the first with the bias in halves. */
static int choose(const struct module_request *request, struct arena *arena, struct plan_choice **ret,
                  struct error *error) {
    struct file_map map;
    struct onnx_options options = {0};
    struct precision_loss loss;
    struct graph *graph;
    struct workload_use *uses;
    int n, kept = 0;
    if (file_map(request->model_path, &map, error) < 0)
        return -1;
    if (onnx_import(map.data, map.len, &options, arena, &graph, error) < 0 || graph_fuse(graph, error) < 0 ||
        graph_set_precision(graph, request->precision, &loss, error) < 0) {
        file_unmap(&map);
        return -1;
    }
    workload_list(graph, request->layout, arena, &uses, &n);
    *ret = arena_array(arena, (size_t)n + 1, sizeof **ret);
    for (int i = 0; i < n; i++)
        if (cudnn_cuda.serves(uses[i].workload, &request->target)) {
            int64_t size = cudnn_cuda.space(uses[i].workload, &request->target, arena)->size;
            (*ret)[kept++] = (struct plan_choice){uses[i].key, cudnn_cuda.name, size > 8 ? 8 : 0};
        }
    file_unmap(&map);
    return kept;
}

static int run(const struct model_place *place, const char *name, const char *so_path, double *ret,
               struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct module *module;
    if (module_open(so_path, 0, &module, error) < 0)
        return -1;
    int rc = -1;
    if (model_feed(place, name, module, arena, error) == 0 && module_run(module, error) == 0 &&
        module_run(module, error) == 0)
        rc = model_judge(place, name, module, arena, ret, error);
    module_close(module);
    return rc;
}

static void test_module(const struct model_place *place, const char *name, struct tally *tally) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct buf manifest CLEANUP(buf_release) = BUF_INIT(1 << 26);
    struct module_request request = {.model_path = arena_printf(arena, "%s/%s.onnx", place->folder, name),
                                     .target = place->target,
                                     .precision = place->precision,
                                     .layout = place->layout,
                                     .cache_dir = arena_printf(arena, "%s/code", place->work),
                                     .so_path = arena_printf(arena, "%s/%s.so", place->work, name),
                                     .build_timeout_s = 300};
    struct plan_choice *choices = NULL;
    struct error error = {0};
    double difference = INFINITY;
    char text[400];
    request.n_choices = choose(&request, arena, &choices, &error);
    request.choices = choices;
    bool ok = request.n_choices > 0 && module_compile_here(&request, place->templates, &manifest, &error) == 0 &&
              strstr(buf_str(&manifest), "\"cudnn_version\"") &&
              run(place, name, request.so_path, &difference, &error) == 0 && difference <= model_limit(place, name);
    snprintf(text, sizeof text, "%s %s %s: %d plans, error %.2g %.250s", name, precision_name(place->precision),
             layout_name(place->layout), request.n_choices, difference, error.text);
    report(tally, ok, "module", text);
    setenv("WARPTUNE_CUDNN", "/nowhere/libcudnn.so.9", 1);
    ok = run(place, name, request.so_path, &difference, &error) < 0 && strstr(error.text, "needs cuDNN");
    unsetenv("WARPTUNE_CUDNN");
    report(tally, ok, "module without cuDNN", ok ? "says what it needs" : error.text);
}

/* FP32 in both layouts, FP16 in NHWC; for NCHW with dilated taps cuDNN has no fused plan. */
static void test_modules(const char *folder, const char *work, const struct target *target, struct tally *tally) {
    struct model_place place = {folder, work, *target, LAYOUT_NHWC, template_builtin, PRECISION_FP32};
    for (size_t i = 0; i < ARRAY_COUNT(networks); i++) {
        place.precision = PRECISION_FP32;
        place.layout = i == 1 ? LAYOUT_ROW : LAYOUT_NHWC;
        test_module(&place, networks[i], tally);
        place.precision = PRECISION_FP16;
        place.layout = LAYOUT_NHWC;
        test_module(&place, networks[i], tally);
    }
}

static void test_all_trials(const char *work, struct tally *tally) {
    struct measurer_config config = {.kind = "cuda", .cache_dir = work, .templates = template_builtin};
    struct measurer *measurer;
    struct error error = {0};
    if (measurer_new(&config, &measurer, &error) < 0) {
        report(tally, false, "measuring cannot begin", error.text);
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        test_trials(measurer, keys[i], tally);
    measurer_free(measurer);
}

/* The measurer's children find what this process found. */
int main(int argc, char **argv) {
    struct tally tally = {0};
    struct device_info info;
    struct error error = {0};
    char reason[400], work[] = "/tmp/warptune-cudnn-XXXXXX";
    int version = 0;
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return strcmp(argv[2], "build") == 0 ? builder_child_main(template_builtin)
                                             : runner_child_main(template_builtin);
    if (device_cuda.count(&error) == 0 || cudnn_version(&version, reason, sizeof reason) < 0) {
        printf("# skipped: %s\n0 passed, 0 failed\n", version == 0 && error.class != ERROR_NONE ? error.text : reason);
        return 0;
    }
    if (device_cuda.describe(0, &info, &error) < 0 || !mkdtemp(work)) {
        printf("not ok - %s\n0 passed, 1 failed\n", error.text);
        return 1;
    }
    printf("# %s, cuDNN %d\n", info.key, version);
    if (argc > 1)
        test_modules(argv[1], work, &info.target, &tally);
    test_all_trials(work, &tally);
    (void)!file_remove_tree(work, &error);
    printf("%d passed, %d failed\n", tally.passed, tally.failed);
    return tally.failed > 0;
}
