/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/fuse.h"

#include <string.h>

#include "service/model/fuse_internal.h"

/* Tried in this order on each node, from the first to the last, until nothing changes. */
static const struct {
    enum op op; /* of the node looked at: the last one of its pattern */
    fuse_rule *rule;
} rules[] = {
    {OP_AFFINE, fuse_fold_affine},
    {OP_BINARY, fuse_fold_channel_constant},
    {OP_BINARY, fuse_hard_sigmoid},
    {OP_BINARY, fuse_hard_swish},
    {OP_BINARY, fuse_gate},
    {OP_BINARY, fuse_residual},
    {OP_UNARY, fuse_activation},
    {OP_UNARY, fuse_lift_over_reshape},
    {OP_BINARY, fuse_lift_over_reshape},
    {OP_CONV, fuse_pad_into_conv},
    {OP_POOL, fuse_pad_into_pool},
    {OP_RESHAPE, fuse_merge_reshapes},
};

static void fit_values(struct fuser *fuser) {
    int n = fuser->graph->n_values;
    if (n <= fuser->cap_values) {
        return;
    }
    int cap = 2 * n;
    struct value_use *larger = arena_array(fuser->graph->arena, (size_t)cap, sizeof(*larger));
    if (fuser->cap_values) {
        memcpy(larger, fuser->values, (size_t)fuser->cap_values * sizeof(*larger));
    }
    for (int i = fuser->cap_values; i < cap; i++) {
        larger[i] = (struct value_use){-1, 0};
    }
    fuser->values = larger;
    fuser->cap_values = cap;
}

static void index_values(struct fuser *fuser) {
    const struct graph *graph = fuser->graph;
    fit_values(fuser);
    for (int i = 0; i < fuser->cap_values; i++) {
        fuser->values[i] = (struct value_use){-1, 0};
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_out; k++) {
            fuser->values[node->out[k]].producer = i;
        }
        for (int k = 0; k < node->n_in; k++) {
            fuser->values[node->in[k]].uses++;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) {
        fuser->values[graph->outputs[i]].uses++;
    }
}

void fuse_change(struct fuser *fuser, int at, const struct node_change *change) {
    struct node *node = &fuser->graph->nodes[at];
    int *in = arena_array(fuser->graph->arena, (size_t)change->n_in, sizeof(*in));
    for (int i = 0; i < node->n_in; i++) {
        fuser->values[node->in[i]].uses--;
    }
    for (int i = 0; i < change->n_in; i++) {
        in[i] = change->in[i];
        fuser->values[in[i]].uses++;
    }
    union op_attr attr = {0};
    if (change->attr) {
        attr = *change->attr;
    }
    node->op = change->op;
    node->name = change->name;
    node->attr = attr;
    node->epilogue = change->epilogue;
    node->in = in;
    node->n_in = change->n_in;
}

void fuse_remove(struct fuser *fuser, int at) {
    struct node *node = &fuser->graph->nodes[at];
    for (int i = 0; i < node->n_in; i++) {
        fuser->values[node->in[i]].uses--;
    }
    for (int i = 0; i < node->n_out; i++) {
        fuser->values[node->out[i]].producer = -1;
    }
    node->n_in = node->n_out = 0;
}

static int add_value(struct fuser *fuser, const char *name, const struct shape *shape, const void *data, bool splat) {
    int value = graph_add_value(fuser->graph, name, DTYPE_F32, shape);
    fuser->graph->values[value].data = data;
    fuser->graph->values[value].splat = splat;
    fit_values(fuser);
    return value;
}

int fuse_add_constant(struct fuser *fuser, const char *name, const struct shape *shape, float **ret_data) {
    struct shape own = *shape; /* it may lie in an array that moves */
    float *data = arena_try_alloc(fuser->graph->arena, (size_t)shape_count(&own) * sizeof(*data));
    if (!data) {
        return error_set(fuser->error, ERROR_LIMIT, "out-of-memory", "",
                         "There is not enough memory for the fused weights of %s.", name ? name : "a node");
    }
    *ret_data = data;
    return add_value(fuser, name, &own, data, false);
}

int fuse_add_view(struct fuser *fuser, int value, const struct shape *shape, bool splat) {
    const struct value *old = fuse_value(fuser, value);
    return add_value(fuser, old->name, shape, old->data, splat);
}

const struct node *fuse_producer(const struct fuser *fuser, int value) {
    int producer = fuser->values[value].producer;
    return producer < 0 ? NULL : &fuser->graph->nodes[producer];
}

const struct node *fuse_only_read(const struct fuser *fuser, int value) {
    return fuser->values[value].uses == 1 ? fuse_producer(fuser, value) : NULL;
}

int fuse_index(const struct fuser *fuser, const struct node *node) {
    return (int)(node - fuser->graph->nodes);
}

const struct value *fuse_value(const struct fuser *fuser, int value) {
    return &fuser->graph->values[value];
}

bool fuse_same_shape(const struct fuser *fuser, int a, int b) {
    return shape_equal(&fuse_value(fuser, a)->shape, &fuse_value(fuser, b)->shape);
}

