/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_dense_small_cuda.c: AutoTVM's space dense_small_batch.gpu, rendered with autotvm_dense_small.cu. Its one knob
 * divides the sum over k: the inner factor is the number of threads that share it. Serves dense layers in FP32 of fewer
 * than 32 samples, as AutoTVM does.
 */
#include "gpu/template/autotvm_tile.h"
#include "gpu/template/builtin.h"
#include "gpu/template/embed.h"

EMBED(autotvm_dense_small_source, "gpu/template/autotvm_dense_small.cu");

enum { FIRST_LARGE_BATCH = 32, FALLBACK_THREADS = 256 };

/* In the shape's terms: ow samples of c inputs and k outputs. */
static bool shape_of(const struct workload *workload, struct conv2d_shape *ret) {
    return workload->op == OP_DENSE && conv2d_shape_of(workload, ret) && ret->ow < FIRST_LARGE_BATCH;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return shape_of(workload, &s) && fits_int(s.ow * s.c) && fits_int(s.k * s.c) && fits_int(s.ow * s.k);
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct space *space = space_new(arena);
    (void)target;
    space_split(space, "tile_k", workload->in[0].shape.dim[1], 2);
    return space;
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    (void)workload;
    int64_t most = target->max_threads < FALLBACK_THREADS ? target->max_threads : FALLBACK_THREADS;
    return tile_pick_factor(space, 0, 1, most);
}

static struct launch launch_of(const struct conv2d_shape *s, int64_t threads) {
    struct launch launch = {
        .entry = "dense_small",
        .grid = {(unsigned)s->k, (unsigned)s->ow, 1},
        .block = {(unsigned)threads, 1, 1},
        .n_args = 3,
        .args = {{ARG_IN, 0}, {ARG_IN, 1}, {ARG_OUT, 0}},
    };
    launch_add_epilogue(&launch, s);
    return launch;
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_shape s;
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (!shape_of(workload, &s))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "This is no dense layer of few samples.");
    int64_t threads = space_value(space, index, "tile_k", 1);
    struct launch launch = launch_of(&s, threads);
    if (launch_check(&launch, threads * (int64_t)sizeof(float), target, error) < 0)
        return -1;
    define_int(&source, "DEPTH", s.c);
    define_int(&source, "COLUMNS", s.k);
    define_int(&source, "THREADS", threads);
    define_epilogue(&source, &s);
    buf_puts(&source, autotvm_dense_small_source);
    return program_of_launch(&source, &launch, arena, ret, error);
}

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct conv2d_shape s;
    (void)target;
    *ret = (struct loop_nest){.n_accesses = 3,
                              .accesses = {{.name = "data"}, {.name = "kernel"}, {.name = "output", .writes = true}},
                              .additions = 1,
                              .multiplications = 1};
    if (!shape_of(workload, &s))
        return;
    int64_t threads = space_value(space, index, "tile_k", 1);
    const int64_t along_rows[] = {s.c, 0, s.k}, along_columns[] = {0, s.c, 1}, along_k[] = {1, 1, 0};
    nest_loop(ret, LOOP_BLOCK_Y, s.ow, 1, along_rows);
    nest_loop(ret, LOOP_BLOCK_X, s.k, 1, along_columns);
    nest_loop(ret, LOOP_THREAD_X, threads, 1, along_k);
    nest_loop(ret, LOOP_SERIAL, s.c / threads, threads, along_k);
}

const struct template autotvm_dense_small_cuda = {
    .name = "dense_small_batch.gpu",
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
