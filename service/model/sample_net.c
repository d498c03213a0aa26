/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/sample_net.h"

#include <math.h>
#include <string.h>

static void *grow(struct arena *arena, void *array, int n, int *cap, size_t size) {
    if (n < *cap) {
        return array;
    }
    *cap = *cap ? 2 * *cap : 64;
    void *larger = arena_array(arena, (size_t)*cap, size);
    if (n) {
        memcpy(larger, array, (size_t)n * size);
    }
    return larger;
}

static struct net_node *add_node(struct net *net, const char *op, const char *name, int n_in) {
    net->nodes = grow(net->arena, net->nodes, net->n_nodes, &net->cap_nodes, sizeof(*net->nodes));
    struct net_node *node = &net->nodes[net->n_nodes++];
    node->op = op;
    node->name = name;
    node->out = arena_printf(net->arena, "%s.out", name);
    node->in = arena_array(net->arena, (size_t)n_in, sizeof(*node->in));
    node->n_in = n_in;
    return node;
}

static void add_ints(struct net_node *node, const char *name, int n, int64_t a, int64_t b, int64_t c, int64_t d) {
    node->attrs[node->n_attrs++] = (struct net_attr){.name = name, .n = n, .ints = {a, b, c, d}};
}

static void add_int(struct net_node *node, const char *name, int64_t value) {
    add_ints(node, name, 0, value, 0, 0, 0);
}

static void add_float(struct net_node *node, const char *name, float value) {
    node->attrs[node->n_attrs++] = (struct net_attr){.name = name, .is_float = true, .value = value};
}

static void add_window(struct net_node *node, struct net_window window) {
    add_ints(node, "kernel_shape", 2, window.kernel, window.kernel, 0, 0);
    add_ints(node, "pads", 4, window.pad, window.pad, window.pad, window.pad);
    add_ints(node, "strides", 2, window.stride, window.stride, 0, 0);
}

static const char *add_tensor(struct net *net, const char *layer, const char *what, struct net_tensor tensor) {
    net->tensors = grow(net->arena, net->tensors, net->n_tensors, &net->cap_tensors, sizeof(*net->tensors));
    tensor.name = arena_printf(net->arena, "%s.%s", layer, what);
    net->tensors[net->n_tensors++] = tensor;
    return tensor.name;
}

static const char *add_uniform(struct net *net, const char *layer, const char *what, int64_t n, float low, float high) {
    return add_tensor(net, layer, what, (struct net_tensor){.rank = 1, .dim = {n}, .low = low, .high = high});
}

/* He: products of `fan_in` inputs sum to about the deviation of what the rectifier before them saw. */
static const char *add_weight(struct net *net, const char *layer, struct feature x, int64_t fan_in,
                              struct net_tensor w) {
    w.normal = true;
    w.high = (float)sqrt((x.positive ? 2.0 : 1.0) / (double)fan_in);
    return add_tensor(net, layer, "weight", w);
}

struct feature net_input(int64_t c, int64_t h, int64_t w) {
    return (struct feature){"input", c, h, w, false};
}

static int64_t window_count(int64_t size, struct net_window window, bool ceil) {
    int64_t free = size + 2 * window.pad - window.kernel;
    int64_t n = (free + (ceil ? window.stride - 1 : 0)) / window.stride + 1;
    return ceil && (n - 1) * window.stride >= size + window.pad ? n - 1 : n;
}

static struct feature after_window(struct feature x, const struct net_node *node, struct net_window window, bool ceil) {
    return (struct feature){node->out, x.c, window_count(x.h, window, ceil), window_count(x.w, window, ceil),
                            x.positive};
}

struct feature net_conv(struct net *net, const char *name, struct feature x, int64_t k, struct net_window window,
                        int64_t groups, bool bias) {
    struct net_node *node = add_node(net, "Conv", name, bias ? 3 : 2);
    struct net_tensor w = {.rank = 4, .dim = {k, x.c / groups, window.kernel, window.kernel}};
    node->in[0] = x.name;
    node->in[1] = add_weight(net, name, x, w.dim[1] * w.dim[2] * w.dim[3], w);
    if (bias) {
        node->in[2] = add_uniform(net, name, "bias", k, -0.1F, 0.1F);
    }
    add_ints(node, "dilations", 2, 1, 1, 0, 0);
    add_int(node, "group", groups);
    add_window(node, window);
    struct feature out = after_window(x, node, window, false);
    out.c = k;
    out.positive = false;
    return out;
}

