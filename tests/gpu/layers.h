/* SPDX-License-Identifier: Apache-2.0 */
/* layers.h: the convolutions and dense layers of four networks at 224×224, each distinct shape once. For benches. */
#ifndef WARPTUNE_TESTS_GPU_LAYERS_H
#define WARPTUNE_TESTS_GPU_LAYERS_H

enum { RESNET18 = 1, RESNET50 = 2, VGG16 = 4, MOBILENET = 8, ALL_NETS = 15, N_NETS = 4 };
static const char *const net_names[N_NETS] = {"resnet18", "resnet50", "vgg16", "mobilenet-v2"};

/* What follows besides the bias. */
enum after { LINEAR, RELU, RELU6, ADD, ADD_RELU };

/* Square: channels, size, output channels, taps, stride, padding. Depthwise: h is the size, groups c. size 0: dense. */
struct layer {
    int nets, c, h, k, r, s, p, groups;
    enum after after;
};

#define DEPTHWISE(channels, size, stride) \
    { MOBILENET, channels, size, channels, 3, stride, 1, channels, RELU6 }
#define DENSE(nets, from, to, after) \
    { nets, from, 0, to, 1, 1, 0, 1, after }

static const struct layer layers[] = {
    {RESNET18 | RESNET50, 3, 224, 64, 7, 2, 3, 1, RELU},
    {RESNET18 | RESNET50, 64, 56, 64, 3, 1, 1, 1, RELU},
    {RESNET18, 64, 56, 128, 3, 2, 1, 1, RELU},
    {RESNET18, 64, 56, 128, 1, 2, 0, 1, LINEAR},
    {RESNET18 | RESNET50, 128, 28, 128, 3, 1, 1, 1, RELU},
    {RESNET18, 128, 28, 256, 3, 2, 1, 1, RELU},
    {RESNET18, 128, 28, 256, 1, 2, 0, 1, LINEAR},
    {RESNET18 | RESNET50, 256, 14, 256, 3, 1, 1, 1, RELU},
    {RESNET18, 256, 14, 512, 3, 2, 1, 1, RELU},
    {RESNET18, 256, 14, 512, 1, 2, 0, 1, LINEAR},
    {RESNET18 | RESNET50, 512, 7, 512, 3, 1, 1, 1, RELU},
    DENSE(RESNET18, 512, 1000, LINEAR),
    {RESNET50, 64, 56, 64, 1, 1, 0, 1, RELU},
    {RESNET50, 64, 56, 256, 1, 1, 0, 1, ADD_RELU},
    {RESNET50, 256, 56, 64, 1, 1, 0, 1, RELU},
    {RESNET50, 256, 56, 128, 1, 1, 0, 1, RELU},
    {RESNET50, 128, 56, 128, 3, 2, 1, 1, RELU},
    {RESNET50, 128, 28, 512, 1, 1, 0, 1, ADD_RELU},
    {RESNET50, 256, 56, 512, 1, 2, 0, 1, LINEAR},
    {RESNET50, 512, 28, 128, 1, 1, 0, 1, RELU},
    {RESNET50, 512, 28, 256, 1, 1, 0, 1, RELU},
    {RESNET50, 256, 28, 256, 3, 2, 1, 1, RELU},
    {RESNET50, 256, 14, 1024, 1, 1, 0, 1, ADD_RELU},
    {RESNET50, 512, 28, 1024, 1, 2, 0, 1, LINEAR},
    {RESNET50, 1024, 14, 256, 1, 1, 0, 1, RELU},
    {RESNET50, 1024, 14, 512, 1, 1, 0, 1, RELU},
    {RESNET50, 512, 14, 512, 3, 2, 1, 1, RELU},
    {RESNET50, 512, 7, 2048, 1, 1, 0, 1, ADD_RELU},
    {RESNET50, 1024, 14, 2048, 1, 2, 0, 1, LINEAR},
    {RESNET50, 2048, 7, 512, 1, 1, 0, 1, RELU},
    DENSE(RESNET50, 2048, 1000, LINEAR),
    {VGG16, 3, 224, 64, 3, 1, 1, 1, RELU},
    {VGG16, 64, 224, 64, 3, 1, 1, 1, RELU},
    {VGG16, 64, 112, 128, 3, 1, 1, 1, RELU},
    {VGG16, 128, 112, 128, 3, 1, 1, 1, RELU},
    {VGG16, 128, 56, 256, 3, 1, 1, 1, RELU},
    {VGG16, 256, 56, 256, 3, 1, 1, 1, RELU},
    {VGG16, 256, 28, 512, 3, 1, 1, 1, RELU},
    {VGG16, 512, 28, 512, 3, 1, 1, 1, RELU},
    {VGG16, 512, 14, 512, 3, 1, 1, 1, RELU},
    DENSE(VGG16, 25088, 4096, RELU),
    DENSE(VGG16, 4096, 4096, RELU),
    DENSE(VGG16, 4096, 1000, LINEAR),
    {MOBILENET, 3, 224, 32, 3, 2, 1, 1, RELU6},
    DEPTHWISE(32, 112, 1),
    {MOBILENET, 32, 112, 16, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 16, 112, 96, 1, 1, 0, 1, RELU6},
    DEPTHWISE(96, 112, 2),
    {MOBILENET, 96, 56, 24, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 24, 56, 144, 1, 1, 0, 1, RELU6},
    DEPTHWISE(144, 56, 1),
    {MOBILENET, 144, 56, 24, 1, 1, 0, 1, ADD},
    DEPTHWISE(144, 56, 2),
    {MOBILENET, 144, 28, 32, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 32, 28, 192, 1, 1, 0, 1, RELU6},
    DEPTHWISE(192, 28, 1),
    {MOBILENET, 192, 28, 32, 1, 1, 0, 1, ADD},
    DEPTHWISE(192, 28, 2),
    {MOBILENET, 192, 14, 64, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 64, 14, 384, 1, 1, 0, 1, RELU6},
    DEPTHWISE(384, 14, 1),
    {MOBILENET, 384, 14, 64, 1, 1, 0, 1, ADD},
    {MOBILENET, 384, 14, 96, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 96, 14, 576, 1, 1, 0, 1, RELU6},
    DEPTHWISE(576, 14, 1),
    {MOBILENET, 576, 14, 96, 1, 1, 0, 1, ADD},
    DEPTHWISE(576, 14, 2),
    {MOBILENET, 576, 7, 160, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 160, 7, 960, 1, 1, 0, 1, RELU6},
    DEPTHWISE(960, 7, 1),
    {MOBILENET, 960, 7, 160, 1, 1, 0, 1, ADD},
    {MOBILENET, 960, 7, 320, 1, 1, 0, 1, LINEAR},
    {MOBILENET, 320, 7, 1280, 1, 1, 0, 1, RELU6},
    DENSE(MOBILENET, 1280, 1000, LINEAR),
};

#endif
