/* SPDX-License-Identifier: Apache-2.0 */
/* Pools and LRN on the CPU, channels last: a tile of channels goes side by side, its sums in the cache. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "gpu/template/plain_cpu.h"

enum { TILE = 128, LRN_PIXELS = 16, LRN_MOST_SIZE = 16 };

static bool channels_last(const struct workload *workload) {
    return plain_floats(workload) && workload->in[0].layout == LAYOUT_NHWC && workload->out[0].layout == LAYOUT_NHWC;
}

/* ---- Pools ---- */

bool serves_pool_cpu(const struct workload *workload) {
    return workload->op == OP_POOL && channels_last(workload);
}

/* An item is a row of the output; for each pixel a tile of channels goes over the taps. */
void emit_pool_cpu(struct plain *plain) {
    const struct workload *workload = plain->workload;
    const struct pool_attr *pool = &workload->attr.pool;
    const int64_t *out = workload->out[0].shape.dim;
    struct coordinates at = {{"o0", "(c0 + c)", "o2", "o3"}}, from = {{"o0", "(c0 + c)"}};
    struct nest nest = {0};
    struct buf *source = &plain->source;
    const struct window rows = pool_window(workload, 0), columns = pool_window(workload, 1);
    bool max = pool->kind == POOL_MAX;
    int64_t tile = out[1] < TILE ? out[1] : TILE;
    snprintf(from.text[2], sizeof from.text[2], "(r_from + r * %" PRId64 ")", pool->dilation[0]);
    snprintf(from.text[3], sizeof from.text[3], "(s_from + s * %" PRId64 ")", pool->dilation[1]);
    nest_add(&nest, "o0", out[0]);
    nest_add(&nest, "o2", out[2]);
    kernel_open(plain, "plain_pool", 0, 0);
    buf_puts(source, "    for (idx item = begin; item < end; item++) {\n");
    nest_unpack(plain, &nest, "item");
    put_tap_range(source, &rows, "o2", 'r');
    buf_printf(source, "    for (idx o3 = 0; o3 < %" PRId64 "; o3++) {\n", out[3]);
    put_tap_range(source, &columns, "o3", 's');
    if (!max)
        put_average(source, workload);
    buf_printf(source,
               "    for (idx c0 = 0; c0 < %" PRId64 "; c0 += %" PRId64 ") {\n"
               "    const idx left = %" PRId64 " - c0, width = left < %" PRId64 " ? left : %" PRId64 ";\n"
               "    float acc[%" PRId64 "];\n"
               "    for (idx c = 0; c < width; c++) acc[c] = ",
               out[1], tile, out[1], tile, tile, tile);
    act_float(source, false, max ? -INFINITY : 0);
    buf_puts(source, ";\n    for (idx r = r0; r < r1; r++)\n    for (idx s = s0; s < s1; s++)\n"
                     "#pragma omp simd\n    for (idx c = 0; c < width; c++) {\n    const float v = get0(");
    put_offset(source, &workload->in[0], &from);
    buf_puts(source, max ? ");\n    acc[c] = v > acc[c] ? v : acc[c];\n    }\n" : ");\n    acc[c] += v;\n    }\n");
    buf_puts(source, "#pragma omp simd\n    for (idx c = 0; c < width; c++) put(");
    put_offset(source, &workload->out[0], &at);
    buf_puts(source, max ? ", acc[c]);\n    }\n    }\n    }\n" : ", acc[c] / count);\n    }\n    }\n    }\n");
    kernel_close(plain, nest_count(&nest));
}

/* ---- LRN ---- */

bool serves_lrn_cpu(const struct workload *workload) {
    return workload->op == OP_LRN && channels_last(workload) && workload->attr.lrn.size <= LRN_MOST_SIZE;
}

/* An item is a few pixels; the squares of a tile and of its neighbours are taken once. */
void emit_lrn_cpu(struct plain *plain) {
    const struct lrn_attr *lrn = &plain->workload->attr.lrn;
    const int64_t *dim = plain->workload->in[0].shape.dim;
    struct buf *source = &plain->source;
    int64_t channels = dim[1], pixels = dim[0] * dim[2] * dim[3], before = (lrn->size - 1) / 2;
    int64_t tile = channels < TILE ? channels : TILE;
    kernel_open(plain, "plain_lrn", 0, 0);
    buf_printf(source,
               "    enum { channels = %" PRId64 ", pixels = %" PRId64 ", tile = %" PRId64 ", size = %" PRId64
               ", before = %" PRId64 " };\n",
               channels, pixels, tile, lrn->size, before);
    buf_printf(source,
               "    for (idx item = begin; item < end; item++)\n"
               "    for (idx p = item * %d; p < item * %d + %d && p < pixels; p++)\n"
               "    for (idx c0 = 0; c0 < channels; c0 += tile) {\n"
               "    const idx left = channels - c0, width = left < tile ? left : tile;\n"
               "    const idx low = c0 < before ? before - c0 : 0, most = width + size - 1;\n"
               "    const idx high = left + before < most ? left + before : most;\n",
               LRN_PIXELS, LRN_PIXELS, LRN_PIXELS);
    buf_puts(source, "    const idx at = p * channels + c0;\n"
                     "    float square[tile + size - 1];\n"
                     "    for (idx j = 0; j < most; j++) square[j] = 0.0f;\n#pragma omp simd\n"
                     "    for (idx j = low; j < high; j++) square[j] = get0(at + j - before) * get0(at + j - before);\n"
                     "#pragma omp simd\n    for (idx j = 0; j < width; j++) {\n    float sum = 0.0f;\n"
                     "#pragma GCC unroll 16\n    for (int t = 0; t < size; t++) sum += square[j + t];\n"
                     "    put(at + j, get0(at + j) * wt_exp(");
    act_float(source, false, -lrn->beta);
    buf_puts(source, " * wt_log(");
    act_float(source, false, lrn->bias);
    buf_puts(source, " + ");
    act_float(source, false, lrn->alpha / (double)lrn->size);
    buf_puts(source, " * sum)));\n    }\n    }\n");
    kernel_close(plain, (pixels + LRN_PIXELS - 1) / LRN_PIXELS);
}
