/* SPDX-License-Identifier: Apache-2.0 */
/* The plain templates, and depthwise.cpu, against the evaluator: each workload is rendered, compiled and run. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/device/device.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/half.h"
#include "service/model/narrow.h"
#include "service/base/rng.h"
#include "service/model/eval.h"

/* ---- Workloads, NULL-terminated ---- */

static const char *const convs[] = {
    "conv2d(f32:nhwc:2x6x9x8, f32:row:10x6x3x3, f32:row:10) -> f32:nhwc:2x10x9x8 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
    "conv2d(f32:row:1x6x9x8, f32:row:10x3x3x2, f32:row:10, f32:row:1x10x4x8) -> f32:row:1x10x4x8 "
    "{stride=2x1, dilation=1x2, pad=0x1x1x1, groups=2} bias residual act=clip:-0.5:0.75",
    "conv2d(f32:nhwc:1x70x5x5, f32:row:70x70x1x1, f32:nhwc:1x70x5x5) -> f32:nhwc:1x70x5x5 "
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} residual act=silu",
    "conv2d(f32:nhwc:1x1x12x12, f32:row:128x1x5x5) -> f32:nhwc:1x128x2x4 "
    "{stride=3x3, dilation=2x1, pad=1x2x0x0, groups=1}",
    "conv2d(f32:row:1x4x6x6, f32:row:8x1x3x3) -> f32:row:1x8x6x6 {stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4}",
    "conv2d_transpose(f32:nhwc:1x6x4x5, f32:row:6x4x3x3, f32:row:8) -> f32:nhwc:1x8x8x10 "
    "{stride=2x2, dilation=1x1, pad=1x1x0x0, groups=2} bias act=leaky-relu:0.1",
    "conv2d_transpose(f32:row:2x3x4x5, f32:row:3x5x2x2) -> f32:row:2x5x8x10 "
    "{stride=2x2, dilation=1x1, pad=0x0x0x0, groups=1}",
    NULL,
};

static const char *const matrices[] = {
    "dense(f32:row:1x300, f32:row:7x300, f32:row:7) -> f32:row:1x7 bias",
    "dense(f32:row:5x33, f32:row:9x33, f32:row:9, f32:row:5x9) -> f32:row:5x9 bias residual act=tanh",
    "matmul(f32:row:3x7, f32:row:7x140) -> f32:row:3x140",
    "matmul(f32:row:2x3x4x5, f32:row:3x5x6) -> f32:row:2x3x4x6",
    "matmul(f32:nhwc:2x3x4x5, f32:nhwc:1x3x5x6) -> f32:nhwc:2x3x4x6",
    "matmul(f32:row:4x5, f32:row:5x1) -> f32:row:4x1",
    NULL,
};

static const char *const windows[] = {
    "pool(f32:nhwc:2x150x7x7) -> f32:nhwc:2x150x4x4 "
    "{kind=max, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "pool(f32:row:2x5x7x7) -> f32:row:2x5x4x3 "
    "{kind=max, kernel=2x3, stride=2x2, dilation=1x1, pad=0x0x0x0, count_include_pad=0}",
    "pool(f32:nhwc:1x8x7x9) -> f32:nhwc:1x8x4x5 "
    "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "pool(f32:nhwc:1x8x7x9) -> f32:nhwc:1x8x4x5 "
    "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=1}",
    "pool(f32:row:1x3x8x8) -> f32:row:1x3x4x4 "
    "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=0x0x0x0, count_include_pad=1}",
    "pool(f32:nhwc:1x3x8x8) -> f32:row:1x3x4x4 "
    "{kind=max, kernel=2x2, stride=1x1, dilation=4x4, pad=0x0x0x0, count_include_pad=0}",
    "lrn(f32:nhwc:1x9x3x4) -> f32:nhwc:1x9x3x4 {size=5, alpha=0.5, beta=0.75, bias=1}",
    "lrn(f32:nhwc:2x300x2x3) -> f32:nhwc:2x300x2x3 {size=4, alpha=0.1, beta=0.75, bias=2}",
    "lrn(f32:nhwc:1x3x3x5) -> f32:nhwc:1x3x3x5 {size=9, alpha=0.1, beta=0.75, bias=2}",
    "lrn(f32:row:1x9x3x4) -> f32:row:1x9x3x4 {size=4, alpha=0.0001, beta=0.5, bias=2}",
    NULL,
};

static const char *const lines[] = {
    "reduce(f32:nhwc:2x200x7x6) -> f32:nhwc:2x200x1x1 {kind=mean, axes=12}",
    "reduce(f32:row:2x20x7x6) -> f32:row:2x20x1x1 {kind=mean, axes=12}",
    "reduce(f32:row:2x3x40x50) -> f32:row:2x3x1x1 {kind=max, axes=12}",
    "reduce(f32:row:2x3x4x5) -> f32:row:1x3x1x5 {kind=sum, axes=5}",
    "reduce(f32:nhwc:2x3x4x5) -> f32:nhwc:2x1x4x1 {kind=sum, axes=10}",
    "reduce(f32:row:6) -> f32:row:1 {kind=mean, axes=1}",
    "reduce(f32:row:2x3) -> f32:row:2x3 {kind=max, axes=0}",
    "reduce(i64:row:4x50) -> i64:row:4x1 {kind=max, axes=2}",
    "reduce(i32:row:4x50x3) -> i32:row:4x1x3 {kind=sum, axes=2}",
    "softmax(f32:row:2x1000) -> f32:row:2x1000 {axis=1, log=0}",
    "softmax(f32:row:3x50) -> f32:row:3x50 {axis=1, log=1}",
    "softmax(f32:row:2x5x3x50) -> f32:row:2x5x3x50 {axis=1, log=0}",
    "softmax(f32:nhwc:2x5x3x4) -> f32:nhwc:2x5x3x4 {axis=1, log=0}",
    "softmax(f32:nhwc:1x140x2x4) -> f32:row:1x140x2x4 {axis=2, log=1}",
    "softmax(f32:row:1) -> f32:row:1 {axis=0, log=0}",
    NULL,
};

