/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are broken, that lie, or that ask for the impossible: each is refused, in bounded time and memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_build.h"
#include "service/base/rng.h"
#include "service/model/onnx_import.h"

#define MEMORY_LIMIT ((size_t)64 << 20)

/* Imports an exact copy on the heap and lets everything go. */
static int import_bytes(const void *bytes, size_t len, struct error *error) {
    struct arena *arena = arena_new(MEMORY_LIMIT);
    struct graph *graph;
    *error = (struct error){0};
    void *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    int result =
        onnx_import(copy, len, &(struct onnx_options){.constant_bytes = (size_t)16 << 20}, arena, &graph, error);
    cr_assert_leq(arena_used(arena), MEMORY_LIMIT + ((size_t)1 << 20));
    arena_free(arena);
    free(copy);
    return result;
}

static void assert_class(const struct error *error, enum error_class class, const char *words) {
    cr_assert(error->class == class, "%s: %s", error_class_name(error->class), error->text);
    cr_assert_neq(error->code[0], '\0');
    for (const char *at = words; *at; at += strlen(at) + 1) /* words are separated by NUL */
        cr_assert_not_null(strstr(error->text, at), "\"%s\" is not in: %s", at, error->text);
}

/* Releases the model. `words`: parts of the text, each ended by \0, the whole by another. */
static void assert_refused(struct model *model, enum error_class class, const char *words) {
    struct error error;
    size_t len;
    void *bytes = model_bytes(model, &len);
    cr_assert_eq(import_bytes(bytes, len, &error), -1, "imported, though %s", words);
    assert_class(&error, class, words);
    free(bytes);
    model_done(model);
}

/* A model of one node `the_node` over input x and the initializers w, b. */
static struct model one_node(const char *op, int opset, const struct attr *attrs, const struct tensor *x,
                             const struct tensor *w, const struct tensor *b) {
    struct model model = model_new(opset);
    model_value(&model, 11, "x", ONNX_FLOAT32, x->rank, x->dim);
    model_output(&model, "y");
    if (w)
        model_constant(&model, "w", w);
    if (b)
        model_constant(&model, "b", b);
    model_node(&model, op, "the_node", b ? "x w b" : w ? "x w" : "x", "y", attrs);
    return model;
}

#define NODE_REFUSED(op, opset, attrs, x, w, b, class, words)            \
    do {                                                                 \
        const struct tensor x_ = {x}, *w_ = w, *b_ = b;                  \
        struct model model_ = one_node(op, opset, attrs, &x_, w_, b_);   \
        assert_refused(&model_, class, "the_node\0" op "\0" words "\0"); \
    } while (0)
#define T(...) (&(const struct tensor){__VA_ARGS__})
#define L(...) (&(const struct tensor)LIST(__VA_ARGS__))
#define D4(...) DIMS(__VA_ARGS__)

/* ---- The wire ---- */

static struct model small_model(void) {
    struct model model = model_new(13);
    struct tensor w = {DIMS(2, 1, 2, 2)};
    INPUT(&model, "x", -1, 1, 4, 4);
    model_output(&model, "y");
    model_constant(&model, "w", &w);
    model_node(&model, "Conv", "c", "x w", "a", ATTRS(A_INTS("pads", 1, 1, 1, 1), A_INTS("strides", 2, 2)));
    model_node(&model, "Constant", "k", "", "shape", ATTRS(A_TENSOR("value", DIMS(2), INTS(1, -1))));
    model_node(&model, "Softmax", "s", "a", "b", ATTRS(A_INT("axis", 1)));
    model_node(&model, "Reshape", "r", "b shape", "y", NULL);
    return model;
}

Test(onnx_hostile, a_file_cut_off_at_any_byte_is_refused) {
    struct model model = small_model();
    struct error error;
    size_t len;
    char *bytes = model_bytes(&model, &len);
    cr_assert_eq(import_bytes(bytes, len, &error), 0, "%s", error.text);
    for (size_t i = 0; i < len; i++) {
        cr_assert_eq(import_bytes(bytes, i, &error), -1, "cut at %zu", i);
        assert_class(&error, ERROR_INVALID, "");
    }
    free(bytes);
    model_done(&model);
}

