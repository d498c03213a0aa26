/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_shape.h: a two-dimensional convolution in FP32 in one normal form, whichever operator asked for it: a dense
 * layer is a 1×1 convolution of one row whose pixels are the samples. Private to conv2d_*.c.
 */
#ifndef WARPTUNE_TEMPLATE_CONV2D_SHAPE_H
#define WARPTUNE_TEMPLATE_CONV2D_SHAPE_H

#include "gpu/device/program.h"
#include "service/model/workload.h"

struct conv2d_shape {
    int64_t n, h, w, c;     /* input */
    int64_t oh, ow, k;      /* output */
    int64_t kh, kw;         /* taps */
    int64_t sh, sw, dh, dw; /* strides and dilations */
    int64_t pad_h, pad_w;   /* above and left of the input; what lies below and right follows from oh and ow */
    int64_t groups, cg, kg; /* input and output channels of one group */
    bool nhwc;              /* channels are innermost in input, output and residual; else pixels are (NCHW) */
    struct epilogue epilogue;
    int bias_in, residual_in; /* their inputs' numbers, or -1 */
};

/* False for operators, types and mixtures of layouts other than these. */
bool conv2d_shape_of(const struct workload *workload, struct conv2d_shape *ret);
/* Whatever the operands' types. */
bool conv2d_shape_of_any(const struct workload *workload, struct conv2d_shape *ret);
/* Makes one row of an image's pixels (NHWC: of all images') where the convolution does not tell pixels from one another
 * (1×1, stride 1, no pads). */
void conv2d_shape_flatten(struct conv2d_shape *shape);
/* What tensor cores take: NHWC, or a dense layer, of FP16, BF16, or FP32 whose factors may be TF32, with a bias of that
 * type or FP32; flattened. False for all others. */
bool conv2d_tensor_shape(const struct workload *workload, struct conv2d_shape *ret);

/* Appends the arguments that run-time kernels begin with: input, output, then bias and residual where there are. */
void conv2d_add_args(const struct conv2d_shape *shape, struct launch *launch);

#endif
