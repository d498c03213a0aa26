/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models: what the importer makes of names, constants, batches and data types; and the shared networks. */
#include "service/model/onnx_import.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx_build.h"
#include "service/base/file.h"
#include "service/model/eval.h"

static struct graph *import_model(struct model *model, const struct onnx_options *options, struct arena *arena) {
    struct graph *graph;
    struct error error = {0};
    size_t len;
    void *bytes = model_bytes(model, &len);
    void *kept = arena_alloc(arena, len); /* the graph may point into it */
    memcpy(kept, bytes, len);
    free(bytes);
    cr_assert_eq(onnx_import(kept, len, options, arena, &graph, &error), 0, "%s", error.text);
    model_done(model);
    return graph;
}

static const struct value *output_value(const struct graph *graph, int i) {
    return &graph->values[graph->outputs[i]];
}

Test(onnx, a_symbolic_batch_takes_the_option) {
    struct arena *arena = arena_new(0);
    for (int64_t batch = 0; batch < 4; batch += 3) {
        struct model model = model_new(13);
        INPUT(&model, "x", -1, 3, 4, 4);
        model_output(&model, "y");
        model_node(&model, "Flatten", "f", "x", "y", NULL);
        struct graph *graph = import_model(&model, &(struct onnx_options){.batch = batch}, arena);
        cr_assert_eq(output_value(graph, 0)->shape.dim[0], batch ? batch : 1);
        cr_assert_eq(output_value(graph, 0)->shape.dim[1], 48);
    }
    arena_free(arena);
}

/* Flattening as old exporters wrote it: the shape is taken apart, put together again and reshaped to. */
Test(onnx, shape_arithmetic_is_folded_away) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct tensor zero = {.rank = 0, INTS(0)}, minus_one = LIST(-1), axes = LIST(0);
    INPUT(&model, "x", -1, 3, 2, 2);
    model_output(&model, "y");
    model_constant(&model, "zero", &zero);
    model_constant(&model, "minus_one", &minus_one);
    model_constant(&model, "axes", &axes);
    model_node(&model, "Shape", "s", "x", "shape", NULL);
    model_node(&model, "Gather", "g", "shape zero", "batch", NULL);
    model_node(&model, "Unsqueeze", "u", "batch axes", "batch1", NULL);
    model_node(&model, "Concat", "c", "batch1 minus_one", "wanted", ATTRS(A_INT("axis", 0)));
    model_node(&model, "Reshape", "r", "x wanted", "y", NULL);
    struct graph *graph = import_model(&model, &(struct onnx_options){.batch = 5}, arena);
    cr_assert_eq(graph->n_nodes, 1);
    cr_assert_eq(graph->nodes[0].op, OP_RESHAPE);
    cr_assert_eq(graph->source_operators, 5);
    cr_assert_eq(output_value(graph, 0)->shape.dim[0], 5);
    cr_assert_eq(output_value(graph, 0)->shape.dim[1], 12);
    cr_assert_str_eq(output_value(graph, 0)->name, "y");
    arena_free(arena);
}

Test(onnx, shape_takes_a_part_from_opset_15) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(15);
    INPUT(&model, "x", 2, 3, 4);
    model_output(&model, "y");
    model_node(&model, "Shape", "s", "x", "y", ATTRS(A_INT("start", -2), A_INT("end", 99)));
    struct graph *graph = import_model(&model, NULL, arena);
    struct error error;
    float x[24] = {0}, *y;
    cr_assert_eq(output_value(graph, 0)->shape.dim[0], 2);
    cr_assert_eq(eval_graph(graph, (const void *[]){x}, arena, &y, &error), 0);
    cr_assert_eq(y[0], 3);
    cr_assert_eq(y[1], 4);
    arena_free(arena);
}

/* What the shape of Expand looks like when it comes out of PyTorch: Equal and Where over constants. */
Test(onnx, where_and_equal_choose_among_constants) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct tensor asked = LIST(2, -1), minus = LIST(-1, -1), ones = LIST(1, 1);
    INPUT(&model, "x", 1, 3);
    model_output(&model, "y");
    model_constant(&model, "asked", &asked);
    model_constant(&model, "minus", &minus);
    model_constant(&model, "ones", &ones);
    model_node(&model, "Equal", "e", "asked minus", "same", NULL);
    model_node(&model, "Where", "w", "same ones asked", "shape", NULL);
    model_node(&model, "Expand", "p", "x shape", "y", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    cr_assert_eq(output_value(graph, 0)->shape.dim[0], 2);
    cr_assert_eq(output_value(graph, 0)->shape.dim[1], 3);
    arena_free(arena);
}

