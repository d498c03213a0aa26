/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_import.h: an ONNX file to a graph.
 *
 * Reads opsets 7 to 21 of the operators that convolutional networks use, infers every shape, evaluates what is
 * constant, and lowers to graph.h's operators. Whatever it cannot represent exactly is ERROR_INVALID with the node in
 * `field` and, in the text, the node, its operator and what about it is not supported. The messages it reads cannot
 * nest without end, and every size is checked before memory is taken for it: the file's structure may take twice the
 * file and 256 MiB, evaluated constants what the options allow (else ERROR_LIMIT). Untrusted bytes are imported in a
 * limited child all the same (`warptune child inspect` runs this function); within one process it is deterministic and
 * thread-safe.
 */
#ifndef WARPTUNE_MODEL_ONNX_IMPORT_H
#define WARPTUNE_MODEL_ONNX_IMPORT_H

#include "service/model/graph.h"

struct onnx_options {
    int64_t batch;         /* for a symbolic batch dimension; 0: 1. A fixed batch that differs is ERROR_INVALID */
    size_t constant_bytes; /* the most that evaluated constants may take together; 0: 2 GiB */
};

/* `bytes` must outlive the graph: weights point into it where they can. */
int onnx_import(const void *bytes, size_t len, const struct onnx_options *options, struct arena *arena,
                struct graph **ret, struct error *error) MUST_CHECK;

/* One ONNX TensorProto file, as float32 (a test input or expected output); data in the arena. */
int onnx_read_tensor(const char *path, struct arena *arena, struct value *ret, struct error *error) MUST_CHECK;
/* Writes a float32 tensor as a TensorProto file. */
int onnx_write_tensor(const char *path, const char *name, const struct shape *shape, const float *data,
                      struct error *error) MUST_CHECK;

#endif
