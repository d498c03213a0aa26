/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h: one fused operator with all that fixes its cost: operator, operand types, shapes and layouts,
 * attributes, epilogue. Its canonical text is the key under which everything is stored and shared:
 *
 *   conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64) -> f32:nhwc:1x64x56x56
 *       {stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu          (one line)
 *
 * and at the end " math=tf32" where f32 factors may be rounded to TF32.
 *
 * Shapes are logical (N, C, H, W) whatever the layout. workload_parse(workload_key(w)) gives w again.
 */
#ifndef WARPTUNE_MODEL_WORKLOAD_H
#define WARPTUNE_MODEL_WORKLOAD_H

#include "service/base/buf.h"
#include "service/model/graph.h"

/* How a tensor's elements lie in memory. Rank-4 values may be channels-last; all else is row-major. */
enum layout { LAYOUT_ROW, LAYOUT_NHWC };

const char *layout_name(enum layout layout); /* "row", "nhwc" */

struct operand {
    enum dtype dtype;
    enum layout layout;
    struct shape shape;
};

/* Elements between neighbours along each logical dimension. */
void operand_strides(const struct operand *operand, int64_t ret_stride[SHAPE_MAX_RANK]);
size_t operand_bytes(const struct operand *operand);

struct workload {
    enum op op;
    int n_in, n_out;
    struct operand *in, *out; /* as the node's; constants (weights) are LAYOUT_ROW */
    union op_attr attr;
    struct epilogue epilogue;
    bool tf32; /* the node's: a kernel may round the factors to TF32, or be more exact */
};

/* `layout`: how rank-4 activations lie (LAYOUT_ROW: NCHW). Weights and other constants stay row-major. */
struct workload *workload_of_node(const struct graph *graph, const struct node *node, enum layout layout,
                                  struct arena *arena);
void workload_key(const struct workload *workload, struct buf *ret);
int workload_parse(const char *key, struct arena *arena, struct workload **ret, struct error *error) MUST_CHECK;
/* Multiplications and additions, each one; epilogues not counted. Bytes: every operand moved once. */
int64_t workload_flops(const struct workload *workload);
int64_t workload_bytes(const struct workload *workload);

/* The distinct tunable workloads (CONV, CONV_TRANSPOSE, DENSE) of a fused graph, in order of first appearance. */
struct workload_use {
    struct workload *workload;
    const char *key;
    int count;         /* nodes that have it */
    const char *first; /* name of the first such node */
};
void workload_list(const struct graph *graph, enum layout layout, struct arena *arena, struct workload_use **ret,
                   int *ret_count);

#endif
