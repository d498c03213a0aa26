/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/module_compile.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/device/cudnn_plan.h"
#include "gpu/module/module_build.h"
#include "gpu/module/module_write.h"
#include "service/base/child_call.h"
#include "service/base/file.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"

#define MOST_MANIFEST ((size_t)64 << 20)
#define MOST_PATH 4096
#define MOST_TEXT ((size_t)1 << 20)

/* ---- here ---- */

static int import(const struct module_request *request, const struct file_map *map, struct arena *arena,
                  struct graph **ret, struct precision_loss *ret_loss, struct error *error) {
    struct onnx_options options = {.batch = request->batch};
    if (onnx_import(map->data, map->len, &options, arena, ret, error) < 0 || graph_fuse(*ret, error) < 0)
        return -1;
    return graph_set_precision(*ret, request->precision, ret_loss, error);
}

static int write_files(const struct module_request *request, const struct module_image *image, struct arena *arena,
                       struct buf *ret_manifest, struct error *error) {
    struct module_file *file;
    if (module_file_new(image, arena, &file, error) < 0)
        return -1;
    buf_clear(ret_manifest);
    module_manifest(image, module_file_bytes(file), ret_manifest);
    if (buf_check(ret_manifest, "The module's manifest", error) < 0)
        return -1;
    if (request->so_path && module_write_so(file, request->so_path, error) < 0)
        return -1;
    if (request->tar_path && module_write_tar(image, file, ret_manifest, request->tar_path, error) < 0)
        return -1;
    return 0;
}

/* Which cuDNN the plans in the module belong to, if there are any: the one that is here. */
static int find_cudnn(const struct plan *plan, int *ret_version, struct error *error) {
    char reason[512];
    for (int i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].template->library) {
            if (cudnn_version(ret_version, reason, sizeof reason) == 0)
                return 0;
            return error_set(error, ERROR_DEVICE, "no-cudnn", NULL,
                             "The module is to have plans of cuDNN's, which is not here (%.400s)", reason);
        }
    return 0;
}

static int compile(const struct module_request *request, const struct template *const *templates,
                   const struct file_map *map, struct buf *ret_manifest, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct plan_options options = {.target = request->target,
                                   .layout = request->layout,
                                   .templates = templates,
                                   .choices = request->choices,
                                   .n_choices = request->n_choices};
    struct module_image image = {.target = request->target, .precision = request->precision, .layout = request->layout};
    struct graph *graph;
    struct plan *plan;
    if (import(request, map, arena, &graph, &image.loss, error) < 0 ||
        plan_graph(graph, &options, arena, &plan, error) < 0 || find_cudnn(plan, &image.cudnn_version, error) < 0)
        return -1;
    sha256_of(map->data, map->len, image.model_sha256);
    image.plan = plan;
    image.graph_name = graph->name;
    if (module_build(plan, &request->target, request->cache_dir, request->build_timeout_s, arena, &image.codes, error) <
        0)
        return -1;
    return write_files(request, &image, arena, ret_manifest, error);
}

int module_compile_here(const struct module_request *request, const struct template *const *templates,
                        struct buf *ret_manifest, struct error *error) {
    struct file_map map;
    if (file_map(request->model_path, &map, error) < 0)
        return -1;
    int rc = compile(request, templates, &map, ret_manifest, error);
    file_unmap(&map);
    return rc;
}

/* ---- the request as JSON ---- */

