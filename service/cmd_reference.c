/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "service/base/file.h"
#include "service/commands.h"
#include "service/model/eval.h"
#include "service/model/fuse.h"
#include "service/model/onnx_import.h"
#include "service/model/precision.h"
#include "service/options.h"
#include "service/tensor_files.h"

static const char help[] =
    "usage: warptune reference MODEL.onnx [--input X.pb|ramp|random]… [--batch N] [--precision P] -o Y.pb\n"
    "                          [-o Y2.pb]…\n\n"
    "Computes the network's outputs with plain loops on the host, sums in double precision, and writes each as an "
    "ONNX\n"
    "TensorProto: what a compiled module's output is to be held against (`warptune run --expect Y.pb`). With "
    "precision\n"
    "fp16, bf16 or tf32 (the default is fp32) weights and activations are rounded as in a module of that precision, "
    "which\n"
    "shows what of the difference is the rounding's.";

enum { INPUT, BATCH, PRECISION, OUTPUT, HELP };

static int load_inputs(const struct graph *graph, const struct option_spec *spec, struct arena *arena,
                       const void ***ret, struct error *error) {
    const void **inputs = arena_array(arena, (size_t)graph->n_inputs, sizeof *inputs);
    for (int i = 0; i < graph->n_inputs; i++) {
        const struct value *value = &graph->values[graph->inputs[i]];
        const char *source = i < spec->n_values ? spec->values[i] : "ramp";
        float *data;
        if (tensor_source(source, value->name, i, (size_t)shape_count(&value->shape), arena, &data, error) < 0)
            return -1;
        inputs[i] = data;
    }
    *ret = inputs;
    return 0;
}

/* The graph as the file has it, or for another precision fused, as modules are. */
static int load_graph(const struct file_map *map, int64_t batch, enum precision precision, struct arena *arena,
                      struct graph **ret, struct error *error) {
    struct onnx_options options = {.batch = batch};
    struct precision_loss loss;
    if (onnx_import(map->data, map->len, &options, arena, ret, error) < 0)
        return -1;
    if (precision == PRECISION_FP32)
        return 0;
    return graph_fuse(*ret, error) < 0 ? -1 : graph_set_precision(*ret, precision, &loss, error);
}

static int compute(const struct file_map *map, const struct option_spec *specs, int64_t batch, enum precision precision,
                   struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct graph *graph;
    const void **inputs;
    if (load_graph(map, batch, precision, arena, &graph, error) < 0 ||
        load_inputs(graph, &specs[INPUT], arena, &inputs, error) < 0)
        return -1;
    if (specs[OUTPUT].n_values != graph->n_outputs)
        return error_set(error, ERROR_INVALID, "wrong-outputs", "-o",
                         "The network has %d outputs, so -o must be given %d times, not %d.", graph->n_outputs,
                         graph->n_outputs, specs[OUTPUT].n_values);
    float **outputs = arena_array(arena, (size_t)graph->n_outputs, sizeof *outputs);
    if (eval_graph(graph, inputs, arena, outputs, error) < 0)
        return -1;
    for (int i = 0; i < graph->n_outputs; i++) {
        const struct value *value = &graph->values[graph->outputs[i]];
        if (onnx_write_tensor(specs[OUTPUT].values[i], value->name, &value->shape, outputs[i], error) < 0)
            return -1;
    }
    return 0;
}

int cmd_reference(int argc, char **argv) {
    struct error error;
    struct option_spec specs[] = {[INPUT] = {"--input"},
                                  [BATCH] = {"--batch"},
                                  [PRECISION] = {"--precision"},
                                  [OUTPUT] = {"-o", "--output"},
                                  [HELP] = {"--help", "-h", true}};
    const char *path = NULL;
    int n_paths;
    int64_t batch;
    enum precision precision;
    if (options_parse(argc, argv, specs, ARRAY_COUNT(specs), &path, 1, &n_paths, &error) < 0 ||
        option_number(&specs[BATCH], 1, 65536, 0, &batch, &error) < 0 ||
        precision_parse(option_text(&specs[PRECISION], "fp32"), "bad-option", &precision, &error) < 0)
        return command_misused("reference", "%s", error.text);
    if (specs[HELP].n_values) {
        puts(help);
        return 0;
    }
    if (!path || specs[OUTPUT].n_values == 0)
        return command_misused("reference", "It needs a model and, with -o, a file for the output.");
    struct file_map map;
    if (file_map(path, &map, &error) < 0)
        return command_failed("reference", &error);
    int status = compute(&map, specs, batch, precision, &error);
    file_unmap(&map);
    return status < 0 ? command_failed("reference", &error) : 0;
}
