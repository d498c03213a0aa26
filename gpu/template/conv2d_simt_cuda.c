/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt_cuda.c: the space of conv2d_simt.cu: which tile sizes, how many sums a thread, how far the sum over k is
 * split, and whether the shape is in the source or in the arguments. Serves convolutions and dense layers in FP32, NHWC
 * and NCHW; groups only where each has enough output channels to fill a tile's rows.
 */
#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"
#include "gpu/template/conv2d_simt.h"

#define MIN_GROUP_CHANNELS 8
#define MAX_THREADS 512
#define MAX_SCRATCH (512LL << 20)
#define MAX_REGISTERS 224 /* as estimated: beyond, NVRTC 13 needs all 255 and spills */
#define MAX_STATIC_SHARED (48 << 10)

static int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return conv2d_shape_of(workload, &s) && (s.groups == 1 || s.kg >= MIN_GROUP_CHANNELS) && s.n * s.groups <= 4096 &&
           fits_int(s.n * s.h * s.w * s.c) && fits_int(s.n * s.oh * s.ow * s.k) && fits_int(s.k * s.cg * s.kh * s.kw);
}

struct conv2d_shape conv2d_simt_shape(const struct workload *workload) {
    struct conv2d_shape s = {0};
    if (conv2d_shape_of(workload, &s))
        conv2d_shape_flatten(&s);
    return s;
}

/* A thread's sums: 4 pixels × 4 channels, 8 × 4 or 8 × 8. 4 × 8 reads as much as 8 × 4 and is no other kernel. */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t tiles[] = {32, 64, 128}, depths[] = {8, 16, 32}, sums[] = {16, 32, 64},
                         splits[] = {1, 2, 4, 8, 16, 32}, shapes[] = {ARGUMENTS, CONSTANTS};
    struct conv2d_shape s = conv2d_simt_shape(workload);
    struct space *space = space_new(arena);
    int64_t steps = (s.kh * s.kw * s.cg + 7) / 8;
    (void)target;
    cuda_choose_up_to(space, "tile_p", tiles, ARRAY_COUNT(tiles), s.n * s.oh * s.ow);
    cuda_choose_up_to(space, "tile_c", tiles, ARRAY_COUNT(tiles), s.kg);
    space_choice(space, "tile_k", depths, ARRAY_COUNT(depths));
    space_choice(space, "sums", sums, ARRAY_COUNT(sums));
    cuda_choose_up_to(space, "split_k", splits, ARRAY_COUNT(splits), steps / 4);
    space_choice(space, "shapes", shapes, ARRAY_COUNT(shapes));
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
    enum { TILE_P, TILE_C, TILE_K, SUMS, SPLIT_K, SHAPES };
    struct conv2d_shape s = conv2d_simt_shape(workload);
    int64_t digit[SPACE_MAX_KNOBS] = {0}, pixels = s.n * s.oh * s.ow, wanted = 2 * (int64_t)target->units;
    int64_t large = (pixels + 127) / 128 * ((s.kg + 63) / 64) * s.groups;
    bool big = large >= wanted;
    digit[TILE_P] = digit_at_most(space, TILE_P, big ? 128 : 64);
    digit[TILE_C] = digit_at_most(space, TILE_C, 64);
    digit[TILE_K] = digit_at_most(space, TILE_K, 16);
    digit[SUMS] = digit_at_most(space, SUMS, big ? 32 : 16);
    int64_t bp = space->knobs[TILE_P].values[digit[TILE_P]], bc = space->knobs[TILE_C].values[digit[TILE_C]];
    int64_t tiles = (pixels + bp - 1) / bp * ((s.kg + bc - 1) / bc) * s.groups;
    digit[SPLIT_K] = digit_at_most(space, SPLIT_K, wanted / tiles);
    digit[SHAPES] = CONSTANTS;
    return space_index(space, digit);
}