Test(onnx_hostile, a_changed_byte_never_crashes) {
    struct model model = small_model();
    struct error error;
    struct rng rng;
    size_t len;
    unsigned char *bytes = model_bytes(&model, &len);
    rng_seed(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        size_t at = rng_below(&rng, len), other = rng_below(&rng, len);
        unsigned char kept = bytes[at], kept_other = bytes[other];
        bytes[at] = (unsigned char)rng_next(&rng);
        if (i % 2)
            bytes[other] = (unsigned char)rng_next(&rng);
        if (import_bytes(bytes, len, &error))
            cr_assert(error.class == ERROR_INVALID || error.class == ERROR_LIMIT, "%s", error.text);
        bytes[other] = kept_other;
        bytes[at] = kept;
    }
    free(bytes);
    model_done(&model);
}

Test(onnx_hostile, what_is_no_protobuf_is_refused) {
    static const char *const texts[] = {"",
                                        "\x80",
                                        "hello, world",
                                        "\x3a\x05\x0a\x03",
                                        "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                                        "<!DOCTYPE html><html></html>",
                                        "\x08\x08"};
    struct error error;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        cr_assert_eq(import_bytes(texts[i], strlen(texts[i]), &error), -1);
        assert_class(&error, ERROR_INVALID, "not an ONNX model\0");
    }
}

/* If → graph → If → graph → …: the reader never follows it down. */
Test(onnx_hostile, graphs_nested_without_end_are_refused) {
    struct buf inner = BUF_INIT(PB_MAX);
    for (int depth = 0; depth < 2000; depth++) {
        struct buf attr = BUF_INIT(PB_MAX), node = BUF_INIT(PB_MAX), graph = BUF_INIT(PB_MAX);
        pb_text(&attr, 1, "then_branch");
        pb_message(&attr, 6, &inner);
        pb_int(&attr, 20, 5);
        pb_text(&node, 4, "If");
        pb_message(&node, 5, &attr);
        pb_message(&graph, 1, &node);
        inner = graph;
    }
    struct model model = model_new(13);
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    buf_append(&model.graph, inner.data, inner.len);
    buf_release(&inner);
    assert_refused(&model, ERROR_INVALID, "If\0not supported\0");
}

Test(onnx_hostile, a_million_empty_messages_take_bounded_memory) {
    struct model model = model_new(13);
    struct buf node = BUF_INIT(PB_MAX);
    INPUT(&model, "x", 1);
    for (int i = 0; i < 1000000; i++)
        buf_append(&node, "\x2a\x00", 2); /* an attribute without anything */
    pb_message(&model.graph, 1, &node);
    assert_refused(&model, ERROR_LIMIT, "memory\0");
}

/* ---- Tensors that lie ---- */

static struct model with_tensor(int type, int rank, const int64_t *dim, size_t bytes) {
    struct model model = model_new(13);
    struct buf tensor = BUF_INIT(PB_MAX);
    char *data = calloc(1, bytes + 1);
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    tensor_raw(&tensor, "w", type, rank, dim, data, bytes);
    pb_message(&model.graph, 5, &tensor);
    model_node(&model, "Add", "the_node", "x w", "y", NULL);
    free(data);
    return model;
}

#define TENSOR_REFUSED(type, bytes, class, words, ...)                                             \
    do {                                                                                           \
        const int64_t dim_[] = {__VA_ARGS__};                                                      \
        struct model model_ = with_tensor(type, (int)(sizeof dim_ / sizeof dim_[0]), dim_, bytes); \
        assert_refused(&model_, class, "Initializer w\0" words "\0");                              \
    } while (0)