Test(onnx, constants_of_a_shape_and_expanded_scalars_take_no_memory) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct tensor large = LIST(1000, 1000, 100), value = {DIMS(1), FLOATS(2)};
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    model_output(&model, "z");
    model_constant(&model, "shape", &large);
    model_constant(&model, "value", &value);
    model_node(&model, "ConstantOfShape", "c", "shape", "a", ATTRS(A_TENSOR("value", DIMS(1), FLOATS(3))));
    model_node(&model, "Expand", "p", "value shape", "b", NULL);
    model_node(&model, "Mul", "m", "a b", "ab", NULL);
    model_node(&model, "Transpose", "t", "ab", "abt", NULL);
    model_node(&model, "Add", "s", "x abt", "y", NULL);
    model_node(&model, "Relu", "r", "x", "z", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    const struct value *folded = &graph->values[graph->nodes[0].in[1]];
    cr_assert(folded->splat);
    cr_assert_eq(*(const float *)folded->data, 6);
    cr_assert_eq(folded->shape.dim[0], 100);
    cr_assert_lt(arena_used(arena), 1 << 20);
    arena_free(arena);
}

Test(onnx, a_constant_node_may_hold_plain_numbers) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    INPUT(&model, "x", 2, 3);
    model_output(&model, "y");
    model_node(&model, "Constant", "a", "", "shape", ATTRS(A_INTS("value_ints", 3, 2)));
    model_node(&model, "Constant", "b", "", "half", ATTRS(A_FLOAT("value_float", 0.5f)));
    model_node(&model, "Constant", "c", "", "row", ATTRS(A_FLOATS("value_floats", 1, 2)));
    model_node(&model, "Constant", "d", "", "axis", ATTRS(A_INT("value_int", 1)));
    model_node(&model, "Reshape", "r", "x shape", "xr", NULL);
    model_node(&model, "Mul", "m", "xr half", "xm", NULL);
    model_node(&model, "Add", "n", "xm row", "xa", NULL);
    model_node(&model, "Gather", "g", "xa axis", "y", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    struct error error;
    float x[] = {0, 1, 2, 3, 4, 5}, *y;
    cr_assert_eq(eval_graph(graph, (const void *[]){x}, arena, &y, &error), 0);
    cr_assert_eq(y[0], 2);
    cr_assert_eq(y[1], 3.5f);
    arena_free(arena);
}

Test(onnx, initializers_listed_as_inputs_are_constants) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(7);
    struct tensor w = {DIMS(2), FLOATS(1, 2)};
    INPUT(&model, "x", 2);
    INPUT(&model, "w", 2);
    model_output(&model, "y");
    model_constant(&model, "w", &w);
    model_node(&model, "Mul", "m", "x w", "y", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    cr_assert_eq(graph->n_inputs, 1);
    cr_assert_str_eq(graph->values[graph->inputs[0]].name, "x");
    arena_free(arena);
}

Test(onnx, an_output_is_computed_by_a_node_of_its_own) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct tensor w = {DIMS(2), FLOATS(1, 2)};
    INPUT(&model, "x", 2);
    model_output(&model, "x");
    model_output(&model, "w");
    model_output(&model, "a");
    model_output(&model, "b");
    model_constant(&model, "w", &w);
    model_node(&model, "Relu", "r", "x", "a", NULL);
    model_node(&model, "Identity", "i", "a", "b", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    cr_assert_eq(graph->n_outputs, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert_str_eq(output_value(graph, i)->name, ((const char *[]){"x", "w", "a", "b"})[i]);
        cr_assert_geq(graph_producer(graph, graph->outputs[i]), 0);
        cr_assert_null(output_value(graph, i)->data);
    }
    arena_free(arena);
}

/* With `shift` more bytes before the weight. */
static bool weight_is_in_place(int shift) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct tensor w = {DIMS(64, 64)};
    struct graph *graph;
    struct error error;
    size_t len;
    pb_bytes(&model.graph, 10, "1234", (size_t)shift); /* doc_string */
    INPUT(&model, "x", 1, 64);
    model_output(&model, "y");
    model_constant(&model, "w", &w);
    model_node(&model, "MatMul", "m", "x w", "y", NULL);
    char *bytes = model_bytes(&model, &len);
    cr_assert_eq(onnx_import(bytes, len, NULL, arena, &graph, &error), 0);
    const char *data = graph->values[graph->nodes[0].in[1]].data;
    cr_assert_eq(((const float *)data)[4095], 4095);
    bool inside = data > bytes && data < bytes + len;
    free(bytes);
    model_done(&model);
    arena_free(arena);
    return inside;
}

