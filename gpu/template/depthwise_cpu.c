/* SPDX-License-Identifier: Apache-2.0 */
/*
 * depthwise.cpu: convolutions of one filter a channel, channels last, on the CPU.
 *
 *     item:  `rows` rows of the output of one image
 *     tile:  `tile_x` neighbouring pixels by one vector of channels, its sums in registers; every tap's weights are one
 *            vector, loaded once a tile, and pixels share the inputs that their windows have in common
 *     order: 0: all pixels for one vector of channels, then the next; 1: all channels of a tile, then the next tile
 *
 * Pixels whose window reaches beyond the left or right edge, and those left over, go one at a time over their own range
 * of taps; channels left over go one at a time. The weights lie as [R][S][C].
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/template/builtin.h"
#include "gpu/template/plain.h"

enum { MOST_TAPS = 11 };

static int most_lanes(const struct target *target) {
    if (strcmp(target->arch, "x86-64-v4") == 0)
        return 16;
    return strcmp(target->arch, "x86-64-v3") == 0 ? 8 : 4;
}

static bool serves(const struct workload *workload, const struct target *target) {
    (void)target;
    if (workload->op != OP_CONV || !plain_all(workload, DTYPE_F32) || workload->out[0].layout != LAYOUT_NHWC)
        return false;
    const int64_t *x = workload->in[0].shape.dim, *w = workload->in[1].shape.dim;
    bool last = workload->in[0].layout == LAYOUT_NHWC && workload->in[1].layout == LAYOUT_ROW;
    return last && workload->attr.conv.groups == x[1] && w[0] == x[1] && x[1] >= 4 && w[2] <= MOST_TAPS &&
           w[3] <= MOST_TAPS;
}

static struct space *space_of(const struct workload *workload, const struct target *target, struct arena *arena) {
    const int64_t *out = workload->out[0].shape.dim;
    struct space *space = space_new(arena);
    int64_t values[64], n = 0;
    for (int64_t tile = 1; tile <= 8 && tile <= out[3]; tile *= 2)
        values[n++] = tile;
    space_choice(space, "tile_x", values, n);
    n = 0;
    for (int64_t rows = 1; rows < out[2]; rows *= 2)
        values[n++] = rows;
    values[n++] = out[2];
    space_choice(space, "rows", values, n);
    n = 0;
    for (int64_t lanes = 4; lanes <= most_lanes(target) && lanes <= out[1]; lanes *= 2)
        values[n++] = lanes;
    space_choice(space, "lanes", values, n);
    space_choice(space, "order", (const int64_t[]){0, 1}, 2);
    return space;
}

/* Four pixels, the widest vectors, all channels of a tile, and as many rows an item as leave two items to each core. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    const int64_t *out = workload->out[0].shape.dim;
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    digit[0] = space->knobs[0].n_candidates > 2 ? 2 : space->knobs[0].n_candidates - 1;
    const struct knob *rows = &space->knobs[1];
    while (digit[1] + 1 < rows->n_candidates && out[0] * out[2] >= 2 * target->units * rows->values[digit[1] + 1])
        digit[1]++;
    digit[2] = space->knobs[2].n_candidates - 1;
    digit[3] = 1;
    return space_index(space, digit);
}

/* ---- Source ---- */

struct config {
    const struct workload *workload;
    struct window window[2];
    int64_t channels, out[2];
    int64_t tile_x, rows, lanes, order;
    int64_t low, high; /* output columns whose windows are whole */
};

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static struct config config_of(const struct workload *workload, const struct space *space, int64_t index) {
    const struct conv_attr *conv = &workload->attr.conv;
    struct config config = {.workload = workload, .channels = workload->in[0].shape.dim[1]};
    for (int i = 0; i < 2; i++) {
        config.window[i] = (struct window){workload->in[0].shape.dim[2 + i], workload->in[1].shape.dim[2 + i],
                                           conv->stride[i], conv->pad[i], conv->dilation[i]};
        config.out[i] = workload->out[0].shape.dim[2 + i];
    }
    const struct window *x = &config.window[1];
    int64_t last = x->in - 1 - (x->taps - 1) * x->dilation + x->pad; /* where a whole window may start, from -pad */
    config.low = x->pad > 0 ? clamp((x->pad + x->stride - 1) / x->stride, 0, config.out[1]) : 0;
    config.high = last < 0 ? config.low : clamp(last / x->stride + 1, config.low, config.out[1]);
    config.tile_x = space_value(space, index, "tile_x", 0);
    config.rows = space_value(space, index, "rows", 0);
    config.lanes = space_value(space, index, "lanes", 0);
    config.order = space_value(space, index, "order", 0);
    return config;
}

