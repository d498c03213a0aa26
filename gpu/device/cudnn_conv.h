/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_conv.h: one of cuDNN's plans for a convolution, as a line of text: what takes a kernel's name where a launch is
 * cuDNN's instead of a kernel of ours. The line says the convolution and which of the plans that cuDNN proposes for it;
 * in a module also the version of cuDNN that it was chosen with.
 *
 *     cudnn 91900 f16 nhwc x=1x64x56x56 w=64x64x3x3 y=1x64x56x56 stride=1x1 dilation=1x1 pad=1x1x1x1 bias=f32
 *         residual=0 act=relu:0:6 plan=3                                                             (one line)
 *
 * The launch's arguments: x, w, the bias where there is one, the residual where there is one, y. Weights lie as x does.
 * Stands alone (libc only): the module runtime contains it too.
 */
#ifndef WARPTUNE_DEVICE_CUDNN_CONV_H
#define WARPTUNE_DEVICE_CUDNN_CONV_H

#include <stdbool.h>
#include <stddef.h>

enum cudnn_type { CUDNN_NOTHING, CUDNN_F32, CUDNN_F16, CUDNN_TYPES };

/* RELU: `slope` × v below 0, at most `upper`. */
enum cudnn_act { CUDNN_NONE, CUDNN_RELU, CUDNN_SIGMOID, CUDNN_TANH, CUDNN_SILU, CUDNN_ACTS };

struct cudnn_conv {
    enum cudnn_type type; /* of x, w, residual and y; sums are f32, and of f32 without tensor cores */
    bool nhwc;            /* else NCHW */
    int x[4], w[4], y[4]; /* N C H W, whatever the layout; w: output channels, channels of a group, taps */
    int stride[2], dilation[2], pad[4]; /* pads: top, left, bottom, right */
    enum cudnn_type bias;
    bool residual;
    enum cudnn_act act; /* act(convolution + bias + residual) */
    float slope, upper;
};

enum { CUDNN_ENTRY_MAX = 400, CUDNN_MAX_ARGS = 5 };

bool cudnn_is_entry(const char *entry);
/* `version`: major × 10000 + minor × 100 + patch; 0: any. */
void cudnn_entry_print(const struct cudnn_conv *conv, int plan, int version, char ret[CUDNN_ENTRY_MAX]);
/* False for what no entry_print wrote. */
bool cudnn_entry_parse(const char *entry, struct cudnn_conv *ret, int *ret_plan, int *ret_version);
int cudnn_conv_args(const struct cudnn_conv *conv);

#endif
