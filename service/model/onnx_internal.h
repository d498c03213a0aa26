/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_internal.h: what the parts of the ONNX importer share. Private to onnx_*.c.
 *
 * onnx_reader.c turns the file's bytes into `struct onnx_model`; onnx_tensor.c turns TensorProtos into values;
 * onnx_import.c resolves names and calls, node by node, the lowering that the tables in onnx_ops_*.c give for its
 * operator and opset; a lowering reads inputs and attributes and emits graph nodes through onnx_call.c, where a node
 * whose inputs are all constant is evaluated at once instead.
 */
#ifndef WARPTUNE_MODEL_ONNX_INTERNAL_H
#define WARPTUNE_MODEL_ONNX_INTERNAL_H

#include "service/model/graph.h"
#include "service/model/onnx_import.h"

#include "onnx.pb-c.h"

#define ONNX_MIN_OPSET 7
#define ONNX_MAX_OPSET 21
#define ONNX_MAX_ELEMENTS ((int64_t)1 << 40)
#define ONNX_MAX_WINDOW 65536 /* kernel, stride, dilation, pad */

/* ---- The file (onnx_reader.c) ---- */

/* A tensor of the file, not yet checked against its data. */
struct onnx_tensor {
    Onnx__TensorProto *proto; /* without raw_data when that lies in the file */
    const void *raw;          /* raw_data, in the file or in proto; NULL: the typed fields hold the elements */
    size_t raw_len;
};

struct onnx_model {
    int opset;
    const char *name; /* the graph's */
    Onnx__NodeProto **nodes;
    struct onnx_tensor *initializers;
    Onnx__ValueInfoProto **inputs, **outputs;
    int n_nodes, n_initializers, n_inputs, n_outputs;
};

/* Everything but raw_data of initializers is copied into `arena`; that keeps pointing into `bytes`. */
int onnx_read_model(const void *bytes, size_t len, struct arena *arena, struct onnx_model *ret,
                    struct error *error) MUST_CHECK;
/* One TensorProto message. */
int onnx_read_tensor_message(const void *bytes, size_t len, struct arena *arena, struct onnx_tensor *ret,
                             struct error *error) MUST_CHECK;

/* ---- Tensors (onnx_tensor.c) ---- */

/* ONNX's number of a data type as ours; floats of every width become F32. ERROR_INVALID naming `what`. */
int onnx_dtype(int32_t data_type, const char *what, enum dtype *ret, struct error *error) MUST_CHECK;
struct onnx_tensor onnx_tensor_of(Onnx__TensorProto *proto);
/* As a constant: its data in place where it can be used so, else converted into the arena. */
int onnx_tensor_value(const struct onnx_tensor *tensor, const char *what, struct arena *arena, struct value *ret,
                      struct error *error) MUST_CHECK;

/* ---- The import (onnx_import.c, onnx_call.c) ---- */

struct importer {
    struct arena *arena;
    struct graph *graph;
    struct error *error;
    int opset;
    int64_t batch;        /* for a symbolic batch dimension */
    size_t constant_left; /* bytes that evaluated constants may still take */
    int64_t work_left;    /* operations that evaluating constants may still take */
};

struct onnx_op;

/* One ONNX node while it is lowered. */
struct onnx_call {
    struct importer *importer;
    const struct onnx_op *op;
    const Onnx__NodeProto *proto;
    const char *name; /* the node's, or its first output's when it has none */
    int n_in, n_out;
    int *in;            /* values; -1: an optional input that is absent */
    int *out;           /* values, set by the lowering; -1: not computed */
    uint64_t attr_read; /* bit i: attribute i was looked at */
};

/* A row of the operator tables: how nodes of one operator are lowered in some opsets. */
struct onnx_op {
    const char *name;
    int since, until; /* opsets */
    int min_in, max_in, max_out;
    int (*lower)(struct onnx_call *call);
    int param; /* for the lowering: an enum act, binary, reduce_kind, … */
};
#define ONNX_ANY 1000000 /* any number of inputs or outputs */
#define ONNX_LATEST ONNX_MAX_OPSET

/* Each ends with a row without a name. */
extern const struct onnx_op onnx_ops_conv[], onnx_ops_math[], onnx_ops_reduce[], onnx_ops_shape[], onnx_ops_slice[],
    onnx_ops_constant[], onnx_ops_resize[];

