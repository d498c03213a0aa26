/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_depthwise_cuda.c: AutoTVM's space depthwise_conv2d_nchw.cuda, rendered with autotvm_depthwise.cu, so that its
 * records can be used and its search be repeated. Serves convolutions in FP32, NCHW, whose groups are the channels,
 * with any number of filters for each.
 */
#include "gpu/template/autotvm_tile.h"
#include "gpu/template/builtin.h"
#include "gpu/template/embed.h"

EMBED(autotvm_depthwise_source, "gpu/template/autotvm_depthwise.cu");

/* So that there are configurations that can be: images along the grid, and one window in shared memory. */
enum { MOST_IMAGES = 65535, MOST_WINDOW = 4096 };

enum { TILE_F, TILE_Y, TILE_X, UNROLL };

static bool shape_of(const struct workload *workload, struct conv2d_shape *ret) {
    return workload->op == OP_CONV && conv2d_shape_of(workload, ret) && !ret->nhwc && ret->cg == 1;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return shape_of(workload, &s) && fits_int(s.n * s.c * s.h * s.w) && fits_int(s.n * s.k * s.oh * s.ow) &&
           fits_int(s.k * s.kh * s.kw) && s.n <= MOST_IMAGES &&
           ((s.kh - 1) * s.dh + 1) * ((s.kw - 1) * s.dw + 1) <= MOST_WINDOW;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct conv2d_shape s;
    struct space *space = space_new(arena);
    (void)target;
    if (!shape_of(workload, &s))
        return space;
    space_split(space, "tile_f", s.k, 4);
    space_split(space, "tile_y", s.oh, 4);
    space_split(space, "tile_x", s.ow, 4);
    tile_unroll_knobs(space, (const int64_t[]){0, 256, 1500});
    return space;
}

/* ---- rendering ---- */

struct config {
    struct tile f, y, x;
    int64_t multiplier, channels; /* output channels of an input channel; input channels that a block reads */
    int64_t in_y, in_x;           /* the part of the input that it reads */
    int64_t threads, sums;
    bool unroll_taps;
};

static struct config config_of(const struct conv2d_shape *s, const struct space *space, int64_t index) {
    struct config c = {.f = tile_of(space, index, "tile_f"),
                       .y = tile_of(space, index, "tile_y"),
                       .x = tile_of(space, index, "tile_x"),
                       .multiplier = s->kg};
    bool aligned = c.f.size % c.multiplier == 0 || c.multiplier % c.f.size == 0;
    c.channels = (c.f.size + c.multiplier - 1) / c.multiplier + !aligned;
    c.in_y = (c.y.size - 1) * s->sh + (s->kh - 1) * s->dh + 1;
    c.in_x = (c.x.size - 1) * s->sw + (s->kw - 1) * s->dw + 1;
    c.threads = c.f.threads * c.y.threads * c.x.threads;
    c.sums = c.f.sums * c.y.sums * c.x.sums;
    c.unroll_taps = tile_unrolls(space, index, c.sums * s->kh * s->kw, (c.sums + c.f.sums) * s->kh * s->kw);
    return c;
}

static struct launch launch_of(const struct conv2d_shape *s, const struct config *c) {
    struct launch launch = {
        .entry = "depthwise",
        .grid = {(unsigned)c->x.blocks, (unsigned)c->y.blocks, (unsigned)(s->n * c->f.blocks)},
        .block = {(unsigned)c->x.threads, (unsigned)c->y.threads, (unsigned)c->f.threads},
        .n_args = 3,
        .args = {{ARG_IN, 0}, {ARG_IN, 1}, {ARG_OUT, 0}},
    };
    launch_add_epilogue(&launch, s);
    return launch;
}

static int check(const struct conv2d_shape *s, const struct config *c, const struct target *target,
                 struct error *error) {
    struct launch launch = launch_of(s, c);
    int64_t shared = c->channels * c->in_y * c->in_x + c->f.size * s->kh * s->kw;
    return launch_check(&launch, shared * (int64_t)sizeof(float), target, error);
}

static void define_shape(struct buf *source, const struct conv2d_shape *s) {
    const struct {
        const char *name;
        int64_t value;
    } macros[] = {
        {"C_", s->c},   {"H_", s->h},   {"W_", s->w},        {"K_", s->k},        {"OH_", s->oh},
        {"OW_", s->ow}, {"KH_", s->kh}, {"KW_", s->kw},      {"SH_", s->sh},      {"SW_", s->sw},
        {"DH_", s->dh}, {"DW_", s->dw}, {"PAD_H", s->pad_h}, {"PAD_W", s->pad_w},
    };
    for (size_t i = 0; i < ARRAY_COUNT(macros); i++)
        define_int(source, macros[i].name, macros[i].value);
}

