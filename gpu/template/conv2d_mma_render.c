/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_mma_render.c: the source of a configuration of conv2d_mma.cu, and its launches. With the shape in the
 * arguments the source depends on the tiling, on how many channels a copy can take, in or out, on the size of the
 * cluster or that the sum is split without one, and on the activation, unless that is none or a bound; with constants,
 * on all.
 */
#include "gpu/template/conv2d_mma.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"

EMBED(conv2d_mma_source, "gpu/template/conv2d_mma.cu");

#define BLOCK 256 /* threads of the kernels with one thread an element */

enum { HAS_BIAS = 1, HAS_RESIDUAL = 2, HALF_BIAS = 4 };

/* ---- the shape ---- */

static void add_input(struct kernel_shape *shape, const struct conv2d_shape *s) {
    kernel_shape_add(shape, "h", s->h);
    kernel_shape_add(shape, "w", s->w);
    kernel_shape_add(shape, "c", s->c);
    kernel_shape_add(shape, "row_stride", s->w * s->c);
    kernel_shape_add(shape, "image_stride", s->h * s->w * s->c);
    kernel_shape_add(shape, "sh", s->sh);
    kernel_shape_add(shape, "sw", s->sw);
    kernel_shape_add(shape, "dh", s->dh);
    kernel_shape_add(shape, "dw", s->dw);
    kernel_shape_add(shape, "pad_h", s->pad_h);
    kernel_shape_add(shape, "pad_w", s->pad_w);
}

static void add_output(struct kernel_shape *shape, const struct conv2d_mma *t) {
    const struct conv2d_shape *s = &t->shape;
    kernel_shape_add(shape, "pixels", t->pixels);
    kernel_shape_add_divisor(shape, "area", s->oh * s->ow);
    kernel_shape_add_divisor(shape, "ow", s->ow);
    kernel_shape_add_divisor(shape, "k", s->k);
    kernel_shape_add(shape, "kg", s->kg);
    kernel_shape_add(shape, "groups", s->groups);
    kernel_shape_add(shape, "tiles_c", t->tiles_c);
}

static void add_sum(struct kernel_shape *shape, const struct conv2d_mma *t) {
    const struct conv2d_shape *s = &t->shape;
    kernel_shape_add(shape, "cg", s->cg);
    kernel_shape_add_divisor(shape, "depth", t->depth);
    kernel_shape_add_divisor(shape, "kw", s->kw);
    kernel_shape_add(shape, "kh", s->kh);
    /* Of a step that is no block of channels. */
    kernel_shape_add(shape, "step_channel", t->bk % t->depth);
    kernel_shape_add(shape, "step_column", t->bk / t->depth % s->kw);
    kernel_shape_add(shape, "step_row", t->bk / t->depth / s->kw);
    kernel_shape_add_divisor(shape, "parts", t->parts);
    kernel_shape_add(shape, "steps_each", t->steps / t->parts);
    kernel_shape_add(shape, "steps_over", t->steps % t->parts);
}

static void add_epilogue(struct kernel_shape *shape, const struct conv2d_mma *t) {
    kernel_shape_add(shape, "flags",
                     (t->shape.bias_in >= 0 ? HAS_BIAS : 0) | (t->shape.residual_in >= 0 ? HAS_RESIDUAL : 0) |
                         (t->half_bias ? HALF_BIAS : 0));
    kernel_shape_add_bounds(shape, &t->shape.epilogue);
}

