/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse_internal.h: what the fusion's parts share. Private to fuse*.c.
 *
 * A rule looks at one node and at what computes its inputs, and rewrites that node in place, so that it also does the
 * work of the nodes it absorbs. The result keeps its value and its place: inputs of an absorbed node, and all else
 * that the node reads, are computed before that place, so the order stays topological. An absorbed node is left
 * without results until fuse.c sweeps it away. An epilogue computes act(result + bias + residual): nothing is added
 * to a node that has an activation.
 */
#ifndef WARPTUNE_MODEL_FUSE_INTERNAL_H
#define WARPTUNE_MODEL_FUSE_INTERNAL_H

#include "service/model/graph.h"

struct value_use {
    int producer; /* index of its node, or -1 */
    int uses;     /* inputs of nodes that read it (twice when a node reads it twice), and outputs of the graph */
};

struct fuser {
    struct graph *graph;
    struct error *error;
    struct value_use *values;
    int cap_values;
};

/* A rule answers whether it changed something, or -1. */
enum { RULE_ERROR = -1, RULE_UNCHANGED = 0, RULE_CHANGED = 1 };
typedef int fuse_rule(struct fuser *fuser, int at);

/* Node `at` becomes `op`, keeping its results. `in` may be the old inputs. */
struct node_change {
    enum op op;
    const char *name;
    const union op_attr *attr; /* NULL: none */
    struct epilogue epilogue;
    const int *in;
    int n_in;
};
void fuse_change(struct fuser *fuser, int at, const struct node_change *change);
/* A node whose results nobody reads any more. */
void fuse_remove(struct fuser *fuser, int at);
/* A constant with data in the arena; -1 when memory is out. *ret_data is valid until the arena goes. */
int fuse_add_constant(struct fuser *fuser, const char *name, const struct shape *shape, float **ret_data);
/* A constant that looks at the data of another under another shape. */
int fuse_add_view(struct fuser *fuser, int value, const struct shape *shape, bool splat);

/* The node that computes a value: NULL for inputs and constants; fuse_only_read: nor when it is read elsewhere too. */
const struct node *fuse_producer(const struct fuser *fuser, int value);
const struct node *fuse_only_read(const struct fuser *fuser, int value);
int fuse_index(const struct fuser *fuser, const struct node *node);
const struct value *fuse_value(const struct fuser *fuser, int value);
bool fuse_same_shape(const struct fuser *fuser, int a, int b);
/* A float32 constant; element i of one. */
bool fuse_is_constant(const struct fuser *fuser, int value);
double fuse_number(const struct value *value, int64_t i);

/* ---- fuse_fold.c: constants into weights and bias ---- */
fuse_rule fuse_fold_affine;           /* AFFINE after CONV, CONV_TRANSPOSE, DENSE */
fuse_rule fuse_fold_channel_constant; /* BINARY with one constant a channel after the same */
/* Could a constant be folded into this node? `scaled`: its weights too, which a residual forbids. */
bool fuse_can_fold(const struct fuser *fuser, const struct node *node, bool scaled);

/* ---- fuse_epilogue.c: residual and activation ---- */
fuse_rule fuse_residual;
fuse_rule fuse_activation;
bool fuse_takes_activation(const struct fuser *fuser, const struct node *node);

/* ---- fuse_activation.c: activations written out as several operators ---- */
fuse_rule fuse_gate;         /* x × sigmoid(x), x × hard-sigmoid(x) */
fuse_rule fuse_hard_sigmoid; /* clip(x + 3, 0, 6) / 6 */
fuse_rule fuse_hard_swish;   /* x × clip(x + 3, 0, 6) / 6 */

/* ---- fuse_shape.c: pads, reshapes, matrices ---- */
fuse_rule fuse_pad_into_conv;
fuse_rule fuse_pad_into_pool;
fuse_rule fuse_merge_reshapes;
fuse_rule fuse_lift_over_reshape; /* dense → reshape → activation or constant: the reshape goes last */
/* MATMUL with a constant right side to DENSE, between reshapes unless its left side has rank 2. Before any indexing. */
int fuse_lower_matmuls(struct graph *graph, struct error *error) MUST_CHECK;

#endif