/* What NVRTC 13 makes for sm_90a, mostly within a fifth: sums, operands and loads on their way, places. */
static int64_t registers_of(const struct conv2d_simt *t) {
    int64_t b_loads = (t->bk * t->bc / 4 + t->threads - 1) / t->threads;
    int64_t places = t->shape.nhwc ? 3 * t->a_loads : t->a_loads + 3; /* corners (NHWC), or digits of k */
    return t->tp * t->tc + 4 * (t->tp + t->tc) + t->a_loads * t->vec_a + b_loads * 4 + places + 6;
}

struct conv2d_simt conv2d_simt_of(const struct workload *workload, const struct space *space, int64_t index) {
    struct conv2d_simt t = {.shape = conv2d_simt_shape(workload),
                            .bp = space_value(space, index, "tile_p", 0),
                            .bc = space_value(space, index, "tile_c", 0),
                            .bk = space_value(space, index, "tile_k", 0),
                            .parts = space_value(space, index, "split_k", 0),
                            .constants = space_value(space, index, "shapes", 0) == CONSTANTS};
    const struct conv2d_shape *s = &t.shape;
    int64_t sums = space_value(space, index, "sums", 0);
    t.tp = sums == 16 ? 4 : 8;
    t.tc = sums / t.tp;
    t.threads = t.bp / t.tp * (t.bc / t.tc);
    t.pixels = s->n * s->oh * s->ow;
    t.k = s->kh * s->kw * s->cg;
    t.steps = (t.k + t.bk - 1) / t.bk;
    t.channels_padded = round_up(s->kg, t.bc);
    t.vec_a = s->nhwc && s->cg % 4 == 0 && s->c % 4 == 0 ? 4 : 1;
    t.a_loads = (t.bp * t.bk / t.vec_a + t.threads - 1) / t.threads;
    t.a_step = s->nhwc ? t.bk : t.threads < t.bp ? 1 : t.bk / t.a_loads;
    t.fours = s->nhwc ? s->k % 4 == 0 && s->kg % 4 == 0 : s->oh * s->ow % 4 == 0;
    t.check_columns = !t.constants || s->pad_w != 0 || (s->ow - 1) * s->sw + (s->kw - 1) * s->dw >= s->w;
    t.shared_bytes = 2 * t.bk * (t.bp + 4 + t.bc) * (int64_t)sizeof(float);
    t.registers = registers_of(&t);
    return t;
}

int conv2d_simt_check(const struct conv2d_simt *t, const struct target *target, struct error *error) {
    const struct conv2d_shape *s = &t->shape;
    if (t->threads < 32 || t->threads > MAX_THREADS || t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block: 32 to %d can be.",
                         (long long)t->threads, MAX_THREADS);
    if (t->shared_bytes > MAX_STATIC_SHARED || t->shared_bytes > target->shared_bytes)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A block needs %lld bytes of shared memory.",
                         (long long)t->shared_bytes);
    if (t->registers > MAX_REGISTERS || t->registers * t->threads > target->registers)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread needs about %lld registers.",
                         (long long)t->registers);
    if (t->parts > t->steps)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld steps cannot be split into %lld parts.",
                         (long long)t->steps, (long long)t->parts);
    if (t->parts > 1 && t->parts * t->pixels * s->k * 4 > MAX_SCRATCH)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The partial sums of %lld parts take over %lld MB.", (long long)t->parts, MAX_SCRATCH >> 20);
    if (!fits_int((s->groups * t->steps + 4) * t->bk * t->channels_padded))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "The packed weights are too large.");
    if (s->groups * t->parts > 65535 || t->channels_padded / t->bc > 65535)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The grid has more than 65535 blocks along y or z.");
    return 0;
}

const struct template conv2d_simt_cuda = {
    .name = "conv2d_simt.cuda",
    .version = 2,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = conv2d_simt_render,
    .dtypes = DTYPE_BIT(DTYPE_F32),
    .estimate = conv2d_simt_estimate,
    .nest = conv2d_simt_nest,
    .banked = cuda_banked,
};
