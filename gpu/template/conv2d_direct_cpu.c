/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The space of conv2d_direct.h's kernels. Which tile, how many input channels the packed weights keep together (so
 * that a channel block stays in the first cache), how work is divided, and how weights come in from memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/template/builtin.h"
#include "gpu/template/conv2d_direct.h"

enum {
    MOST_SOURCE = 8 << 20,
    MOST_SIZE = 12000, /* direct_size beyond which compiling takes many seconds */
    MOST_COLUMNS = 1 << 20,
    MOST_TAPS = 64,
    MOST_WIDTH = 28,
    MOST_TILES = 4,            /* candidates */
    L1_BLOCK = 40 * 1024,      /* bytes of weights that stay in the first cache beside the input */
    LEAST_CHANNEL_BLOCK = 4096 /* bytes, below which partial sums cost more than they save */
};

static const struct isa {
    const char *arch;
    int lanes, registers;
} isas[] = {
    {"x86-64-v4", 16, 32}, {"x86-64-v3", 8, 16}, {"armv8-a", 4, 32}, {"x86-64-v2", 4, 16}, /* and any other */
};

static const struct isa *isa_of(const struct target *target) {
    const struct isa *isa = isas;
    while (isa + 1 < isas + ARRAY_COUNT(isas) && strcmp(isa->arch, target->arch) != 0)
        isa++;
    return isa;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- tiles ---- */

struct tile {
    int64_t width, vectors;
    double cost; /* estimated clocks of the whole, over those of full tiles without waste */
};

/* The steps, and some clocks to begin and end. */
static double tile_clocks(const struct conv2d_shape *s, int64_t width, int64_t vectors) {
    double step = direct_step_clocks(width, vectors);
    return step * (double)(s->cg * s->kh * s->kw) + 20 + (double)(2 * width * vectors);
}

static double tile_cost(const struct conv2d_shape *s, const struct isa *isa, int units, int64_t width,
                        int64_t vectors) {
    int64_t whole = s->ow / width, rest = s->ow % width, rows = s->n * s->oh;
    int64_t blocks = s->groups * ceil_div(s->kg, vectors * isa->lanes);
    double row = (double)whole * tile_clocks(s, width, vectors) + (rest ? tile_clocks(s, rest, vectors) : 0);
    double items = (double)(blocks * rows * (whole + (rest != 0))), turns = (double)ceil_div((int64_t)items, units);
    double useful = (double)(s->ow * s->k) / isa->lanes * (double)(s->cg * s->kh * s->kw) / 2;
    return row * (double)blocks / useful * (turns * units / items);
}

static int by_cost(const void *a, const void *b) {
    const struct tile *x = a, *y = b;
    return x->cost != y->cost ? (x->cost > y->cost) - (x->cost < y->cost)
                              : (x->width < y->width) - (x->width > y->width);
}

/* Widths that fill the registers or divide the row evenly, for each number of vectors; the best of all, best first. */
static int list_tiles(const struct conv2d_shape *s, const struct target *target, struct tile ret[MOST_TILES]) {
    static const int vectors[] = {1, 2, 3, 4, 6, 8};
    const struct isa *isa = isa_of(target);
    struct tile all[ARRAY_COUNT(vectors) * 3];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        int64_t most = min64(min64((isa->registers - 1 - vectors[i]) / vectors[i], MOST_WIDTH), s->ow), before = 0;
        if (most < 1 || (i > 0 && vectors[i - 1] * isa->lanes >= s->kg))
            break;
        for (int64_t more = 0; more < 3; more++) {
            int64_t width = more == 0 ? most : ceil_div(s->ow, ceil_div(s->ow, most) + more - 1);
            if (width == before)
                continue;
            before = width;
            all[n++] = (struct tile){width, vectors[i], tile_cost(s, isa, target->units, width, vectors[i])};
        }
    }
    qsort(all, n, sizeof *all, by_cost);
    size_t kept = 0;
    while (kept < n && kept < MOST_TILES && all[kept].cost <= 1.2 * all[0].cost)
        kept++;
    memcpy(ret, all, kept * sizeof *all);
    return (int)kept;
}

/* ---- space ---- */