Test(onnx_hostile, tensors_whose_data_do_not_fit_their_dimensions_are_refused) {
    TENSOR_REFUSED(ONNX_FLOAT32, 7, ERROR_INVALID, "raw data", 2);
    TENSOR_REFUSED(ONNX_FLOAT32, 12, ERROR_INVALID, "raw data", 2);
    TENSOR_REFUSED(ONNX_FLOAT32, 4, ERROR_INVALID, "negative", -1);
    TENSOR_REFUSED(ONNX_FLOAT32, 4, ERROR_LIMIT, "2^40", INT64_MAX);
    TENSOR_REFUSED(ONNX_FLOAT32, 4, ERROR_LIMIT, "2^40", (int64_t)1 << 32, (int64_t)1 << 32, 4);
    TENSOR_REFUSED(ONNX_FLOAT32, 4, ERROR_INVALID, "raw data", (int64_t)1 << 39);
    TENSOR_REFUSED(ONNX_FLOAT32, 4, ERROR_LIMIT, "rank 9", 1, 1, 1, 1, 1, 1, 1, 1, 1);
    TENSOR_REFUSED(8, 4, ERROR_INVALID, "string", 1);
    TENSOR_REFUSED(14, 8, ERROR_INVALID, "complex64", 1);
    TENSOR_REFUSED(-7, 8, ERROR_INVALID, "unknown", 1);
}

Test(onnx_hostile, external_data_and_sparse_tensors_are_refused) {
    for (int i = 0; i < 3; i++) {
        struct model model = model_new(13);
        struct buf tensor = BUF_INIT(1000), entry = BUF_INIT(1000);
        INPUT(&model, "x", 1);
        model_output(&model, "x");
        pb_text(&entry, 1, "location");
        pb_text(&entry, 2, "../../etc/passwd");
        pb_int(&tensor, 1, 1);
        pb_int(&tensor, 2, ONNX_FLOAT32);
        pb_text(&tensor, 8, "w");
        if (i == 0)
            pb_message(&tensor, 13, &entry);
        if (i == 1)
            pb_int(&tensor, 14, 1);
        buf_release(&entry);
        pb_message(&model.graph, i == 2 ? 15 : 5, &tensor);
        assert_refused(&model, ERROR_INVALID, i == 2 ? "sparse\0" : "Initializer w\0another file\0");
    }
}

/* ---- Sizes ---- */