static const char *const elementwise[] = {
    "affine(f32:nhwc:2x5x3x4, f32:row:5, f32:row:5) -> f32:nhwc:2x5x3x4 act=relu",
    "affine(f32:row:2x5x3x4, f32:row:5, f32:row:5) -> f32:row:2x5x3x4",
    "affine(f32:row:2x5, f32:row:5, f32:row:5) -> f32:row:2x5 act=sigmoid",
    "binary(f32:nhwc:1x16x30x30, f32:nhwc:1x16x30x30) -> f32:nhwc:1x16x30x30 {kind=add} act=relu",
    "binary(f32:nhwc:2x6x3x4, f32:row:1x6x1x1) -> f32:nhwc:2x6x3x4 {kind=mul}",
    "binary(f32:nhwc:2x6x3x4, f32:row:2x6x3x4) -> f32:nhwc:2x6x3x4 {kind=sub}",
    "binary(f32:row:4x1, f32:row:3x1x5) -> f32:row:3x4x5 {kind=div}",
    "binary(f32:row:4x5, f32:row:scalar) -> f32:row:4x5 {kind=max}",
    "binary(f32:row:4x5, f32:row:5) -> f32:row:4x5 {kind=min} act=hard-swish",
    "binary(f32:row:40, f32:row:40) -> f32:row:40 {kind=pow}",
    "binary(f32:row:2x6x3x4, f32:row:6x1x1) -> f32:row:2x6x3x4 {kind=prelu}",
    "binary(i64:row:4x5, i64:row:5) -> i64:row:4x5 {kind=mul}",
    "binary(i32:row:4x5, i32:row:5) -> i32:row:4x5 {kind=div}",
    "binary(u8:row:4x5, u8:row:4x5) -> u8:row:4x5 {kind=sub}",
    NULL,
};

static const char *const activations[] = {
    "unary(f32:row:3x700) -> f32:row:3x700 act=relu",
    "unary(f32:row:3x700) -> f32:row:3x700 act=leaky-relu:0.125",
    "unary(f32:row:3x700) -> f32:row:3x700 act=clip:-1:2",
    "unary(f32:row:3x700) -> f32:row:3x700 act=sigmoid",
    "unary(f32:row:3x700) -> f32:row:3x700 act=hard-sigmoid:0.2:0.5",
    "unary(f32:row:3x700) -> f32:row:3x700 act=hard-swish",
    "unary(f32:row:3x700) -> f32:row:3x700 act=tanh",
    "unary(f32:row:3x700) -> f32:row:3x700 act=silu",
    "unary(f32:row:3x700) -> f32:row:3x700 act=exp",
    "unary(f32:row:3x700) -> f32:row:3x700 act=log",
    "unary(f32:row:3x700) -> f32:row:3x700 act=sqrt",
    "unary(f32:row:3x700) -> f32:row:3x700 act=abs",
    "unary(f32:row:3x700) -> f32:row:3x700 act=neg",
    "unary(f32:row:3x700) -> f32:row:3x700 act=erf",
    "unary(f32:row:3x700) -> f32:row:3x700 act=floor",
    "unary(f32:row:3x700) -> f32:row:3x700 act=ceil",
    "unary(f32:row:3x700) -> f32:row:3x700 act=reciprocal",
    "unary(i64:row:20) -> i64:row:20 act=abs",
    "unary(i8:row:20) -> i8:row:20 act=neg",
    "unary(i32:row:20) -> i32:row:20 act=clip:-2.5:2.5",
    NULL,
};

static const char *const moves[] = {
    "reshape(f32:row:2x3x4x5) -> f32:row:6x20",
    "reshape(f32:nhwc:2x3x4x5) -> f32:row:2x60",
    "reshape(f32:row:2x60) -> f32:nhwc:2x3x4x5",
    "reshape(i64:nhwc:2x6x4x5) -> i64:nhwc:2x3x8x5",
    "transpose(f32:row:2x3x4x5) -> f32:row:4x2x5x3 {perm=2x0x3x1}",
    "transpose(f32:nhwc:2x3x4x5) -> f32:nhwc:2x4x5x3 {perm=0x2x3x1}",
    "transpose(i32:row:3x4) -> i32:row:4x3 {perm=1x0}",
    "concat(f32:nhwc:2x3x4x5, f32:nhwc:2x1x4x5, f32:nhwc:2x70x4x5) -> f32:nhwc:2x74x4x5 {axis=1}",
    "concat(f32:row:2x3x4x5, f32:row:2x3x1x5) -> f32:row:2x3x5x5 {axis=2}",
    "concat(i64:row:2, i64:row:1, i64:row:3, i64:row:1, i64:row:1, i64:row:1) -> i64:row:9 {axis=0}",
    "slice(f32:nhwc:2x6x9x5) -> f32:nhwc:1x3x4x5 {start=1x2x8x0, step=1x1x-2x1}",
    "slice(i64:row:9) -> i64:row:3 {start=1, step=3}",
    "pad(f32:nhwc:1x3x4x5) -> f32:nhwc:1x3x7x5 {mode=constant, value=-inf, before=0x0x1x0}",
    "pad(f32:row:2x3x4x5) -> f32:row:2x4x3x9 {mode=constant, value=1.5, before=0x1x-1x2}",
    "pad(f32:nhwc:1x3x4x5) -> f32:nhwc:1x3x9x9 {mode=reflect, value=0, before=0x0x3x1}",
    "pad(f32:row:1x3x4x5) -> f32:row:1x3x9x8 {mode=edge, value=0, before=0x0x3x-1}",
    "pad(i64:row:3) -> i64:row:5 {mode=constant, value=7, before=1}",
    "gather(f32:row:5x4, i64:row:2x3) -> f32:row:5x2x3 {axis=1}",
    "gather(f32:nhwc:2x5x4x3, i32:row:scalar) -> f32:row:2x4x3 {axis=1}",
    "gather(i64:row:7, i64:row:scalar) -> i64:row:scalar {axis=0}",
    "expand(f32:row:4x1) -> f32:row:3x4x5",
    "expand(f32:nhwc:1x6x1x1) -> f32:nhwc:2x6x3x4",
    "cast(f32:row:40) -> i64:row:40",
    "cast(f32:nhwc:2x3x4x5) -> u8:nhwc:2x3x4x5",
    "cast(f32:row:40) -> bool:row:40",
    "cast(i64:row:40) -> f32:row:40",
    "cast(i64:row:40) -> i8:row:40",
    "copy(f32:row:2x3x40x50) -> f32:nhwc:2x3x40x50",
    "copy(f32:nhwc:2x30x7x7) -> f32:row:2x30x7x7",
    "copy(bool:row:1x30x7x7) -> bool:nhwc:1x30x7x7",
    NULL,
};