struct feature net_batch_norm(struct net *net, const char *name, struct feature x, bool damped) {
    struct net_node *node = add_node(net, "BatchNormalization", name, 5);
    node->in[0] = x.name;
    node->in[1] = add_uniform(net, name, "weight", x.c, damped ? 0.1F : 0.6F, damped ? 0.3F : 1.4F);
    node->in[2] = add_uniform(net, name, "bias", x.c, -0.2F, 0.2F);
    node->in[3] = add_uniform(net, name, "running_mean", x.c, -0.3F, 0.3F);
    node->in[4] = add_uniform(net, name, "running_var", x.c, 0.5F, 1.5F);
    add_float(node, "epsilon", net->bn_epsilon);
    add_float(node, "momentum", 0.9F);
    x.name = node->out;
    x.positive = false;
    return x;
}

static struct feature add_simple(struct net *net, const char *op, const char *name, struct feature x, int n_in) {
    struct net_node *node = add_node(net, op, name, n_in);
    node->in[0] = x.name;
    x.name = node->out;
    return x;
}

struct feature net_relu(struct net *net, const char *name, struct feature x) {
    x = add_simple(net, "Relu", name, x, 1);
    x.positive = true;
    return x;
}

struct feature net_relu6(struct net *net, const char *name, struct feature x) {
    x = add_simple(net, "Clip", name, x, 3);
    struct net_node *node = &net->nodes[net->n_nodes - 1];
    node->in[1] = add_tensor(net, name, "min", (struct net_tensor){.rank = 0});
    node->in[2] = add_tensor(net, name, "max", (struct net_tensor){.rank = 0, .low = 6, .high = 6});
    x.positive = true;
    return x;
}

struct feature net_max_pool(struct net *net, const char *name, struct feature x, struct net_window window, bool ceil) {
    struct net_node *node = add_node(net, "MaxPool", name, 1);
    node->in[0] = x.name;
    add_int(node, "ceil_mode", ceil);
    add_ints(node, "dilations", 2, 1, 1, 0, 0);
    add_window(node, window);
    return after_window(x, node, window, ceil);
}

struct feature net_average_pool(struct net *net, const char *name, struct feature x, struct net_window window) {
    struct net_node *node = add_node(net, "AveragePool", name, 1);
    node->in[0] = x.name;
    add_int(node, "ceil_mode", 0);
    add_int(node, "count_include_pad", 1);
    add_window(node, window);
    return after_window(x, node, window, false);
}

struct feature net_global_average(struct net *net, const char *name, struct feature x) {
    x = add_simple(net, "GlobalAveragePool", name, x, 1);
    x.h = x.w = 1;
    return x;
}

struct feature net_flatten(struct net *net, const char *name, struct feature x) {
    x = add_simple(net, "Flatten", name, x, 1);
    add_int(&net->nodes[net->n_nodes - 1], "axis", 1);
    x.c *= x.h * x.w;
    x.h = x.w = 1;
    return x;
}

struct feature net_dense(struct net *net, const char *name, struct feature x, int64_t n) {
    struct net_node *node = add_node(net, "Gemm", name, 3);
    node->in[0] = x.name;
    node->in[1] = add_weight(net, name, x, x.c, (struct net_tensor){.rank = 2, .dim = {n, x.c}});
    node->in[2] = add_uniform(net, name, "bias", n, -0.1F, 0.1F);
    add_float(node, "alpha", 1);
    add_float(node, "beta", 1);
    add_int(node, "transB", 1);
    return (struct feature){node->out, n, 1, 1, false};
}

struct feature net_add(struct net *net, const char *name, struct feature a, struct feature b) {
    a = add_simple(net, "Add", name, a, 2);
    net->nodes[net->n_nodes - 1].in[1] = b.name;
    a.positive = a.positive && b.positive;
    return a;
}

struct feature net_concat(struct net *net, const char *name, const struct feature *parts, int n) {
    struct net_node *node = add_node(net, "Concat", name, n);
    struct feature out = parts[0];
    out.name = node->out;
    out.c = 0;
    for (int i = 0; i < n; i++) {
        node->in[i] = parts[i].name;
        out.c += parts[i].c;
        out.positive = out.positive && parts[i].positive;
    }
    add_int(node, "axis", 1);
    return out;
}
