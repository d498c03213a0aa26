/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt_cuda.c: the space of conv2d_simt.cu, and its rendering: which tile sizes, how many sums a thread, how far
 * the sum over k is split. Serves convolutions and dense layers in FP32, NHWC and NCHW; groups only where each has
 * enough output channels to fill a tile's rows.
 */
#include <string.h>

#include "gpu/template/act.h"
#include "gpu/template/builtin.h"
#include "gpu/template/conv2d_shape.h"
#include "gpu/template/embed.h"

EMBED(conv2d_simt_source, "gpu/template/conv2d_simt.cu");

#define MIN_GROUP_CHANNELS 8
#define MAX_THREADS 512
#define MAX_SCRATCH (512LL << 20)

/* A configuration with what follows from it. */
struct tiling {
    int64_t bp, bc, bk, tp, tc, split;
    int64_t threads, k, k_padded, channels_padded, pixels;
    int vec_a;
    bool store_vectors, check_columns;
};

static int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static bool fits_int(int64_t n) {
    return n < (1LL << 31) - (1 << 20);
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return conv2d_shape_of(workload, &s) && (s.groups == 1 || s.kg >= MIN_GROUP_CHANNELS) && s.n * s.groups <= 4096 &&
           fits_int(s.n * s.h * s.w * s.c) && fits_int(s.n * s.oh * s.ow * s.k) && fits_int(s.k * s.cg * s.kh * s.kw);
}

static struct conv2d_shape shape_of(const struct workload *workload) {
    struct conv2d_shape s;
    if (conv2d_shape_of(workload, &s))
        conv2d_shape_flatten(&s);
    return s;
}

/* The candidates of a list up to the first that covers `enough`. */
static void choose_up_to(struct space *space, const char *name, const int64_t *values, int n, int64_t enough) {
    int used = 1;
    while (used < n && values[used - 1] < enough)
        used++;
    space_choice(space, name, values, used);
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t tiles[] = {32, 64, 128}, depths[] = {8, 16}, sums[] = {4, 8}, splits[] = {1, 2, 4, 8, 16, 32};
    struct conv2d_shape s = shape_of(workload);
    struct space *space = space_new(arena);
    int64_t steps = (s.kh * s.kw * s.cg + 7) / 8;
    (void)target;
    choose_up_to(space, "tile_p", tiles, ARRAY_COUNT(tiles), s.n * s.oh * s.ow);
    choose_up_to(space, "tile_c", tiles, ARRAY_COUNT(tiles), s.kg);
    space_choice(space, "tile_k", depths, ARRAY_COUNT(depths));
    space_choice(space, "thread_p", sums, ARRAY_COUNT(sums));
    space_choice(space, "thread_c", sums, ARRAY_COUNT(sums));
    choose_up_to(space, "split_k", splits, ARRAY_COUNT(splits), steps / 4);
    return space;
}

/* The largest candidate of a knob that is at most `limit`, else its first: as a digit. */
static int64_t digit_at_most(const struct space *space, int knob, int64_t limit) {
    const struct knob *k = &space->knobs[knob];
    int64_t digit = 0;
    while (digit + 1 < k->n_candidates && k->values[digit + 1] <= limit)
        digit++;
    return digit;
}

