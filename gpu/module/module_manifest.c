/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/cudnn_conv.h"
#include "gpu/module/module_write.h"
#include "gpu/module/runtime/format.h"
#include "service/base/json.h"
#include "service/base/utf8.h"

enum { MOST_ENTRY = 60 };

static bool is_cuda(const struct module_image *image) {
    return strcmp(image->target.kind, "cuda") == 0;
}

void module_code_name(const struct module_image *image, int program, char ret_name[100]) {
    const struct program *p = image->plan->programs[program].program;
    char entry[MOST_ENTRY + 1] = "kernel";
    if (p->n_run > 0)
        snprintf(entry, sizeof entry, "%s", cudnn_is_entry(p->run[0].entry) ? "cudnn" : p->run[0].entry);
    snprintf(ret_name, 100, "kernels/%03d-%s.%s", program, entry, is_cuda(image) ? "cubin" : "so");
}

void module_source_name(const struct module_image *image, int program, char ret_name[100]) {
    snprintf(ret_name, 100, "kernels/%03d.%s", program, is_cuda(image) ? "cu" : "c");
}

void module_weight_name(int buffer, char ret_name[100]) {
    snprintf(ret_name, 100, "weights/%03d.bin", buffer);
}

/* A name out of the model, which may be any bytes. */
static void add_text(struct json_object *object, const char *field, const char *text) {
    char *clean = strdup(text ? text : "");
    if (clean)
        utf8_scrub(clean);
    json_add_string(object, field, clean);
    free(clean);
}

static struct json_object *tensors_json(const struct plan_tensor *tensors, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++) {
        struct json_object *object = json_object_new_object(), *shape = json_object_new_array();
        add_text(object, "name", tensors[i].name);
        json_add_string(object, "dtype", dtype_name(tensors[i].dtype));
        for (int d = 0; d < tensors[i].shape.rank; d++)
            json_object_array_add(shape, json_object_new_int64(tensors[i].shape.dim[d]));
        json_add(object, "shape", shape);
        json_object_array_add(array, object);
    }
    return array;
}

static struct json_object *workload_json(const struct module_image *image, int i) {
    const struct plan_program *program = &image->plan->programs[i];
    struct json_object *object = json_object_new_object(), *entity = NULL;
    struct error ignored;
    char name[100];
    json_add_string(object, "workload", program->workload);
    json_add_string(object, "template", program->template->name);
    json_add_int(object, "version", program->template->version);
    json_add_int(object, "index", program->index);
    if (json_parse(program->entity, strlen(program->entity), &entity, &ignored) == 0)
        json_add(object, "entity", entity);
    json_add_int(object, "count", program->count);
    module_code_name(image, i, name);
    json_add_string(object, "code", name);
    module_source_name(image, i, name);
    json_add_string(object, "source", name);
    return object;
}

static struct json_object *weight_json(const struct plan_buffer *buffer, int i) {
    struct json_object *object = json_object_new_object();
    char name[100];
    module_weight_name(i, name);
    json_add_string(object, "file", name);
    json_add_int(object, "bytes", (int64_t)buffer->bytes);
    if (buffer->splat)
        json_add_int(object, "repeats_bytes", (int64_t)buffer->element_bytes);
    return object;
}

static void add_sizes(struct json_object *object, const struct plan *plan, size_t so_bytes) {
    int64_t constant = 0, prepared = 0;
    for (int i = 0; i < plan->n_buffers; i++) {
        const struct plan_buffer *buffer = &plan->buffers[i];
        if (buffer->kind == PLAN_CONSTANT)
            constant += (int64_t)buffer->bytes;
        if (buffer->kind == PLAN_PREPARED)
            prepared += (int64_t)buffer->bytes;
    }
    json_add_int(object, "steps", plan->n_run);
    json_add_int(object, "prepare_steps", plan->n_prepare);
    json_add_int(object, "workspace_bytes", (int64_t)plan->workspace_bytes);
    json_add_int(object, "constant_bytes", constant);
    json_add_int(object, "prepared_bytes", prepared);
    json_add_int(object, "module_bytes", (int64_t)so_bytes);
}

void module_manifest(const struct module_image *image, size_t so_bytes, struct buf *ret) {
    const struct plan *plan = image->plan;
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    struct json_object *workloads = json_object_new_array(), *weights = json_object_new_array();
    json_add_int(object, "format", FORMAT_VERSION);
    add_text(object, "name", image->graph_name);
    json_add_string(object, "model_sha256", image->model_sha256);
    json_add(object, "target", target_to_json(&image->target));
    json_add_string(object, "precision", precision_name(image->precision));
    json_add_int(object, "saturated_constants", image->loss.saturated);
    json_add_string(object, "layout", layout_name(image->layout));
    if (image->cudnn_version)
        json_add_int(object, "cudnn_version", image->cudnn_version);
    json_add(object, "inputs", tensors_json(plan->inputs, plan->n_inputs));
    json_add(object, "outputs", tensors_json(plan->outputs, plan->n_outputs));
    for (int i = 0; i < plan->n_programs; i++)
        json_object_array_add(workloads, workload_json(image, i));
    for (int i = 0; i < plan->n_buffers; i++) {
        if (plan->buffers[i].kind == PLAN_CONSTANT)
            json_object_array_add(weights, weight_json(&plan->buffers[i], i));
    }
    json_add(object, "workloads", workloads);
    json_add(object, "weights", weights);
    add_sizes(object, plan, so_bytes);
    size_t len;
    const char *text = json_text(object, &len);
    buf_append(ret, text, len);
}
