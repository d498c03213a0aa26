/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_wgmma_render.c: the source of a configuration of conv2d_wgmma.cu, and its launches. With the shape in the
 * arguments the source depends on the tiling, on whether input channels come in 64s, and on the activation, unless that
 * is none or a bound; with constants, on all.
 */
#include "gpu/template/conv2d_wgmma.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"

EMBED(conv2d_wgmma_source, "gpu/template/conv2d_wgmma.cu");

#define BLOCK 256 /* threads of the kernel with one thread an element */

enum { HAS_BIAS = 1, HAS_RESIDUAL = 2, HALF_BIAS = 4 };

/* ---- the shape ---- */

/* As the product sees it: with few channels, of the padded copy. */
static void add_input(struct kernel_shape *shape, const struct conv2d_wgmma *t) {
    const struct conv2d_shape *s = &t->shape;
    int64_t h = t->narrow ? t->padded_h : s->h, w = t->narrow ? t->padded_w : s->w, c = t->narrow ? 4 : s->c;
    kernel_shape_add(shape, "h", h);
    kernel_shape_add(shape, "w", w);
    kernel_shape_add(shape, "c", c);
    kernel_shape_add(shape, "channels", s->c);
    kernel_shape_add(shape, "row_stride", w * c);
    kernel_shape_add(shape, "image_stride", h * w * c);
    kernel_shape_add(shape, "sh", s->sh);
    kernel_shape_add(shape, "sw", s->sw);
    kernel_shape_add(shape, "dh", s->dh);
    kernel_shape_add(shape, "dw", s->dw);
    kernel_shape_add(shape, "pad_h", t->narrow ? 0 : s->pad_h);
    kernel_shape_add(shape, "pad_w", t->narrow ? 0 : s->pad_w);
    kernel_shape_add_divisor(shape, "kh", s->kh);
    kernel_shape_add_divisor(shape, "kw", s->kw);
}

/* What the copy is made of. */
static void add_narrow(struct kernel_shape *shape, const struct conv2d_wgmma *t) {
    kernel_shape_add(shape, "image_h", t->shape.h);
    kernel_shape_add(shape, "image_w", t->shape.w);
    kernel_shape_add(shape, "margin_h", t->shape.pad_h);
    kernel_shape_add(shape, "margin_w", t->shape.pad_w);
    kernel_shape_add(shape, "padded", t->shape.n * t->padded_h * t->padded_w);
}

static void add_output(struct kernel_shape *shape, const struct conv2d_wgmma *t) {
    const struct conv2d_shape *s = &t->shape;
    kernel_shape_add(shape, "pixels", t->pixels);
    kernel_shape_add_divisor(shape, "area", s->oh * t->line);
    kernel_shape_add_divisor(shape, "ow", t->line);
    kernel_shape_add(shape, "columns", s->ow);
    kernel_shape_add(shape, "k", s->k);
    kernel_shape_add(shape, "tiles", t->tiles);
    kernel_shape_add_divisor(shape, "tiles_c", t->tiles_c);
    kernel_shape_add_divisor(shape, "steps", t->steps);
    kernel_shape_add(shape, "steps_each", t->steps / t->parts);
    kernel_shape_add(shape, "steps_over", t->steps % t->parts);
}

static void shape_of(const struct conv2d_wgmma *t, struct kernel_shape *ret) {
    ret->n = 0;
    add_input(ret, t);
    if (t->narrow)
        add_narrow(ret, t);
    add_output(ret, t);
    kernel_shape_add(ret, "flags",
                     (t->shape.bias_in >= 0 ? HAS_BIAS : 0) | (t->shape.residual_in >= 0 ? HAS_RESIDUAL : 0) |
                         (t->half_bias ? HALF_BIAS : 0));
    kernel_shape_add_bounds(ret, &t->shape.epilogue);
}

/* ---- the source ---- */

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_tiling(struct buf *source, const struct conv2d_wgmma *t) {
    define(source, "BF16", t->bf16);
    define(source, "BP", t->bp);
    define(source, "BC", t->bc);
    define(source, "WM", t->wm);
    define(source, "WN", t->wn);
    define(source, "IN_TURN", t->in_turn);
    define(source, "WIDE", t->wide);
    define(source, "EXTRA", t->extra);
    define(source, "STAGES", t->stages);
    define(source, "CLUSTER", t->parts);
    define(source, "NARROW", t->narrow);
    define(source, "TAPS", t->taps);
    define(source, "WHOLE", t->whole);
    define(source, "CHECK_COLUMNS", t->check_columns);
    define(source, "CONSTANTS", t->constants);
    define(source, "CTAS", t->ctas);
    define(source, "CLAIM", t->claim);
    define(source, "LEAVE", t->leave);
}

