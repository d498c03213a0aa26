/* SPDX-License-Identifier: Apache-2.0 */
/* Residual additions and activations into the operator that computes their input. */
#include "service/model/fuse_internal.h"

/* The node that computes input `side` of an addition, if it can add the other input itself. */
static const struct node *adder(const struct fuser *fuser, const struct node *add, int side) {
    const struct node *node = fuse_only_read(fuser, add->in[side]);
    int other = add->in[1 - side];
    if (!node || (node->op != OP_CONV && node->op != OP_DENSE) || node->epilogue.act != ACT_NONE ||
        node->epilogue.residual || fuse_value(fuser, other)->data || fuse_value(fuser, other)->dtype != DTYPE_F32 ||
        !fuse_same_shape(fuser, other, add->out[0]) || !fuse_same_shape(fuser, add->in[side], add->out[0])) {
        return NULL;
    }
    return node;
}

/* Of two that could, the later one adds: the other's result is there by then. */
int fuse_residual(struct fuser *fuser, int at) {
    const struct node *add = &fuser->graph->nodes[at];
    if (add->attr.binary.kind != BINARY_ADD) {
        return RULE_UNCHANGED;
    }
    const struct node *left = adder(fuser, add, 0), *right = adder(fuser, add, 1);
    const struct node *node = left && right ? (left > right ? left : right) : left ? left : right;
    if (!node) {
        return RULE_UNCHANGED;
    }
    struct epilogue epilogue = add->epilogue;
    epilogue.bias = node->epilogue.bias;
    epilogue.residual = true;
    int in[4], n_in = node->n_in;
    for (int i = 0; i < n_in; i++) {
        in[i] = node->in[i];
    }
    in[n_in++] = add->in[node == left ? 1 : 0];
    fuse_change(fuser, at, &(struct node_change){node->op, node->name, &node->attr, epilogue, in, n_in});
    fuse_remove(fuser, fuse_index(fuser, node));
    return RULE_CHANGED;
}

bool fuse_takes_activation(const struct fuser *fuser, const struct node *node) {
    static const bool has_epilogue[OP_COUNT] = {
        [OP_CONV] = true, [OP_CONV_TRANSPOSE] = true, [OP_DENSE] = true, [OP_AFFINE] = true, [OP_BINARY] = true};
    return has_epilogue[node->op] && node->epilogue.act == ACT_NONE &&
           fuse_value(fuser, node->out[0])->dtype == DTYPE_F32;
}

int fuse_activation(struct fuser *fuser, int at) {
    const struct node *unary = &fuser->graph->nodes[at];
    const struct node *node = fuse_only_read(fuser, unary->in[0]);
    if (!node || !fuse_takes_activation(fuser, node)) {
        return RULE_UNCHANGED;
    }
    struct epilogue epilogue = unary->epilogue;
    epilogue.bias = node->epilogue.bias;
    epilogue.residual = node->epilogue.residual;
    fuse_change(fuser, at, &(struct node_change){node->op, node->name, &node->attr, epilogue, node->in, node->n_in});
    fuse_remove(fuser, fuse_index(fuser, node));
    return RULE_CHANGED;
}
