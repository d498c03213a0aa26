/* SPDX-License-Identifier: Apache-2.0 */
/* Pads into windows, reshapes out of the way, matrix products with constants to DENSE. */
#include "service/model/fuse_internal.h"

#define WINDOW_PAD_MAX 65536 /* as the importer's limit */

/* The pad of height and width (top, left, bottom, right) when that is all a PAD node does, with zeros. */
static bool zero_border(const struct fuser *fuser, const struct node *node, int64_t ret_pad[4]) {
    if (!node || node->op != OP_PAD || node->attr.pad.mode != PAD_CONSTANT || node->attr.pad.value != 0) {
        return false;
    }
    const struct shape *in = &fuse_value(fuser, node->in[0])->shape, *out = &fuse_value(fuser, node->out[0])->shape;
    const int64_t *before = node->attr.pad.before;
    if (in->rank != 4 || before[0] || before[1] || in->dim[0] != out->dim[0] || in->dim[1] != out->dim[1]) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        ret_pad[i] = before[2 + i];
        ret_pad[2 + i] = out->dim[2 + i] - in->dim[2 + i] - before[2 + i];
    }
    return true;
}

/* pad += more, unless a side is negative (a crop) or too wide. */
static bool widen(int64_t pad[4], const int64_t more[4]) {
    for (int i = 0; i < 4; i++) {
        if (pad[i] < 0 || more[i] < 0 || pad[i] + more[i] > WINDOW_PAD_MAX) {
            return false;
        }
    }
    for (int i = 0; i < 4; i++) {
        pad[i] += more[i];
    }
    return true;
}

/* Node `at` reads what its first input's producer reads, with other attributes. */
static int skip_producer(struct fuser *fuser, int at, const union op_attr *attr) {
    const struct node *node = &fuser->graph->nodes[at];
    const struct node *skipped = fuse_producer(fuser, node->in[0]);
    int in[4] = {skipped->in[0]};
    for (int i = 1; i < node->n_in; i++) {
        in[i] = node->in[i];
    }
    fuse_change(fuser, at, &(struct node_change){node->op, node->name, attr, node->epilogue, in, node->n_in});
    if (fuser->values[skipped->out[0]].uses == 0) {
        fuse_remove(fuser, fuse_index(fuser, skipped));
    }
    return RULE_CHANGED;
}

int fuse_pad_into_conv(struct fuser *fuser, int at) {
    const struct node *conv = &fuser->graph->nodes[at];
    union op_attr attr = conv->attr;
    int64_t border[4];
    if (!zero_border(fuser, fuse_producer(fuser, conv->in[0]), border) || !widen(attr.conv.pad, border)) {
        return RULE_UNCHANGED;
    }
    return skip_producer(fuser, at, &attr);
}

/* An average counts the zeros of a PAD node always, of its own pad only when told: exact when both agree. */
int fuse_pad_into_pool(struct fuser *fuser, int at) {
    const struct node *pool = &fuser->graph->nodes[at];
    union op_attr attr = pool->attr;
    const int64_t *pad = pool->attr.pool.pad;
    bool unpadded = !pad[0] && !pad[1] && !pad[2] && !pad[3];
    int64_t border[4];
    if (attr.pool.kind != POOL_AVERAGE || (!attr.pool.count_include_pad && !unpadded) ||
        !zero_border(fuser, fuse_producer(fuser, pool->in[0]), border) || !widen(attr.pool.pad, border)) {
        return RULE_UNCHANGED;
    }
    attr.pool.count_include_pad = 1;
    return skip_producer(fuser, at, &attr);
}

int fuse_merge_reshapes(struct fuser *fuser, int at) {
    const struct node *first = fuse_producer(fuser, fuser->graph->nodes[at].in[0]);
    return first && first->op == OP_RESHAPE ? skip_producer(fuser, at, NULL) : RULE_UNCHANGED;
}

/* The constant of a BINARY node as the result of DENSE sees it: one number, or one for each of the last dimension. */
static int constant_of_columns(struct fuser *fuser, const struct node *node, int side) {
    const struct value constant = *fuse_value(fuser, node->in[side]);
    const struct shape *out = &fuse_value(fuser, node->out[0])->shape;
    int64_t last = out->rank ? out->dim[out->rank - 1] : 1;
    int64_t count = shape_count(&constant.shape);
    if (!fuse_is_constant(fuser, node->in[side]) || !fuse_same_shape(fuser, node->in[1 - side], node->out[0])) {
        return -1;
    }
    if (constant.splat || count == 1) {
        return fuse_add_view(fuser, node->in[side], &(const struct shape){1, {1}}, false);
    }
    bool columns = count == last && constant.shape.dim[constant.shape.rank - 1] == last;
    return columns ? fuse_add_view(fuser, node->in[side], &(const struct shape){1, {last}}, false) : -1;
}