/* Large tiles when there are enough of them to fill every SM twice, else small ones and a split that does. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    enum { TILE_P, TILE_C, TILE_K, THREAD_P, THREAD_C, SPLIT_K };
    struct conv2d_shape s = shape_of(workload);
    int64_t digit[SPACE_MAX_KNOBS] = {0}, pixels = s.n * s.oh * s.ow, wanted = 2 * (int64_t)target->units;
    int64_t large = (pixels + 127) / 128 * ((s.kg + 63) / 64) * s.groups;
    bool big = large >= wanted;
    digit[TILE_P] = digit_at_most(space, TILE_P, big ? 128 : 64);
    digit[TILE_C] = digit_at_most(space, TILE_C, 64);
    digit[TILE_K] = digit_at_most(space, TILE_K, 16);
    digit[THREAD_P] = digit_at_most(space, THREAD_P, big ? 8 : 4);
    digit[THREAD_C] = digit_at_most(space, THREAD_C, 4);
    int64_t bp = space->knobs[TILE_P].values[digit[TILE_P]], bc = space->knobs[TILE_C].values[digit[TILE_C]];
    int64_t tiles = (pixels + bp - 1) / bp * ((s.kg + bc - 1) / bc) * s.groups;
    digit[SPLIT_K] = digit_at_most(space, SPLIT_K, wanted / tiles);
    return space_index(space, digit);
}

static struct tiling tiling_of(const struct conv2d_shape *s, const struct space *space, int64_t index) {
    struct tiling t = {.bp = space_value(space, index, "tile_p", 0),
                       .bc = space_value(space, index, "tile_c", 0),
                       .bk = space_value(space, index, "tile_k", 0),
                       .tp = space_value(space, index, "thread_p", 0),
                       .tc = space_value(space, index, "thread_c", 0),
                       .split = space_value(space, index, "split_k", 0)};
    t.threads = t.bp / t.tp * (t.bc / t.tc);
    t.k = s->kh * s->kw * s->cg;
    t.k_padded = round_up(t.k, t.bk);
    t.channels_padded = round_up(s->kg, t.bc);
    t.pixels = s->n * s->oh * s->ow;
    t.vec_a = s->nhwc && s->cg % 4 == 0 && s->c % 4 == 0 ? 4 : 1;
    t.store_vectors = s->nhwc ? s->k % 4 == 0 && s->kg % 4 == 0 : s->oh * s->ow % 4 == 0;
    t.check_columns = s->pad_w != 0 || (s->ow - 1) * s->sw + (s->kw - 1) * s->dw >= s->w;
    return t;
}

static int check(const struct tiling *t, const struct conv2d_shape *s, const struct target *target,
                 struct error *error) {
    if (t->threads < 32 || t->threads > MAX_THREADS || t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block: 32 to %d can be.",
                         (long long)t->threads, MAX_THREADS);
    if (t->split > 1 && t->split * t->pixels * s->k * 4 > MAX_SCRATCH)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The partial sums of %lld parts take over %lld MB.", (long long)t->split, MAX_SCRATCH >> 20);
    if (s->groups * t->split > 65535 || t->channels_padded / t->bc > 65535)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The grid has more than 65535 blocks along y or z.");
    return 0;
}

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_shape(struct buf *source, const struct conv2d_shape *s) {
    const struct {
        const char *name;
        int64_t value;
    } macros[] = {
        {"NHWC", s->nhwc},
        {"N_", s->n},
        {"H_", s->h},
        {"W_", s->w},
        {"C_", s->c},
        {"OH_", s->oh},
        {"OW_", s->ow},
        {"K_", s->k},
        {"KH_", s->kh},
        {"KW_", s->kw},
        {"SH_", s->sh},
        {"SW_", s->sw},
        {"DH_", s->dh},
        {"DW_", s->dw},
        {"PAD_H", s->pad_h},
        {"PAD_W", s->pad_w},
        {"GROUPS", s->groups},
        {"CG", s->cg},
        {"KG", s->kg},
        {"HAS_BIAS", s->bias_in >= 0},
        {"HAS_RESIDUAL", s->residual_in >= 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(macros); i++)
        define(source, macros[i].name, macros[i].value);
    buf_printf(source, "#define EPILOGUE_PARAMS%s%s\n", s->bias_in >= 0 ? " , const float *__restrict__ bias" : "",
               s->residual_in >= 0 ? " , const float *__restrict__ residual" : "");
    buf_printf(source, "#define EPILOGUE_ARGS%s%s\n", s->bias_in >= 0 ? " , bias" : "",
               s->residual_in >= 0 ? " , residual" : "");
}

static void define_tiling(struct buf *source, const struct tiling *t) {
    const struct {
        const char *name;
        int64_t value;
    } macros[] = {
        {"BP", t->bp},
        {"BC", t->bc},
        {"BK", t->bk},
        {"TP", t->tp},
        {"TC", t->tc},
        {"SPLIT", t->split},
        {"THREADS", t->threads},
        {"KDIM", t->k},
        {"KDIMP", t->k_padded},
        {"KGP", t->channels_padded},
        {"VEC_A", t->vec_a},
        {"STORE_VECTORS", t->store_vectors},
        {"CHECK_COLUMNS", t->check_columns},
    };
    for (size_t i = 0; i < ARRAY_COUNT(macros); i++)
        define(source, macros[i].name, macros[i].value);
}

static struct launch blocks_of(const char *entry, int64_t elements, unsigned block) {
    return (struct launch){
        .entry = entry, .grid = {(unsigned)((elements + block - 1) / block), 1, 1}, .block = {block, 1, 1}};
}

/* pack; then either one kernel that does all, or the parts and their sum. */
static void add_launches(struct program *program, const struct conv2d_shape *s, const struct tiling *t,
                         struct arena *arena) {
    program->prepared_bytes = arena_array(arena, 1, sizeof *program->prepared_bytes);
    program->prepared_bytes[0] = (size_t)(s->groups * t->k_padded * t->channels_padded) * sizeof(float);
    program->n_prepared = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("conv2d_simt_pack", s->groups * t->k_padded * t->channels_padded, 256);
    program->prepare[0].args[0] = (struct arg){ARG_IN, 1};
    program->prepare[0].args[1] = (struct arg){ARG_PREPARED, 0};
    program->prepare[0].n_args = 2;
    program->n_prepare = 1;

    program->run = arena_array(arena, 2, sizeof *program->run);
    struct launch *product = &program->run[0];
    *product = (struct launch){.entry = "conv2d_simt",
                               .grid = {(unsigned)((t->pixels + t->bp - 1) / t->bp),
                                        (unsigned)(t->channels_padded / t->bc), (unsigned)(s->groups * t->split)},
                               .block = {(unsigned)t->threads, 1, 1}};
    program->n_run = 1;
    if (t->split == 1) {
        conv2d_add_args(s, product);
        product->args[product->n_args++] = (struct arg){ARG_PREPARED, 0};
        return;
    }
    program->scratch_bytes = arena_array(arena, 1, sizeof *program->scratch_bytes);
    program->scratch_bytes[0] = (size_t)(t->split * t->pixels * s->k) * sizeof(float);
    program->n_scratch = 1;
    product->args[0] = (struct arg){ARG_IN, 0};
    product->args[1] = (struct arg){ARG_PREPARED, 0};
    product->args[2] = (struct arg){ARG_SCRATCH, 0};
    product->n_args = 3;
    struct launch *reduce = &program->run[program->n_run++];
    *reduce = blocks_of("conv2d_simt_reduce", t->pixels * s->k, 256);
    conv2d_add_args(s, reduce);
    reduce->args[reduce->n_args++] = (struct arg){ARG_SCRATCH, 0};
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_shape s = shape_of(workload);
    struct tiling t = tiling_of(&s, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (check(&t, &s, target, error) < 0)
        return -1;
    define_shape(&source, &s);
    define_tiling(&source, &t);
    act_define(&source, true, &s.epilogue, 0);
    buf_puts(&source, conv2d_simt_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(&source));
    add_launches(program, &s, &t, arena);
    *ret = program;
    return 0;
}

const struct template conv2d_simt_cuda = {
    .name = "conv2d_simt.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = render,
};