static const char *const resizes[] = {
    "resize(f32:nhwc:1x8x5x4) -> f32:nhwc:1x8x10x12 "
    "{mode=nearest, coordinates=half-pixel, rounding=round-prefer-floor, scale=1x1x2x3}",
    "resize(f32:row:2x3x5x4) -> f32:row:2x3x10x8 "
    "{mode=nearest, coordinates=asymmetric, rounding=floor, scale=1x1x2x2}",
    "resize(f32:nhwc:1x8x5x4) -> f32:nhwc:1x8x8x9 "
    "{mode=nearest, coordinates=half-pixel, rounding=round-prefer-ceil, scale=1x1x1.6x2.25}",
    "resize(f32:row:1x2x9x7) -> f32:row:1x2x3x5 "
    "{mode=nearest, coordinates=align-corners, rounding=ceil, scale=1x1x0.33333334x0.7142857}",
    "resize(f32:nhwc:1x8x5x4) -> f32:nhwc:1x8x8x9 "
    "{mode=linear, coordinates=half-pixel, rounding=round-prefer-floor, scale=1x1x1.6x2.25}",
    "resize(f32:row:1x3x5x4) -> f32:row:1x3x9x9 "
    "{mode=linear, coordinates=align-corners, rounding=round-prefer-floor, scale=1x1x1.8x2.25}",
    "resize(f32:row:1x3x6x4) -> f32:row:1x3x3x1 "
    "{mode=linear, coordinates=pytorch-half-pixel, rounding=round-prefer-floor, scale=1x1x0.5x0.25}",
    NULL,
};

static const char *const depthwise[] = {
    "conv2d(f32:nhwc:2x21x9x10, f32:row:21x1x3x3, f32:row:21) -> f32:nhwc:2x21x9x10 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=21} bias act=clip:0:6",
    "conv2d(f32:nhwc:1x32x11x12, f32:row:32x1x5x3, f32:row:32, f32:nhwc:1x32x5x5) -> f32:nhwc:1x32x5x5 "
    "{stride=2x2, dilation=1x2, pad=2x0x0x1, groups=32} bias residual act=hard-swish",
    "conv2d(f32:nhwc:1x16x2x1, f32:row:16x1x3x3) -> f32:nhwc:1x16x2x1 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=16}",
    NULL,
};

/* In the mixes that graph_set_precision makes, and some others. */
static const char *const halves[] = {
    "conv2d(f16:nhwc:2x6x9x8, f16:row:10x6x3x3, f32:row:10) -> f16:nhwc:2x10x9x8 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
    "conv2d(f16:row:1x6x9x8, f16:row:10x3x3x2, f32:row:10, f16:row:1x10x4x8) -> f16:row:1x10x4x8 "
    "{stride=2x1, dilation=1x2, pad=0x1x1x1, groups=2} bias residual act=clip:-0.5:0.75",
    "conv2d(f16:nhwc:1x70x5x5, f16:row:70x70x1x1, f16:nhwc:1x70x5x5) -> f16:nhwc:1x70x5x5 "
    "{stride=1x1, dilation=1x1, pad=0x0x0x0, groups=1} residual act=silu",
    "conv2d(f16:nhwc:1x8x6x6, f16:row:8x1x3x3, f16:row:8) -> f32:nhwc:1x8x6x6 "
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=8} bias",
    "conv2d_transpose(f16:nhwc:1x6x4x5, f16:row:6x4x3x3, f32:row:8) -> f16:nhwc:1x8x8x10 "
    "{stride=2x2, dilation=1x1, pad=1x1x0x0, groups=2} bias act=leaky-relu:0.1",
    "dense(f16:row:1x300, f16:row:7x300, f32:row:7) -> f16:row:1x7 bias",
    "dense(f16:row:5x33, f16:row:9x33, f32:row:9, f16:row:5x9) -> f16:row:5x9 bias residual act=tanh",
    "matmul(f16:row:2x3x4x5, f16:row:3x5x6) -> f16:row:2x3x4x6",
    "pool(f16:nhwc:2x150x7x7) -> f16:nhwc:2x150x4x4 "
    "{kind=max, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "pool(f16:row:1x8x7x9) -> f16:row:1x8x4x5 "
    "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}",
    "lrn(f16:nhwc:2x300x2x3) -> f16:nhwc:2x300x2x3 {size=4, alpha=0.1, beta=0.75, bias=2}",
    "lrn(f16:row:1x9x3x4) -> f16:row:1x9x3x4 {size=4, alpha=0.0001, beta=0.5, bias=2}",
    "reduce(f16:nhwc:2x200x7x6) -> f16:nhwc:2x200x1x1 {kind=mean, axes=12}",
    "reduce(f16:row:2x3x40x50) -> f16:row:2x3x1x1 {kind=max, axes=12}",
    "reduce(f16:row:2x3x4x5) -> f16:row:1x3x1x5 {kind=sum, axes=5}",
    "softmax(f16:row:2x1000) -> f16:row:2x1000 {axis=1, log=0}",
    "softmax(f16:row:3x50) -> f16:row:3x50 {axis=1, log=1}",
    "softmax(f16:nhwc:2x5x3x4) -> f16:nhwc:2x5x3x4 {axis=1, log=0}",
    "softmax(f16:nhwc:1x140x2x4) -> f16:row:1x140x2x4 {axis=2, log=0}",
    "softmax(f16:nhwc:1x140x2x4) -> f16:row:1x140x2x4 {axis=2, log=1}",
    "affine(f16:nhwc:2x5x3x4, f32:row:5, f32:row:5) -> f16:nhwc:2x5x3x4 act=relu",
    "binary(f16:nhwc:1x16x30x30, f16:nhwc:1x16x30x30) -> f16:nhwc:1x16x30x30 {kind=add} act=relu",
    "binary(f16:nhwc:2x6x3x4, f32:row:1x6x1x1) -> f16:nhwc:2x6x3x4 {kind=mul}",
    "binary(f32:row:scalar, f16:row:40) -> f16:row:40 {kind=div}",
    "binary(f16:row:40, f32:row:40) -> f16:row:40 {kind=pow}",
    "unary(f16:row:3x700) -> f16:row:3x700 act=sigmoid",
    "unary(f16:row:3x700) -> f16:row:3x700 act=erf",
    "reshape(f16:nhwc:2x3x4x5) -> f16:row:2x60",
    "transpose(f16:nhwc:2x3x4x5) -> f16:nhwc:2x4x5x3 {perm=0x2x3x1}",
    "concat(f16:nhwc:2x3x4x5, f16:nhwc:2x1x4x5, f16:nhwc:2x70x4x5) -> f16:nhwc:2x74x4x5 {axis=1}",
    "slice(f16:nhwc:2x6x9x5) -> f16:nhwc:1x3x4x5 {start=1x2x8x0, step=1x1x-2x1}",
    "pad(f16:nhwc:1x3x4x5) -> f16:nhwc:1x3x7x5 {mode=constant, value=-inf, before=0x0x1x0}",
    "pad(f16:row:2x3x4x5) -> f16:row:2x4x3x9 {mode=constant, value=1.3, before=0x1x-1x2}",
    "gather(f16:row:5x4, i64:row:2x3) -> f16:row:5x2x3 {axis=1}",
    "expand(f16:nhwc:1x6x1x1) -> f16:nhwc:2x6x3x4",
    "resize(f16:nhwc:1x8x5x4) -> f16:nhwc:1x8x10x12 "
    "{mode=nearest, coordinates=half-pixel, rounding=round-prefer-floor, scale=1x1x2x3}",
    "resize(f16:row:1x3x5x4) -> f16:row:1x3x9x9 "
    "{mode=linear, coordinates=align-corners, rounding=round-prefer-floor, scale=1x1x1.8x2.25}",
    "cast(f32:row:1x3x8x8) -> f16:nhwc:1x3x8x8",
    "cast(f16:nhwc:1x3x8x8) -> f32:row:1x3x8x8",
    "cast(f16:row:40) -> i64:row:40",
    "cast(i64:row:40) -> f16:row:40",
    "cast(f16:row:40) -> bool:row:40",
    "copy(f16:row:2x3x40x50) -> f16:nhwc:2x3x40x50",
    NULL,
};