bool fuse_is_constant(const struct fuser *fuser, int value) {
    const struct value *v = fuse_value(fuser, value);
    return v->data && v->dtype == DTYPE_F32;
}

double fuse_number(const struct value *value, int64_t i) {
    return ((const float *)value->data)[value->splat ? 0 : i];
}

/* ---- Nodes that change nothing ---- */

static bool is_whole_slice(const struct slice_attr *attr, const struct shape *shape) {
    for (int i = 0; i < shape->rank; i++) {
        if (attr->start[i] != 0 || (attr->step[i] != 1 && shape->dim[i] != 1)) {
            return false;
        }
    }
    return true;
}

static bool is_ordered(const struct transpose_attr *attr, int rank) {
    for (int i = 0; i < rank; i++) {
        if (attr->perm[i] != i) {
            return false;
        }
    }
    return true;
}

static bool is_unscaled(const struct resize_attr *attr, int rank) {
    for (int i = 0; i < rank; i++) {
        if (attr->scale[i] != 1) {
            return false;
        }
    }
    return true;
}

static bool is_unpadded(const struct pad_attr *attr, int rank) {
    for (int i = 0; i < rank; i++) {
        if (attr->before[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_identity(const struct graph *graph, const struct node *node) {
    if (node->n_in != 1 || node->n_out != 1) {
        return false;
    }
    const struct value *in = &graph->values[node->in[0]], *out = &graph->values[node->out[0]];
    if (in->dtype != out->dtype || !shape_equal(&in->shape, &out->shape)) {
        return false;
    }
    switch (node->op) {
    case OP_RESHAPE:
    case OP_CAST:
    case OP_EXPAND:
    case OP_CONCAT:
        return true;
    case OP_TRANSPOSE:
        return is_ordered(&node->attr.transpose, in->shape.rank);
    case OP_SLICE:
        return is_whole_slice(&node->attr.slice, &in->shape);
    case OP_PAD:
        return is_unpadded(&node->attr.pad, in->shape.rank);
    case OP_RESIZE:
        return is_unscaled(&node->attr.resize, in->shape.rank);
    case OP_UNARY:
        return node->epilogue.act == ACT_NONE;
    default:
        return false;
    }
}

static bool is_listed(const int *list, int n, int value) {
    for (int i = 0; i < n; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

/* All that reads or computes `from` does so with `to`. */
static void rename_value(struct graph *graph, int from, int to) {
    for (int i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            node->in[k] = node->in[k] == from ? to : node->in[k];
        }
        for (int k = 0; k < node->n_out; k++) {
            node->out[k] = node->out[k] == from ? to : node->out[k];
        }
    }
}

/*
 * Readers of an identity's result read its input instead. An output of the graph keeps its value, whose name callers
 * know: what computes the input writes it directly, unless the input is itself an output, an input or a constant.
 */
static void bypass_identities(struct graph *graph) {
    int *alias = arena_array(graph->arena, (size_t)graph->n_values, sizeof(*alias));
    for (int i = 0; i < graph->n_values; i++) {
        alias[i] = i;
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        struct node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            node->in[k] = alias[node->in[k]];
        }
        if (!is_identity(graph, node)) {
            continue;
        }
        int in = node->in[0], out = node->out[0];
        if (!is_listed(graph->outputs, graph->n_outputs, out)) {
            alias[out] = in;
            node->n_in = node->n_out = 0;
        } else if (!is_listed(graph->outputs, graph->n_outputs, in) && graph_producer(graph, in) >= 0) {
            node->n_in = node->n_out = 0;
            rename_value(graph, in, out);
            for (int k = 0; k < graph->n_values; k++) {
                alias[k] = alias[k] == in ? out : alias[k];
            }
        }
    }
}

static void drop_removed(struct graph *graph) {
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].n_out > 0) {
            graph->nodes[n++] = graph->nodes[i];
        }
    }
    graph->n_nodes = n;
}

/* All rules on one node until none applies. */
static int fuse_node(struct fuser *fuser, int at) {
    int changed = RULE_UNCHANGED;
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        const struct node *node = &fuser->graph->nodes[at];
        if (node->n_out != 1 || node->op != rules[i].op) {
            continue;
        }
        int rc = rules[i].rule(fuser, at);
        if (rc == RULE_ERROR) {
            return RULE_ERROR;
        }
        if (rc == RULE_CHANGED) {
            changed = RULE_CHANGED;
            i = (size_t)-1; /* from the first rule again: the node is another one now */
        }
    }
    return changed;
}

int graph_fuse(struct graph *graph, struct error *error) {
    struct fuser fuser = {.graph = graph, .error = error};
    int changed = RULE_CHANGED;
    if (fuse_lower_matmuls(graph, error)) {
        return -1;
    }
    while (changed == RULE_CHANGED) {
        changed = RULE_UNCHANGED;
        bypass_identities(graph);
        graph_prune(graph);
        index_values(&fuser);
        for (int i = 0; i < graph->n_nodes; i++) {
            int rc = fuse_node(&fuser, i);
            if (rc == RULE_ERROR) {
                return -1;
            }
            changed |= rc;
        }
        drop_removed(graph);
    }
    return 0;
}