Test(onnx, aligned_weights_stay_where_they_lie_in_the_file) {
    int inside = 0;
    for (int shift = 0; shift < 4; shift++)
        inside += weight_is_in_place(shift);
    cr_assert_eq(inside, 1);
}

static float first_of_type(int type, const void *data, size_t len) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct buf tensor = BUF_INIT(1000);
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    tensor_raw(&tensor, "w", type, 1, (const int64_t[]){1}, data, len);
    pb_message(&model.graph, 5, &tensor);
    model_node(&model, "Cast", "c", "w", "wf", ATTRS(A_INT("to", ONNX_FLOAT32)));
    model_node(&model, "Add", "a", "x wf", "y", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    struct error error;
    float x[1] = {0}, *y;
    cr_assert_eq(eval_graph(graph, (const void *[]){x}, arena, &y, &error), 0);
    float result = y[0];
    arena_free(arena);
    return result;
}

Test(onnx, every_data_type_keeps_its_value) {
    cr_assert_eq(first_of_type(ONNX_FLOAT16, (const uint16_t[]){0xc100}, 2), -2.5f);
    cr_assert_eq(first_of_type(ONNX_FLOAT16, (const uint16_t[]){0x0001}, 2), 0x1p-24f);
    cr_assert_eq(first_of_type(ONNX_FLOAT16, (const uint16_t[]){0x7c00}, 2), INFINITY);
    cr_assert_eq(first_of_type(ONNX_BFLOAT16, (const uint16_t[]){0x4020}, 2), 2.5f);
    cr_assert_eq(first_of_type(ONNX_FLOAT64, (const double[]){0.1}, 8), 0.1f);
    cr_assert_eq(first_of_type(ONNX_INT64, (const int64_t[]){-3}, 8), -3);
    cr_assert_eq(first_of_type(ONNX_INT32, (const int32_t[]){-3}, 4), -3);
    cr_assert_eq(first_of_type(ONNX_INT8, (const int8_t[]){-3}, 1), -3);
    cr_assert_eq(first_of_type(ONNX_UINT8, (const uint8_t[]){253}, 1), 253);
    cr_assert_eq(first_of_type(ONNX_BOOL, (const uint8_t[]){1}, 1), 1);
}

Test(onnx, typed_fields_hold_elements_too) {
    struct arena *arena = arena_new(0);
    struct model model = model_new(13);
    struct buf floats = BUF_INIT(1000), halves = BUF_INIT(1000);
    const float two[] = {1, 2};
    INPUT(&model, "x", 2);
    model_output(&model, "y");
    pb_int(&floats, 1, 2);
    pb_int(&floats, 2, ONNX_FLOAT32);
    pb_bytes(&floats, 4, two, sizeof two); /* packed float_data */
    pb_text(&floats, 8, "floats");
    pb_message(&model.graph, 5, &floats);
    pb_int(&halves, 1, 2);
    pb_int(&halves, 2, ONNX_FLOAT16);
    pb_int(&halves, 5, 0x3c00); /* int32_data, not packed */
    pb_int(&halves, 5, 0x4000);
    pb_text(&halves, 8, "halves");
    pb_message(&model.graph, 5, &halves);
    model_node(&model, "Add", "a", "floats halves", "both", NULL);
    model_node(&model, "Add", "b", "x both", "y", NULL);
    struct graph *graph = import_model(&model, NULL, arena);
    const float *both = graph->values[graph->nodes[0].in[1]].data;
    cr_assert_eq(both[0], 2);
    cr_assert_eq(both[1], 4);
    arena_free(arena);
}

/* ---- Tensor files ---- */

