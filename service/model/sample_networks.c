/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/sample_networks.h"

#include "service/base/attr.h"

#define NAME(...) arena_printf(net->arena, __VA_ARGS__)

/* Layers that several families share; `name` is the block's, in whose namespace they are. */

static struct feature conv_relu(struct net *net, const char *name, struct feature x, int64_t k,
                                struct net_window window) {
    x = net_conv(net, name, x, k, window, 1, true);
    return net_relu(net, NAME("%s.relu", name), x);
}

static struct feature conv_bn(struct net *net, const char *name, struct feature x, int64_t k, struct net_window window,
                              int64_t groups, bool damped) {
    x = net_conv(net, NAME("%s.conv", name), x, k, window, groups, false);
    return net_batch_norm(net, NAME("%s.bn", name), x, damped);
}

static struct feature conv_bn_relu(struct net *net, const char *name, struct feature x, int64_t k,
                                   struct net_window window) {
    return net_relu(net, NAME("%s.relu", name), conv_bn(net, name, x, k, window, 1, false));
}

static struct feature bn_relu(struct net *net, const char *name, struct feature x) {
    return net_relu(net, NAME("%s.relu", name), net_batch_norm(net, name, x, false));
}

static struct feature classify(struct net *net, struct feature x) {
    x = net_global_average(net, "avgpool", x);
    return net_dense(net, "fc", net_flatten(net, "flatten", x), SAMPLE_CLASSES);
}

/* The classifier of AlexNet and VGG. */
static struct feature classify_wide(struct net *net, struct feature x) {
    x = net_flatten(net, "flatten", x);
    for (int i = 0; i < 2; i++) {
        x = net_dense(net, NAME("classifier.fc%d", i), x, 4096);
        x = net_relu(net, NAME("classifier.relu%d", i), x);
    }
    return net_dense(net, "classifier.fc2", x, SAMPLE_CLASSES);
}

/* ResNet: four stages of residual blocks. */

struct resnet {
    bool bottleneck;
    int blocks[4];
};

static struct feature resnet_block(struct net *net, const char *name, struct feature x, int64_t width, int64_t stride,
                                   bool bottleneck) {
    int64_t k = bottleneck ? 4 * width : width;
    struct feature main = x, shortcut = x;
    if (bottleneck) {
        main = conv_bn_relu(net, NAME("%s.1", name), main, width, (struct net_window){1, 1, 0});
        main = conv_bn_relu(net, NAME("%s.2", name), main, width, (struct net_window){3, stride, 1});
        main = conv_bn(net, NAME("%s.3", name), main, k, (struct net_window){1, 1, 0}, 1, true);
    } else {
        main = conv_bn_relu(net, NAME("%s.1", name), main, width, (struct net_window){3, stride, 1});
        main = conv_bn(net, NAME("%s.2", name), main, k, (struct net_window){3, 1, 1}, 1, true);
    }
    if (stride != 1 || x.c != k) {
        shortcut = conv_bn(net, NAME("%s.downsample", name), x, k, (struct net_window){1, stride, 0}, 1, false);
    }
    return net_relu(net, NAME("%s.relu", name), net_add(net, NAME("%s.add", name), main, shortcut));
}

static struct feature build_resnet(struct net *net, struct feature x, const void *spec) {
    const struct resnet *resnet = spec;
    x = conv_bn_relu(net, "stem", x, 64, (struct net_window){7, 2, 3});
    x = net_max_pool(net, "maxpool", x, (struct net_window){3, 2, 1}, false);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < resnet->blocks[stage]; i++) {
            int64_t stride = stage > 0 && i == 0 ? 2 : 1;
            x = resnet_block(net, NAME("layer%d.%d", stage + 1, i), x, 64 << stage, stride, resnet->bottleneck);
        }
    }
    return classify(net, x);
}

/* VGG: five stages of 3×3 convolutions, each halved by a pool. */

struct vgg {
    int convs[5];
};

