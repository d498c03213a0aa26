/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt_render.c: the source of a configuration of conv2d_simt.cu, and its launches. With the shape in the
 * arguments the source depends on the tiling, the layout, whether channels come in fours, whether the sum is split, and
 * the activation, unless that is none or a bound; with constants, on all.
 */
#include "gpu/template/conv2d_simt.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"

EMBED(conv2d_simt_source, "gpu/template/conv2d_simt.cu");

#define BLOCK 256 /* threads of the kernels with one thread an element */

enum { HAS_BIAS = 1, HAS_RESIDUAL = 2, FOURS = 4 };

/* ---- the shape ---- */

static void add_input(struct kernel_shape *shape, const struct conv2d_shape *s) {
    kernel_shape_add(shape, "h", s->h);
    kernel_shape_add(shape, "w", s->w);
    kernel_shape_add(shape, "row_stride", s->nhwc ? s->w * s->c : s->w);
    kernel_shape_add(shape, "unit_stride", s->nhwc ? s->c : s->h * s->w); /* of columns (NHWC), of channels (NCHW) */
    kernel_shape_add(shape, "image_stride", s->h * s->w * s->c);
    kernel_shape_add(shape, "sh", s->sh);
    kernel_shape_add(shape, "sw", s->sw);
    kernel_shape_add(shape, "dh", s->dh);
    kernel_shape_add(shape, "dw", s->dw);
    kernel_shape_add(shape, "pad_h", s->pad_h);
    kernel_shape_add(shape, "pad_w", s->pad_w);
}

static void add_output(struct kernel_shape *shape, const struct conv2d_simt *t) {
    const struct conv2d_shape *s = &t->shape;
    kernel_shape_add(shape, "pixels", t->pixels);
    kernel_shape_add_divisor(shape, "area", s->oh * s->ow);
    kernel_shape_add_divisor(shape, "ow", s->ow);
    kernel_shape_add_divisor(shape, "k", s->k);
    kernel_shape_add_divisor(shape, "groups", s->groups);
    kernel_shape_add(shape, "kg", s->kg);
    kernel_shape_add(shape, "channels_padded", t->channels_padded);
}

/* k's digits, the fastest first: channel, column and row of the tap (NHWC), or column, row, channel (NCHW). */
static void add_sum(struct kernel_shape *shape, const struct conv2d_simt *t) {
    const struct conv2d_shape *s = &t->shape;
    int64_t inner = s->nhwc ? s->cg : s->kw, middle = s->nhwc ? s->kw : s->kh;
    kernel_shape_add_divisor(shape, "inner", inner);
    kernel_shape_add_divisor(shape, "middle", middle);
    kernel_shape_add(shape, "outer", s->nhwc ? s->kh : s->cg);
    kernel_shape_add(shape, "step_inner", t->a_step % inner);
    kernel_shape_add(shape, "step_middle", t->a_step / inner % middle);
    kernel_shape_add(shape, "step_outer", t->a_step / inner / middle);
    kernel_shape_add(shape, "parts", t->parts);
    kernel_shape_add(shape, "steps_each", t->steps / t->parts);
    kernel_shape_add(shape, "steps_over", t->steps % t->parts);
}

static void add_epilogue(struct kernel_shape *shape, const struct conv2d_simt *t) {
    kernel_shape_add(shape, "flags",
                     (t->shape.bias_in >= 0 ? HAS_BIAS : 0) | (t->shape.residual_in >= 0 ? HAS_RESIDUAL : 0) |
                         (t->fours ? FOURS : 0));
    kernel_shape_add_bounds(shape, &t->shape.epilogue);
}

static void shape_of(const struct conv2d_simt *t, struct kernel_shape *ret) {
    ret->n = 0;
    add_input(ret, &t->shape);
    add_output(ret, t);
    add_sum(ret, t);
    add_epilogue(ret, t);
}