enum { TILE, CHANNELS, CHUNKS, CHUNKS_OUTSIDE, UNROLL, PREFETCH }; /* the knobs, in their order */

/* All input channels, and the divisors whose block of weights fits the first cache once, and half of it. */
static int list_channels(const struct conv2d_shape *s, int64_t block, int64_t ret[3]) {
    int64_t bytes = s->kh * s->kw * block * 4; /* of one input channel */
    int64_t most = min64(L1_BLOCK / bytes, s->cg - 1);
    int n = 0;
    ret[n++] = s->cg;
    for (int64_t channels = most; channels > 0 && channels * bytes >= LEAST_CHANNEL_BLOCK && n < 3; channels--) {
        if (s->cg % channels == 0 && channels <= most) {
            ret[n++] = channels;
            most = channels / 2;
        }
    }
    return n;
}

static int list_chunks(const struct conv2d_shape *s, const struct target *target, int64_t ret[3]) {
    const int64_t all[] = {1, target->units, 4 * (int64_t)target->units};
    int n = 0;
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (i == 0 || (all[i] > ret[n - 1] && all[i] <= s->n * s->oh * ceil_div(s->ow, 4)))
            ret[n++] = all[i];
    }
    return n;
}

static struct space *space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t both[] = {0, 1}, unroll[] = {2, 4};
    static const int64_t prefetch[] = {PREFETCH_NONE, PREFETCH_L2, PREFETCH_L1};
    struct space *space = space_new(arena);
    struct conv2d_shape s;
    struct tile tiles[MOST_TILES];
    int64_t codes[MOST_TILES], channels[3], chunks[3];
    if (!conv2d_shape_of(workload, &s))
        return space;
    conv2d_shape_flatten(&s);
    int n_tiles = list_tiles(&s, target, tiles);
    for (int i = 0; i < n_tiles; i++)
        codes[i] = tiles[i].width * 10 + tiles[i].vectors;
    int n_channels = list_channels(&s, tiles[0].vectors * isa_of(target)->lanes, channels);
    int n_chunks = list_chunks(&s, target, chunks);
    space_choice(space, "tile", codes, n_tiles); /* 142: 14 pixels × 2 vectors */
    space_choice(space, "channels", channels, n_channels);
    space_choice(space, "chunks", chunks, n_chunks);
    space_choice(space, "chunks_outside", both, n_chunks > 1 ? 2 : 1);
    space_choice(space, "unroll", unroll, 2);
    space_choice(space, "prefetch", prefetch, 3);
    return space;
}

static void direct_of(const struct conv2d_shape *shape, const struct target *target, const struct space *space,
                      int64_t index, struct direct *ret) {
    int64_t tile = space_value(space, index, "tile", 0);
    *ret = (struct direct){
        .shape = *shape,
        .lanes = isa_of(target)->lanes,
        .vectors = tile % 10,
        .width = tile / 10,
        .channels = space_value(space, index, "channels", 0),
        .chunks = space_value(space, index, "chunks", 0),
        .chunks_outside = space_value(space, index, "chunks_outside", 0) != 0,
        .unroll = space_value(space, index, "unroll", 0),
        .prefetch = space_value(space, index, "prefetch", 0),
    };
    conv2d_shape_flatten(&ret->shape);
    const struct conv2d_shape *s = &ret->shape;
    ret->block = ret->vectors * ret->lanes;
    ret->group_blocks = ceil_div(s->kg, ret->block);
    ret->row_tiles = ceil_div(s->ow, ret->width);
    ret->tiles = s->n * s->oh * ret->row_tiles;
    ret->chunks = min64(ret->chunks, ret->tiles);
}