/* The same in bf16. */
static const char *bfloats[ARRAY_COUNT(halves)];

static void make_bfloats(void) {
    for (size_t i = 0; halves[i]; i++) {
        struct buf key = BUF_INIT(4096); /* to the end of the process, as a constant */
        for (const char *c = halves[i]; *c; c++) {
            if (strncmp(c, "f16:", 4) == 0)
                buf_putc(&key, 'b');
            buf_putc(&key, *c);
        }
        bfloats[i] = buf_str(&key);
    }
}

TestSuite(plain, .init = make_bfloats);

/* ---- Running one ---- */

struct run {
    struct arena *arena;
    struct workload *workload;
    struct rng rng;
    struct value *in; /* row-major, in logical order */
    struct value out; /* what is expected */
};

/* Positive where an operator's domain, or a quotient, asks for it. */
static double pick_float(struct run *run, int input) {
    const struct workload *w = run->workload;
    double x = rng_unit(&run->rng) * 8 - 4;
    bool positive = w->epilogue.act == ACT_LOG || w->epilogue.act == ACT_SQRT || w->epilogue.act == ACT_RECIPROCAL ||
                    (w->op == OP_BINARY && w->attr.binary.kind == BINARY_DIV && input == 1) ||
                    (w->op == OP_BINARY && w->attr.binary.kind == BINARY_POW && input == 0);
    return positive ? fabs(x) + 0.1 : x;
}

static int64_t pick_int(struct run *run, int input) {
    const struct workload *w = run->workload;
    if (w->op == OP_GATHER && input == 1) {
        int64_t dim = w->in[0].shape.dim[w->attr.gather.axis];
        return (int64_t)rng_below(&run->rng, (uint64_t)(2 * dim)) - dim;
    }
    int64_t x = (int64_t)rng_below(&run->rng, 300) - 150;
    return w->op == OP_BINARY && x == 0 ? 3 : x;
}

static void put_int(void *data, enum dtype dtype, int64_t i, int64_t x) {
    if (dtype == DTYPE_I64)
        ((int64_t *)data)[i] = x;
    else if (dtype == DTYPE_I32)
        ((int32_t *)data)[i] = (int32_t)x;
    else
        ((uint8_t *)data)[i] = dtype == DTYPE_BOOL ? x & 1 : (uint8_t)x;
}

static void fill(struct run *run, int input) {
    const struct operand *operand = &run->workload->in[input];
    int64_t count = shape_count(&operand->shape);
    void *data = arena_alloc(run->arena, operand_bytes(operand));
    for (int64_t i = 0; i < count; i++) {
        if (operand->dtype == DTYPE_F32)
            ((float *)data)[i] = (float)pick_float(run, input);
        else if (dtype_is_narrow(operand->dtype))
            ((uint16_t *)data)[i] = narrow_from_float(operand->dtype, (float)pick_float(run, input));
        else
            put_int(data, operand->dtype, i, pick_int(run, input));
    }
    run->in[input] = (struct value){"x", operand->dtype, operand->shape, data, false};
}

static void expect(struct run *run) {
    const struct workload *w = run->workload;
    struct graph *graph = graph_new(run->arena);
    struct node *node = graph_add_node(graph, w->op, "node", w->n_in, 1);
    struct error error = {0};
    node->attr = w->attr;
    node->epilogue = w->epilogue;
    for (int i = 0; i < w->n_in; i++) {
        node->in[i] = graph_add_value(graph, "x", w->in[i].dtype, &w->in[i].shape);
        graph->values[node->in[i]] = run->in[i];
    }
    node->out[0] = graph_add_value(graph, "y", w->out[0].dtype, &w->out[0].shape);
    cr_assert_eq(eval_node(graph, node, run->arena, &run->out, &error), 0, "%s", error.text);
}

static void run_init(struct run *run, const char *key) {
    struct error error = {0};
    *run = (struct run){.arena = arena_new(0)};
    cr_assert_eq(workload_parse(key, run->arena, &run->workload, &error), 0, "%s\n%s", key, error.text);
    run->in = arena_array(run->arena, (size_t)run->workload->n_in, sizeof *run->in);
    rng_seed(&run->rng, 5);
    for (int i = 0; i < run->workload->n_in; i++)
        fill(run, i);
    expect(run);
}

/* Copies between logical order and an operand's memory order. */
static void lay_out(const struct operand *operand, const void *from, void *to, bool back) {
    int64_t stride[SHAPE_MAX_RANK], count = shape_count(&operand->shape);
    size_t size = dtype_size(operand->dtype);
    operand_strides(operand, stride);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0;
        for (int d = operand->shape.rank - 1; d >= 0; d--) {
            at += rest % operand->shape.dim[d] * stride[d];
            rest /= operand->shape.dim[d];
        }
        memcpy((char *)to + (size_t)(back ? i : at) * size, (const char *)from + (size_t)(back ? at : i) * size, size);
    }
}

/* As f32. */
static const float *floats(const struct run *run, enum dtype dtype, const void *data, int64_t n) {
    if (dtype == DTYPE_F32)
        return data;
    float *wide = arena_array(run->arena, (size_t)n, sizeof *wide);
    narrow_widen(dtype, data, n, wide);
    return wide;
}

/* What rounding to f16 or bf16 may make of a difference: one unit in the last place. */
static double last_place(enum dtype dtype, double expected) {
    return dtype == DTYPE_F16    ? fmax(fabs(expected) * 0x1p-10, 0x1p-24)
           : dtype == DTYPE_BF16 ? fabs(expected) * 0x1p-7
                                 : 0;
}

