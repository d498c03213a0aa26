/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channelwise_render.c: the source of a configuration of channelwise.cu, and its launches. With the shape in the
 * arguments the source depends on the tiling, the window, types, layout, and what the epilogue has; with constants, on
 * all.
 */
#include "gpu/template/channelwise.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"

EMBED(channelwise_source, "gpu/template/channelwise.cu");

#define BLOCK 256 /* threads of the kernel that packs */

/* ---- the shape ---- */

static void shape_of(const struct channelwise *t, struct kernel_shape *ret) {
    const struct conv2d_shape *s = &t->shape;
    ret->n = 0;
    kernel_shape_add(ret, "h", s->h);
    kernel_shape_add(ret, "w", s->w);
    kernel_shape_add(ret, "oh", s->oh);
    kernel_shape_add(ret, "ow", s->ow);
    kernel_shape_add(ret, "pad_h", s->pad_h);
    kernel_shape_add(ret, "pad_w", s->pad_w);
    kernel_shape_add(ret, "in_unit", s->nhwc ? s->c : 1);
    kernel_shape_add(ret, "in_row", s->nhwc ? s->w * s->c : s->w);
    kernel_shape_add(ret, "in_channel", s->nhwc ? 1 : s->h * s->w);
    kernel_shape_add(ret, "in_image", s->h * s->w * s->c);
    kernel_shape_add(ret, "out_unit", s->nhwc ? s->k : 1);
    kernel_shape_add(ret, "out_row", s->nhwc ? s->ow * s->k : s->ow);
    kernel_shape_add(ret, "out_channel", s->nhwc ? 1 : s->oh * s->ow);
    kernel_shape_add(ret, "out_image", s->oh * s->ow * s->k);
    kernel_shape_add(ret, "items", t->items);
    kernel_shape_add_divisor(ret, "vectors", t->vectors);
    kernel_shape_add_divisor(ret, "tiles_x", t->tiles_x);
    kernel_shape_add_divisor(ret, "tiles_y", t->tiles_y);
    kernel_shape_add_divisor(ret, "k", s->k);
    kernel_shape_add_divisor(ret, "multiplier", s->kg);
    if (t->kind == CHANNELWISE_AVERAGE) {
        kernel_shape_add(ret, "count_top", t->count_top);
        kernel_shape_add(ret, "count_left", t->count_left);
        kernel_shape_add(ret, "count_h", t->count_h);
        kernel_shape_add(ret, "count_w", t->count_w);
    }
    kernel_shape_add_bounds(ret, &s->epilogue);
}

/* ---- the source ---- */

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_tiling(struct buf *source, const struct channelwise *t) {
    const struct conv2d_shape *s = &t->shape;
    define(source, "VEC", t->vec);
    define(source, "TX", t->tx);
    define(source, "TY", t->ty);
    define(source, "THREADS", t->threads);
    define(source, "KH", s->kh);
    define(source, "KW", s->kw);
    define(source, "SH", s->sh);
    define(source, "SW", s->sw);
    define(source, "DH", s->dh);
    define(source, "DW", s->dw);
    define(source, "ROLLED", t->rolled);
    define(source, "KIND", t->kind);
    define(source, "HALF", t->half);
    define(source, "NHWC", s->nhwc);
    define(source, "BIAS", s->bias_in >= 0);
    define(source, "HALF_BIAS", t->half_bias);
    define(source, "RESIDUAL", s->residual_in >= 0);
    define(source, "MULTIPLE", s->kg > 1);
    define(source, "EARLY", t->early);
    define(source, "CONSTANTS", t->constants);
}

/* ---- the launches ---- */

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

static struct launch blocks_of(const char *entry, int64_t elements, int64_t threads) {
    return (struct launch){.entry = entry,
                           .grid = {(unsigned)((elements + threads - 1) / threads), 1, 1},
                           .block = {(unsigned)threads, 1, 1}};
}

static void add_prepare(struct program *program, const struct channelwise *t, const struct kernel_shape *shape,
                        struct arena *arena) {
    const struct conv2d_shape *s = &t->shape;
    int64_t weights = s->kh * s->kw * s->k;
    program->prepared_bytes = arena_array(arena, 2, sizeof *program->prepared_bytes);
    program->prepared_bytes[0] = (size_t)weights * (t->half ? 2 : 4);
    program->prepared_bytes[1] = (size_t)s->k * sizeof(float);
    program->n_prepared = s->bias_in >= 0 ? 2 : 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("channelwise_pack", weights, BLOCK);
    add_arg(&program->prepare[0], ARG_IN, 1);
    add_arg(&program->prepare[0], ARG_IN, s->bias_in >= 0 ? s->bias_in : 1);
    add_arg(&program->prepare[0], ARG_PREPARED, 0);
    add_arg(&program->prepare[0], ARG_PREPARED, program->n_prepared - 1);
    kernel_shape_pass(shape, t->constants, &program->prepare[0]);
    program->n_prepare = 1;
}

/* What there is not is the input, and not read. */
static void add_run(struct program *program, const struct channelwise *t, const struct kernel_shape *shape,
                    struct arena *arena) {
    const struct conv2d_shape *s = &t->shape;
    bool conv = t->kind == CHANNELWISE_CONV;
    struct launch *run = program->run = arena_array(arena, 1, sizeof *program->run);
    *run = blocks_of("channelwise", t->items, t->threads);
    run->early = t->early;
    add_arg(run, ARG_IN, 0);
    add_arg(run, conv ? ARG_PREPARED : ARG_IN, 0);
    add_arg(run, conv ? ARG_PREPARED : ARG_IN, conv && s->bias_in >= 0 ? 1 : 0);
    add_arg(run, ARG_IN, s->residual_in >= 0 ? s->residual_in : 0);
    add_arg(run, ARG_OUT, 0);
    kernel_shape_pass(shape, t->constants, run);
    program->n_run = 1;
}

int channelwise_render(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct channelwise t = channelwise_of(workload, target, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape;
    if (channelwise_check(&t, target, error) < 0)
        return -1;
    shape_of(&t, &shape);
    kernel_shape_define(&shape, t.constants, &source);
    define_tiling(&source, &t);
    kernel_shape_define_act(&t.shape.epilogue, &source);
    buf_puts(&source, channelwise_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    *program = (struct program){.source = arena_strdup(arena, buf_str(&source))};
    if (t.kind == CHANNELWISE_CONV)
        add_prepare(program, &t, &shape, arena);
    add_run(program, &t, &shape, arena);
    *ret = program;
    return 0;
}