static struct feature build_vgg(struct net *net, struct feature x, const void *spec) {
    static const int64_t widths[] = {64, 128, 256, 512, 512};
    const struct vgg *vgg = spec;
    for (int stage = 0; stage < 5; stage++) {
        for (int i = 0; i < vgg->convs[stage]; i++) {
            x = conv_relu(net, NAME("stage%d.conv%d", stage + 1, i), x, widths[stage], (struct net_window){3, 1, 1});
        }
        x = net_max_pool(net, NAME("stage%d.pool", stage + 1), x, (struct net_window){2, 2, 0}, false);
    }
    return classify_wide(net, x);
}

static struct feature build_alexnet(struct net *net, struct feature x, const void *spec) {
    static const struct {
        int64_t k;
        struct net_window window;
        bool pool;
    } layers[] = {
        {64, {11, 4, 2}, true},  {192, {5, 1, 2}, true}, {384, {3, 1, 1}, false},
        {256, {3, 1, 1}, false}, {256, {3, 1, 1}, true},
    };
    (void)spec;
    for (size_t i = 0; i < ARRAY_COUNT(layers); i++) {
        x = conv_relu(net, NAME("conv%zu", i), x, layers[i].k, layers[i].window);
        if (layers[i].pool) {
            x = net_max_pool(net, NAME("pool%zu", i), x, (struct net_window){3, 2, 0}, false);
        }
    }
    return classify_wide(net, x);
}

/* MobileNet-v2: inverted residuals: expand, filter each channel, project without a rectifier. */

static struct feature inverted_residual(struct net *net, const char *name, struct feature x, int64_t expand, int64_t k,
                                        int64_t stride) {
    struct feature main = x;
    bool residual = stride == 1 && x.c == k;
    if (expand != 1) {
        main = conv_bn(net, NAME("%s.expand", name), main, expand * x.c, (struct net_window){1, 1, 0}, 1, false);
        main = net_relu6(net, NAME("%s.expand.relu6", name), main);
    }
    main = conv_bn(net, NAME("%s.depthwise", name), main, main.c, (struct net_window){3, stride, 1}, main.c, false);
    main = net_relu6(net, NAME("%s.depthwise.relu6", name), main);
    main = conv_bn(net, NAME("%s.project", name), main, k, (struct net_window){1, 1, 0}, 1, residual);
    return residual ? net_add(net, NAME("%s.add", name), x, main) : main;
}