static void shape_of(const struct conv2d_mma *t, struct kernel_shape *ret) {
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

static void define_tiling(struct buf *source, const struct conv2d_mma *t) {
    define(source, "BP", t->bp);
    define(source, "BC", t->bc);
    define(source, "BK", t->bk);
    define(source, "WP", t->wp);
    define(source, "WC", t->wc);
    define(source, "SLICES", t->slices);
    define(source, "STAGES", t->stages);
    define(source, "THREADS", t->threads);
    define(source, "SWAP", t->swap);
    define(source, "BF16", t->dtype == DTYPE_BF16);
    define(source, "TF32", t->dtype == DTYPE_F32);
    define(source, "VEC", t->vec);
    define(source, "FOURS", t->fours);
    define(source, "BLOCKED", t->blocked);
    define(source, "TAPS", t->taps);
    define(source, "ASYNC", t->async);
    define(source, "EARLY", t->early);
    define(source, "CLUSTER", t->cluster ? t->parts : 1);
    define(source, "SPLIT", t->parts > 1 && !t->cluster);
    define(source, "CONSTANTS", t->constants);
    define(source, "CHECK_COLUMNS", t->check_columns);
}

/* ---- the launches ---- */

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

/* Bias and residual; the input stands for what there is not, and is not read. */
static void add_epilogue_args(struct launch *launch, const struct conv2d_mma *t) {
    add_arg(launch, ARG_IN, t->shape.bias_in >= 0 ? t->shape.bias_in : 0);
    add_arg(launch, ARG_IN, t->shape.residual_in >= 0 ? t->shape.residual_in : 0);
}

static struct launch blocks_of(const char *entry, int64_t elements) {
    return (struct launch){
        .entry = entry, .grid = {(unsigned)((elements + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
}

static size_t *one_size(struct arena *arena, int64_t bytes) {
    size_t *size = arena_array(arena, 1, sizeof *size);
    *size = (size_t)bytes;
    return size;
}

static void add_prepare(struct program *program, const struct conv2d_mma *t, const struct kernel_shape *shape,
                        struct arena *arena) {
    int64_t packed = t->shape.groups * t->tiles_c * t->steps * t->bc * t->bk;
    program->prepared_bytes = one_size(arena, packed * t->element_bytes);
    program->n_prepared = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("conv2d_mma_pack", packed);
    add_arg(&program->prepare[0], ARG_IN, 1);
    add_arg(&program->prepare[0], ARG_PREPARED, 0);
    kernel_shape_pass(shape, t->constants, &program->prepare[0]);
    program->n_prepare = 1;
}

/* Either one kernel that does all, or the parts and their sum. */
static void add_run(struct program *program, const struct conv2d_mma *t, const struct kernel_shape *shape,
                    struct arena *arena) {
    bool split = t->parts > 1 && !t->cluster;
    program->run = arena_array(arena, 2, sizeof *program->run);
    struct launch *product = &program->run[0], *reduce = &program->run[1];
    *product =
        (struct launch){.entry = "conv2d_mma",
                        .grid = {(unsigned)t->tiles_p, (unsigned)t->tiles_c, (unsigned)(t->shape.groups * t->parts)},
                        .block = {(unsigned)t->threads, 1, 1},
                        .shared_bytes = (unsigned)t->shared_bytes,
                        .early = t->early};
    add_arg(product, ARG_IN, 0);
    add_arg(product, ARG_PREPARED, 0);
    add_arg(product, split ? ARG_SCRATCH : ARG_OUT, 0);
    add_epilogue_args(product, t);
    kernel_shape_pass(shape, t->constants, product);
    program->n_run = 1;
    if (!split)
        return;
    program->scratch_bytes = one_size(arena, t->parts * t->pixels * t->shape.k * 4);
    program->n_scratch = 1;
    *reduce = blocks_of("conv2d_mma_reduce", t->pixels * t->shape.k);
    add_arg(reduce, ARG_SCRATCH, 0);
    add_arg(reduce, ARG_OUT, 0);
    add_epilogue_args(reduce, t);
    kernel_shape_pass(shape, t->constants, reduce);
    program->n_run = 2;
}

int conv2d_mma_render(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_mma t = conv2d_mma_of(workload, target, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape;
    if (conv2d_mma_check(&t, target, error) < 0)
        return -1;
    shape_of(&t, &shape);
    kernel_shape_define(&shape, t.constants, &source);
    define_tiling(&source, &t);
    kernel_shape_define_act(&t.shape.epilogue, &source);
    buf_puts(&source, conv2d_mma_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(&source));
    add_prepare(program, &t, &shape, arena);
    add_run(program, &t, &shape, arena);
    *ret = program;
    return 0;
}