static const char parameters[] = "const float *restrict in0, const float *restrict packed, const float *restrict in2, "
                                 "const float *restrict in3, float *restrict out";

/* pixels_TYPE_TILE: `tile` pixels from column o3 on, over taps s0 to s1 - 1 (all, for a tile of whole windows). */
static void put_pixels(struct buf *source, const struct config *config, const char *type, int64_t lanes, int64_t tile,
                       bool whole) {
    const struct window *x = &config->window[1];
    const struct coordinates at = {{"o0", "(c + j)", "o2", "(o3 + t)"}};
    int64_t c = config->channels;
    buf_printf(source,
               "static inline __attribute__((always_inline)) void %s_%s(%s,\n"
               "    idx o0, idx o2, idx o3, idx c, idx r_from, idx r0, idx r1%s) {\n"
               "    %s acc[%" PRId64 "];\n"
               "    for (int t = 0; t < %" PRId64 "; t++) acc[t] = (%s){0};\n",
               whole ? "tile" : "pixel", type, parameters, whole ? "" : ", idx s0, idx s1", type, tile, tile, type);
    buf_printf(source,
               "    for (idx r = r0; r < r1; r++) {\n"
               "    const float *x = in0 + ((o0 * %" PRId64 " + r_from + r * %" PRId64 ") * %" PRId64 " + o3 * %" PRId64
               " - (%" PRId64 ")) * %" PRId64 " + c;\n"
               "    const float *w = packed + r * %" PRId64 " + c;\n",
               config->window[0].in, config->window[0].dilation, x->in, x->stride, x->pad, c, x->taps * c);
    if (whole)
        buf_printf(source, "#pragma GCC unroll %d\n    for (int s = 0; s < %" PRId64 "; s++) {\n", MOST_TAPS, x->taps);
    else
        buf_puts(source, "    for (idx s = s0; s < s1; s++) {\n");
    buf_printf(source,
               "    const %s v = *(const %s *)(w + s * %" PRId64 ");\n"
               "#pragma GCC unroll 8\n"
               "    for (int t = 0; t < %" PRId64 "; t++) acc[t] += *(const %s *)(x + (t * %" PRId64 " + s * %" PRId64
               ") * %" PRId64 ") * v;\n    }\n    }\n",
               type, type, c, tile, type, x->stride, x->dilation, c);
    buf_printf(source,
               "#pragma GCC unroll 8\n    for (int t = 0; t < %" PRId64 "; t++) {\n    float sum[%" PRId64 "];\n"
               "    *(%s *)sum = acc[t];\n#pragma omp simd\n    for (int j = 0; j < %" PRId64 "; j++)\n",
               tile, lanes, type, lanes);
    put_result(source, config->workload, &at, "sum[j]", "c + j");
    buf_puts(source, "    }\n}\n");
}

static void put_edge(struct buf *source, const struct config *config, const char *type, int64_t lanes) {
    buf_printf(source, "    {\n");
    put_tap_range(source, &config->window[1], "o3", 's');
    buf_printf(source,
               "    for (idx c = c0; c < c1; c += %" PRId64 ")\n"
               "    pixel_%s(in0, packed, in2, in3, out, o0, o2, o3, c, r_from, r0, r1, s0, s1);\n    }\n",
               lanes, type);
}