static struct json_object *choices_to_json(const struct plan_choice *choices, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++) {
        struct json_object *object = json_object_new_object();
        json_add_string(object, "workload", choices[i].workload);
        json_add_string(object, "template", choices[i].template);
        json_add_int(object, "index", choices[i].index);
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *request_to_json(const struct module_request *request) {
    struct json_object *object = json_object_new_object();
    json_add_string(object, "model", request->model_path);
    json_add_int(object, "batch", request->batch);
    json_add(object, "target", target_to_json(&request->target));
    json_add_int(object, "precision", request->precision);
    json_add_int(object, "layout", request->layout);
    json_add(object, "choices", choices_to_json(request->choices, request->n_choices));
    json_add_string(object, "cache_dir", request->cache_dir);
    if (request->so_path)
        json_add_string(object, "so", request->so_path);
    if (request->tar_path)
        json_add_string(object, "tar", request->tar_path);
    json_add_double(object, "build_timeout_s", request->build_timeout_s);
    return object;
}

static int choices_from_json(struct json_object *array, struct arena *arena, struct module_request *ret,
                             struct error *error) {
    size_t n = json_object_array_length(array);
    struct plan_choice *choices = arena_array(arena, n, sizeof *choices);
    for (size_t i = 0; i < n; i++) {
        struct json_object *object = json_object_array_get_idx(array, i);
        if (json_read_string(object, "workload", JSON_REQUIRED, MOST_TEXT, &choices[i].workload, error) < 0 ||
            json_read_string(object, "template", JSON_REQUIRED, MOST_PATH, &choices[i].template, error) < 0 ||
            json_read_int(object, "index", JSON_REQUIRED, 0, INT64_C(1) << 53, &choices[i].index, error) < 0)
            return -1;
    }
    ret->choices = choices;
    ret->n_choices = (int)n;
    return 0;
}

static int request_from_json(struct json_object *object, struct arena *arena, struct module_request *ret,
                             struct error *error) {
    struct json_object *target, *choices;
    int64_t precision, layout;
    if (json_read_string(object, "model", JSON_REQUIRED, MOST_PATH, &ret->model_path, error) < 0 ||
        json_read_int(object, "batch", JSON_REQUIRED, 0, INT32_MAX, &ret->batch, error) < 0 ||
        json_read_object(object, "target", JSON_REQUIRED, &target, error) < 0 ||
        json_read_int(object, "precision", JSON_REQUIRED, 0, PRECISION_COUNT - 1, &precision, error) < 0 ||
        json_read_int(object, "layout", JSON_REQUIRED, LAYOUT_ROW, LAYOUT_NHWC, &layout, error) < 0 ||
        json_read_array(object, "choices", JSON_REQUIRED, &choices, error) < 0 ||
        json_read_string(object, "cache_dir", JSON_REQUIRED, MOST_PATH, &ret->cache_dir, error) < 0 ||
        json_read_string(object, "so", JSON_OPTIONAL, MOST_PATH, &ret->so_path, error) < 0 ||
        json_read_string(object, "tar", JSON_OPTIONAL, MOST_PATH, &ret->tar_path, error) < 0 ||
        json_read_double(object, "build_timeout_s", JSON_REQUIRED, 0, HUGE_VAL, &ret->build_timeout_s, error) < 0)
        return -1;
    ret->precision = (enum precision)precision;
    ret->layout = (enum layout)layout;
    if (target_from_json(target, &ret->target, error) < 0)
        return -1;
    return choices_from_json(choices, arena, ret, error);
}

/* ---- in a child ---- */

static int answer(void *data, struct json_object *object, struct json_object *reply, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct buf manifest CLEANUP(buf_release) = BUF_INIT(MOST_MANIFEST);
    struct module_request request = {0};
    if (request_from_json(object, arena, &request, error) < 0 ||
        module_compile_here(&request, data, &manifest, error) < 0)
        return -1;
    json_add_string(reply, "manifest", buf_str(&manifest));
    return 0;
}

int compile_child_main(const struct template *const *templates) {
    return child_answer(answer, (void *)(uintptr_t)templates);
}

/* NVRTC and the driver map far more than they use, and so do the sanitizers: then there is no limit to set. */
static int64_t memory_limit(const struct module_request *request) {
#ifdef __SANITIZE_ADDRESS__
    (void)request;
    return 0;
#else
    struct stat st;
    if (strcmp(request->target.kind, "cpu") != 0 || stat(request->model_path, &st) < 0)
        return 0;
    return 4 * (int64_t)st.st_size + (INT64_C(6) << 30);
#endif
}

int module_compile(const struct module_request *request, int64_t deadline, bool (*stop)(void *data), void *data,
                   struct buf *ret_manifest, struct error *error) {
    struct child_call call = {.program = request->program,
                              .role = "compile",
                              .memory_bytes = memory_limit(request),
                              .no_network = true,
                              .sandbox = SANDBOX_STRICT,
                              .stop = stop,
                              .data = data};
    struct json_object *question CLEANUP(json_put_p) = request_to_json(request);
    struct json_object *reply CLEANUP(json_put_p) = NULL;
    const char *manifest;
    int status = -1;
    if (child_call(&call, question, deadline, &reply, &status, error) < 0)
        return error_prefix(error, "Compiling the module: ");
    if (json_read_string(reply, "manifest", JSON_REQUIRED, MOST_MANIFEST, &manifest, error) < 0)
        return -1;
    buf_clear(ret_manifest);
    buf_puts(ret_manifest, manifest);
    return buf_check(ret_manifest, "The module's manifest", error);
}
