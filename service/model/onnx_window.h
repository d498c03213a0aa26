/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onnx_window.h: kernels that slide over images: the attributes that convolutions and pools share, and how many
 * windows fit. Signals (one spatial dimension) become images of height 1. Private to onnx_*.c.
 */
#ifndef WARPTUNE_MODEL_ONNX_WINDOW_H
#define WARPTUNE_MODEL_ONNX_WINDOW_H

#include "service/model/onnx_internal.h"

enum auto_pad { AUTO_PAD_NOTSET, AUTO_PAD_SAME_UPPER, AUTO_PAD_SAME_LOWER, AUTO_PAD_VALID };

/* Along height and width; of a signal, the height's are 1 and 0. */
struct window {
    int spatial; /* spatial dimensions of the ONNX input: 1 or 2 */
    enum auto_pad auto_pad;
    int64_t kernel[2], stride[2], dilation[2];
    int64_t pad[4]; /* top, left, bottom, right */
};

/* auto_pad, kernel_shape, strides, pads. */
int window_read(struct onnx_call *call, int spatial, struct window *ret) MUST_CHECK;
int window_read_dilations(struct onnx_call *call, struct window *window) MUST_CHECK;
/* Another attribute with one number for each spatial dimension; absent: *ret unchanged. */
int window_read_list(struct onnx_call *call, const char *name, int spatial, int64_t min, int64_t ret[2]) MUST_CHECK;

/* Elements that a kernel spans along dimension i (0: height, 1: width). */
int64_t window_extent(const struct window *window, int i);
/* Sets the pads of dimension i to `total` together. */
void window_split_pad(struct window *window, int i, int64_t total, bool more_at_end);
/* Windows along dimension i of `in` elements; resolves auto_pad into pads. */
int window_count(const struct onnx_call *call, struct window *window, int i, int64_t in, bool ceil_mode,
                 int64_t *ret) MUST_CHECK;

/* [N,C,W] as [N,C,1,W], and back for one spatial dimension. Rank 4 stays. */
int window_to_image(struct onnx_call *call, int value, int *ret) MUST_CHECK;
int window_from_image(struct onnx_call *call, int value, int spatial, int *ret) MUST_CHECK;

#endif