static void define_config(struct buf *source, const struct config *c) {
    tile_define(source, "F", &c->f);
    tile_define(source, "Y", &c->y);
    tile_define(source, "X", &c->x);
    define_int(source, "MULTIPLIER", c->multiplier);
    define_int(source, "CHANNELS", c->channels);
    define_unroll_sums(source, c->sums);
    define_unroll(source, "UNROLL_TAPS", c->unroll_taps);
    define_unroll(source, "UNROLL_LOADS", c->channels * c->in_y * c->in_x <= TILE_MOST_UNROLLED_LOADS * c->threads);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_shape s;
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (!shape_of(workload, &s))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "This is no depthwise convolution.");
    struct config c = config_of(&s, space, index);
    if (check(&s, &c, target, error) < 0)
        return -1;
    define_shape(&source, &s);
    define_config(&source, &c);
    define_epilogue(&source, &s);
    buf_puts(&source, autotvm_depthwise_source);
    struct launch launch = launch_of(&s, &c);
    return program_of_launch(&source, &launch, arena, ret, error);
}

/* Up to 256 threads over an image of few channels, a line of up to 64 pixels and four lines a thread; fewer where that
 * much input does not fit, more channels where the grid would be too deep. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    struct conv2d_shape s;
    int64_t digit[SPACE_MAX_KNOBS] = {[UNROLL] = 2, [UNROLL + 1] = 1};
    if (!shape_of(workload, &s))
        return 0;
    for (int64_t channels = 1; channels <= s.k; channels *= 2) {
        for (int64_t threads = 256; threads > 0; threads /= 2) {
            digit[TILE_F] = tile_pick(space, TILE_F, 1, channels);
            digit[TILE_X] = tile_pick(space, TILE_X, threads < 64 ? threads : 64, 1);
            const struct knob *x = &space->knobs[TILE_X];
            int64_t columns = x->values[digit[TILE_X] * x->parts + 2];
            digit[TILE_Y] = tile_pick(space, TILE_Y, threads / columns, threads > 1 ? 4 : 1);
            int64_t index = space_index(space, digit);
            struct config c = config_of(&s, space, index);
            if (check(&s, &c, target, NULL) == 0)
                return index;
        }
    }
    return 0;
}

/* ---- features ---- */

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct conv2d_shape s;
    (void)target;
    nest_begin_staged(ret);
    if (!shape_of(workload, &s))
        return;
    const struct config c = config_of(&s, space, index);
    const struct tile *f = &c.f, *y = &c.y, *x = &c.x;
    enum loop_kind taps_kind = c.unroll_taps ? LOOP_UNROLLED : LOOP_SERIAL;
    int64_t taps = s.kh * s.kw, image = s.h * s.w, out = s.oh * s.ow, staged = c.in_y * c.in_x;
    const int64_t along_n[] = {s.c * image, 0, 0, 0, s.k * out};
    const int64_t along_f[] = {image / c.multiplier, taps, staged / c.multiplier, taps, out};
    const int64_t along_y[] = {s.sh * s.w, 0, s.sh * c.in_x, 0, s.ow}, along_x[] = {s.sw, 0, s.sw, 0, 1};
    const int64_t along_r[] = {s.dh * s.w, s.kw, s.dh * c.in_x, s.kw, 0}, along_s[] = {s.dw, 1, s.dw, 1, 0};
    nest_loop(ret, LOOP_BLOCK_Z, s.n, 1, along_n);
    nest_loop(ret, LOOP_BLOCK_Z, f->blocks, f->size, along_f);
    nest_loop(ret, LOOP_BLOCK_Y, y->blocks, y->size, along_y);
    nest_loop(ret, LOOP_BLOCK_X, x->blocks, x->size, along_x);
    nest_loop(ret, LOOP_VTHREAD, f->vthreads, f->threads * f->inner, along_f);
    nest_loop(ret, LOOP_VTHREAD, y->vthreads, y->threads * y->inner, along_y);
    nest_loop(ret, LOOP_VTHREAD, x->vthreads, x->threads * x->inner, along_x);
    nest_loop(ret, LOOP_THREAD_Z, f->threads, f->inner, along_f);
    nest_loop(ret, LOOP_THREAD_Y, y->threads, y->inner, along_y);
    nest_loop(ret, LOOP_THREAD_X, x->threads, x->inner, along_x);
    nest_loop(ret, taps_kind, s.kh, 1, along_r);
    nest_loop(ret, taps_kind, s.kw, 1, along_s);
    nest_loop(ret, LOOP_UNROLLED, f->inner, 1, along_f);
    nest_loop(ret, LOOP_UNROLLED, y->inner, 1, along_y);
    nest_loop(ret, LOOP_UNROLLED, x->inner, 1, along_x);
}

const struct template autotvm_depthwise_cuda = {
    .name = "depthwise_conv2d_nchw.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = render,
    .dtypes = DTYPE_BIT(DTYPE_F32),
    .by_name = true,
    .nest = nest,
};