static void compare(const struct run *run, const void *got, const char *what) {
    const struct operand *out = &run->workload->out[0];
    int64_t count = shape_count(&out->shape);
    if (out->dtype != DTYPE_F32 && !dtype_is_narrow(out->dtype)) {
        cr_assert_eq(memcmp(got, run->out.data, operand_bytes(out)), 0, "%s", what);
        return;
    }
    int64_t step = !run->out.splat; /* a splat has one element for all */
    const float *a = floats(run, out->dtype, got, count);
    const float *b = floats(run, out->dtype, run->out.data, step ? count : 1);
    double largest = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        double expected = fabs((double)b[i * step]);
        largest = isfinite(expected) && expected > largest ? expected : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        double expected = (double)b[i * step];
        double accepted = 4e-6 * largest + last_place(out->dtype, expected);
        bool same = (double)a[i] == expected || fabs((double)a[i] - expected) <= accepted;
        cr_assert(same, "%s: element %ld is %.9g, not %.9g (largest %g)", what, (long)i, (double)a[i], expected,
                  largest);
    }
}

/* ---- On a device ---- */

struct bench {
    const struct device_class *class;
    struct device_info info;
    struct device *device;
};

static uint64_t device_alloc(const struct bench *bench, size_t bytes, const void *data) {
    struct error error = {0};
    uint64_t at = 0;
    cr_assert_eq(bench->class->alloc(bench->device, (bytes + 3) / 4 * 4, &at, &error), 0, "%s", error.text);
    cr_assert_eq(bench->class->fill(bench->device, at, 0x7fc00000, (bytes + 3) / 4, &error), 0);
    if (data)
        cr_assert_eq(bench->class->write(bench->device, at, data, bytes, &error), 0, "%s", error.text);
    return at;
}

static int bind(struct device_call *calls, const struct launch *launches, int n, struct device_code *code,
                const uint64_t *in, uint64_t out, const uint64_t *prepared) {
    for (int i = 0; i < n; i++) {
        calls[i] = (struct device_call){.launch = &launches[i], .code = code};
        for (int j = 0; j < launches[i].n_args; j++) {
            const struct arg *arg = &launches[i].args[j];
            calls[i].args[j] = arg->kind == ARG_IN ? in[arg->index] : arg->kind == ARG_OUT ? out : prepared[arg->index];
        }
    }
    return n;
}

static void run_program(const struct bench *bench, const struct run *run, const struct program *program,
                        struct device_code *code, void *ret) {
    const struct workload *w = run->workload;
    uint64_t in[16], out, prepared[4];
    struct device_call calls[20];
    struct error error = {0};
    for (int i = 0; i < w->n_in; i++) {
        void *data = arena_alloc(run->arena, operand_bytes(&w->in[i]));
        lay_out(&w->in[i], run->in[i].data, data, false);
        in[i] = device_alloc(bench, operand_bytes(&w->in[i]), data);
    }
    for (int i = 0; i < program->n_prepared; i++)
        prepared[i] = device_alloc(bench, program->prepared_bytes[i], NULL);
    out = device_alloc(bench, operand_bytes(&w->out[0]), NULL);
    int n = bind(calls, program->prepare, program->n_prepare, code, in, out, prepared);
    n += bind(calls + n, program->run, program->n_run, code, in, out, prepared);
    cr_assert_eq(bench->class->run(bench->device, calls, n, 1, NULL, &error), 0, "%s", error.text);
    void *raw = arena_alloc(run->arena, operand_bytes(&w->out[0]));
    cr_assert_eq(bench->class->read(bench->device, raw, out, operand_bytes(&w->out[0]), &error), 0, "%s", error.text);
    lay_out(&w->out[0], raw, ret, true);
    for (int i = 0; i < w->n_in; i++)
        bench->class->free(bench->device, in[i]);
    for (int i = 0; i < program->n_prepared; i++)
        bench->class->free(bench->device, prepared[i]);
    bench->class->free(bench->device, out);
}

/* Renders, compiles and runs; the result in logical order, in the run's arena. */
static void *compute(const struct bench *bench, struct run *run, const struct template *template, int64_t index,
                     const char *key) {
    const struct target *target = &bench->info.target;
    struct buf code CLEANUP(buf_release) = BUF_INIT(64 << 20), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct error error = {0};
    struct program *program;
    struct device_code *loaded;
    cr_assert(template->serves(run->workload, target), "%s does not serve %s", template->name, key);
    struct space *space = template->space(run->workload, target, run->arena);
    if (index < 0)
        index = template->fallback(run->workload, target, space);
    cr_assert_eq(template->render(run->workload, target, space, index, run->arena, &program, &error), 0, "%s\n%s", key,
                 error.text);
    cr_assert_eq(bench->class->compile(target, program->source, deadline_in_s(60), &code, &log, &error), 0,
                 "%s\n%s\n%s", key, error.text, program->source);
    cr_assert_eq(bench->class->load(bench->device, code.data, code.len, &loaded, &error), 0, "%s", error.text);
    void *got = arena_alloc(run->arena, operand_bytes(&run->workload->out[0]));
    run_program(bench, run, program, loaded, got);
    bench->class->unload(bench->device, loaded);
    return got;
}

static void check(const struct bench *bench, struct run *run, const struct template *template, int64_t index,
                  const char *key) {
    const char *what = arena_printf(run->arena, "%s, %s, configuration %lld", template->name, key, (long long)index);
    compare(run, compute(bench, run, template, index, key), what);
}

static void bench_open(struct bench *bench, const struct device_class *class) {
    struct error error = {0};
    *bench = (struct bench){.class = class};
    if (class->count(&error) == 0)
        cr_skip_test("no %s device: %s", class->kind, error.text);
    cr_assert_eq(class->describe(0, &bench->info, &error), 0, "%s", error.text);
    cr_assert_eq(class->open(0, &bench->device, &error), 0, "%s", error.text);
}

static void check_all(const struct device_class *class, const struct template *template, const char *const *keys) {
    struct bench bench;
    bench_open(&bench, class);
    for (; *keys; keys++) {
        struct run run;
        run_init(&run, *keys);
        check(&bench, &run, template, -1, *keys);
        arena_free(run.arena);
    }
    class->close(bench.device);
}

Test(plain, convolutions_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, convs);
}

Test(plain, matrix_products_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, matrices);
}

Test(plain, pools_and_lrn_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, windows);
}

Test(plain, reductions_and_softmax_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, lines);
}

Test(plain, arithmetic_on_the_cpu_is_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, elementwise);
}

Test(plain, activations_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, activations);
}

Test(plain, moves_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, moves);
}

Test(plain, resizes_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, resizes);
}

Test(plain, halves_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, halves);
}

Test(plain, bfloats_on_the_cpu_are_the_evaluators) {
    check_all(&device_cpu, &plain_cpu, bfloats);
}

