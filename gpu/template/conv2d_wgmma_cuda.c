/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_wgmma_cuda.c: the space of conv2d_wgmma.cu: the CTA's tile, its warpgroups, the stages and whether
 * each is a row of taps, how far the sum is
 * split over a cluster, how many CTAs share an SM and whether they stay for more than one tile, and whether the shape
 * is in the source or in the arguments. Serves convolutions of FP16 or BF16 in NHWC on Hopper, without groups and with
 * channels in eights, or at most four on the way in, that are large enough for its tiles.
 *
 * Pixels come in eights, so among the tiles are those that give each SM as much as any other: 6272 pixels and 256
 * channels are 132 tiles of 96 × 128.
 */
#include <string.h>

#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"
#include "gpu/template/conv2d_wgmma.h"
#include "service/model/narrow.h"

#define MIN_CHANNELS 32
#define NARROW_CHANNELS 4
#define SMS_A_TILE 20 /* of 64 × 64; with fewer tiles there are too few CTAs, even with the sum in parts */
#define MOST_TAPS 32
#define MOST_EXTRA 16 /* pixels of a wide step */
#define COPIERS 128   /* threads that copy */
#define MOST_PIXELS 256
#define SUM_LIMIT 128      /* of a thread: more leave no room for the rest */
#define OTHER_REGISTERS 26 /* that all threads must begin with besides one instruction's sums, says ptxas 13.0 */
#define SM_SHARED (228 << 10)
#define MOST_CLAIMED 240
#define MOST_REGISTERS 255

enum { LEAVE, STAY, STAY_IN_TURN }; /* `stays` */
/* The knobs, in their order. */
enum { TILE_P, TILE_C, GROUPS, WIDE, STAGES, SPLIT_K, CTAS, STAYS, SHAPES, N_KNOBS };

/* ---- workloads ---- */

/* Few enough channels for a padded copy with four, of whose pixels those that outputs begin at lie 16 bytes apart. */
static bool is_narrow(const struct conv2d_shape *s) {
    return s->c <= NARROW_CHANNELS && s->sw % 2 == 0 && s->dw == 1;
}

/* Chunks of a row of taps, two of them each. */
static int64_t narrow_of(const struct conv2d_shape *s) {
    return is_narrow(s) ? ceil_div(s->kw, 2) : 0;
}

static int64_t padded_h_of(const struct conv2d_shape *s) {
    return (s->oh - 1) * s->sh + (s->kh - 1) * s->dh + 1;
}

static int64_t padded_w_of(const struct conv2d_shape *s) {
    return (s->ow - 1) * s->sw + narrow_of(s) * 2;
}

static int64_t steps_of(const struct conv2d_shape *s, int64_t wide) {
    return is_narrow(s) ? ceil_div(s->kh * narrow_of(s), 8) : s->kh * s->kw / wide * ceil_div(s->c, 64);
}

/* Whether a step may be a row of taps: their pixels are one another's. */
static bool may_be_wide(const struct conv2d_shape *s) {
    return !is_narrow(s) && s->kw > 1 && s->sw == 1 && (s->kw - 1) * s->dw <= MOST_EXTRA;
}

/* Pixels of a line where steps are wide: with what lies beyond the image after it, unless that is the next one's. */
static int64_t wide_line_of(const struct conv2d_shape *s) {
    int64_t reach = s->ow + (s->kw - 1) * s->dw - s->pad_w, line = s->w + s->pad_w;
    line = line > reach ? line : reach;
    return line > s->ow ? line : s->ow;
}