/* row_TYPE: one row of the output for channels c0 to c1 - 1. */
static void put_row(struct buf *source, const struct config *config, const char *type, int64_t lanes) {
    int64_t tiles = (config->high - config->low) / config->tile_x, stop = config->low + tiles * config->tile_x;
    put_pixels(source, config, type, lanes, 1, false);
    put_pixels(source, config, type, lanes, config->tile_x, true);
    buf_printf(source, "static inline void row_%s(%s, idx o0, idx o2, idx c0, idx c1) {\n", type, parameters);
    put_tap_range(source, &config->window[0], "o2", 'r');
    buf_printf(source, "    for (idx o3 = 0; o3 < %" PRId64 "; o3++)\n", config->low);
    put_edge(source, config, type, lanes);
    buf_printf(source,
               "    for (idx o3 = %" PRId64 "; o3 < %" PRId64 "; o3 += %" PRId64 ")\n"
               "    for (idx c = c0; c < c1; c += %" PRId64 ")\n"
               "    tile_%s(in0, packed, in2, in3, out, o0, o2, o3, c, r_from, r0, r1);\n",
               config->low, stop, config->tile_x, lanes, type);
    buf_printf(source, "    for (idx o3 = %" PRId64 "; o3 < %" PRId64 "; o3++)\n", stop, config->out[1]);
    put_edge(source, config, type, lanes);
    buf_puts(source, "}\n");
}

static void put_rows(struct buf *source, const char *type, int64_t from, int64_t to, int64_t step) {
    if (from == to)
        return;
    buf_printf(source,
               "    for (idx c = %" PRId64 "; c < %" PRId64 "; c += %" PRId64 ")\n"
               "    for (idx o2 = first; o2 < last; o2++)\n"
               "    row_%s(in0, packed, in2, in3, out, o0, o2, c, c + %" PRId64 ");\n",
               from, to, step, type, step);
}

static void put_kernel(struct plain *plain, const struct config *config) {
    const struct workload *workload = config->workload;
    struct buf *source = &plain->source;
    struct kernel_arg args[5] = {{{ARG_IN, 0}, DTYPE_F32, "in0"}, {{ARG_PREPARED, 0}, DTYPE_F32, "packed"}};
    int64_t whole = config->channels / config->lanes * config->lanes;
    int64_t parts = (config->out[0] + config->rows - 1) / config->rows;
    int n = 2;
    for (int i = 2; i < workload->n_in; i++)
        args[n++] = (struct kernel_arg){{ARG_IN, i}, DTYPE_F32, i == 2 ? "in2" : "in3"};
    args[n++] = (struct kernel_arg){{ARG_OUT, 0}, DTYPE_F32, "out", true};
    buf_printf(source, "typedef float vector __attribute__((vector_size(%" PRId64 "), aligned(4), may_alias));\n",
               config->lanes * 4);
    put_row(source, config, "vector", config->lanes);
    if (whole < config->channels)
        put_row(source, config, "float", 1);
    kernel_open_with(plain, "depthwise", args, n);
    for (int i = workload->n_in; i < 4; i++)
        buf_printf(source, "    const float *in%d = 0;\n", i);
    buf_printf(source,
               "    for (idx item = begin; item < end; item++) {\n"
               "    const idx o0 = item / %" PRId64 ", first = item %% %" PRId64 " * %" PRId64 ";\n"
               "    const idx last = first + %" PRId64 " < %" PRId64 " ? first + %" PRId64 " : %" PRId64 ";\n",
               parts, parts, config->rows, config->rows, config->out[0], config->rows, config->out[0]);
    put_rows(source, "vector", 0, whole, config->order ? whole : config->lanes);
    put_rows(source, "float", whole, config->channels, config->order ? config->channels - whole : 1);
    buf_puts(source, "    }\n");
    kernel_close(plain, workload->out[0].shape.dim[0] * parts);
}

/* [C][1][R][S] to [R][S][C] */
static void put_pack(struct plain *plain, const struct config *config) {
    const struct kernel_arg args[] = {{{ARG_IN, 1}, DTYPE_F32, "in1"}, {{ARG_PREPARED, 0}, DTYPE_F32, "packed", true}};
    int64_t taps = config->window[0].taps * config->window[1].taps;
    struct nest nest = {0};
    nest_add(&nest, "tap", taps);
    nest_add(&nest, "c", config->channels);
    char body[96];
    snprintf(body, sizeof body, "    packed[tap * %" PRId64 " + c] = in1[c * %" PRId64 " + tap];\n", config->channels,
             taps);
    nest_emit_with(plain, "depthwise_pack", args, ARRAY_COUNT(args), &nest, body);
    kernel_prepares(plain, (size_t)(taps * config->channels) * sizeof(float));
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)target;
    struct config config = config_of(workload, space, index);
    struct plain plain;
    plain_begin(&plain, false, workload, arena);
    put_pack(&plain, &config);
    put_kernel(&plain, &config);
    return plain_end(&plain, ret, error);
}

