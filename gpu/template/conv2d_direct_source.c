/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/act.h"
#include "gpu/template/conv2d_direct.h"

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

int64_t direct_blocks(const struct direct *direct) {
    return direct->shape.groups * direct->group_blocks;
}

int64_t direct_items(const struct direct *direct) {
    return direct_blocks(direct) * direct->chunks;
}

size_t direct_packed_bytes(const struct direct *direct) {
    const struct conv2d_shape *s = &direct->shape;
    return (size_t)(direct_blocks(direct) * direct->block * s->cg * s->kh * s->kw) * sizeof(float);
}

/* ---- cases ---- */

/* The pixels [first, end) of a tile that meet the input under one tap. */
struct pixels {
    int64_t first, end;
};

static int64_t tile_width(const struct direct *direct, int64_t tile) {
    return min64(direct->width, direct->shape.ow - tile * direct->width);
}

static struct pixels pixels_under(const struct direct *direct, int64_t tile, int64_t kw) {
    const struct conv2d_shape *s = &direct->shape;
    int64_t column = tile * direct->width * s->sw - s->pad_w + kw * s->dw; /* of the input, under the first pixel */
    int64_t width = tile_width(direct, tile);
    int64_t first = min64(max64(ceil_div(-column, s->sw), 0), width);
    int64_t end = min64(ceil_div(s->w - column, s->sw), width);
    return (struct pixels){first, max64(first, end)};
}

static bool same_pixels(struct pixels a, struct pixels b) {
    return a.first == b.first && a.end == b.end;
}

static bool same_case(const struct direct *direct, int64_t tile, int64_t other) {
    bool same = tile_width(direct, tile) == tile_width(direct, other);
    for (int64_t kw = 0; kw < direct->shape.kw && same; kw++)
        same = same_pixels(pixels_under(direct, tile, kw), pixels_under(direct, other, kw));
    return same;
}

/* The first tile after this one that is another case. */
static int64_t next_case(const struct direct *direct, int64_t tile) {
    int64_t next = tile + 1;
    while (next < direct->row_tiles && same_case(direct, tile, next))
        next++;
    return next;
}

/* Neighbouring taps whose channels lie side by side in memory and that meet the same pixels: one loop. */
struct run {
    int64_t kw, end;
    struct pixels pixels;
    int64_t channels; /* of all its taps */
};

static struct run run_at(const struct direct *direct, int64_t tile, int64_t kw) {
    const struct conv2d_shape *s = &direct->shape;
    struct run run = {kw, kw + 1, pixels_under(direct, tile, kw), 0};
    bool contiguous = s->dw == 1 && direct->channels == s->c;
    while (contiguous && run.end < s->kw && same_pixels(run.pixels, pixels_under(direct, tile, run.end)))
        run.end++;
    run.channels = (run.end - kw) * direct->channels;
    return run;
}

int64_t direct_size(const struct direct *direct) {
    int64_t size = 0;
    for (int64_t tile = 0; tile < direct->row_tiles; tile = next_case(direct, tile)) {
        for (struct run run = {0}; run.end < direct->shape.kw;) {
            run = run_at(direct, tile, run.end);
            int64_t steps = min64(direct->unroll + run.channels % direct->unroll, run.channels);
            size += steps * (run.pixels.end - run.pixels.first) * direct->vectors;
        }
    }
    return size;
}

/* ---- text ---- */