/* The same layer in f32, whose sums the evaluator takes in double, and in f16 or bf16 on the device. */
static double error_of_narrow(const struct bench *bench, const char *single, const char *narrow_key) {
    struct run exact, rounded;
    double largest = 0, worst = 0;
    run_init(&exact, single);
    run_init(&rounded, narrow_key);
    enum dtype dtype = rounded.workload->out[0].dtype;
    for (int i = 0; i < rounded.workload->n_in; i++) {
        const float *from = exact.in[i].data;
        void *to = (void *)(uintptr_t)rounded.in[i].data;
        int64_t n = shape_count(&exact.in[i].shape);
        bool narrow = dtype_is_narrow(rounded.workload->in[i].dtype);
        for (int64_t j = 0; j < n && narrow; j++)
            ((uint16_t *)to)[j] = narrow_from_float(dtype, from[j]);
        if (!narrow)
            memcpy(to, from, (size_t)n * sizeof *from);
    }
    const uint16_t *got = compute(bench, &rounded, &plain_cpu, -1, narrow_key);
    const float *expected = exact.out.data;
    for (int64_t i = 0; i < shape_count(&exact.out.shape); i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        worst = fmax(worst, fabs((double)narrow_to_float(dtype, got[i]) - (double)expected[i]));
    }
    arena_free(exact.arena);
    arena_free(rounded.arena);
    return worst / largest;
}

/* Of numbers that are no halves themselves: the rounding of inputs, weights and output together. bf16: 8 times that. */
Test(plain, a_layer_in_halves_is_within_2e_3_of_one_in_double) {
    static const char *const layers[][2] = {
        {"conv2d(f32:nhwc:1x64x14x14, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x14x14) -> f32:nhwc:1x64x14x14 "
         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
         "conv2d(f16:nhwc:1x64x14x14, f16:row:64x64x3x3, f32:row:64, f16:nhwc:1x64x14x14) -> f16:nhwc:1x64x14x14 "
         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu"},
        {"conv2d(f32:nhwc:1x3x28x28, f32:row:32x3x7x7, f32:row:32) -> f32:nhwc:1x32x14x14 "
         "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias",
         "conv2d(f16:nhwc:1x3x28x28, f16:row:32x3x7x7, f32:row:32) -> f16:nhwc:1x32x14x14 "
         "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias"},
        {"conv2d(f32:nhwc:1x96x14x14, f32:row:96x1x3x3, f32:row:96) -> f32:nhwc:1x96x14x14 "
         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=96} bias",
         "conv2d(f16:nhwc:1x96x14x14, f16:row:96x1x3x3, f32:row:96) -> f16:nhwc:1x96x14x14 "
         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=96} bias"},
        {"dense(f32:row:1x4096, f32:row:100x4096, f32:row:100) -> f32:row:1x100 bias",
         "dense(f16:row:1x4096, f16:row:100x4096, f32:row:100) -> f16:row:1x100 bias"},
        {"softmax(f32:row:2x1000) -> f32:row:2x1000 {axis=1, log=0}",
         "softmax(f16:row:2x1000) -> f16:row:2x1000 {axis=1, log=0}"},
    };
    struct bench bench;
    bench_open(&bench, &device_cpu);
    for (size_t i = 0; i < ARRAY_COUNT(layers); i++) {
        double error = error_of_narrow(&bench, layers[i][0], layers[i][1]);
        cr_expect(error > 1e-5 && error < 2e-3, "%s: %g", layers[i][1], error);
    }
    double error = error_of_narrow(&bench, layers[1][0],
                                   "conv2d(bf16:nhwc:1x3x28x28, bf16:row:32x3x7x7, f32:row:32) -> "
                                   "bf16:nhwc:1x32x14x14 {stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias");
    cr_expect(error > 1e-3 && error < 1.6e-2, "in bf16: %g", error);
    device_cpu.close(bench.device);
}

/* Every half there is, through the kernel's own conversions: by hardware where there is some, and by their bits. */
Test(plain, halves_survive_the_kernels_conversions_on_the_cpu) {
    static const char *const archs[] = {"", "x86-64-v2"};
    struct bench bench;
    struct run run;
    bench_open(&bench, &device_cpu);
    run_init(&run, "cast(f16:row:65536) -> f32:row:65536");
    for (int i = 0; i < 65536; i++)
        ((uint16_t *)(uintptr_t)run.in[0].data)[i] = (uint16_t)i;
    for (size_t a = 0; a < ARRAY_COUNT(archs); a++) {
        struct error error = {0};
        struct target target;
        if (*archs[a] && strncmp(bench.info.target.arch, "x86", 3) == 0 &&
            target_of_arch(archs[a], &target, &error) == 0)
            bench.info.target = target;
        const float *wide = compute(&bench, &run, &plain_cpu, -1, "to f32");
        for (int i = 0; i < 65536; i++)
            cr_assert(wide[i] == half_to_float((uint16_t)i) || isnan(wide[i]), "%#x is %g on %s", i, (double)wide[i],
                      bench.info.target.arch);
        struct run back;
        run_init(&back, "cast(f32:row:65536) -> f16:row:65536");
        memcpy((void *)(uintptr_t)back.in[0].data, wide, 65536 * sizeof(float));
        const uint16_t *narrow = compute(&bench, &back, &plain_cpu, -1, "to f16");
        for (int i = 0; i < 65536; i++)
            cr_assert(narrow[i] == i || isnan(wide[i]), "%#x comes back as %#x", i, narrow[i]);
        for (uint32_t i = 0; i < 65536; i++)
            ((uint32_t *)(uintptr_t)back.in[0].data)[i] = i << 16 | 0x1000; /* between two halves */
        narrow = compute(&bench, &back, &plain_cpu, -1, "to f16");
        for (int i = 0; i < 65536; i++) {
            float x = ((const float *)back.in[0].data)[i];
            cr_assert(narrow[i] == half_from_float(x) || isnan(x), "%.9g becomes %#x", (double)x, narrow[i]);
        }
        arena_free(back.arena);
    }
    arena_free(run.arena);
    device_cpu.close(bench.device);
}

/* Every bfloat, and numbers between two of them, the middle and on either side of it. */
Test(plain, bfloats_survive_the_kernels_conversions_on_the_cpu) {
    static const uint32_t between[] = {0, 0x7fff, 0x8000, 0x8001};
    struct bench bench;
    struct run run, back;
    bench_open(&bench, &device_cpu);
    run_init(&run, "cast(bf16:row:65536) -> f32:row:65536");
    run_init(&back, "cast(f32:row:65536) -> bf16:row:65536");
    for (int i = 0; i < 65536; i++)
        ((uint16_t *)(uintptr_t)run.in[0].data)[i] = (uint16_t)i;
    const float *wide = compute(&bench, &run, &plain_cpu, -1, "to f32");
    for (int i = 0; i < 65536; i++)
        cr_assert(wide[i] == bfloat_to_float((uint16_t)i) || isnan(wide[i]), "%#x is %g", i, (double)wide[i]);
    for (size_t b = 0; b < ARRAY_COUNT(between); b++) {
        for (uint32_t i = 0; i < 65536; i++)
            ((uint32_t *)(uintptr_t)back.in[0].data)[i] = i << 16 | between[b];
        const uint16_t *narrow = compute(&bench, &back, &plain_cpu, -1, "to bf16");
        for (int i = 0; i < 65536; i++) {
            float x = ((const float *)back.in[0].data)[i];
            cr_assert_eq(narrow[i], bfloat_from_float(x), "%.9g becomes %#x", (double)x, narrow[i]);
        }
    }
    arena_free(run.arena);
    arena_free(back.arena);
    device_cpu.close(bench.device);
}