/* ---- What the search reads ---- */

/*
 * The clocks of the busiest core's rows, or of bringing in and out what they move. A tile's taps are bound by its loads
 * or, with few pixels, by the wait for each sum; where one vector is less than a line of memory, all pixels for one
 * vector after another (order 0) bring each line in several times.
 */
static double estimate(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index) {
    const double clock_hz = 3e9, far_bytes = 6, line = 64;
    struct config c = config_of(workload, space, index);
    int64_t images = workload->out[0].shape.dim[0], parts = (c.out[0] + c.rows - 1) / c.rows;
    int64_t share = (images * parts + target->units - 1) / target->units;
    int64_t tiles = (c.high - c.low) / c.tile_x, edges = c.out[1] - tiles * c.tile_x;
    double taps = (double)(c.window[0].taps * c.window[1].taps), pixels = (double)c.tile_x;
    double tile = taps * fmax((pixels + 1) / 2, 2) + 2 * pixels + 10, edge = taps * 3 + 20;
    int64_t vectors = c.channels / c.lanes + c.channels % c.lanes;
    double row =
        ((double)tiles * tile + (double)edges * edge) * (double)vectors + (double)(c.order ? 10 : 10 * vectors);
    double row_bytes = (double)(c.window[1].in * c.window[0].stride + c.out[1]) * (double)c.channels * sizeof(float);
    double again = c.order || row_bytes * (double)c.rows < (double)target->cache_bytes / 2
                       ? 1
                       : fmax(line / (double)(c.lanes * (int64_t)sizeof(float)), 1);
    double rows = (double)(share * c.rows), memory = rows * row_bytes * again / far_bytes;
    return fmax(rows * row + 0.3 * memory, memory) / clock_hz;
}

/* The whole tiles of the whole vectors: one input by one weight into one sum. */
static void loops_of(const struct workload *workload, const struct target *target, const struct space *space,
                     int64_t index, struct loop_nest *ret) {
    struct config c = config_of(workload, space, index);
    const struct window *y = &c.window[0], *x = &c.window[1];
    int64_t in_row = x->in * c.channels, out_row = c.out[1] * c.channels, parts = (c.out[0] + c.rows - 1) / c.rows;
    int64_t vectors = c.channels / c.lanes, tiles = (c.high - c.low + c.tile_x - 1) / c.tile_x;
    (void)target;
    loop_nest_sum(ret);
    loop_nest_add(ret, workload->out[0].shape.dim[0] * parts, LOOP_PARALLEL, c.rows * y->stride * in_row, 0,
                  c.rows * out_row);
    if (!c.order)
        loop_nest_add(ret, vectors, LOOP_SERIAL, c.lanes, c.lanes, c.lanes);
    loop_nest_add(ret, c.rows, LOOP_SERIAL, y->stride * in_row, 0, out_row);
    loop_nest_add(ret, tiles, LOOP_SERIAL, c.tile_x * x->stride * c.channels, 0, c.tile_x * c.channels);
    if (c.order)
        loop_nest_add(ret, vectors, LOOP_SERIAL, c.lanes, c.lanes, c.lanes);
    loop_nest_add(ret, y->taps, LOOP_SERIAL, y->dilation * in_row, x->taps * c.channels, 0);
    loop_nest_add(ret, x->taps, LOOP_UNROLLED, x->dilation * c.channels, c.channels, 0);
    loop_nest_add(ret, c.tile_x, LOOP_UNROLLED, x->stride * c.channels, 0, c.channels);
    loop_nest_add(ret, c.lanes, LOOP_VECTORIZED, 1, 1, 1);
}

const struct template depthwise_cpu = {
    .name = "depthwise.cpu",
    .version = 1,
    .device = "cpu",
    .serves = serves,
    .space = space_of,
    .fallback = fallback,
    .render = render,
    .estimate = estimate,
    .nest = loops_of,
    .dtypes = DTYPE_BIT(DTYPE_F32),
};