static void put_constants(struct buf *source, const struct direct *direct) {
    const struct conv2d_shape *s = &direct->shape;
    int bias = 2, residual = 2 + s->epilogue.bias, weights = residual + s->epilogue.residual;
    const struct {
        const char *name;
        int64_t value;
    } constants[] = {
        {"H", s->h},
        {"W", s->w},
        {"C", s->c},
        {"OH", s->oh},
        {"OW", s->ow},
        {"K", s->k},
        {"KH", s->kh},
        {"KW", s->kw},
        {"SH", s->sh},
        {"SW", s->sw},
        {"DH", s->dh},
        {"DW", s->dw},
        {"PAD_H", s->pad_h},
        {"PAD_W", s->pad_w},
        {"CG", s->cg},
        {"KG", s->kg},
        {"LANES", direct->lanes},
        {"WIDTH", direct->width},
        {"BLOCK", direct->block},
        {"GROUP_BLOCKS", direct->group_blocks},
        {"BLOCKS", direct_blocks(direct)},
        {"CHANNELS", direct->channels},
        {"CHANNEL_BLOCKS", s->cg / direct->channels},
        {"ROW_TILES", direct->row_tiles},
        {"TILES", direct->tiles},
        {"CHUNKS", direct->chunks},
        {"CHUNKS_OUTSIDE", direct->chunks_outside},
        {"BIAS", s->epilogue.bias ? bias : 0},
        {"RESIDUAL", s->epilogue.residual ? residual : 0},
        {"WEIGHTS", weights},
    };
    for (size_t i = 0; i < ARRAY_COUNT(constants); i++)
        buf_printf(source, "#define %s %lldL\n", constants[i].name, (long long)constants[i].value);
}

/*
 * LOAD and STORE: vector `v` of a tile at p, of which a partial block has only the first `valid` channels. x - 0 is
 * the way to broadcast x that costs nothing else.
 */
static const char vector_text[] = "typedef float vf __attribute__((vector_size(LANES * 4)));\n"
                                  "typedef float vu __attribute__((vector_size(LANES * 4), aligned(4), may_alias));\n"
                                  "#define SPLAT(x) ((x) - (vf){0})\n"
                                  "static inline vf load_part(const float *p, long n) {\n"
                                  "    float t[LANES];\n"
                                  "    for (int i = 0; i < LANES; i++) t[i] = i < n ? p[i] : 0.0f;\n"
                                  "    return *(vu *)t;\n"
                                  "}\n"
                                  "static inline void store_part(float *p, vf x, long n) {\n"
                                  "    float t[LANES];\n"
                                  "    *(vu *)t = x;\n"
                                  "    for (int i = 0; i < LANES; i++) if (i < n) p[i] = t[i];\n"
                                  "}\n"
                                  "static inline vf act(vf x) {\n"
                                  "    for (int i = 0; i < LANES; i++) x[i] = wt_act(x[i]);\n"
                                  "    return x;\n"
                                  "}\n"
                                  "#if KG % BLOCK\n"
                                  "#define LOAD(p, v) load_part(p, valid - (v) * LANES)\n"
                                  "#define STORE(p, v, x) store_part(p, x, valid - (v) * LANES)\n"
                                  "#else\n"
                                  "#define LOAD(p, v) (*(const vu *)(p))\n"
                                  "#define STORE(p, v, x) (*(vu *)(p) = (x))\n"
                                  "#endif\n";

/*
 * All products of one input channel. The empty assembly hides that pixels of one step meet the inputs of another:
 * kept in registers for that, they would crowd out the sums.
 */
static void put_step(struct buf *source, const struct direct *direct, struct pixels pixels, int64_t step) {
    buf_puts(source, "        { __asm__(\"\" : \"+r\"(xs));");
    for (int64_t v = 0; v < direct->vectors; v++)
        buf_printf(source, " const vf w%lld = *(const vf *)(ws + %lld * BLOCK + %lld * LANES);", (long long)v,
                   (long long)step, (long long)v);
    buf_putc(source, '\n');
    for (int64_t p = pixels.first; p < pixels.end; p++) {
        buf_printf(source, "          { const vf x = SPLAT(xs[%lld * SW * C + %lld]);", (long long)p, (long long)step);
        for (int64_t v = 0; v < direct->vectors; v++)
            buf_printf(source, " s%lld_%lld += x * w%lld;", (long long)p, (long long)v, (long long)v);
        buf_puts(source, " }\n");
    }
    buf_puts(source, "        }\n");
}