/* What may be rounded need not be. */
Test(plain, where_factors_may_be_tf32_they_are_f32) {
    static const char *const matching[] = {
        "conv2d(f32:nhwc:1x8x9x8, f32:row:10x8x3x3, f32:row:10) -> f32:nhwc:1x10x9x8 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
        "dense(f32:row:5x33, f32:row:9x33) -> f32:row:5x9",
    };
    for (size_t i = 0; i < ARRAY_COUNT(matching); i++) {
        const struct template *const templates[] = {&plain_cpu, &plain_cuda, &conv2d_direct_cpu};
        struct arena *arena = arena_new(0);
        struct workload *workload;
        struct target target;
        struct program *program[2];
        struct error error = {0};
        cr_assert_eq(workload_parse(matching[i], arena, &workload, &error), 0, "%s", error.text);
        for (size_t t = 0; t < ARRAY_COUNT(templates); t++) {
            cr_assert_eq(target_of_arch(t == 1 ? "sm_80" : "x86-64-v3", &target, &error), 0);
            for (int tf32 = 0; tf32 < 2; tf32++) {
                workload->tf32 = tf32;
                cr_assert(templates[t]->serves(workload, &target), "%s", matching[i]);
                struct space *space = templates[t]->space(workload, &target, arena);
                int64_t index = templates[t]->fallback(workload, &target, space);
                cr_assert_eq(templates[t]->render(workload, &target, space, index, arena, &program[tf32], &error), 0);
            }
            cr_assert_str_eq(program[0]->source, program[1]->source);
        }
        arena_free(arena);
    }
}

Test(depthwise, configurations_all_over_the_space_are_right) {
    struct bench bench;
    bench_open(&bench, &device_cpu);
    for (const char *const *key = depthwise; *key; key++) {
        struct run run;
        run_init(&run, *key);
        check(&bench, &run, &plain_cpu, -1, *key);
        struct space *space = depthwise_cpu.space(run.workload, &bench.info.target, run.arena);
        for (int i = 0; i < 6; i++)
            check(&bench, &run, &depthwise_cpu, i ? (int64_t)rng_below(&run.rng, (uint64_t)space->size) : -1, *key);
        arena_free(run.arena);
    }
    device_cpu.close(bench.device);
}

/* ---- Functions over their whole range ---- */

static const float ends[] = {0,      -0.0f, 1e-30f, 1e-40f, -1e-40f, 1e-3f, -1e-3f, 0.29f,    -0.31f,    0.7f,
                             -0.99f, 1.01f, -2.5f,  5,      -9,      20,    -20,    87,       -87,       88.7f,
                             -88.7f, 89,    -100,   -103,   -105,    1e10f, -1e10f, INFINITY, -INFINITY, NAN};
#define N_ENDS ((int64_t)ARRAY_COUNT(ends))

/* Each number within a few units in the last place or below the normal ones, or the same infinity, or NaN as well. */
static void compare_each(const struct run *run, const float *got, const char *key) {
    const float *expected = run->out.data;
    for (int64_t i = 0; i < shape_count(&run->out.shape); i++) {
        double a = (double)got[i], b = (double)expected[i];
        bool same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 8e-7 * fabs(b) + 1.2e-38;
        cr_assert(same, "%s: element %ld (of %.9g) is %.9g, not %.9g", key, (long)i,
                  (double)((const float *)run->in[0].data)[i], a, b);
    }
}

static void check_ends(const struct device_class *class, const struct template *template, const char *key) {
    struct bench bench;
    struct run run;
    bench_open(&bench, class);
    run_init(&run, key);
    for (int64_t i = 0; i < shape_count(&run.in[0].shape); i++)
        ((float *)(uintptr_t)run.in[0].data)[i] = ends[run.workload->n_in > 1 ? i / N_ENDS : i];
    for (int64_t i = 0; run.workload->n_in > 1 && i < shape_count(&run.in[1].shape); i++)
        ((float *)(uintptr_t)run.in[1].data)[i] = ends[i % N_ENDS];
    expect(&run);
    compare_each(&run, compute(&bench, &run, template, -1, key), key);
    arena_free(run.arena);
    class->close(bench.device);
}

static void check_functions(const struct device_class *class, const struct template *template) {
    static const char *const acts[] = {"exp", "log", "sigmoid", "tanh", "silu", "erf", "sqrt", "relu", "reciprocal"};
    const int n = (int)N_ENDS, pairs = n * n;
    char key[128];
    for (size_t i = 0; i < ARRAY_COUNT(acts); i++) {
        snprintf(key, sizeof key, "unary(f32:row:%d) -> f32:row:%d act=%s", n, n, acts[i]);
        check_ends(class, template, key);
    }
    snprintf(key, sizeof key, "binary(f32:row:%d, f32:row:%d) -> f32:row:%d {kind=pow}", pairs, pairs, pairs);
    check_ends(class, template, key);
}

Test(plain, functions_on_the_cpu_hold_over_their_whole_range) {
    check_functions(&device_cpu, &plain_cpu);
}

/* ---- CUDA ---- */

static const char *const *const everything[] = {convs, matrices, windows, lines,   elementwise, activations,
                                                moves, resizes,  halves,  bfloats, NULL};

Test(plain, every_operator_on_a_gpu_is_the_evaluators, .timeout = 120) {
    for (int i = 0; everything[i]; i++)
        check_all(&device_cuda, &plain_cuda, everything[i]);
}

Test(plain, functions_on_a_gpu_hold_over_their_whole_range, .timeout = 120) {
    check_functions(&device_cuda, &plain_cuda);
}

