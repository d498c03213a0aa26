/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and softmax on the CPU. Where the innermost dimension of memory is reduced, an item is one line, summed
 * with vectors; where it is kept, an item is a tile of neighbouring lines that go along side by side.
 */
#include <inttypes.h>
#include <stdio.h>

#include "gpu/template/plain_cpu.h"
#include "service/model/narrow.h"

enum { TILE = 128 };

/* Lines of an item: 1, or neighbours side by side. */
static int64_t width_of(const struct lines *lines) {
    int64_t dim = lines->across ? lines->map.dim[lines->map.rank - 1] : 1;
    return dim < TILE ? dim : TILE;
}

/* The item's place among the kept dimensions; for lines side by side, the first is at `low`, and there are `width`. */
static int64_t put_item(struct plain *plain, const struct lines *lines) {
    struct buf *source = &plain->source;
    struct nest outer = lines->kept;
    int last = lines->map.rank - 1;
    int64_t width = width_of(lines);
    buf_puts(source, "    for (idx item = begin; item < end; item++) {\n");
    if (!lines->across) {
        nest_unpack(plain, &outer, "item");
        return nest_count(&outer);
    }
    outer.rank--;
    int64_t dim = lines->map.dim[last], tiles = (dim + width - 1) / width;
    buf_printf(source, "    const idx block = item / %" PRId64 ", m%d = item %% %" PRId64 " * %" PRId64 ";\n", tiles,
               last, tiles, width);
    if (dim % width)
        buf_printf(source, "    const idx left = %" PRId64 " - m%d, width = left < %" PRId64 " ? left : %" PRId64 ";\n",
                   dim, last, width, width);
    else
        buf_printf(source, "    enum { width = %" PRId64 " };\n", width);
    nest_unpack(plain, &outer, "block");
    return nest_count(&outer) * tiles;
}

/* " + j * STRIDE" for the line j of an item. */
static void put_line(struct buf *source, const struct lines *lines, int operand) {
    buf_printf(source, " + j * %" PRId64, lines->map.stride[operand][lines->map.rank - 1]);
}

/* ---- Reductions ---- */

static void put_store(struct buf *source, const struct workload *workload, const struct lines *lines,
                      const char *value) {
    buf_puts(source, "    put(");
    map_put_offset(source, &lines->map, 1, "m");
    if (lines->across)
        put_line(source, lines, 1);
    buf_printf(source, ", %s", value);
    if (workload->attr.reduce.kind == REDUCE_MEAN) {
        buf_puts(source, " / ");
        act_float(source, false, (double)lines->count);
    }
    buf_puts(source, ");\n");
}

static void put_loops(struct buf *source, const struct nest *nest, const char *pragma) {
    for (int d = 0; d < nest->rank; d++)
        buf_printf(source, "%s    for (idx %s = 0; %s < %" PRId64 "; %s++)\n", d == nest->rank - 1 ? pragma : "",
                   nest->var[d], nest->var[d], nest->dim[d], nest->var[d]);
}

static void reduce_line(struct plain *plain, const struct lines *lines, const char *type) {
    struct buf *source = &plain->source;
    bool max = plain->workload->attr.reduce.kind == REDUCE_MAX;
    buf_printf(source, "    %s acc = ", type);
    put_reduce_start(plain);
    buf_puts(source, ";\n");
    put_loops(source, &lines->along,
              max ? "#pragma omp simd reduction(max:acc)\n" : "#pragma omp simd reduction(+:acc)\n");
    buf_printf(source, "    {\n    const %s v = get0(", type);
    map_put_offset(source, &lines->map, 0, "m");
    buf_printf(source, ");\n    %s;\n    }\n", max ? "acc = v > acc ? v : acc" : "acc += v");
    put_store(source, plain->workload, lines, "acc");
}

static void reduce_tile(struct plain *plain, const struct lines *lines, const char *type) {
    struct buf *source = &plain->source;
    bool max = plain->workload->attr.reduce.kind == REDUCE_MAX;
    buf_printf(source, "    %s acc[%" PRId64 "];\n    for (idx j = 0; j < width; j++) acc[j] = ", type,
               width_of(lines));
    put_reduce_start(plain);
    buf_puts(source, ";\n");
    put_loops(source, &lines->along, "");
    buf_printf(source, "#pragma omp simd\n    for (idx j = 0; j < width; j++) {\n    const %s v = get0(", type);
    map_put_offset(source, &lines->map, 0, "m");
    put_line(source, lines, 0);
    buf_printf(source, ");\n    %s;\n    }\n", max ? "acc[j] = v > acc[j] ? v : acc[j]" : "acc[j] += v");
    buf_puts(source, "#pragma omp simd\n    for (idx j = 0; j < width; j++)\n");
    put_store(source, plain->workload, lines, "acc[j]");
}

void emit_reduce_cpu(struct plain *plain) {
    const char *type = reduce_type(plain->workload);
    struct lines lines;
    lines_of(plain->workload, plain->workload->attr.reduce.axes, &lines);
    kernel_open(plain, "plain_reduce", 0, 0);
    int64_t items = put_item(plain, &lines);
    (lines.across ? reduce_tile : reduce_line)(plain, &lines, type);
    buf_puts(&plain->source, "    }\n");
    kernel_close(plain, items);
}

/* ---- Softmax ---- */