/*
 * Weights that stay in the second cache as they are need no channel blocks, and rows are divided among the cores. Else
 * each core takes blocks of its own, so that it reads its part of the weights from memory once.
 */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    int64_t digit[SPACE_MAX_KNOBS] = {[TILE] = 0};
    struct conv2d_shape s;
    struct direct direct;
    if (!conv2d_shape_of(workload, &s))
        return 0;
    direct_of(&s, target, space, 0, &direct);
    bool near = (int64_t)direct_packed_bytes(&direct) * 2 <= target->cache_bytes;
    int64_t blocks = direct_blocks(&direct), units = target->units;
    const struct knob *knobs = space->knobs;
    if (!near && knobs[CHANNELS].n_candidates > 1 && direct.tiles > 1)
        digit[CHANNELS] = 1;
    bool own_blocks = !near && blocks >= units && blocks * 10 >= ceil_div(blocks, units) * units * 9;
    if (!own_blocks)
        digit[CHUNKS] = min64(1, knobs[CHUNKS].n_candidates - 1);
    digit[CHUNKS_OUTSIDE] = near && knobs[CHUNKS_OUTSIDE].n_candidates > 1;
    digit[UNROLL] = near; /* two channels a turn, so that fetching ahead keeps up */
    digit[PREFETCH] = near ? PREFETCH_NONE : PREFETCH_L1;
    return space_index(space, digit);
}

/* ---- serving, rendering ---- */

/* Groups of few channels would leave most lanes of a vector idle. */
static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    struct tile tiles[MOST_TILES];
    if (strcmp(target->kind, "cpu") != 0 || !conv2d_shape_of(workload, &s) || !s.nhwc)
        return false;
    conv2d_shape_flatten(&s);
    if (s.ow > MOST_COLUMNS || s.kw > MOST_TAPS || s.kh > MOST_TAPS ||
        (s.groups > 1 && (s.cg < 2 || s.kg * 4 < isa_of(target)->lanes)))
        return false;
    int n = list_tiles(&s, target, tiles);
    for (int i = 0; i < n; i++) {
        struct direct direct = {.shape = s, .vectors = tiles[i].vectors, .width = tiles[i].width, .channels = s.cg};
        direct.row_tiles = ceil_div(s.ow, direct.width);
        direct.unroll = 4;
        if (direct_size(&direct) > MOST_SIZE)
            return false;
    }
    return true;
}

static void add_launches(const struct direct *direct, struct arena *arena, struct program *program) {
    program->n_prepare = program->n_run = program->n_prepared = 1;
    program->prepared_bytes = arena_alloc(arena, sizeof *program->prepared_bytes);
    program->prepared_bytes[0] = direct_packed_bytes(direct);
    program->prepare = arena_alloc(arena, sizeof *program->prepare);
    *program->prepare = (struct launch){
        .entry = "pack", .n_args = 2, .args = {{ARG_IN, 1}, {ARG_PREPARED, 0}}, .items = direct_blocks(direct)};
    program->run = arena_alloc(arena, sizeof *program->run);
    *program->run = (struct launch){.entry = "conv2d", .items = direct_items(direct)};
    conv2d_add_args(&direct->shape, program->run);
    program->run->args[program->run->n_args++] = (struct arg){ARG_PREPARED, 0};
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    CLEANUP(buf_release) struct buf source = BUF_INIT(MOST_SOURCE);
    struct conv2d_shape shape;
    struct direct direct;
    if (!serves(workload, target) || !conv2d_shape_of(workload, &shape))
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "conv2d_direct.cpu serves FP32 convolutions of channels-last images only.");
    direct_of(&shape, target, space, index, &direct);
    direct_source(&direct, &source);
    if (buf_check(&source, "the source of a convolution", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(&source));
    add_launches(&direct, arena, program);
    *ret = program;
    return 0;
}

static double estimate(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index) {
    struct conv2d_shape shape;
    struct direct direct;
    if (!conv2d_shape_of(workload, &shape))
        return INFINITY;
    direct_of(&shape, target, space, index, &direct);
    return direct_seconds(&direct, target);
}

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct conv2d_shape shape;
    struct direct direct;
    *ret = (struct loop_nest){0};
    if (!conv2d_shape_of(workload, &shape))
        return;
    direct_of(&shape, target, space, index, &direct);
    direct_nest(&direct, ret);
}

const struct template conv2d_direct_cpu = {
    .name = "conv2d_direct.cpu",
    .version = 1,
    .device = "cpu",
    .serves = serves,
    .space = space,
    .fallback = fallback,
    .render = render,
    .estimate = estimate,
    .nest = nest,
    .dtypes = DTYPE_BIT(DTYPE_F32),
};
