/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h: a network after import: values (tensors), nodes (operators) in topological order, inputs and outputs.
 *
 * ONNX's many operators are few here: the importer lowers each to one of `enum op` (GlobalAveragePool is a REDUCE,
 * Flatten a RESHAPE, Clip a UNARY, Split several SLICEs, …), with shapes all known. Shapes are always in ONNX's logical
 * order (images: N, C, H, W); how a device lays values out in memory is the plan's affair (enum layout). Everything a
 * graph points to lives in its arena, or in the mapped model file, which must outlive it.
 */
#ifndef WARPTUNE_MODEL_GRAPH_H
#define WARPTUNE_MODEL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/error.h"

enum dtype {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F64,
    DTYPE_I8,
    DTYPE_U8,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_BOOL,
    DTYPE_COUNT
};

size_t dtype_size(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "f32", "i64", … */
int dtype_parse(const char *name, enum dtype *ret, struct error *error) MUST_CHECK;

#define SHAPE_MAX_RANK 8

struct shape {
    int rank;
    int64_t dim[SHAPE_MAX_RANK];
};

/* Product of the dimensions. A graph's shapes are checked at import: every product fits in 2^40. */
int64_t shape_count(const struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);

/* What an activation computes, with its parameters `alpha` and `beta`. */
enum act {
    ACT_NONE,
    ACT_RELU,
    ACT_LEAKY_RELU, /* alpha × x below 0 */
    ACT_CLIP,       /* between alpha and beta */
    ACT_SIGMOID,
    ACT_HARD_SIGMOID, /* clip(alpha × x + beta, 0, 1) */
    ACT_HARD_SWISH,   /* x × clip(x/6 + 1/2, 0, 1) */
    ACT_TANH,
    ACT_SILU, /* x × sigmoid(x) */
    ACT_EXP,
    ACT_LOG,
    ACT_SQRT,
    ACT_ABS,
    ACT_NEG,
    ACT_ERF,
    ACT_FLOOR,
    ACT_CEIL,
    ACT_RECIPROCAL,
    ACT_COUNT
};

enum binary {
    BINARY_ADD,
    BINARY_SUB,
    BINARY_MUL,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_POW,
    BINARY_PRELU,
    BINARY_COUNT
};

enum op {
    OP_CONV,           /* in: x [N,C,H,W], w [K,C/g,R,S], bias [K] if epilogue.bias, residual if epilogue.residual */
    OP_CONV_TRANSPOSE, /* in: x [N,C,H,W], w [C,K/g,R,S], bias [K] if epilogue.bias */
    OP_DENSE,          /* in: x [M,K], w [N,K] constant, bias [N] if epilogue.bias, residual [M,N]; out [M,N] */
    OP_MATMUL,         /* in: a […,M,K], b […,K,N], batch dimensions broadcast */
    OP_POOL,           /* in: x [N,C,H,W] */
    OP_REDUCE,         /* over a set of axes; out keeps them as 1 */
    OP_AFFINE, /* in: x [N,C,…], scale [C], shift [C]: batch norm that no convolution took; then epilogue.act */
    OP_UNARY,  /* epilogue.act of x */
    OP_BINARY, /* in: a, b, broadcast as ONNX does; then epilogue.act */
    OP_SOFTMAX,
    OP_LRN,     /* across channels */
    OP_RESHAPE, /* the same elements in logical order under another shape */
    OP_TRANSPOSE,
    OP_CONCAT, /* any number of inputs */
    OP_SLICE,
    OP_PAD,
    OP_RESIZE,
    OP_GATHER, /* in: x, indices (i32 or i64) */
    OP_EXPAND, /* broadcast to the output's shape */
    OP_CAST,   /* to the output's dtype */
    OP_COPY,   /* the same elements; made by the plan, to change a layout */
    OP_COUNT
};

const char *op_name(enum op op); /* "conv2d", "dense", "pool", … */
bool op_has_weights(enum op op); /* CONV, CONV_TRANSPOSE, DENSE: x times w, which is most of a network's work */

struct conv_attr {
    int64_t stride[2], dilation[2];
    int64_t pad[4]; /* top, left, bottom, right */
    int64_t groups; /* kernel sizes are the weight's */
};

enum pool_kind { POOL_MAX, POOL_AVERAGE };
struct pool_attr {
    int64_t kind; /* enum pool_kind */
    int64_t kernel[2], stride[2], dilation[2];
    int64_t pad[4];            /* as declared; with ceil_mode the output may reach beyond pad, which never counts */
    int64_t count_include_pad; /* average: divide by all taps within input and pad, not only those in the input */
};

enum reduce_kind { REDUCE_MEAN, REDUCE_MAX, REDUCE_SUM };
struct reduce_attr {
    int64_t kind; /* enum reduce_kind */
    int64_t axes; /* bit i set: dimension i is reduced */
};

struct binary_attr {
    int64_t kind; /* enum binary */
};
struct softmax_attr {
    int64_t axis;
    int64_t log; /* 1: log-softmax */
};
struct lrn_attr {
    int64_t size;
    double alpha, beta, bias;
};
struct transpose_attr {
    int64_t perm[SHAPE_MAX_RANK];
}; /* out.dim[i] = in.dim[perm[i]] */
struct concat_attr {
    int64_t axis;
};
struct slice_attr {
    int64_t start[SHAPE_MAX_RANK], step[SHAPE_MAX_RANK];
}; /* steps may be negative; extents: the output's */

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE };
struct pad_attr {
    int64_t mode; /* enum pad_mode */
    double value;
    int64_t before[SHAPE_MAX_RANK]; /* may be negative (crop); what follows is the output's shape */
};

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR };
enum resize_coordinates { RESIZE_HALF_PIXEL, RESIZE_PYTORCH_HALF_PIXEL, RESIZE_ASYMMETRIC, RESIZE_ALIGN_CORNERS };
enum resize_rounding { RESIZE_ROUND_PREFER_FLOOR, RESIZE_ROUND_PREFER_CEIL, RESIZE_FLOOR, RESIZE_CEIL };
struct resize_attr {
    int64_t mode, coordinates, rounding;
    double scale[SHAPE_MAX_RANK]; /* output over input, for each dimension */
};

