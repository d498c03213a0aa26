/* SPDX-License-Identifier: Apache-2.0 */
/* Activations that exporters write out as several operators. */
#include <math.h>

#include "service/model/fuse_internal.h"

/* Parameters pass through float32, so 1/6 is only nearly 1/6. */
static bool is_about(double a, double b) {
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static bool is_act(const struct node *node, enum act act, double alpha, double beta) {
    return node->epilogue.act == act &&
           (alpha == 0 ? node->epilogue.alpha == 0 : is_about(node->epilogue.alpha, alpha)) &&
           (beta == 0 || is_about(node->epilogue.beta, beta));
}

static bool is_plain_binary(const struct node *node, enum binary kind) {
    return node && node->op == OP_BINARY && node->attr.binary.kind == (int64_t)kind && node->epilogue.act == ACT_NONE;
}

/* The input of a binary node whose other input is the constant `number` everywhere, or -1. */
static int other_than(const struct fuser *fuser, const struct node *node, int side, double number) {
    int constant = node->in[side], x = node->in[1 - side];
    const struct value *value = fuse_value(fuser, constant);
    bool fits = fuse_is_constant(fuser, constant) && (value->splat || shape_count(&value->shape) == 1) &&
                is_about(fuse_number(value, 0), number) && fuse_same_shape(fuser, x, node->out[0]);
    return fits ? x : -1;
}

/* x when `value` is x + 3, read only here. */
static int shifted_by_3(const struct fuser *fuser, const struct node *add) {
    if (!add || add->op != OP_BINARY || add->attr.binary.kind != BINARY_ADD) {
        return -1;
    }
    int x = other_than(fuser, add, 0, 3);
    return x >= 0 ? x : other_than(fuser, add, 1, 3);
}

/* x when `value` is clip(x + 3, 0, 6), read only here; the clip may have joined the addition already. */
static int clipped_shift(const struct fuser *fuser, int value) {
    const struct node *clip = fuse_only_read(fuser, value);
    if (!clip || !is_act(clip, ACT_CLIP, 0, 6)) {
        return -1;
    }
    if (clip->op == OP_BINARY) {
        return shifted_by_3(fuser, clip);
    }
    const struct node *add = clip->op == OP_UNARY ? fuse_only_read(fuser, clip->in[0]) : NULL;
    return add && add->epilogue.act == ACT_NONE ? shifted_by_3(fuser, add) : -1;
}

/* The input that a node divides by 6, or -1. */
static int divided_by_6(const struct fuser *fuser, const struct node *node) {
    if (is_plain_binary(node, BINARY_DIV)) {
        return other_than(fuser, node, 1, 6);
    }
    if (!is_plain_binary(node, BINARY_MUL)) {
        return -1;
    }
    int x = other_than(fuser, node, 0, 1.0 / 6);
    return x >= 0 ? x : other_than(fuser, node, 1, 1.0 / 6);
}

/* Node `at` becomes the activation of x; what computed its parts is pruned later, when nobody else reads it. */
static int become_unary(struct fuser *fuser, int at, int x, enum act act, double alpha, double beta) {
    const struct epilogue epilogue = {.act = act, .alpha = alpha, .beta = beta};
    fuse_change(fuser, at, &(struct node_change){OP_UNARY, fuser->graph->nodes[at].name, NULL, epilogue, &x, 1});
    return RULE_CHANGED;
}

/* Removes the nodes that computed a value which only the changed node read. */
static void drop(struct fuser *fuser, int value) {
    const struct node *node = fuse_producer(fuser, value);
    while (node && fuser->values[value].uses == 0) {
        int next = -1;
        for (int i = 0; i < node->n_in; i++) {
            next = fuse_producer(fuser, node->in[i]) && fuser->values[node->in[i]].uses == 1 ? node->in[i] : next;
        }
        fuse_remove(fuser, fuse_index(fuser, node));
        value = next;
        node = value < 0 ? NULL : fuse_producer(fuser, value);
    }
}

int fuse_hard_sigmoid(struct fuser *fuser, int at) {
    int clipped = divided_by_6(fuser, &fuser->graph->nodes[at]);
    int x = clipped < 0 ? -1 : clipped_shift(fuser, clipped);
    if (x < 0) {
        return RULE_UNCHANGED;
    }
    become_unary(fuser, at, x, ACT_HARD_SIGMOID, 1.0 / 6, 0.5);
    drop(fuser, clipped);
    return RULE_CHANGED;
}

int fuse_hard_swish(struct fuser *fuser, int at) {
    int product = divided_by_6(fuser, &fuser->graph->nodes[at]);
    const struct node *multiply = product < 0 ? NULL : fuse_only_read(fuser, product);
    if (!is_plain_binary(multiply, BINARY_MUL)) {
        return RULE_UNCHANGED;
    }
    for (int side = 0; side < 2; side++) {
        int clipped = multiply->in[side], x = multiply->in[1 - side];
        if (clipped_shift(fuser, clipped) == x) {
            become_unary(fuser, at, x, ACT_HARD_SWISH, 0, 0);
            fuse_remove(fuser, fuse_index(fuser, multiply));
            drop(fuser, clipped);
            return RULE_CHANGED;
        }
    }
    return RULE_UNCHANGED;
}

int fuse_gate(struct fuser *fuser, int at) {
    const struct node *multiply = &fuser->graph->nodes[at];
    if (!is_plain_binary(multiply, BINARY_MUL)) {
        return RULE_UNCHANGED;
    }
    for (int side = 0; side < 2; side++) {
        int gate = multiply->in[side], x = multiply->in[1 - side];
        const struct node *unary = fuse_only_read(fuser, gate);
        if (!unary || unary->op != OP_UNARY || unary->in[0] != x) {
            continue;
        }
        bool silu = unary->epilogue.act == ACT_SIGMOID;
        if (silu || is_act(unary, ACT_HARD_SIGMOID, 1.0 / 6, 0.5)) {
            become_unary(fuser, at, x, silu ? ACT_SILU : ACT_HARD_SWISH, 0, 0);
            drop(fuser, gate);
            return RULE_CHANGED;
        }
    }
    return RULE_UNCHANGED;
}