static bool channels_fit(const struct conv2d_shape *s) {
    return s->k % 8 == 0 && s->k >= MIN_CHANNELS &&
           (is_narrow(s) ? fits_int(s->n * padded_h_of(s) * padded_w_of(s) * 4)
                         : s->c % 8 == 0 && s->c >= MIN_CHANNELS && s->kh * s->kw <= MOST_TAPS);
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    return strcmp(target->arch, "sm_90a") == 0 && dtype_is_narrow(workload->in[0].dtype) &&
           conv2d_tensor_shape(workload, &s) && s.groups == 1 && channels_fit(&s) &&
           ceil_div(s.n * s.oh * s.ow, 64) * ceil_div(s.k, 64) * SMS_A_TILE >= target->units &&
           fits_int(s.n * s.h * s.w * s.c) && fits_int((s.n * s.oh * wide_line_of(&s) + MOST_PIXELS) * s.k) &&
           fits_int((s.k + 256) * (s.c + 64) * s.kh * s.kw);
}

/* ---- the space ---- */

static void add_value(int64_t *values, int *n, int64_t value) {
    int at = 0;
    while (at < *n && values[at] < value)
        at++;
    if (at < *n && values[at] == value)
        return;
    memmove(values + at + 1, values + at, (size_t)(*n - at) * sizeof *values);
    values[at] = value;
    ++*n;
}

static void add_fit(int64_t *values, int *n, int64_t pixels, int64_t tiles) {
    int64_t fit = tiles > 0 ? ceil_div(ceil_div(pixels, tiles), 8) * 8 : 0;
    if (fit >= 32 && fit <= MOST_PIXELS)
        add_value(values, n, fit);
}

/* Powers of two, and what makes one or two turns of the SMs full, or one with the sum in parts. */
static void choose_pixels(struct space *space, const struct conv2d_shape *s, const struct target *target,
                          int64_t most_parts) {
    enum { MOST = 32 };
    int64_t values[MOST] = {32, 64, 128, 192, 256}, lines = s->n * s->oh;
    int n = 5;
    for (int64_t channels = 64; channels <= 128; channels *= 2) {
        int64_t tiles_c = ceil_div(s->k, channels);
        add_fit(values, &n, lines * s->ow, target->units * 2 / tiles_c);
        for (int64_t parts = 1; parts <= most_parts; parts *= 2) {
            add_fit(values, &n, lines * s->ow, conv2d_wgmma_fit(target, parts) / parts / tiles_c);
            if (may_be_wide(s))
                add_fit(values, &n, lines * wide_line_of(s), conv2d_wgmma_fit(target, parts) / parts / tiles_c);
        }
    }
    space_choice(space, "tile_p", values, n);
}

/* `stays`: 1: CTAs go on with further tiles, 2: and their two warpgroups take those in turn; of no use where there are
 * not more than fit. */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t channels[] = {64, 128, 256}, groups[] = {1, 2}, stages[] = {2, 3, 4, 6},
                         splits[] = {1, 2, 4, 8}, ctas[] = {1, 2}, stays[] = {LEAVE, STAY, STAY_IN_TURN},
                         wide[] = {0, 1}, shapes[] = {ARGUMENTS, CONSTANTS};
    struct conv2d_shape s = {0};
    struct space *space = space_new(arena);
    conv2d_tensor_shape(workload, &s);
    int64_t steps = steps_of(&s, 1);
    int n_splits = steps >= 32 ? 4 : steps >= 16 ? 3 : steps >= 8 ? 2 : 1;
    choose_pixels(space, &s, target, splits[n_splits - 1]);
    space_choice(space, "tile_c", channels, s.k > 128 ? 3 : s.k > 64 ? 2 : 1);
    space_choice(space, "groups", groups, ARRAY_COUNT(groups));
    space_choice(space, "wide", wide, 1 + may_be_wide(&s));
    space_choice(space, "stages", stages, ARRAY_COUNT(stages));
    space_choice(space, "split_k", splits, n_splits);
    space_choice(space, "ctas", ctas, ARRAY_COUNT(ctas));
    space_choice(space, "stays", stays, ARRAY_COUNT(stays));
    space_choice(space, "shapes", shapes + is_narrow(&s), ARRAY_COUNT(shapes) - is_narrow(&s));
    return space;
}