/* ERROR_INVALID "Node NAME (OPERATOR): TEXT" with the node in `field`. */
int onnx_bad(const struct onnx_call *call, const char *format, ...) PRINTF_LIKE(2, 3);
int onnx_fail(const struct onnx_call *call, enum error_class class, const char *code, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Input i, or NULL when it is absent. Valid until the next value is added. */
const struct value *onnx_input(const struct onnx_call *call, int i);
/* ERROR_INVALID unless input i is float32 (as all floats are here) and not empty. */
int onnx_need_float(const struct onnx_call *call, int i) MUST_CHECK;
/* ERROR_INVALID unless input i is present and constant. */
int onnx_need_constant(const struct onnx_call *call, int i, const char *what) MUST_CHECK;
/* A constant input as integers or as one number; absent: *ret_count = -1, *ret unchanged. */
int onnx_input_ints(const struct onnx_call *call, int i, const char *what, int max, int64_t *ret,
                    int *ret_count) MUST_CHECK;
int onnx_input_number(const struct onnx_call *call, int i, const char *what, double *ret) MUST_CHECK;

/* Attributes; one that is absent leaves *ret unchanged. NaN is refused; so is infinity unless asked for. */
const Onnx__AttributeProto *onnx_attr(struct onnx_call *call, const char *name);
int onnx_attr_int(struct onnx_call *call, const char *name, int64_t *ret) MUST_CHECK;
int onnx_attr_float(struct onnx_call *call, const char *name, double *ret) MUST_CHECK;
int onnx_attr_ints(struct onnx_call *call, const char *name, int max, int64_t *ret, int *ret_count) MUST_CHECK;
int onnx_attr_text(struct onnx_call *call, const char *name, const char **ret) MUST_CHECK;
/* 0 or 1. */
int onnx_attr_flag(struct onnx_call *call, const char *name, bool *ret) MUST_CHECK;
/* Index of the attribute's text in `names`, into *ret; `fallback` when absent. */
int onnx_attr_choice(struct onnx_call *call, const char *name, const char *const *names, const char *fallback,
                     int *ret) MUST_CHECK;
/* Attributes without meaning here: not an error when present. */
void onnx_attr_ignore(struct onnx_call *call, const char *name);

/* An axis of a tensor of `rank`, counted from the end when negative. */
int onnx_axis(const struct onnx_call *call, int64_t axis, int rank, int *ret) MUST_CHECK;
int onnx_axes(const struct onnx_call *call, const int64_t *axes, int count, int rank, int64_t *ret_mask) MUST_CHECK;

/* A graph node to be. */
struct emit {
    enum op op;
    enum dtype dtype;   /* the result's */
    struct shape shape; /* the result's */
    int n_in;
    int in[4];
    const int *many; /* instead of `in`, for CONCAT */
    union op_attr attr;
    struct epilogue epilogue;
};

/* Adds the node, or evaluates it when all of its inputs are constant; its value to *ret. */
int onnx_emit(struct onnx_call *call, const struct emit *emit, int *ret) MUST_CHECK;
/* Adds a constant whose bytes are counted; `count` elements of data to be filled, or one when splat. */
int onnx_add_constant(struct onnx_call *call, enum dtype dtype, const struct shape *shape, bool splat, int *ret_value,
                      void **ret_data) MUST_CHECK;
/* ERROR_INVALID or ERROR_LIMIT when a result cannot have this shape. Constants may be empty, nothing else may. */
int onnx_check_shape(const struct onnx_call *call, const struct shape *shape, bool constant) MUST_CHECK;

/* Common emissions; each answers the value itself where nothing is to be done. */
int onnx_emit_reshape(struct onnx_call *call, int value, const struct shape *shape, int *ret) MUST_CHECK;
int onnx_emit_transpose(struct onnx_call *call, int value, const int64_t *perm, int *ret) MUST_CHECK;
int onnx_emit_binary(struct onnx_call *call, enum binary kind, int a, int b, int *ret) MUST_CHECK;
int onnx_emit_cast(struct onnx_call *call, int value, enum dtype dtype, int *ret) MUST_CHECK;
int onnx_broadcast(const struct onnx_call *call, const struct shape *a, const struct shape *b,
                   struct shape *ret) MUST_CHECK;
/* "[1, 3, 224, 224]" in the arena. */
const char *onnx_shape_text(const struct onnx_call *call, const struct shape *shape);

#endif
