/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants into weights: scale × (w ∗ x + b) + shift = (scale × w) ∗ x + (scale × b + shift), for each channel.
 * Computed in double and rounded once. Weights may be shared with other nodes, so scaled ones are new values.
 */
#include "service/model/fuse_internal.h"

/* scale NULL: 1 for each of the n channels. */
struct channel_fold {
    int64_t n;
    double *scale, *shift;
};

bool fuse_can_fold(const struct fuser *fuser, const struct node *node, bool scaled) {
    if (node->op != OP_CONV && node->op != OP_CONV_TRANSPOSE && node->op != OP_DENSE) {
        return false;
    }
    if (node->epilogue.act != ACT_NONE || (scaled && node->epilogue.residual)) {
        return false;
    }
    return fuse_is_constant(fuser, node->in[1]) && (!node->epilogue.bias || fuse_is_constant(fuser, node->in[2]));
}

/* Output channel of row `row` of a weight: its outer dimension, or for a transposed one the two outer dimensions. */
static int64_t channel_of_row(const struct node *node, const struct shape *w, int64_t row) {
    if (node->op != OP_CONV_TRANSPOSE) {
        return row;
    }
    int64_t in_channel = row / w->dim[1], in_a_group = w->dim[0] / node->attr.conv.groups;
    return in_channel / in_a_group * w->dim[1] + row % w->dim[1];
}

static int scale_weight(struct fuser *fuser, const struct node *node, const double *scale) {
    const struct value old = *fuse_value(fuser, node->in[1]);
    int64_t rows = old.shape.dim[0] * (node->op == OP_CONV_TRANSPOSE ? old.shape.dim[1] : 1);
    int64_t len = shape_count(&old.shape) / rows;
    float *data;
    int weight = fuse_add_constant(fuser, old.name, &old.shape, &data);
    for (int64_t row = 0; weight >= 0 && row < rows; row++) {
        double factor = scale[channel_of_row(node, &old.shape, row)];
        for (int64_t i = row * len; i < (row + 1) * len; i++) {
            data[i] = (float)(factor * fuse_number(&old, i));
        }
    }
    return weight;
}

static int shift_bias(struct fuser *fuser, const struct node *node, const struct channel_fold *fold) {
    const struct shape shape = {1, {fold->n}};
    float *data;
    int bias = fuse_add_constant(fuser, node->name, &shape, &data);
    for (int64_t i = 0; bias >= 0 && i < fold->n; i++) {
        double old = node->epilogue.bias ? fuse_number(fuse_value(fuser, node->in[2]), i) : 0;
        data[i] = (float)((fold->scale ? fold->scale[i] : 1) * old + fold->shift[i]);
    }
    return bias;
}

/* Node `at` becomes `conv`, with the constants folded and the activation that node `at` had. */
static int absorb(struct fuser *fuser, int at, const struct node *conv, const struct channel_fold *fold) {
    int weight = fold->scale ? scale_weight(fuser, conv, fold->scale) : conv->in[1];
    int bias = weight < 0 ? -1 : shift_bias(fuser, conv, fold);
    if (bias < 0) {
        return RULE_ERROR;
    }
    struct epilogue epilogue = fuser->graph->nodes[at].epilogue;
    epilogue.bias = true;
    epilogue.residual = conv->epilogue.residual;
    const int in[] = {conv->in[0], weight, bias, conv->in[conv->n_in - 1]};
    fuse_change(fuser, at,
                &(struct node_change){conv->op, conv->name, &conv->attr, epilogue, in, epilogue.residual ? 4 : 3});
    fuse_remove(fuser, fuse_index(fuser, conv));
    return RULE_CHANGED;
}

static int new_fold(struct fuser *fuser, int64_t n, bool scaled, struct channel_fold *ret) {
    double *numbers = arena_try_alloc(fuser->graph->arena, (size_t)n * (scaled ? 2 : 1) * sizeof(*numbers));
    if (!numbers) {
        return error_set(fuser->error, ERROR_LIMIT, "out-of-memory", "",
                         "There is not enough memory to fuse %lld channels.", (long long)n);
    }
    *ret = (struct channel_fold){n, scaled ? numbers + n : NULL, numbers};
    return 0;
}