/* The best by the estimate, with the shape as constants; the first of equals. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    struct conv2d_shape s = {0};
    conv2d_tensor_shape(workload, &s);
    return cuda_best_estimated(conv2d_wgmma_estimate, workload, target, space, is_narrow(&s) ? 0 : space->size / 2);
}

/* ---- a configuration ---- */

/* All at once: the estimate is asked for every configuration. */
static void values_of(const struct space *space, int64_t index, int64_t *ret) {
    int64_t digit[SPACE_MAX_KNOBS];
    space_digits(space, index, digit);
    for (int k = 0; k < N_KNOBS; k++)
        ret[k] = space->knobs[k].values[digit[k]];
}

/* CTAs that run at a time, one an SM. Of clusters of four 28 always fitted an H200's 132 SMs and 32 never: a cluster
 * must find its SMs in one part of the chip, and those are not all of one size. */
int64_t conv2d_wgmma_fit(const struct target *target, int64_t parts) {
    int64_t sixteens = target->units / 16;
    return parts <= 2 ? target->units : sixteens > 2 ? (sixteens - 1) * 16 : parts;
}

/* Along channels first: there a warpgroup reads 64 rows, along pixels as many as it has. */
static void arrange(struct conv2d_wgmma *t) {
    if (t->in_turn) {
        t->wm = t->wn = t->groups == 2;
        return;
    }
    int64_t wm = t->groups < t->bc / 64 ? t->groups : t->bc / 64, wn = t->groups / wm;
    if (t->bp % (wn * 8) != 0)
        return;
    t->wm = wm;
    t->wn = wn;
}

/*
 * What NVRTC 13 makes. Where all threads' share is too little for those that multiply, they take what the copying ones
 * leave.
 */
static void add_registers(struct conv2d_wgmma *t, const struct target *target) {
    t->sums = t->bc / 64 / t->wm * (t->bp / t->wn) / 2;
    t->registers = t->sums + 2 * (t->bc / 64 / t->wm) + 40;
    t->cap = target->registers / (t->threads * t->ctas) / 8 * 8;
    t->cap = t->cap < MOST_REGISTERS ? t->cap : MOST_REGISTERS;
    if (t->registers <= t->cap)
        return;
    t->leave = ceil_div(2 * ceil_div((t->bp + t->extra) * 8, COPIERS) + 32, 8) * 8;
    t->claim = (t->cap * t->threads - t->leave * COPIERS) / (t->groups * 128) / 8 * 8;
    t->claim = t->claim < MOST_CLAIMED ? t->claim : MOST_CLAIMED;
}

static int64_t stage_bytes(const struct conv2d_wgmma *t) {
    return (ceil_div(t->bp + t->extra, 8) * 8 + t->wide * t->bc) * 128;
}

static void add_costs(struct conv2d_wgmma *t, const struct target *target) {
    t->threads = COPIERS + 128 * t->groups;
    t->shared_bytes = t->stages * stage_bytes(t) + t->stages * 16 + t->bp * t->bc * 2;
    if (t->in_turn)
        t->shared_bytes += t->bp * t->bc * 2 + 16;
    if (t->wm)
        add_registers(t, target);
}