static void put_run(struct buf *source, const struct direct *direct, const struct run *run) {
    int64_t unroll = min64(direct->unroll, run->channels);
    if (run->pixels.first == run->pixels.end)
        return;
    buf_printf(source,
               "    { const float *xs = xr + %lld * DW * C, *ws = wr + %lld * CHANNELS * BLOCK;\n"
               "      for (long i = 0; i < %lld; i++, xs += %lld, ws += %lld * BLOCK) {\n",
               (long long)run->kw, (long long)run->kw, (long long)(run->channels / unroll), (long long)unroll,
               (long long)unroll);
    for (int64_t step = 0; step < unroll; step++)
        put_step(source, direct, run->pixels, step);
    if (direct->prefetch != PREFETCH_NONE)
        buf_printf(source, "        __builtin_prefetch(ahead, 0, %d); ahead += 64;\n",
                   direct->prefetch == PREFETCH_L1 ? 3 : 2);
    buf_puts(source, "      }\n");
    for (int64_t step = 0; step < run->channels % unroll; step++)
        put_step(source, direct, run->pixels, step);
    buf_puts(source, "    }\n");
}

/* NAME(p, v) for every sum of a tile. */
static void put_each(struct buf *source, const struct direct *direct, int64_t width, const char *name) {
    for (int64_t p = 0; p < width; p++) {
        buf_puts(source, "   ");
        for (int64_t v = 0; v < direct->vectors; v++)
            buf_printf(source, " %s(%lld, %lld)", name, (long long)p, (long long)v);
        buf_putc(source, '\n');
    }
}

static const char tile_text[] =
    "#define AT(p, v) ((p) * K + (v) * LANES)\n"
    "#define ZERO(p, v) vf s##p##_##v = {0};\n"
    "#define AGAIN(p, v) s##p##_##v = LOAD(o + AT(p, v), v);\n"
    "#define KEEP(p, v) STORE(o + AT(p, v), v, s##p##_##v);\n"
    "#define FINISH(p, v) { \\\n"
    "    vf y = s##p##_##v; \\\n"
    "    if (BIAS) y += LOAD(bias + (v) * LANES, v); \\\n"
    "    if (RESIDUAL) y += LOAD(r + AT(p, v), v); \\\n"
    "    STORE(o + AT(p, v), v, act(y)); }\n"
    "#define TILE(name) static __attribute__((noinline)) const char *name(const float *x, const float *w, \\\n"
    "    float *restrict o, const float *restrict r, const float *restrict bias, long kh, long kh_end, long valid, \\\n"
    "    int first, int last, const char *ahead)\n";

/* Gives back where the weights to fetch ahead go on. */
static void put_tile(struct buf *source, const struct direct *direct, int64_t tile) {
    int64_t width = tile_width(direct, tile);
    buf_printf(source, "TILE(tile_%lld) {\n", (long long)tile);
    put_each(source, direct, width, "ZERO");
    buf_puts(source, "    if (CHANNEL_BLOCKS > 1 && !first) {\n");
    put_each(source, direct, width, "AGAIN");
    buf_puts(source, "    }\n"
                     "    for (; kh < kh_end; kh++) {\n"
                     "    const float *xr = x + kh * DH * W * C, *wr = w + kh * KW * CHANNELS * BLOCK;\n");
    for (struct run run = {0}; run.end < direct->shape.kw;) {
        run = run_at(direct, tile, run.end);
        put_run(source, direct, &run);
    }
    buf_puts(source, "    }\n"
                     "    if (CHANNEL_BLOCKS > 1 && !last) {\n");
    put_each(source, direct, width, "KEEP");
    buf_puts(source, "        return ahead;\n"
                     "    }\n");
    put_each(source, direct, width, "FINISH");
    buf_puts(source, "    return ahead;\n"
                     "}\n");
}

/* A function for each case, named by its first tile, and `tile`, which picks one. */
static void put_tiles(struct buf *source, const struct direct *direct) {
    int64_t next;
    for (int64_t tile = 0; tile < direct->row_tiles; tile = next_case(direct, tile))
        put_tile(source, direct, tile);
    buf_puts(source, "#define tile(t, ...) (");
    for (int64_t tile = 0; tile < direct->row_tiles; tile = next) {
        next = next_case(direct, tile);
        if (next < direct->row_tiles)
            buf_printf(source, "(t) < %lld ? tile_%lld(__VA_ARGS__) : ", (long long)next, (long long)tile);
        else
            buf_printf(source, "tile_%lld(__VA_ARGS__))\n", (long long)tile);
    }
}

