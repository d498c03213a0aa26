/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions on the CPU. An item is one row of the output for a tile of channels: a few
 * pixels' sums stay in the cache while the weights, packed so that neighbouring channels lie side by side, stream by.
 */
#include <inttypes.h>
#include <stdio.h>

#include "gpu/template/plain_cpu.h"

enum { TILE_CHANNELS = 64, TILE_PIXELS = 8 };

bool serves_conv_cpu(const struct workload *workload) {
    return (workload->op == OP_CONV || workload->op == OP_CONV_TRANSPOSE) && plain_floats(workload);
}

struct conv_shape {
    int64_t groups, in_group, out_group, taps[2];
    int64_t tile, tiles; /* output channels of one item; items for a group */
};

static struct conv_shape conv_shape_of(const struct workload *workload) {
    const int64_t *w = workload->in[1].shape.dim;
    struct conv_shape shape = {.groups = workload->attr.conv.groups, .taps = {w[2], w[3]}};
    shape.in_group = workload->in[0].shape.dim[1] / shape.groups;
    shape.out_group = workload->out[0].shape.dim[1] / shape.groups;
    shape.tile = shape.out_group < TILE_CHANNELS ? shape.out_group : TILE_CHANNELS;
    shape.tiles = (shape.out_group + shape.tile - 1) / shape.tile;
    return shape;
}

/* Weights, as f32, as [group][r][s][input channel][output channel]. */
static void emit_pack(struct plain *plain, const struct conv_shape *shape) {
    const struct kernel_arg args[] = {{{ARG_IN, 1}, plain->workload->in[1].dtype, "in1"},
                                      {{ARG_PREPARED, 0}, DTYPE_F32, "packed", true}};
    bool transposed = plain->workload->op == OP_CONV_TRANSPOSE;
    int64_t area = shape->taps[0] * shape->taps[1], c = shape->in_group, k = shape->out_group;
    struct shape box = {5, {shape->groups, shape->taps[0], shape->taps[1], c, k}};
    struct map map;
    struct nest nest;
    struct buf body CLEANUP(buf_release) = BUF_INIT(1 << 16);
    const int64_t packed[] = {area * c * k, shape->taps[1] * c * k, c * k, k, 1};
    const int64_t given[] = {c * k * area, shape->taps[1], 1, transposed ? k * area : area,
                             transposed ? area : c * area};
    map_init(&map, &box, 2);
    for (int d = 0; d < box.rank; d++) {
        map.stride[0][d] = packed[d];
        map.stride[1][d] = given[d];
    }
    map_simplify(&map, NULL);
    map_nest(&map, "m", &nest);
    buf_puts(&body, "    packed[");
    map_put_offset(&body, &map, 0, "m");
    buf_puts(&body, "] = get1(");
    map_put_offset(&body, &map, 1, "m");
    buf_puts(&body, ");\n");
    nest_emit_with(plain, "plain_pack", args, ARRAY_COUNT(args), &nest, buf_str(&body));
    kernel_prepares(plain, (size_t)shape_count(&box) * sizeof(float));
}

/* `to`: the input's coordinate for output coordinate `o` and a tap, negative where there is none. */
static void put_source(struct buf *source, const struct workload *workload, int i, const char *to, const char *o,
                       char tap) {
    const struct conv_attr *conv = &workload->attr.conv;
    int64_t dim = workload->in[0].shape.dim[2 + i];
    if (workload->op == OP_CONV) {
        buf_printf(source, "    idx %s = (%s) * %" PRId64 " - (%" PRId64 ") + %c * %" PRId64 ";\n", to, o,
                   conv->stride[i], conv->pad[i], tap, conv->dilation[i]);
    } else {
        buf_printf(source, "    idx %s = (%s) + (%" PRId64 ") - %c * %" PRId64 ";\n", to, o, conv->pad[i], tap,
                   conv->dilation[i]);
        buf_printf(source, "    %s = %s < 0 || %s %% %" PRId64 " != 0 ? -1 : %s / %" PRId64 ";\n", to, to, to,
                   conv->stride[i], to, conv->stride[i]);
    }
    buf_printf(source, "    if (%s >= %" PRId64 ") %s = -1;\n", to, dim, to);
}