/* Each program in a namespace of its own, its kernels renamed, so that one compilation takes all. */
static void add_program(struct buf *source, const char *key, int number) {
    struct arena *arena = arena_new(0);
    struct target target;
    struct workload *workload;
    struct program *program;
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_80", &target, &error), 0);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s", error.text);
    cr_assert(plain_cuda.serves(workload, &target), "%s", key);
    struct space *space = plain_cuda.space(workload, &target, arena);
    cr_assert_eq(plain_cuda.render(workload, &target, space, 0, arena, &program, &error), 0, "%s", error.text);
    for (int i = 0; i < program->n_run; i++) {
        cr_assert_gt(program->run[i].grid[0], 0);
        buf_printf(source, "#undef %s\n#define %s %s_%d\n", program->run[i].entry, program->run[i].entry,
                   program->run[i].entry, number);
    }
    buf_printf(source, "namespace t%d {\n%s}\n", number, program->source);
    for (int i = 0; i < workload->n_in; i++)
        buf_printf(source, "#undef get%d\n", i);
    buf_puts(source, "#undef put\n");
    arena_free(arena);
}

Test(plain, every_operator_compiles_for_cuda) {
    static const char *const archs[] = {"sm_75", "sm_80", "sm_90a"};
    struct buf source CLEANUP(buf_release) = BUF_INIT(16 << 20);
    struct error error = {0};
    char id[128];
    int n = 0;
    for (int i = 0; everything[i]; i++) {
        for (const char *const *key = everything[i]; *key; key++)
            add_program(&source, *key, n++);
    }
    for (size_t i = 0; i < ARRAY_COUNT(archs); i++) {
        struct buf code CLEANUP(buf_release) = BUF_INIT(64 << 20), log CLEANUP(buf_release) = BUF_INIT(1 << 20);
        struct target target;
        cr_assert_eq(target_of_arch(archs[i], &target, &error), 0);
        if (device_cuda.compiler_id(&target, id, &error))
            cr_skip_test("no NVRTC: %s", error.text);
        cr_assert_eq(device_cuda.compile(&target, buf_str(&source), deadline_in_s(60), &code, &log, &error), 0,
                     "%s: %s", archs[i], error.text);
        cr_assert_gt(code.len, 0);
    }
}

/* ---- What a template promises ---- */

Test(plain, rendering_twice_gives_the_same) {
    for (int i = 0; everything[i]; i++) {
        for (const char *const *key = everything[i]; *key; key++) {
            struct arena *arena = arena_new(0);
            struct target target;
            struct workload *workload;
            struct program *a, *b;
            struct error error = {0};
            cr_assert_eq(target_of_arch("x86-64-v3", &target, &error), 0);
            cr_assert_eq(workload_parse(*key, arena, &workload, &error), 0);
            struct space *space = plain_cpu.space(workload, &target, arena);
            cr_assert_eq(space->size, 1);
            cr_assert_eq(plain_cpu.render(workload, &target, space, 0, arena, &a, &error), 0);
            cr_assert_eq(plain_cpu.render(workload, &target, space, 0, arena, &b, &error), 0);
            cr_assert_str_eq(a->source, b->source);
            arena_free(arena);
        }
    }
}

Test(plain, the_built_in_list_has_one_for_every_operator_on_both_devices) {
    static const char *const archs[] = {"x86-64-v4", "sm_90a"};
    struct error error = {0};
    for (size_t a = 0; a < ARRAY_COUNT(archs); a++) {
        struct target target;
        cr_assert_eq(target_of_arch(archs[a], &target, &error), 0);
        for (int i = 0; everything[i]; i++) {
            for (const char *const *key = everything[i]; *key; key++) {
                struct arena *arena = arena_new(0);
                struct workload *workload;
                cr_assert_eq(workload_parse(*key, arena, &workload, &error), 0);
                const struct template *template = template_for(template_builtin, workload, &target);
                cr_assert(template && strcmp(template->device, target.kind) == 0, "%s", *key);
                cr_assert(template_find(template_builtin, template->name) == template);
                cr_assert(template_plain(&target)->serves(workload, &target));
                arena_free(arena);
            }
        }
    }
    cr_assert_null(template_find(template_builtin, "no.such"));
}

/* ---- Types ---- */

/* Is it served with any operand of another type? */
static bool serves_changed(const struct template *template, struct workload *workload, const struct target *target,
                           enum dtype from, enum dtype to) {
    bool any = false;
    for (int i = 0; i <= workload->n_in; i++) {
        struct operand *operand = i < workload->n_in ? &workload->in[i] : &workload->out[0];
        operand->dtype = to;
        any = any || template->serves(workload, target);
        operand->dtype = from;
    }
    return any;
}

/* Each template for f32 only serves one of these, and with any operand an f16 none; one for f16 only serves none. */
Test(templates, those_for_one_type_leave_the_other_to_others) {
    static const char *const keys[] = {
        "conv2d(f32:nhwc:1x64x14x14, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x14x14) -> f32:nhwc:1x64x14x14 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f32:row:1x64x14x14, f32:row:64x64x3x3, f32:row:64) -> f32:row:1x64x14x14 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu",
        "conv2d(f32:row:1x64x14x14, f32:row:64x16x3x3, f32:row:64) -> f32:row:1x64x14x14 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=4} bias",
        "conv2d(f32:row:1x64x14x14, f32:row:64x1x3x3, f32:row:64) -> f32:row:1x64x14x14 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=64} bias",
        "conv2d(f32:nhwc:1x64x14x14, f32:row:64x1x3x3, f32:row:64) -> f32:nhwc:1x64x14x14 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=64} bias",
        "dense(f32:row:8x256, f32:row:64x256, f32:row:64) -> f32:row:8x64 bias",
        "dense(f32:row:64x256, f32:row:64x256, f32:row:64) -> f32:row:64x64 bias",
        "pool(f32:nhwc:1x64x14x14) -> f32:nhwc:1x64x7x7 {kind=max, kernel=2x2, stride=2x2, "
        "dilation=1x1, pad=0x0x0x0, count_include_pad=0}",
        "reduce(f32:nhwc:1x64x7x7) -> f32:nhwc:1x64x1x1 {kind=mean, axes=12}",
    };
    struct arena *arena = arena_new(0);
    struct error error = {0};
    for (const struct template *const *t = template_builtin; *t; t++) {
        bool single = (*t)->dtypes & DTYPE_BIT(DTYPE_F32), half = (*t)->dtypes & DTYPE_BIT(DTYPE_F16);
        struct target target;
        int served = 0;
        cr_assert(single || half, "%s", (*t)->name);
        cr_assert_eq(target_of_arch(strcmp((*t)->device, "cpu") == 0 ? "x86-64-v4" : "sm_90a", &target, &error), 0);
        for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
            struct workload *workload;
            cr_assert_eq(workload_parse(keys[k], arena, &workload, &error), 0, "%s", error.text);
            if (!(*t)->serves(workload, &target))
                continue;
            served++;
            cr_assert(half || !serves_changed(*t, workload, &target, DTYPE_F32, DTYPE_F16), "%s", (*t)->name);
        }
        cr_assert_eq(served > 0, single, "%s", (*t)->name);
    }
    arena_free(arena);
}