/* ---- the source ---- */

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_tiling(struct buf *source, const struct conv2d_simt *t) {
    define(source, "BP", t->bp);
    define(source, "BC", t->bc);
    define(source, "BK", t->bk);
    define(source, "TP", t->tp);
    define(source, "TC", t->tc);
    define(source, "THREADS", t->threads);
    define(source, "SPLIT", t->parts > 1);
    define(source, "NHWC", t->shape.nhwc);
    define(source, "CONSTANTS", t->constants);
    define(source, "VEC_A", t->vec_a);
    define(source, "CHECK_COLUMNS", t->check_columns);
}

/* ---- the launches ---- */

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

/* Bias, residual (the input stands for what there is not, and is not read), and the shape where it is no constant. */
static void add_rest(struct launch *launch, const struct conv2d_simt *t, const struct kernel_shape *shape,
                     bool epilogue) {
    const int inputs[] = {t->shape.bias_in, t->shape.residual_in};
    for (size_t i = 0; i < ARRAY_COUNT(inputs) && epilogue; i++)
        add_arg(launch, ARG_IN, inputs[i] >= 0 ? inputs[i] : 0);
    kernel_shape_pass(shape, t->constants, launch);
}

static struct launch blocks_of(const char *entry, int64_t elements) {
    return (struct launch){
        .entry = entry, .grid = {(unsigned)((elements + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
}

static size_t *one_size(struct arena *arena, int64_t floats) {
    size_t *size = arena_array(arena, 1, sizeof *size);
    *size = (size_t)floats * sizeof(float);
    return size;
}

static void add_prepare(struct program *program, const struct conv2d_simt *t, const struct kernel_shape *shape,
                        struct arena *arena) {
    int64_t packed = t->shape.groups * t->steps * t->bk * t->channels_padded;
    program->prepared_bytes = one_size(arena, packed);
    program->n_prepared = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("conv2d_simt_pack", packed);
    add_arg(&program->prepare[0], ARG_IN, 1);
    add_arg(&program->prepare[0], ARG_PREPARED, 0);
    add_rest(&program->prepare[0], t, shape, false);
    program->n_prepare = 1;
}

/* Either one kernel that does all, or the parts and their sum. */
static void add_run(struct program *program, const struct conv2d_simt *t, const struct kernel_shape *shape,
                    struct arena *arena) {
    program->run = arena_array(arena, 2, sizeof *program->run);
    struct launch *product = &program->run[0], *reduce = &program->run[1];
    *product = (struct launch){.entry = "conv2d_simt",
                               .grid = {(unsigned)((t->pixels + t->bp - 1) / t->bp),
                                        (unsigned)(t->channels_padded / t->bc), (unsigned)(t->shape.groups * t->parts)},
                               .block = {(unsigned)t->threads, 1, 1}};
    add_arg(product, ARG_IN, 0);
    add_arg(product, ARG_PREPARED, 0);
    add_arg(product, t->parts > 1 ? ARG_SCRATCH : ARG_OUT, 0);
    add_rest(product, t, shape, true);
    program->n_run = 1;
    if (t->parts == 1)
        return;
    program->scratch_bytes = one_size(arena, t->parts * t->pixels * t->shape.k);
    program->n_scratch = 1;
    *reduce = blocks_of("conv2d_simt_reduce", t->pixels * t->shape.k);
    add_arg(reduce, ARG_SCRATCH, 0);
    add_arg(reduce, ARG_OUT, 0);
    add_rest(reduce, t, shape, true);
    program->n_run = 2;
}

int conv2d_simt_render(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_simt t = conv2d_simt_of(workload, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape;
    if (conv2d_simt_check(&t, target, error) < 0)
        return -1;
    shape_of(&t, &shape);
    kernel_shape_define(&shape, t.constants, &source);
    define_tiling(&source, &t);
    kernel_shape_define_act(&t.shape.epilogue, &source);
    buf_puts(&source, conv2d_simt_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(&source));
    add_prepare(program, &t, &shape, arena);
    add_run(program, &t, &shape, arena);
    *ret = program;
    return 0;
}