Test(onnx, a_tensor_file_reads_back_as_written) {
    char folder[] = "/tmp/warptune-onnx-XXXXXX", path[64];
    struct arena *arena = arena_new(0);
    struct error error = {0};
    struct value value;
    struct shape shape = {2, {2, 3}};
    const float data[] = {0, 1.5f, -2, 3, 4, 5e-20f};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.pb", folder);
    cr_assert_eq(onnx_write_tensor(path, "name", &shape, data, &error), 0, "%s", error.text);
    cr_assert_eq(onnx_read_tensor(path, arena, &value, &error), 0, "%s", error.text);
    cr_assert(shape_equal(&value.shape, &shape));
    cr_assert_str_eq(value.name, "name");
    cr_assert_arr_eq((const char *)value.data, (const char *)data, sizeof data);
    cr_assert_eq(truncate(path, 20), 0);
    cr_assert_eq(onnx_read_tensor(path, arena, &value, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_eq(file_remove_tree(folder, &error), 0);
    arena_free(arena);
}

/* ---- The shared models ---- */

static const char *shared_folder(void) {
    const char *folder = getenv("WARPTUNE_SHARED");
    return folder ? folder : "../shared";
}

static float *model_input(const char *stem, const struct value *value, int i, struct arena *arena) {
    const char *path = arena_printf(arena, "%s_input_%d.pb", stem, i);
    struct error error = {0};
    struct value tensor;
    int64_t count = shape_count(&value->shape);
    if (access(path, R_OK) == 0) {
        cr_assert_eq(onnx_read_tensor(path, arena, &tensor, &error), 0, "%s", error.text);
        cr_assert(shape_equal(&tensor.shape, &value->shape), "%s", path);
        return (float *)(uintptr_t)tensor.data;
    }
    float *data = arena_array(arena, (size_t)count, sizeof *data); /* light_*: arange(n) / n */
    for (int64_t j = 0; j < count; j++)
        data[j] = (float)j / (float)count;
    return data;
}

static void compare_output(const char *stem, const struct value *value, int i, const float *got, double tolerance) {
    struct arena *arena = arena_new(0);
    const char *path = arena_printf(arena, "%s_output_%d.pb", stem, i);
    struct error error = {0};
    struct value expected;
    double largest = 0, worst = 0;
    cr_assert_eq(onnx_read_tensor(path, arena, &expected, &error), 0, "%s", error.text);
    cr_assert(shape_equal(&expected.shape, &value->shape), "%s", path);
    for (int64_t j = 0; j < shape_count(&expected.shape); j++) {
        double want = ((const float *)expected.data)[j];
        largest = fmax(largest, fabs(want));
        worst = fmax(worst, fabs(want - (double)got[j]));
    }
    cr_assert_leq(worst, tolerance * largest, "%s: off by %g of %g", path, worst, largest);
    arena_free(arena);
}

static void check_model(const char *name, double tolerance) {
    struct arena *arena = arena_new(0);
    const char *stem = arena_printf(arena, "%s/models/%s", shared_folder(), name);
    const char *path = arena_printf(arena, "%s.onnx", stem);
    struct file_map map;
    struct error error = {0};
    struct graph *graph;
    const void *in[8];
    float *out[8];
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "%s is not there: skipped\n", path);
        arena_free(arena);
        return;
    }
    cr_assert_eq(file_map(path, &map, &error), 0, "%s", error.text);
    cr_assert_eq(onnx_import(map.data, map.len, NULL, arena, &graph, &error), 0, "%s: %s", name, error.text);
    for (int i = 0; i < graph->n_inputs; i++)
        in[i] = model_input(stem, &graph->values[graph->inputs[i]], i, arena);
    cr_assert_eq(eval_graph(graph, in, arena, out, &error), 0, "%s: %s", name, error.text);
    for (int i = 0; i < graph->n_outputs; i++)
        compare_output(stem, output_value(graph, i), i, out[i], tolerance);
    file_unmap(&map);
    arena_free(arena);
}

Test(onnx, the_generated_networks_give_their_expected_outputs) {
    static const char *const names[] = {"channel_shuffle", "mobilenet_v2_035", "odd_asymmetric_pad", "odd_dilated",
                                        "odd_grouped",     "odd_one_pixel",    "odd_pools",          "odd_rectangular",
                                        "resnet_narrow",   "squeeze_excite",   "two_heads"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        check_model(names[i], 1e-4);
}

/* The largest takes a minute under the sanitizers, where it shows nothing that the others do not. */
Test(onnx, the_published_networks_give_their_expected_outputs) {
    static const char *const names[] = {"light_bvlc_alexnet", "light_inception_v1", "light_resnet50",
                                        "light_squeezenet",
#ifndef __SANITIZE_ADDRESS__
                                        "light_vgg19"
#endif
    };
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        check_model(names[i], 1e-3);
}
