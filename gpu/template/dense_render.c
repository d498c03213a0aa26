/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_render.c: the source of a configuration of dense.cu, and its launch. With the shape in the arguments the source
 * depends on the tiling, the samples, types, how K divides, and what the epilogue has; with constants, on all.
 */
#include "gpu/template/dense.h"
#include "gpu/template/embed.h"
#include "gpu/template/kernel_shape.h"

EMBED(dense_source, "gpu/template/dense.cu");

static void shape_of(const struct dense *t, struct kernel_shape *ret) {
    ret->n = 0;
    kernel_shape_add(ret, "n", t->n);
    kernel_shape_add(ret, "k", t->k);
    kernel_shape_add(ret, "vectors", t->vectors);
    kernel_shape_add_bounds(ret, &t->epilogue);
}

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_tiling(struct buf *source, const struct dense *t) {
    define(source, "HALF", t->half);
    define(source, "VEC", t->vec);
    define(source, "SAMPLES", t->m);
    define(source, "ROWS", t->rows);
    define(source, "UNROLL", t->unroll);
    define(source, "WN", t->wn);
    define(source, "WK", t->wk);
    define(source, "PARTS", t->parts);
    define(source, "BIAS", t->bias_in >= 0);
    define(source, "HALF_BIAS", t->half_bias);
    define(source, "RESIDUAL", t->residual_in >= 0);
    define(source, "EARLY", t->early);
}

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

/* Bias and residual: the input stands for what there is not, and is not read. */
static void add_run(struct program *program, const struct dense *t, const struct kernel_shape *shape,
                    struct arena *arena) {
    struct launch *run = program->run = arena_array(arena, 1, sizeof *program->run);
    *run = (struct launch){.entry = "dense",
                           .grid = {(unsigned)t->tiles, 1, (unsigned)t->parts},
                           .block = {(unsigned)t->threads, 1, 1},
                           .shared_bytes = (unsigned)t->shared_bytes,
                           .early = t->early};
    add_arg(run, ARG_IN, 0);
    add_arg(run, ARG_IN, 1);
    add_arg(run, ARG_IN, t->bias_in >= 0 ? t->bias_in : 0);
    add_arg(run, ARG_IN, t->residual_in >= 0 ? t->residual_in : 0);
    add_arg(run, ARG_OUT, 0);
    kernel_shape_pass(shape, t->constants, run);
    program->n_run = 1;
}

int dense_render(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct arena *arena, struct program **ret, struct error *error) {
    struct dense t = dense_of(workload, target, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct kernel_shape shape;
    if (dense_check(&t, target, error) < 0)
        return -1;
    shape_of(&t, &shape);
    kernel_shape_define(&shape, t.constants, &source);
    define_tiling(&source, &t);
    kernel_shape_define_act(&t.epilogue, &source);
    buf_puts(&source, dense_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    *program = (struct program){.source = arena_strdup(arena, buf_str(&source))};
    add_run(program, &t, &shape, arena);
    *ret = program;
    return 0;
}