/* What node `at` would fuse with lies behind a reshape: that becomes the last of the three. */
int fuse_lift_over_reshape(struct fuser *fuser, int at) {
    const struct node node = fuser->graph->nodes[at];
    int side = node.op == OP_BINARY && !fuse_producer(fuser, node.in[0]) ? 1 : 0;
    const struct node *reshape = fuse_only_read(fuser, node.in[side]);
    const struct node *dense = reshape && reshape->op == OP_RESHAPE ? fuse_only_read(fuser, reshape->in[0]) : NULL;
    if (!dense || !fuse_takes_activation(fuser, dense)) {
        return RULE_UNCHANGED;
    }
    int x = reshape->in[0], middle = reshape->out[0], at_reshape = fuse_index(fuser, reshape), in[2] = {x};
    struct shape shape = fuse_value(fuser, x)->shape;
    if (node.op == OP_BINARY) {
        const struct shape *out = &fuse_value(fuser, middle)->shape;
        bool same_columns = shape.rank == 2 && out->rank > 0 && out->dim[out->rank - 1] == shape.dim[1];
        if (dense->op != OP_DENSE || !same_columns || !fuse_can_fold(fuser, dense, true)) {
            return RULE_UNCHANGED;
        }
        in[side] = x;
        in[1 - side] = constant_of_columns(fuser, &node, 1 - side);
        if (in[1 - side] < 0) {
            return RULE_UNCHANGED;
        }
    }
    fuse_change(fuser, at_reshape, &(struct node_change){node.op, node.name, &node.attr, node.epilogue, in, node.n_in});
    fuser->graph->values[middle].shape = shape;
    fuse_change(fuser, at, &(struct node_change){OP_RESHAPE, node.name, NULL, {0}, &middle, 1});
    return RULE_CHANGED;
}

/* ---- MATMUL to DENSE ---- */

static bool is_dense(const struct graph *graph, const struct node *node) {
    if (node->op != OP_MATMUL) {
        return false;
    }
    const struct value *a = &graph->values[node->in[0]], *b = &graph->values[node->in[1]];
    return b->data && b->dtype == DTYPE_F32 && a->dtype == DTYPE_F32 && b->shape.rank == 2 && a->shape.rank >= 2;
}

/* The right side's transpose, a new value; -1 when memory is out. */
static int transposed(struct graph *graph, int value, struct error *error) {
    const struct value b = graph->values[value];
    const struct shape shape = {2, {b.shape.dim[1], b.shape.dim[0]}};
    const float *from = b.data;
    const void *data = from;
    if (!b.splat) {
        float *to = arena_try_alloc(graph->arena, (size_t)shape_count(&shape) * sizeof(*to));
        if (!to) {
            return error_set(error, ERROR_LIMIT, "out-of-memory", "",
                             "There is not enough memory for the transpose of %s.", b.name ? b.name : "a constant");
        }
        for (int64_t n = 0; n < shape.dim[0]; n++) {
            for (int64_t k = 0; k < shape.dim[1]; k++) {
                to[n * shape.dim[1] + k] = from[k * shape.dim[0] + n];
            }
        }
        data = to;
    }
    int weight = graph_add_value(graph, b.name, DTYPE_F32, &shape);
    graph->values[weight].data = data;
    graph->values[weight].splat = b.splat;
    return weight;
}

static void add_simple(struct graph *graph, enum op op, const char *name, int n_in, int a, int b, int out) {
    struct node *node = graph_add_node(graph, op, name, n_in, 1);
    node->in[0] = a;
    if (n_in > 1) {
        node->in[1] = b;
    }
    node->out[0] = out;
}

static int lower_matmul(struct graph *graph, const struct node *node, struct error *error) {
    int x = node->in[0], out = node->out[0], weight = transposed(graph, node->in[1], error);
    const struct shape a = graph->values[x].shape;
    if (weight < 0) {
        return -1;
    }
    if (a.rank == 2) {
        add_simple(graph, OP_DENSE, node->name, 2, x, weight, out);
        return 0;
    }
    int64_t k = a.dim[a.rank - 1];
    struct shape flat = {2, {shape_count(&a) / k, k}};
    int flat_x = graph_add_value(graph, node->name, DTYPE_F32, &flat);
    flat.dim[1] = graph->values[weight].shape.dim[0];
    int flat_out = graph_add_value(graph, node->name, DTYPE_F32, &flat);
    add_simple(graph, OP_RESHAPE, node->name, 1, x, -1, flat_x);
    add_simple(graph, OP_DENSE, node->name, 2, flat_x, weight, flat_out);
    add_simple(graph, OP_RESHAPE, node->name, 1, flat_out, -1, out);
    return 0;
}

int fuse_lower_matmuls(struct graph *graph, struct error *error) {
    const struct node *nodes = graph->nodes;
    int n_nodes = graph->n_nodes;
    graph->nodes = NULL;
    graph->n_nodes = graph->cap_nodes = 0;
    for (int i = 0; i < n_nodes; i++) {
        if (!is_dense(graph, &nodes[i])) {
            *graph_add_node(graph, nodes[i].op, nodes[i].name, 0, 0) = nodes[i];
        } else if (lower_matmul(graph, &nodes[i], error)) {
            return -1;
        }
    }
    return 0;
}