/* The instruction names each of its sums. */
static void define_multiply(struct buf *source, const struct conv2d_wgmma *t) {
    int64_t pixels = t->bp / t->wn;
    int sums = (int)(pixels / 2);
    const char *type = t->bf16 ? "bf16" : "f16";
    buf_printf(source, "#define MULTIPLY \"wgmma.mma_async.sync.aligned.m64n%lldk16.f32.%s.%s {", (long long)pixels,
               type, type);
    for (int i = 0; i < sums; i++)
        buf_printf(source, "%s%%%d", i ? "," : "", i);
    buf_printf(source, "}, %%%d, %%%d, 1, 1, 1, 0, 0;\"\n#define MULTIPLY_SUMS(sum) ", sums, sums + 1);
    for (int i = 0; i < sums; i++)
        buf_printf(source, "%s\"+f\"(sum[%d])", i ? ", " : "", i);
    buf_putc(source, '\n');
}

/* ---- the launches ---- */

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

static size_t *one_size(struct arena *arena, int64_t bytes) {
    size_t *size = arena_array(arena, 1, sizeof *size);
    *size = (size_t)bytes;
    return size;
}

static struct launch blocks_of(const char *entry, int64_t elements) {
    return (struct launch){
        .entry = entry, .grid = {(unsigned)((elements + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
}

static void add_prepare(struct program *program, const struct conv2d_wgmma *t, const struct kernel_shape *shape,
                        struct arena *arena) {
    int64_t packed = t->tiles_c * t->steps * t->wide * t->bc * 64;
    program->prepared_bytes = one_size(arena, packed * 2);
    program->n_prepared = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("conv2d_wgmma_pack", packed);
    add_arg(&program->prepare[0], ARG_IN, 1);
    add_arg(&program->prepare[0], ARG_PREPARED, 0);
    kernel_shape_pass(shape, t->constants, &program->prepare[0]);
    program->n_prepare = 1;
}

/* The padded copy goes to scratch memory. */
static void add_copy(struct program *program, const struct conv2d_wgmma *t, struct arena *arena) {
    int64_t pixels = t->shape.n * t->padded_h * t->padded_w;
    struct launch *launch = &program->run[program->n_run++];
    program->scratch_bytes = one_size(arena, pixels * 8);
    program->n_scratch = 1;
    *launch = blocks_of("conv2d_wgmma_pad", pixels);
    launch->early = true;
    add_arg(launch, ARG_IN, 0);
    add_arg(launch, ARG_SCRATCH, 0);
}

static void add_run(struct program *program, const struct conv2d_wgmma *t, const struct target *target,
                    const struct kernel_shape *shape, struct arena *arena) {
    int64_t fit = target->units * t->ctas;
    program->run = arena_array(arena, 2, sizeof *program->run);
    if (t->narrow)
        add_copy(program, t, arena);
    struct launch *launch = &program->run[program->n_run++];
    *launch = (struct launch){.entry = "conv2d_wgmma",
                              .grid = {(unsigned)(t->stays ? fit : t->tiles), 1, (unsigned)t->parts},
                              .block = {(unsigned)t->threads, 1, 1},
                              .shared_bytes = (unsigned)t->shared_bytes,
                              .early = true};
    add_arg(launch, t->narrow ? ARG_SCRATCH : ARG_IN, 0);
    add_arg(launch, ARG_PREPARED, 0);
    add_arg(launch, ARG_OUT, 0);
    /* The input stands for what there is not, and is not read. */
    add_arg(launch, ARG_IN, t->shape.bias_in >= 0 ? t->shape.bias_in : 0);
    add_arg(launch, ARG_IN, t->shape.residual_in >= 0 ? t->shape.residual_in : 0);
    kernel_shape_pass(shape, t->constants, launch);
}

int conv2d_wgmma_render(const struct workload *workload, const struct target *target, const struct space *space,
                        int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_wgmma t = conv2d_wgmma_of(workload, target, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape;
    if (conv2d_wgmma_check(&t, target, error) < 0)
        return -1;
    shape_of(&t, &shape);
    kernel_shape_define(&shape, t.constants, &source);
    define_tiling(&source, &t);
    define_multiply(&source, &t);
    kernel_shape_define_act(&t.shape.epilogue, &source);
    buf_puts(&source, conv2d_wgmma_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    *program = (struct program){0};
    program->source = arena_strdup(arena, buf_str(&source));
    add_prepare(program, &t, &shape, arena);
    add_run(program, &t, target, &shape, arena);
    *ret = program;
    return 0;
}