Test(onnx_hostile, inputs_of_impossible_sizes_are_refused) {
    static const struct {
        int64_t dim[10];
        int rank;
        enum error_class class;
        const char *words;
    } cases[] = {
        {{1, (int64_t)1 << 60}, 2, ERROR_LIMIT, "2^40\0"},
        {{1, -1}, 2, ERROR_INVALID, "dimension 1\0N\0symbolic\0"},
        {{1, 0}, 2, ERROR_INVALID, "size 0\0dimension 1\0"},
        {{1, 1, 1, 1, 1, 1, 1, 1, 1}, 9, ERROR_INVALID, "rank 9\0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct model model = model_new(13);
        model_value(&model, 11, "x", ONNX_FLOAT32, cases[i].rank, cases[i].dim);
        model_output(&model, "x");
        assert_refused(&model, cases[i].class, cases[i].words);
    }
}

Test(onnx_hostile, a_negative_dimension_is_refused) {
    struct model model = model_new(13);
    struct buf dim = BUF_INIT(100), shape = BUF_INIT(100), tensor = BUF_INIT(100), type = BUF_INIT(100),
               x = BUF_INIT(100);
    pb_int(&dim, 1, -5);
    pb_message(&shape, 1, &dim);
    pb_int(&tensor, 1, ONNX_FLOAT32);
    pb_message(&tensor, 2, &shape);
    pb_message(&type, 1, &tensor);
    pb_text(&x, 1, "x");
    pb_message(&x, 2, &type);
    pb_message(&model.graph, 11, &x);
    model_output(&model, "x");
    assert_refused(&model, ERROR_INVALID, "Input x\0-5\0");
}

Test(onnx_hostile, constants_of_petabytes_are_refused) {
    static const int64_t shapes[][3] = {
        {1 << 20, 1 << 20, 1 << 10}, {1 << 20, 1 << 18, 1}, {INT64_MAX, 2, 1}, {1 << 12, 1 << 12, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct model model = model_new(13);
        struct tensor shape = {.rank = 1, .dim = {3}, .ints = shapes[i]};
        INPUT(&model, "x", 1);
        model_output(&model, "y");
        model_constant(&model, "shape", &shape);
        model_node(&model, "ConstantOfShape", "the_node", "shape", "c", NULL);
        model_node(&model, "Add", "add", "x c", "y", NULL);
        assert_refused(&model, ERROR_LIMIT, "the_node\0ConstantOfShape\0");
    }
}

Test(onnx_hostile, constants_that_grow_together_are_refused) {
    struct model model = model_new(13);
    struct tensor shape = LIST(1 << 10, 1 << 9), one = {DIMS(1)};
    INPUT(&model, "x", 1);
    model_output(&model, "x");
    model_constant(&model, "shape", &shape);
    model_constant(&model, "one", &one);
    model_node(&model, "Expand", "", "one shape", "a", NULL); /* 2 MB; 16 MB are allowed */
    model_node(&model, "Concat", "fits", "a a a", "b", ATTRS(A_INT("axis", 0)));
    model_node(&model, "Concat", "twice", "b a a", "c", ATTRS(A_INT("axis", 0)));
    assert_refused(&model, ERROR_LIMIT, "twice\0Concat\0");
}

Test(onnx_hostile, folding_that_would_take_minutes_is_refused) {
    struct model model = model_new(13);
    struct tensor image = LIST(1, 1, 1500, 1500), kernel = LIST(1, 1, 1000, 1000);
    INPUT(&model, "x", 1);
    model_output(&model, "x");
    model_constant(&model, "image_shape", &image);
    model_constant(&model, "kernel_shape", &kernel);
    model_node(&model, "ConstantOfShape", "a", "image_shape", "image", NULL);
    model_node(&model, "ConstantOfShape", "b", "kernel_shape", "kernel", NULL);
    model_node(&model, "Conv", "the_node", "image kernel", "y", NULL);
    assert_refused(&model, ERROR_LIMIT, "the_node\0Conv\0too long\0");
}

/* ---- Names ---- */

static struct model wiring(const char *in1, const char *out1, const char *in2, const char *out2, const char *output) {
    struct model model = model_new(13);
    INPUT(&model, "x", 1);
    model_output(&model, output);
    model_node(&model, "Relu", "first", in1, out1, NULL);
    model_node(&model, "Relu", "second", in2, out2, NULL);
    return model;
}

Test(onnx_hostile, values_that_nobody_or_two_define_are_refused) {
    struct model model = wiring("x", "a", "a", "a", "a");
    assert_refused(&model, ERROR_INVALID, "a\0twice\0node first\0node second\0");
    model = wiring("x", "x", "x", "b", "b");
    assert_refused(&model, ERROR_INVALID, "x\0twice\0an input\0");
    model = wiring("b", "a", "a", "b", "b");
    assert_refused(&model, ERROR_INVALID, "first\0b\0before\0node second\0cycle\0");
    model = wiring("a", "a", "x", "b", "b");
    assert_refused(&model, ERROR_INVALID, "first\0before\0");
    model = wiring("nowhere", "a", "a", "b", "b");
    assert_refused(&model, ERROR_INVALID, "first\0nowhere\0nothing defines\0");
    model = wiring("x", "a", "a", "b", "c");
    assert_refused(&model, ERROR_INVALID, "Output 0\0c\0nothing defines\0");
}

Test(onnx_hostile, graphs_without_input_or_output_are_refused) {
    struct model model = model_new(13);
    INPUT(&model, "x", 1);
    assert_refused(&model, ERROR_INVALID, "no output\0");
    model = model_new(13);
    model_output(&model, "x");
    assert_refused(&model, ERROR_INVALID, "no input\0");
}

Test(onnx_hostile, opsets_out_of_range_are_refused) {
    for (int opset = 6; opset <= 22; opset += 16) {
        struct model model = model_new(opset);
        INPUT(&model, "x", 1);
        model_output(&model, "x");
        assert_refused(&model, ERROR_INVALID, "opset\0007 to 21\0");
    }
}

Test(onnx_hostile, a_fixed_batch_other_than_the_one_asked_for_is_refused) {
    struct model model = model_new(13);
    struct arena *arena = arena_new(0);
    struct graph *graph;
    struct error error;
    size_t len;
    INPUT(&model, "x", 2, 3);
    model_output(&model, "x");
    void *bytes = model_bytes(&model, &len);
    cr_assert_eq(onnx_import(bytes, len, &(struct onnx_options){.batch = 2}, arena, &graph, &error), 0);
    cr_assert_eq(onnx_import(bytes, len, &(struct onnx_options){.batch = 4}, arena, &graph, &error), -1);
    assert_class(&error, ERROR_INVALID, "Input x\0fixed batch of 2\0");
    cr_assert_eq(onnx_import(bytes, len, &(struct onnx_options){.batch = -1}, arena, &graph, &error), -1);
    cr_assert_str_eq(error.field, "batch");
    free(bytes);
    model_done(&model);
    arena_free(arena);
}

/* ---- Nodes ---- */

Test(onnx_hostile, unknown_operators_and_attributes_are_refused) {
    NODE_REFUSED("Frobnicate", 13, NULL, DIMS(1), NULL, NULL, ERROR_INVALID, "not supported");
    NODE_REFUSED("Loop", 13, NULL, DIMS(1), NULL, NULL, ERROR_INVALID, "not supported");
    NODE_REFUSED("HardSwish", 13, NULL, DIMS(1), NULL, NULL, ERROR_INVALID, "opset 13");
    NODE_REFUSED("Relu", 13, ATTRS(A_INT("wings", 2)), DIMS(1), NULL, NULL, ERROR_INVALID, "wings");
    NODE_REFUSED("Clip", 13, ATTRS(A_FLOAT("min", 2)), DIMS(1), NULL, NULL, ERROR_INVALID, "min");
    NODE_REFUSED("Softmax", 13, ATTRS(A_FLOAT("axis", 1)), DIMS(1), NULL, NULL, ERROR_INVALID, "integer");
    NODE_REFUSED("LeakyRelu", 13, ATTRS(A_FLOAT("alpha", NAN)), DIMS(1), NULL, NULL, ERROR_INVALID, "finite");
    NODE_REFUSED("Clip", 7, ATTRS(A_FLOAT("max", NAN)), DIMS(1), NULL, NULL, ERROR_INVALID, "finite");
    NODE_REFUSED("Relu", 13, NULL, DIMS(1), T(DIMS(1)), NULL, ERROR_INVALID, "2 inputs");
    NODE_REFUSED("Softmax", 13, ATTRS(A_INT("axis", 5)), DIMS(1, 2), NULL, NULL, ERROR_INVALID, "axis 5");
}

Test(onnx_hostile, another_domain_is_refused) {
    struct model model = model_new(13);
    struct buf node = BUF_INIT(1000);
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    pb_text(&node, 1, "x");
    pb_text(&node, 2, "y");
    pb_text(&node, 4, "Relu");
    pb_text(&node, 7, "com.example");
    pb_message(&model.graph, 1, &node);
    assert_refused(&model, ERROR_INVALID, "Node y\0Relu of domain com.example\0");
}

Test(onnx_hostile, windows_that_do_not_fit_are_refused) {
#define CONV(attrs, w, words) NODE_REFUSED("Conv", 11, attrs, D4(1, 4, 5, 5), w, NULL, ERROR_INVALID, words)
    CONV(NULL, T(DIMS(2, 4, 6, 1)), "kernel spans 6");
    CONV(ATTRS(A_INTS("dilations", 9, 1)), T(DIMS(2, 4, 2, 1)), "kernel spans 10");
    CONV(ATTRS(A_INTS("strides", 0, 1)), T(DIMS(2, 4, 1, 1)), "strides");
    CONV(ATTRS(A_INTS("strides", 1)), T(DIMS(2, 4, 1, 1)), "strides");
    CONV(ATTRS(A_INTS("pads", -1, 0, 0, 0)), T(DIMS(2, 4, 1, 1)), "pads");
    CONV(ATTRS(A_INTS("pads", 0, 0, 0, INT64_MAX)), T(DIMS(2, 4, 1, 1)), "pads");
    CONV(ATTRS(A_INTS("kernel_shape", 2, 2)), T(DIMS(2, 4, 1, 1)), "kernel_shape");
    CONV(ATTRS(A_INT("group", 3)), T(DIMS(3, 1, 1, 1)), "3 groups");
    CONV(ATTRS(A_INT("group", 0)), T(DIMS(2, 4, 1, 1)), "0 groups");
    CONV(ATTRS(A_INT("group", 4)), T(DIMS(2, 1, 1, 1)), "4 groups");
    CONV(ATTRS(A_TEXT("auto_pad", "SIDEWAYS")), T(DIMS(2, 4, 1, 1)), "SIDEWAYS");
    CONV(NULL, T(DIMS(2, 3, 1, 1)), "4 input channels");
    CONV(NULL, T(DIMS(2, 4, 1)), "rank 3");
#undef CONV
    NODE_REFUSED("Conv", 11, NULL, D4(1, 1, 5, 5), T(DIMS(2, 1, 1, 1)), T(DIMS(3)), ERROR_INVALID, "bias");
    NODE_REFUSED("Conv", 11, NULL, DIMS(1, 1, 2, 2, 2), T(DIMS(1, 1, 1, 1, 1)), NULL, ERROR_INVALID, "rank 5");
    NODE_REFUSED("MaxPool", 11, NULL, D4(1, 1, 5, 5), NULL, NULL, ERROR_INVALID, "kernel_shape");
    NODE_REFUSED("MaxPool", 11, ATTRS(A_INTS("kernel_shape", 2, 2), A_INTS("pads", 2, 0, 0, 0)), D4(1, 1, 5, 5), NULL,
                 NULL, ERROR_INVALID, "padding only");
    NODE_REFUSED("ConvTranspose", 11, ATTRS(A_INTS("pads", 3, 0, 3, 0)), D4(1, 1, 2, 2), T(DIMS(1, 1, 2, 2)), NULL,
                 ERROR_INVALID, "leaves nothing");
    NODE_REFUSED("ConvTranspose", 11, ATTRS(A_INTS("output_shape", 9, 9)), D4(1, 1, 2, 2), T(DIMS(1, 1, 2, 2)), NULL,
                 ERROR_INVALID, "more than");
}

Test(onnx_hostile, shapes_that_do_not_fit_are_refused) {
    NODE_REFUSED("Reshape", 13, NULL, DIMS(2, 3), L(4, -1), NULL, ERROR_INVALID, "do not fit");
    NODE_REFUSED("Reshape", 13, NULL, DIMS(2, 3), L(-1, -1), NULL, ERROR_INVALID, "more than one");
    NODE_REFUSED("Reshape", 13, NULL, DIMS(2, 3), L(INT64_MAX, INT64_MAX), NULL, ERROR_INVALID, "too many");
    NODE_REFUSED("Reshape", 13, NULL, DIMS(2), L(1, 0), NULL, ERROR_INVALID, "copies dimension 1");
    NODE_REFUSED("Reshape", 13, NULL, DIMS(2), L(1, 1, 1, 1, 1, 1, 1, 1, 2), NULL, ERROR_INVALID, "at most 8");
    NODE_REFUSED("Expand", 13, NULL, DIMS(1), L(1 << 21, 1 << 21), NULL, ERROR_LIMIT, "2^40");
    NODE_REFUSED("Expand", 13, NULL, DIMS(2), L(0), NULL, ERROR_INVALID, "at least 1");
    NODE_REFUSED("Add", 13, NULL, DIMS(2), T(DIMS(3)), NULL, ERROR_INVALID, "[2] and [3]");
    NODE_REFUSED("MatMul", 13, NULL, DIMS(2, 3), T(DIMS(2, 3)), NULL, ERROR_INVALID, "do not multiply");
    NODE_REFUSED("Transpose", 13, ATTRS(A_INTS("perm", 0, 0)), DIMS(2, 3), NULL, NULL, ERROR_INVALID, "twice");
    NODE_REFUSED("Squeeze", 13, NULL, DIMS(2, 3), L(0), NULL, ERROR_INVALID, "only 1 can");
    NODE_REFUSED("Gather", 13, NULL, DIMS(2, 3), L(2), NULL, ERROR_INVALID, "index 2");
    NODE_REFUSED("Slice", 9, ATTRS(A_INTS("starts", 2), A_INTS("ends", 1)), DIMS(4), NULL, NULL, ERROR_INVALID,
                 "at least 1");
    NODE_REFUSED("Pad", 13, NULL, DIMS(2), L(-2, 0), NULL, ERROR_INVALID, "at least 1");
    NODE_REFUSED("Pad", 13, NULL, DIMS(2), L(INT64_MAX, 0), NULL, ERROR_INVALID, "2^40");
    NODE_REFUSED("Pad", 13, ATTRS(A_TEXT("mode", "reflect")), DIMS(2), L(2, 0), NULL, ERROR_INVALID, "reflect");
    NODE_REFUSED("Split", 13, ATTRS(A_INT("axis", 1)), DIMS(1, 3), L(1, 2), NULL, ERROR_INVALID, "1 outputs");
    NODE_REFUSED("BatchNormalization", 13, NULL, D4(1, 2, 1, 1), T(DIMS(2)), T(DIMS(2)), ERROR_INVALID, "3 inputs");
}

Test(onnx_hostile, what_must_be_constant_and_is_not_is_refused) {
    struct model model = model_new(13);
    INPUT(&model, "x", 1, 1, 4, 4);
    INPUT(&model, "w", 1, 1, 2, 2);
    model_output(&model, "y");
    model_node(&model, "Conv", "the_node", "x w", "y", NULL);
    assert_refused(&model, ERROR_INVALID, "the_node\0weight\0run time\0");
}

Test(onnx_hostile, a_second_output_that_is_read_is_refused) {
    struct model model = model_new(13);
    INPUT(&model, "x", 1, 1, 4, 4);
    model_output(&model, "indices");
    model_node(&model, "MaxPool", "the_node", "x", "y indices", ATTRS(A_INTS("kernel_shape", 2, 2)));
    assert_refused(&model, ERROR_INVALID, "indices\0node the_node\0not supported\0");
}

Test(onnx_hostile, an_integer_division_by_zero_is_refused) {
    struct model model = model_new(13);
    struct tensor a = LIST(1, 2), b = LIST(1, 0);
    INPUT(&model, "x", 1);
    model_output(&model, "x");
    model_constant(&model, "a", &a);
    model_constant(&model, "b", &b);
    model_node(&model, "Div", "the_node", "a b", "c", NULL);
    assert_refused(&model, ERROR_INVALID, "the_node\0Div\0divided by 0\0");
}

Test(onnx_hostile, texts_stay_whole_when_names_are_not) {
    struct model model = model_new(13);
    char name[5000];
    struct error error;
    size_t len;
    memset(name, 'n', sizeof name);
    name[3] = '\xff';
    name[sizeof name - 1] = '\0';
    INPUT(&model, "x", 1);
    model_output(&model, "y");
    model_node(&model, "Frobnicate", name, "x", "y", NULL);
    void *bytes = model_bytes(&model, &len);
    cr_assert_eq(import_bytes(bytes, len, &error), -1);
    assert_class(&error, ERROR_INVALID, "nnn?nnn\0not supported.\0");
    free(bytes);
    model_done(&model);
}