/* Where fetching ahead has passed the next channel block it begins again with this one, which is near already. */
static const char main_text[] =
    "#define TAP_ROWS (KH * KW * CHANNELS * BLOCK)\n"
    "static void run(const float *in, const float *w, float *out, const float *residual, const float *bias, long k,\n"
    "                long channel, long valid, long chunk, int first, int last) {\n"
    "    const char *ahead = (const char *)(w + TAP_ROWS), *ahead_end = (const char *)(w + 2 * TAP_ROWS);\n"
    "    for (long q = TILES * chunk / CHUNKS; q < TILES * (chunk + 1) / CHUNKS; q++) {\n"
    "        const long row = q / ROW_TILES, t = q % ROW_TILES, n = row / OH, y = row % OH * SH - PAD_H;\n"
    "        const long kh = y < 0 ? (-y + DH - 1) / DH : 0, below = y < H ? (H - y + DH - 1) / DH : 0;\n"
    "        const long at = (row * OW + t * WIDTH) * K + k;\n"
    "        const float *x = in + ((n * H + y) * W + t * WIDTH * SW - PAD_W) * C + channel;\n"
    "        ahead = tile(t, x, w, out + at, RESIDUAL ? residual + at : 0, BIAS ? bias + k : 0, kh,\n"
    "                     below < KH ? below : KH, valid, first, last, ahead);\n"
    "        ahead = ahead < ahead_end ? ahead : (const char *)w;\n"
    "    }\n"
    "}\n"
    "void conv2d(void *const *args, long begin, long end) {\n"
    "    for (long item = begin; item < end; item++) {\n"
    "        const long block = CHUNKS_OUTSIDE ? item % BLOCKS : item / CHUNKS;\n"
    "        const long chunk = CHUNKS_OUTSIDE ? item / BLOCKS : item % CHUNKS;\n"
    "        const long group = block / GROUP_BLOCKS, k = block % GROUP_BLOCKS * BLOCK;\n"
    "        for (long c = 0; c < CHANNEL_BLOCKS; c++)\n"
    "            run(args[0], (const float *)args[WEIGHTS] + (block * CHANNEL_BLOCKS + c) * TAP_ROWS, args[1],\n"
    "                args[RESIDUAL], args[BIAS], group * KG + k, group * CG + c * CHANNELS, KG - k, chunk, c == 0,\n"
    "                c == CHANNEL_BLOCKS - 1);\n"
    "    }\n"
    "}\n";

static const char pack_text[] =
    "void pack(void *const *args, long begin, long end) {\n"
    "    for (long block = begin; block < end; block++) {\n"
    "        const long group = block / GROUP_BLOCKS, k = block % GROUP_BLOCKS * BLOCK;\n"
    "        const float *w = (const float *)args[0] + (group * KG + k) * CG * KH * KW;\n"
    "        float *to = (float *)args[1] + block * CG * KH * KW * BLOCK;\n"
    "        for (long cb = 0; cb < CG; cb += CHANNELS)\n"
    "            for (long tap = 0; tap < KH * KW; tap++)\n"
    "                for (long c = cb; c < cb + CHANNELS; c++)\n"
    "                    for (long lane = 0; lane < BLOCK; lane++)\n"
    "                        *to++ = k + lane < KG ? w[(lane * CG + c) * KH * KW + tap] : 0.0f;\n"
    "    }\n"
    "}\n";

void direct_source(const struct direct *direct, struct buf *source) {
    act_define(source, false, &direct->shape.epilogue, 0); /* before our short names */
    put_constants(source, direct);
    buf_puts(source, vector_text);
    buf_puts(source, tile_text);
    put_tiles(source, direct);
    buf_puts(source, main_text);
    buf_puts(source, pack_text);
}
