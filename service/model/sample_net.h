/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_net.h: a network under construction: ONNX nodes in order, and descriptions of the weights they read.
 *
 * Each net_… function adds what torch's exporter would for that layer and returns its result. Weights are described,
 * not made: the writer fills them as they go out. Everything lives in the arena. Private to sample*.c.
 */
#ifndef WARPTUNE_MODEL_SAMPLE_NET_H
#define WARPTUNE_MODEL_SAMPLE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"

struct net_attr {
    const char *name;
    bool is_float;
    int n; /* 0: one integer or float; else a list of n integers */
    int64_t ints[4];
    float value;
};

struct net_node {
    const char *op, *name, *out;
    const char **in;
    int n_in, n_attrs;
    struct net_attr attrs[6];
};

/* Weights: normal with deviation `high` around 0, or uniform between low and high (equal: that value). */
struct net_tensor {
    const char *name;
    int rank;
    int64_t dim[4];
    bool normal;
    float low, high;
};

struct net {
    struct arena *arena;
    int64_t batch; /* 0: symbolic */
    struct net_node *nodes;
    int n_nodes, cap_nodes;
    struct net_tensor *tensors;
    int n_tensors, cap_tensors;
    float bn_epsilon;
};

/* A value: N × c × h × w. `positive`: after a rectifier, so that half of its square is lost (He's factor 2). */
struct feature {
    const char *name;
    int64_t c, h, w;
    bool positive;
};

struct net_window {
    int64_t kernel, stride, pad;
};

struct feature net_input(int64_t c, int64_t h, int64_t w);
struct feature net_conv(struct net *net, const char *name, struct feature x, int64_t k, struct net_window window,
                        int64_t groups, bool bias);
/* `damped`: with a small scale, for the last one before a residual add, so that sums do not grow with the depth. */
struct feature net_batch_norm(struct net *net, const char *name, struct feature x, bool damped);
struct feature net_relu(struct net *net, const char *name, struct feature x);
struct feature net_relu6(struct net *net, const char *name, struct feature x);
struct feature net_max_pool(struct net *net, const char *name, struct feature x, struct net_window window, bool ceil);
struct feature net_average_pool(struct net *net, const char *name, struct feature x, struct net_window window);
struct feature net_global_average(struct net *net, const char *name, struct feature x);
struct feature net_flatten(struct net *net, const char *name, struct feature x);
struct feature net_dense(struct net *net, const char *name, struct feature x, int64_t n);
struct feature net_add(struct net *net, const char *name, struct feature a, struct feature b);
struct feature net_concat(struct net *net, const char *name, const struct feature *parts, int n);

#endif