struct gather_attr {
    int64_t axis;
};

union op_attr {
    struct conv_attr conv; /* CONV, CONV_TRANSPOSE */
    struct pool_attr pool;
    struct reduce_attr reduce;
    struct binary_attr binary;
    struct softmax_attr softmax;
    struct lrn_attr lrn;
    struct transpose_attr transpose;
    struct concat_attr concat;
    struct slice_attr slice;
    struct pad_attr pad;
    struct resize_attr resize;
    struct gather_attr gather;
};

/* What follows an operator's own result: out = act(result + bias + residual). */
struct epilogue {
    bool bias;     /* an input holds one number a channel (CONV, CONV_TRANSPOSE, DENSE) */
    bool residual; /* the last input has the output's shape (CONV, DENSE) */
    enum act act;
    double alpha, beta;
};

/* One tensor. A constant has data; a splat constant has one element of data for all of its elements. */
struct value {
    const char *name;
    enum dtype dtype;
    struct shape shape;
    const void *data; /* row-major in logical order; NULL when computed at run time */
    bool splat;
};

struct node {
    enum op op;
    const char *name; /* the ONNX node it came from, for messages */
    int n_in, n_out;  /* n_out is 1 for every operator so far */
    int *in, *out;    /* indices into graph->values */
    union op_attr attr;
    struct epilogue epilogue;
    bool tf32; /* CONV, CONV_TRANSPOSE, DENSE of f32: x and w may be rounded to TF32 before they are multiplied */
};

struct graph {
    struct arena *arena; /* borrowed */
    const char *name;
    struct value *values;
    int n_values, cap_values;
    struct node *nodes; /* topological order */
    int n_nodes, cap_nodes;
    int *inputs, n_inputs; /* values fed by the caller (initializers are not among them) */
    int *outputs, n_outputs;
    int64_t source_operators; /* nodes of the ONNX file, before simplification */
};

struct graph *graph_new(struct arena *arena);
int graph_add_value(struct graph *graph, const char *name, enum dtype dtype, const struct shape *shape); /* its index */
struct node *graph_add_node(struct graph *graph, enum op op, const char *name, int n_in,
                            int n_out); /* arrays allocated */
/* Index of the node that computes a value, or -1. How many nodes (and outputs of the graph) read it. O(nodes). */
int graph_producer(const struct graph *graph, int value);
int graph_uses(const struct graph *graph, int value);
/* Drops nodes whose results nobody reads. */
void graph_prune(struct graph *graph);

#endif
