/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_build.h: small ONNX models in memory, for tests: a protobuf encoder of a few lines, and on top of it nodes,
 * attributes, tensors and inputs as a test would write them down. Names are given as one text, separated by spaces;
 * "-" is an absent optional input or output.
 */
#ifndef WARPTUNE_TESTS_ONNX_BUILD_H
#define WARPTUNE_TESTS_ONNX_BUILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/buf.h"

#define UNUSED __attribute__((unused))
#define PB_MAX ((size_t)64 << 20)

/* ---- protobuf ---- */

UNUSED static void pb_varint(struct buf *buf, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        buf_putc(buf, (char)(value | 0x80));
    buf_putc(buf, (char)value);
}

UNUSED static void pb_int(struct buf *buf, int field, int64_t value) {
    pb_varint(buf, (uint64_t)field << 3);
    pb_varint(buf, (uint64_t)value);
}

UNUSED static void pb_float(struct buf *buf, int field, float value) {
    pb_varint(buf, (uint64_t)field << 3 | 5);
    buf_append(buf, &value, sizeof value);
}

UNUSED static void pb_bytes(struct buf *buf, int field, const void *data, size_t len) {
    pb_varint(buf, (uint64_t)field << 3 | 2);
    pb_varint(buf, len);
    if (len)
        buf_append(buf, data, len);
}

UNUSED static void pb_text(struct buf *buf, int field, const char *text) {
    pb_bytes(buf, field, text, strlen(text));
}

/* Empties `message`. */
UNUSED static void pb_message(struct buf *buf, int field, struct buf *message) {
    pb_bytes(buf, field, message->data, message->len);
    buf_release(message);
}

UNUSED static void pb_texts(struct buf *buf, int field, const char *names) {
    while (*names) {
        size_t len = strcspn(names, " ");
        pb_bytes(buf, field, names, len == 1 && *names == '-' ? 0 : len);
        names += len + strspn(names + len, " ");
    }
}

/* ---- Tensors ---- */

enum { ONNX_FLOAT32 = 1, ONNX_UINT8 = 2, ONNX_INT8 = 3, ONNX_INT32 = 6, ONNX_INT64 = 7, ONNX_BOOL = 9 };
enum { ONNX_FLOAT16 = 10, ONNX_FLOAT64 = 11, ONNX_BFLOAT16 = 16 };

/* Floats, or integers where `ints` is set; neither: 0, 1, 2, … as floats. */
struct tensor {
    int rank;
    int64_t dim[8];
    const float *floats;
    const int64_t *ints;
    bool absent; /* of an optional input */
};

#define DIMS(...) .rank = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = {__VA_ARGS__}
#define FLOATS(...)             \
    .floats = (const float[]) { \
        __VA_ARGS__             \
    }
#define INTS(...)               \
    .ints = (const int64_t[]) { \
        __VA_ARGS__             \
    }
#define LIST(...) \
    { DIMS(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), INTS(__VA_ARGS__) }
#define NUMBER(value) \
    { .rank = 0, FLOATS(value) }
#define ABSENT \
    { .absent = true }

UNUSED static int64_t tensor_count(const struct tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->dim[i];
    return count;
}

UNUSED static float tensor_at(const struct tensor *tensor, int64_t i) {
    return tensor->floats ? tensor->floats[i] : tensor->ints ? (float)tensor->ints[i] : (float)i;
}

/* A TensorProto of raw data; type 0: float or int64, as the tensor has it. */
UNUSED static void tensor_raw(struct buf *buf, const char *name, int type, int rank, const int64_t *dim,
                              const void *data, size_t len) {
    for (int i = 0; i < rank; i++)
        pb_int(buf, 1, dim[i]);
    pb_int(buf, 2, type);
    pb_text(buf, 8, name);
    pb_bytes(buf, 9, data, len);
}

UNUSED static void tensor_encode(struct buf *buf, const char *name, const struct tensor *tensor) {
    struct buf data = BUF_INIT(PB_MAX);
    for (int64_t i = 0; i < tensor_count(tensor); i++) {
        float number = tensor_at(tensor, i);
        if (tensor->ints)
            buf_append(&data, &tensor->ints[i], sizeof(int64_t));
        else
            buf_append(&data, &number, sizeof number);
    }
    tensor_raw(buf, name, tensor->ints ? ONNX_INT64 : ONNX_FLOAT32, tensor->rank, tensor->dim, data.data, data.len);
    buf_release(&data);
}

/* ---- Attributes ---- */

struct attr {
    const char *name;
    int type; /* AttributeProto.AttributeType */
    int64_t i;
    float f;
    const char *s;
    const int64_t *ints;
    size_t n;
    const struct tensor *t;
    const float *floats;
};

#define A_FLOAT(n_, v) \
    { .name = n_, .type = 1, .f = v }
#define A_INT(n_, v) \
    { .name = n_, .type = 2, .i = v }