static struct feature build_mobilenet_v2(struct net *net, struct feature x, const void *spec) {
    static const struct {
        int64_t expand, k, repeat, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    int n = 0;
    (void)spec;
    x = conv_bn(net, "features.0", x, 32, (struct net_window){3, 2, 1}, 1, false);
    x = net_relu6(net, "features.0.relu6", x);
    for (size_t i = 0; i < ARRAY_COUNT(stages); i++) {
        for (int k = 0; k < stages[i].repeat; k++) {
            x = inverted_residual(net, NAME("features.%d", ++n), x, stages[i].expand, stages[i].k,
                                  k ? 1 : stages[i].stride);
        }
    }
    x = conv_bn(net, "features.18", x, 1280, (struct net_window){1, 1, 0}, 1, false);
    return classify(net, net_relu6(net, "features.18.relu6", x));
}

/* SqueezeNet: fire modules: squeeze to few channels, expand by 1×1 and 3×3 side by side. */

struct squeezenet {
    int64_t stem;
    struct net_window stem_window;
    bool pool_before[8]; /* of each fire module */
};

static struct feature fire(struct net *net, const char *name, struct feature x, int64_t squeeze, int64_t expand) {
    x = conv_relu(net, NAME("%s.squeeze", name), x, squeeze, (struct net_window){1, 1, 0});
    struct feature parts[2];
    parts[0] = conv_relu(net, NAME("%s.expand1x1", name), x, expand, (struct net_window){1, 1, 0});
    parts[1] = conv_relu(net, NAME("%s.expand3x3", name), x, expand, (struct net_window){3, 1, 1});
    return net_concat(net, NAME("%s.concat", name), parts, 2);
}

static struct feature build_squeezenet(struct net *net, struct feature x, const void *spec) {
    static const int64_t squeeze[8] = {16, 16, 32, 32, 48, 48, 64, 64};
    const struct squeezenet *squeezenet = spec;
    x = conv_relu(net, "features.stem", x, squeezenet->stem, squeezenet->stem_window);
    for (int i = 0; i < 8; i++) {
        if (squeezenet->pool_before[i]) {
            x = net_max_pool(net, NAME("features.pool%d", i), x, (struct net_window){3, 2, 0}, true);
        }
        x = fire(net, NAME("features.fire%d", i), x, squeeze[i], 4 * squeeze[i]);
    }
    x = conv_relu(net, "classifier.conv", x, SAMPLE_CLASSES, (struct net_window){1, 1, 0});
    return net_flatten(net, "flatten", net_global_average(net, "classifier.avgpool", x));
}

/* DenseNet: each layer reads the concatenation of all before it in its block. */

struct densenet {
    int layers[4];
};
#define DENSENET_GROWTH 32
#define DENSENET_MAX_LAYERS 24

static struct feature dense_block(struct net *net, const char *name, struct feature x, int layers) {
    struct feature parts[DENSENET_MAX_LAYERS + 1] = {x};
    for (int i = 0; i < layers; i++) {
        const char *layer = NAME("%s.%d", name, i);
        struct feature y = i ? net_concat(net, NAME("%s.concat", layer), parts, i + 1) : x;
        y = bn_relu(net, NAME("%s.norm1", layer), y);
        y = net_conv(net, NAME("%s.conv1", layer), y, 4 * DENSENET_GROWTH, (struct net_window){1, 1, 0}, 1, false);
        y = bn_relu(net, NAME("%s.norm2", layer), y);
        parts[i + 1] =
            net_conv(net, NAME("%s.conv2", layer), y, DENSENET_GROWTH, (struct net_window){3, 1, 1}, 1, false);
    }
    return net_concat(net, NAME("%s.concat", name), parts, layers + 1);
}

static struct feature build_densenet(struct net *net, struct feature x, const void *spec) {
    const struct densenet *densenet = spec;
    x = conv_bn_relu(net, "features.stem", x, 64, (struct net_window){7, 2, 3});
    x = net_max_pool(net, "features.pool", x, (struct net_window){3, 2, 1}, false);
    for (int i = 0; i < 4; i++) {
        x = dense_block(net, NAME("features.block%d", i + 1), x, densenet->layers[i]);
        if (i < 3) {
            const char *name = NAME("features.transition%d", i + 1);
            x = bn_relu(net, NAME("%s.norm", name), x);
            x = net_conv(net, NAME("%s.conv", name), x, x.c / 2, (struct net_window){1, 1, 0}, 1, false);
            x = net_average_pool(net, NAME("%s.pool", name), x, (struct net_window){2, 2, 0});
        }
    }
    return classify(net, bn_relu(net, "features.norm", x));
}

/* GoogLeNet: inception modules of four branches. */

struct inception {
    int64_t one, reduce3, three, reduce5, five, pool;
};

static struct feature inception(struct net *net, const char *name, struct feature x, const struct inception *widths) {
    const struct net_window one = {1, 1, 0}, three = {3, 1, 1};
    struct feature parts[4];
    parts[0] = conv_bn_relu(net, NAME("%s.branch1", name), x, widths->one, one);
    parts[1] = conv_bn_relu(net, NAME("%s.branch2.0", name), x, widths->reduce3, one);
    parts[1] = conv_bn_relu(net, NAME("%s.branch2.1", name), parts[1], widths->three, three);
    parts[2] = conv_bn_relu(net, NAME("%s.branch3.0", name), x, widths->reduce5, one);
    parts[2] =
        conv_bn_relu(net, NAME("%s.branch3.1", name), parts[2], widths->five, three); /* torchvision's, not 5×5 */
    parts[3] = net_max_pool(net, NAME("%s.branch4.0", name), x, three, true);
    parts[3] = conv_bn_relu(net, NAME("%s.branch4.1", name), parts[3], widths->pool, one);
    return net_concat(net, NAME("%s.concat", name), parts, 4);
}

static struct feature build_googlenet(struct net *net, struct feature x, const void *spec) {
    static const struct inception modules[] = {
        {64, 96, 128, 16, 32, 32},     {128, 128, 192, 32, 96, 64},   {192, 96, 208, 16, 48, 64},
        {160, 112, 224, 24, 64, 64},   {128, 128, 256, 24, 64, 64},   {112, 144, 288, 32, 64, 64},
        {256, 160, 320, 32, 128, 128}, {256, 160, 320, 32, 128, 128}, {384, 192, 384, 48, 128, 128},
    };
    (void)spec;
    net->bn_epsilon = 1e-3F;
    x = conv_bn_relu(net, "conv1", x, 64, (struct net_window){7, 2, 3});
    x = net_max_pool(net, "maxpool1", x, (struct net_window){3, 2, 0}, true);
    x = conv_bn_relu(net, "conv2", x, 64, (struct net_window){1, 1, 0});
    x = conv_bn_relu(net, "conv3", x, 192, (struct net_window){3, 1, 1});
    x = net_max_pool(net, "maxpool2", x, (struct net_window){3, 2, 0}, true);
    for (size_t i = 0; i < ARRAY_COUNT(modules); i++) {
        x = inception(net, NAME("inception%zu", i), x, &modules[i]);
        if (i == 1) {
            x = net_max_pool(net, "maxpool3", x, (struct net_window){3, 2, 0}, true);
        } else if (i == 6) {
            x = net_max_pool(net, "maxpool4", x, (struct net_window){2, 2, 0}, true);
        }
    }
    return classify(net, x);
}

/* One row a network, read twice: as the table and as the list of names. */
#define NETWORKS(ROW)                                                                                               \
    ROW("resnet-18", build_resnet, &(const struct resnet){false, {2, 2, 2, 2}})                                     \
    ROW("resnet-34", build_resnet, &(const struct resnet){false, {3, 4, 6, 3}})                                     \
    ROW("resnet-50", build_resnet, &(const struct resnet){true, {3, 4, 6, 3}})                                      \
    ROW("resnet-101", build_resnet, &(const struct resnet){true, {3, 4, 23, 3}})                                    \
    ROW("vgg-11", build_vgg, &(const struct vgg){{1, 1, 2, 2, 2}})                                                  \
    ROW("vgg-13", build_vgg, &(const struct vgg){{2, 2, 2, 2, 2}})                                                  \
    ROW("vgg-16", build_vgg, &(const struct vgg){{2, 2, 3, 3, 3}})                                                  \
    ROW("vgg-19", build_vgg, &(const struct vgg){{2, 2, 4, 4, 4}})                                                  \
    ROW("mobilenet-v2", build_mobilenet_v2, NULL)                                                                   \
    ROW("squeezenet-1.0", build_squeezenet, &(const struct squeezenet){96, {7, 2, 0}, {[0] = 1, [3] = 1, [7] = 1}}) \
    ROW("squeezenet-1.1", build_squeezenet, &(const struct squeezenet){64, {3, 2, 0}, {[0] = 1, [2] = 1, [4] = 1}}) \
    ROW("alexnet", build_alexnet, NULL)                                                                             \
    ROW("densenet-121", build_densenet, &(const struct densenet){{6, 12, 24, 16}})                                  \
    ROW("googlenet", build_googlenet, NULL)

#define NETWORK_ROW(name, build, ...) {name, build, __VA_ARGS__},
#define NETWORK_NAME(name, build, ...) name,
const struct sample_network sample_networks[] = {NETWORKS(NETWORK_ROW){NULL}};
const char *const sample_network_names[] = {NETWORKS(NETWORK_NAME) NULL};