int fuse_fold_affine(struct fuser *fuser, int at) {
    const struct node *affine = &fuser->graph->nodes[at];
    const struct node *conv = fuse_only_read(fuser, affine->in[0]);
    if (!conv || !fuse_can_fold(fuser, conv, true) || !fuse_is_constant(fuser, affine->in[1]) ||
        !fuse_is_constant(fuser, affine->in[2])) {
        return RULE_UNCHANGED;
    }
    struct channel_fold fold;
    if (new_fold(fuser, fuse_value(fuser, affine->out[0])->shape.dim[1], true, &fold)) {
        return RULE_ERROR;
    }
    for (int64_t i = 0; i < fold.n; i++) {
        fold.scale[i] = fuse_number(fuse_value(fuser, affine->in[1]), i);
        fold.shift[i] = fuse_number(fuse_value(fuser, affine->in[2]), i);
    }
    return absorb(fuser, at, conv, &fold);
}

/* Does a constant, broadcast to `shape`, hold one number for each channel (dimension 1), or one for all? */
static bool is_for_channels(const struct value *constant, const struct shape *shape) {
    int missing = shape->rank - constant->shape.rank;
    if (missing < 0) {
        return false;
    }
    for (int i = 0; i < constant->shape.rank && !constant->splat; i++) {
        if (constant->shape.dim[i] != 1 && i + missing != 1) {
            return false;
        }
    }
    return true;
}

/* conv (op) c when `conv_first`, else c (op) conv, as scale × conv + shift. False for other operators. */
static bool as_affine(enum binary kind, bool conv_first, double c, double *ret_scale, double *ret_shift) {
    *ret_scale = 1;
    *ret_shift = 0;
    switch (kind) {
    case BINARY_ADD:
        *ret_shift = c;
        return true;
    case BINARY_SUB:
        *ret_scale = conv_first ? 1 : -1;
        *ret_shift = conv_first ? -c : c;
        return true;
    case BINARY_MUL:
        *ret_scale = c;
        return true;
    case BINARY_DIV:
        *ret_scale = 1 / c;
        return conv_first && c != 0;
    default:
        return false;
    }
}

static int fold_side(struct fuser *fuser, int at, int side) {
    const struct node *node = &fuser->graph->nodes[at];
    const struct node *conv = fuse_only_read(fuser, node->in[side]);
    enum binary kind = (enum binary)node->attr.binary.kind;
    bool scaled = kind != BINARY_ADD && !(kind == BINARY_SUB && side == 0);
    const struct value *constant = fuse_value(fuser, node->in[1 - side]);
    const struct shape *shape = &fuse_value(fuser, node->out[0])->shape;
    if (!conv || !fuse_can_fold(fuser, conv, scaled) || !fuse_is_constant(fuser, node->in[1 - side]) ||
        !fuse_same_shape(fuser, node->in[side], node->out[0]) || !is_for_channels(constant, shape)) {
        return RULE_UNCHANGED;
    }
    struct channel_fold fold;
    if (new_fold(fuser, shape->dim[1], scaled, &fold)) {
        return RULE_ERROR;
    }
    bool one = constant->splat || shape_count(&constant->shape) == 1;
    for (int64_t i = 0; i < fold.n; i++) {
        double scale;
        if (!as_affine(kind, side == 0, fuse_number(constant, one ? 0 : i), &scale, &fold.shift[i])) {
            return RULE_UNCHANGED;
        }
        if (scaled) {
            fold.scale[i] = scale;
        }
    }
    return absorb(fuser, at, conv, &fold);
}

int fuse_fold_channel_constant(struct fuser *fuser, int at) {
    int rc = fold_side(fuser, at, 0);
    return rc == RULE_UNCHANGED ? fold_side(fuser, at, 1) : rc;
}