struct conv2d_wgmma conv2d_wgmma_of(const struct workload *workload, const struct target *target,
                                    const struct space *space, int64_t index) {
    int64_t value[N_KNOBS];
    values_of(space, index, value);
    struct conv2d_wgmma t = {.bp = value[TILE_P],
                             .bc = value[TILE_C],
                             .groups = value[GROUPS],
                             .stages = value[STAGES],
                             .parts = value[SPLIT_K],
                             .ctas = value[CTAS],
                             .stays = value[STAYS] != LEAVE,
                             .in_turn = value[STAYS] == STAY_IN_TURN,
                             .constants = value[SHAPES] == CONSTANTS};
    const struct conv2d_shape *s = &t.shape;
    conv2d_tensor_shape(workload, &t.shape);
    bool wide = value[WIDE] != 0;
    t.wide = wide ? s->kw : 1;
    t.extra = wide ? (s->kw - 1) * s->dw : 0;
    t.line = wide ? wide_line_of(s) : s->ow;
    t.pixels = s->n * s->oh * t.line;
    t.narrow = narrow_of(s);
    t.padded_h = padded_h_of(s);
    t.padded_w = padded_w_of(s);
    t.steps = steps_of(s, t.wide);
    t.tiles_p = ceil_div(t.pixels, t.bp);
    t.tiles_c = ceil_div(s->k, t.bc);
    t.tiles = t.tiles_p * t.tiles_c;
    t.whole = s->c % 64 == 0;
    t.half_bias = s->bias_in >= 0 && dtype_is_narrow(workload->in[s->bias_in].dtype);
    t.bf16 = workload->in[0].dtype == DTYPE_BF16;
    t.check_columns = !t.constants || wide || s->pad_w != 0 || (s->ow - 1) * s->sw + (s->kw - 1) * s->dw >= s->w;
    t.taps = !t.narrow && (!t.constants || s->kh * s->kw > 1);
    arrange(&t);
    add_costs(&t, target);
    return t;
}

static int check_device(const struct conv2d_wgmma *t, const struct target *target, struct error *error) {
    int64_t most = SM_SHARED / t->ctas - 1024;
    most = most < target->shared_bytes ? most : target->shared_bytes;
    if (t->shared_bytes > most)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "A block needs %lld bytes of shared memory, and may have %lld.", (long long)t->shared_bytes,
                         (long long)most);
    if (t->sums > SUM_LIMIT || t->bp / t->wn / 2 + OTHER_REGISTERS > t->cap ||
        t->registers > (t->claim ? t->claim : t->cap))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread needs about %lld registers.",
                         (long long)t->registers);
    return 0;
}

static int check_parts(const struct conv2d_wgmma *t, struct error *error) {
    if (t->parts == 1)
        return 0;
    if (t->stays)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "CTAs of a cluster do not stay.");
    /* Of 16 pixels and 64 channels of a warpgroup. */
    int64_t pieces = t->bc / 64 / t->wm * ceil_div(t->bp / t->wn, 16), each = ceil_div(pieces, t->parts);
    if (t->parts > t->steps || t->parts > pieces)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "%lld steps of %lld pixels cannot be split into %lld parts.", (long long)t->steps,
                         (long long)t->bp, (long long)t->parts);
    if ((t->parts - 1) * each * t->groups * 4096 > t->stages * stage_bytes(t))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld stages have no room for the sums.",
                         (long long)t->stages);
    return 0;
}

int conv2d_wgmma_check(const struct conv2d_wgmma *t, const struct target *target, struct error *error) {
    if (t->wm == 0 && t->in_turn)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "One warpgroup has none to take turns with.");
    if (t->wm == 0)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "%lld pixels cannot be shared by %lld warpgroups.", (long long)t->bp, (long long)t->groups);
    if (t->bc / 64 / t->wm * t->wm * 64 != t->bc)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "%lld channels cannot be shared by %lld warpgroups.", (long long)t->bc, (long long)t->groups);
    if (check_device(t, target, error) < 0)
        return -1;
    if (t->stays && t->tiles <= target->units * t->ctas)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "No CTA has more than one tile to stay for.");
    return check_parts(t, error);
}

const struct template conv2d_wgmma_cuda = {
    .name = "conv2d_wgmma.cuda",
    .version = 2,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = conv2d_wgmma_render,
    .dtypes = DTYPE_BIT(DTYPE_F16) | DTYPE_BIT(DTYPE_BF16),
    .estimate = conv2d_wgmma_estimate,
    .nest = conv2d_wgmma_nest,
    .banked = cuda_banked,
};