/*
 * x, o: the places of the item's first elements; a step along the axis is x_step in x and o_step in out. `keep` stores
 * an exponential in the output, which `kept` reads again; an f16 or bf16 output would round it, so there it is computed
 * anew.
 */
static const char keep_float[] = "#define keep(at, e) out[at] = (e)\n#define kept(at, from, top) out[at]\n";
static const char keep_narrow[] = "#define keep(at, e)\n#define kept(at, from, top) wt_exp(get0(from) - (top))\n";
static const char line_text[] =
    "    float top = -__builtin_inff(), sum = 0.0f;\n"
    "#pragma omp simd reduction(max:top)\n"
    "    for (idx a = 0; a < count; a++) top = get0(x + a * x_step) > top ? get0(x + a * x_step) : top;\n"
    "#pragma omp simd reduction(+:sum)\n"
    "    for (idx a = 0; a < count; a++) {\n"
    "    const float e = wt_exp(get0(x + a * x_step) - top);\n"
    "    keep(o + a * o_step, e);\n"
    "    sum += e;\n"
    "    }\n";
static const char line_end[] = "    const float scale = 1.0f / sum;\n"
                               "#pragma omp simd\n"
                               "    for (idx a = 0; a < count; a++)\n"
                               "    put(o + a * o_step, kept(o + a * o_step, x + a * x_step, top) * scale);\n";
static const char line_log_end[] =
    "    const float shift = top + wt_log(sum);\n"
    "#pragma omp simd\n"
    "    for (idx a = 0; a < count; a++) put(o + a * o_step, get0(x + a * x_step) - shift);\n";
static const char tile_text[] = "    float top[most], sum[most];\n"
                                "    for (idx j = 0; j < width; j++) top[j] = -__builtin_inff(), sum[j] = 0.0f;\n"
                                "    for (idx a = 0; a < count; a++)\n"
                                "#pragma omp simd\n"
                                "    for (idx j = 0; j < width; j++) {\n"
                                "    const float v = get0(x + a * x_step + j * x_line);\n"
                                "    top[j] = v > top[j] ? v : top[j];\n"
                                "    }\n"
                                "    for (idx a = 0; a < count; a++)\n"
                                "#pragma omp simd\n"
                                "    for (idx j = 0; j < width; j++) {\n"
                                "    const float e = wt_exp(get0(x + a * x_step + j * x_line) - top[j]);\n"
                                "    keep(o + a * o_step + j * o_line, e);\n"
                                "    sum[j] += e;\n"
                                "    }\n";
static const char tile_end[] =
    "    for (idx a = 0; a < count; a++)\n"
    "#pragma omp simd\n"
    "    for (idx j = 0; j < width; j++)\n"
    "    put(o + a * o_step + j * o_line,\n"
    "        kept(o + a * o_step + j * o_line, x + a * x_step + j * x_line, top[j]) / sum[j]);\n";
static const char tile_log_end[] =
    "    for (idx j = 0; j < width; j++) top[j] += wt_log(sum[j]);\n"
    "    for (idx a = 0; a < count; a++)\n"
    "#pragma omp simd\n"
    "    for (idx j = 0; j < width; j++)\n"
    "    put(o + a * o_step + j * o_line, get0(x + a * x_step + j * x_line) - top[j]);\n";

/* Offsets with every coordinate along the axis at 0. */
static void put_first(struct buf *source, const struct lines *lines, int operand) {
    struct map map = lines->map;
    for (int d = 0; d < map.rank; d++)
        map.stride[operand][d] = lines->reduced[d] ? 0 : map.stride[operand][d];
    map_put_offset(source, &map, operand, "m");
}

static int64_t step_along(const struct lines *lines, int operand) {
    for (int d = 0; d < lines->map.rank; d++) {
        if (lines->reduced[d])
            return lines->map.stride[operand][d];
    }
    return 0;
}

void emit_softmax_cpu(struct plain *plain) {
    struct buf *source = &plain->source;
    struct lines lines;
    int64_t log = plain->workload->attr.softmax.log;
    lines_of(plain->workload, (int64_t)1 << plain->workload->attr.softmax.axis, &lines);
    buf_puts(source, dtype_is_narrow(plain->workload->out[0].dtype) ? keep_narrow : keep_float);
    kernel_open(plain, "plain_softmax", 0, 0);
    buf_printf(source, "    enum { count = %" PRId64 ", x_step = %" PRId64 ", o_step = %" PRId64 " };\n", lines.count,
               step_along(&lines, 0), step_along(&lines, 1));
    int64_t items = put_item(plain, &lines);
    buf_puts(source, "    const idx x = ");
    put_first(source, &lines, 0);
    buf_puts(source, ", o = ");
    put_first(source, &lines, 1);
    buf_puts(source, ";\n");
    if (lines.across) {
        int last = lines.map.rank - 1;
        buf_printf(source, "    enum { most = %" PRId64 ", x_line = %" PRId64 ", o_line = %" PRId64 " };\n",
                   width_of(&lines), lines.map.stride[0][last], lines.map.stride[1][last]);
        buf_printf(source, "%s%s", tile_text, log ? tile_log_end : tile_end);
    } else {
        buf_printf(source, "%s%s", line_text, log ? line_log_end : line_end);
    }
    buf_puts(source, "    }\n");
    kernel_close(plain, items);
}