/* acc[p][k] += the products of all taps and channels. */
static void put_sums(struct plain *plain, const struct conv_shape *shape) {
    struct buf *source = &plain->source;
    const struct operand *x = &plain->workload->in[0];
    struct coordinates at = {{"o0", "0", "y", "x"}};
    int64_t stride[SHAPE_MAX_RANK];
    snprintf(at.text[1], sizeof at.text[1], "(g * %" PRId64 ")", shape->in_group);
    operand_strides(x, stride);
    buf_printf(source, "    for (idx r = 0; r < %" PRId64 "; r++) {\n", shape->taps[0]);
    put_source(source, plain->workload, 0, "y", "o2", 'r');
    buf_printf(source, "    if (y < 0) continue;\n    for (idx s = 0; s < %" PRId64 "; s++) {\n", shape->taps[1]);
    buf_printf(source, "    idx from[%d];\n    for (idx p = 0; p < %d; p++) {\n", TILE_PIXELS, TILE_PIXELS);
    put_source(source, plain->workload, 1, "x", "x0 + p", 's');
    buf_puts(source, "    from[p] = x < 0 ? -1 : ");
    put_offset(source, x, &at);
    buf_printf(source,
               ";\n    }\n"
               "    const float *w = packed + ((g * %" PRId64 " + r) * %" PRId64 " + s) * %" PRId64 " + k0;\n",
               shape->taps[0], shape->taps[1], shape->in_group * shape->out_group);
    buf_printf(source,
               "    for (idx c = 0; c < %" PRId64 "; c++, w += %" PRId64 ")\n"
               "    for (idx p = 0; p < %d; p++) {\n"
               "    if (from[p] < 0) continue;\n"
               "    const float v = get0(from[p] + c * %" PRId64 ");\n"
               "#pragma omp simd\n"
               "    for (idx k = 0; k < width; k++) acc[p][k] += v * w[k];\n"
               "    }\n    }\n    }\n",
               shape->in_group, shape->out_group, TILE_PIXELS, x->shape.dim[1] == 1 ? 0 : stride[1]);
}

void emit_conv_cpu(struct plain *plain) {
    const struct workload *workload = plain->workload;
    const struct operand *out = &workload->out[0];
    struct conv_shape shape = conv_shape_of(workload);
    struct kernel_arg args[5] = {{{ARG_IN, 0}, workload->in[0].dtype, "in0"}, {{ARG_PREPARED, 0}, DTYPE_F32, "packed"}};
    struct coordinates at = {{"o0", "(first + k)", "o2", "(x0 + p)"}};
    struct nest nest = {0};
    int n = 2;
    for (int i = 2; i < workload->n_in; i++)
        args[n++] = (struct kernel_arg){{ARG_IN, i}, workload->in[i].dtype, i == 2 ? "in2" : "in3"};
    args[n++] = (struct kernel_arg){{ARG_OUT, 0}, out->dtype, "out", true};
    emit_pack(plain, &shape);
    kernel_open_with(plain, "plain_conv", args, n);
    nest_add(&nest, "o0", out->shape.dim[0]);
    nest_add(&nest, "g", shape.groups);
    nest_add(&nest, "tile", shape.tiles);
    nest_add(&nest, "o2", out->shape.dim[2]);
    buf_puts(&plain->source, "    for (idx item = begin; item < end; item++) {\n");
    nest_unpack(plain, &nest, "item");
    buf_printf(&plain->source, "    const idx k0 = tile * %" PRId64 ", first = g * %" PRId64 " + k0;\n", shape.tile,
               shape.out_group);
    if (shape.out_group % shape.tile)
        buf_printf(&plain->source,
                   "    const idx left = %" PRId64 " - k0, width = left < %" PRId64 " ? left : %" PRId64 ";\n",
                   shape.out_group, shape.tile, shape.tile);
    else
        buf_printf(&plain->source, "    enum { width = %" PRId64 " };\n", shape.tile);
    buf_printf(&plain->source,
               "    for (idx x0 = 0; x0 < %" PRId64 "; x0 += %d) {\n    float acc[%d][%" PRId64 "] = {{0}};\n",
               out->shape.dim[3], TILE_PIXELS, TILE_PIXELS, shape.tile);
    put_sums(plain, &shape);
    buf_printf(&plain->source,
               "    for (idx p = 0; p < %d && x0 + p < %" PRId64 "; p++)\n"
               "#pragma omp simd\n    for (idx k = 0; k < width; k++)\n",
               TILE_PIXELS, out->shape.dim[3]);
    put_result(&plain->source, workload, &at, "acc[p][k]", "first + k");
    buf_puts(&plain->source, "    }\n    }\n");
    kernel_close(plain, nest_count(&nest));
}