#define A_TEXT(n_, v) \
    { .name = n_, .type = 3, .s = v }
#define A_TENSOR(n_, ...)                                    \
    {                                                        \
        .name = n_, .type = 4, .t = &(const struct tensor) { \
            __VA_ARGS__                                      \
        }                                                    \
    }
#define A_FLOATS(n_, ...)                                              \
    {                                                                  \
        .name = n_, .type = 6, .floats = (const float[]){__VA_ARGS__}, \
        .n = sizeof((const float[]){__VA_ARGS__}) / sizeof(float)      \
    }
#define A_INTS(n_, ...)                                                \
    {                                                                  \
        .name = n_, .type = 7, .ints = (const int64_t[]){__VA_ARGS__}, \
        .n = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)  \
    }

UNUSED static void attr_encode(struct buf *buf, const struct attr *attr) {
    struct buf message = BUF_INIT(PB_MAX), tensor = BUF_INIT(PB_MAX);
    pb_text(&message, 1, attr->name);
    pb_int(&message, 20, attr->type);
    if (attr->type == 1)
        pb_float(&message, 2, attr->f);
    if (attr->type == 2)
        pb_int(&message, 3, attr->i);
    if (attr->type == 3)
        pb_text(&message, 4, attr->s);
    if (attr->type == 4) {
        tensor_encode(&tensor, "", attr->t);
        pb_message(&message, 5, &tensor);
    }
    for (size_t i = 0; attr->type == 6 && i < attr->n; i++)
        pb_float(&message, 7, attr->floats[i]);
    for (size_t i = 0; attr->type == 7 && i < attr->n; i++)
        pb_int(&message, 8, attr->ints[i]);
    pb_message(buf, 5, &message);
}

/* ---- Models ---- */

/* GraphProto in the making. Releases with model_done. */
struct model {
    struct buf graph;
    int opset;
};

UNUSED static struct model model_new(int opset) {
    return (struct model){BUF_INIT(PB_MAX), opset};
}

UNUSED static void model_done(struct model *model) {
    buf_release(&model->graph);
}

/* A negative dimension is symbolic, named "N". */
UNUSED static void model_value(struct model *model, int field, const char *name, int type, int rank,
                               const int64_t *dim) {
    struct buf shape = BUF_INIT(PB_MAX), tensor = BUF_INIT(PB_MAX), value = BUF_INIT(PB_MAX), info = BUF_INIT(PB_MAX);
    for (int i = 0; i < rank; i++) {
        struct buf one = BUF_INIT(PB_MAX);
        if (dim[i] < 0)
            pb_text(&one, 2, "N");
        else
            pb_int(&one, 1, dim[i]);
        pb_message(&shape, 1, &one);
    }
    pb_int(&tensor, 1, type);
    pb_message(&tensor, 2, &shape);
    pb_message(&value, 1, &tensor);
    pb_text(&info, 1, name);
    pb_message(&info, 2, &value);
    pb_message(&model->graph, field, &info);
}

#define INPUT(model, name, ...)                                                                          \
    model_value(model, 11, name, ONNX_FLOAT32, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                (const int64_t[]){__VA_ARGS__})

UNUSED static void model_output(struct model *model, const char *name) {
    struct buf info = BUF_INIT(PB_MAX);
    pb_text(&info, 1, name);
    pb_message(&model->graph, 12, &info);
}

UNUSED static void model_constant(struct model *model, const char *name, const struct tensor *tensor) {
    struct buf message = BUF_INIT(PB_MAX);
    tensor_encode(&message, name, tensor);
    pb_message(&model->graph, 5, &message);
}

/* `attrs` ends with one without a name; NULL for none. `name` may be "". */
UNUSED static void model_node(struct model *model, const char *op, const char *name, const char *in, const char *out,
                              const struct attr *attrs) {
    struct buf node = BUF_INIT(PB_MAX);
    pb_texts(&node, 1, in);
    pb_texts(&node, 2, out);
    pb_text(&node, 3, name);
    pb_text(&node, 4, op);
    for (; attrs && attrs->name; attrs++)
        attr_encode(&node, attrs);
    pb_message(&model->graph, 1, &node);
}

#define ATTRS(...) ((const struct attr[]){__VA_ARGS__, {.name = NULL}})

/* The whole file, in memory of its exact size (free it), so that the address sanitizer sees a read past its end. */
UNUSED static void *model_bytes(const struct model *model, size_t *ret_len) {
    struct buf file = BUF_INIT(PB_MAX), opset = BUF_INIT(PB_MAX);
    pb_int(&file, 1, 8);
    pb_bytes(&file, 7, model->graph.data, model->graph.len);
    pb_int(&opset, 2, model->opset);
    pb_message(&file, 8, &opset);
    void *bytes = malloc(file.len);
    memcpy(bytes, file.data, file.len);
    *ret_len = file.len;
    buf_release(&file);
    return bytes;
}

#endif
