/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_dense_large_cuda.c: AutoTVM's space dense_large_batch.gpu, rendered with autotvm_dense_large.cu. Its knobs
 * divide samples, outputs and the sum over k, and list only what AutoTVM thought promising: tiles of 64 or 128 with 2
 * to 64 vthreads and 8 to 64 threads, and more than 2 steps over k. Where that leaves a knob nothing, as with an extent
 * that 64 does not divide, all three are listed in full. Serves dense layers in FP32 of 32 samples and more.
 */
#include "gpu/template/autotvm_tile.h"
#include "gpu/template/builtin.h"
#include "gpu/template/embed.h"

EMBED(autotvm_dense_large_source, "gpu/template/autotvm_dense_large.cu");

enum { FIRST_LARGE_BATCH = 32, MOST_UNROLLED_STEPS = 1500, COPIES = 2, KNOBS = 3 };
enum { TILE_X, TILE_Y, TILE_K };

/* In the shape's terms: ow samples of c inputs and k outputs. */
static bool shape_of(const struct workload *workload, struct conv2d_shape *ret) {
    return workload->op == OP_DENSE && conv2d_shape_of(workload, ret) && ret->ow >= FIRST_LARGE_BATCH;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return shape_of(workload, &s) && fits_int(s.ow * s.c) && fits_int(s.k * s.c) && fits_int(s.ow * s.k);
}

/* ---- space ---- */

static bool is_power_of_2_within(int64_t n, int64_t least, int64_t most) {
    return n >= least && n <= most && (n & (n - 1)) == 0;
}

static bool promises(const struct knob *knob, const int64_t *factors) {
    if (knob->parts == 3)
        return factors[0] > 2;
    int64_t size = factors[1] * factors[2] * factors[3];
    return is_power_of_2_within(factors[1], 2, 64) && is_power_of_2_within(factors[2], 8, 64) &&
           (size == 64 || size == 128);
}

/* Adds a knob of those candidates alone that promise something; false when none does. */
static bool add_filtered(struct space *space, const struct knob *knob) {
    int64_t *values = arena_array(space->arena, (size_t)(knob->n_candidates * knob->parts), sizeof *values), n = 0;
    for (int64_t i = 0; i < knob->n_candidates; i++) {
        const int64_t *factors = knob->values + i * knob->parts;
        if (!promises(knob, factors))
            continue;
        for (int part = 0; part < knob->parts; part++)
            values[n * knob->parts + part] = factors[part];
        n++;
    }
    if (n > 0)
        space_split_list(space, knob->name, knob->extent, knob->parts, values, n);
    return n > 0;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct space *full = space_new(arena), *space = space_new(arena);
    bool all = true;
    (void)target;
    space_split(full, "tile_x", workload->in[0].shape.dim[0], 4);
    space_split(full, "tile_y", workload->in[1].shape.dim[0], 4);
    space_split(full, "tile_k", workload->in[0].shape.dim[1], 3);
    for (int i = 0; i < KNOBS && all; i++)
        all = add_filtered(space, &full->knobs[i]);
    return all ? space : full;
}

/* ---- rendering ---- */

struct config {
    struct tile x, y;
    int64_t steps, middle, inner; /* of k */
};

static struct config config_of(const struct space *space, int64_t index) {
    return (struct config){.x = tile_of(space, index, "tile_x"),
                           .y = tile_of(space, index, "tile_y"),
                           .steps = space_value(space, index, "tile_k", 0),
                           .middle = space_value(space, index, "tile_k", 1),
                           .inner = space_value(space, index, "tile_k", 2)};
}

/* AutoTVM always unrolls the loop over `middle`. The source holds the product twice. */
static bool unrolls_middle(const struct config *c) {
    int64_t k = c->middle * c->inner;
    return COPIES * k * c->x.sums * c->y.sums <= MOST_UNROLLED_STEPS &&
           COPIES * k * (c->x.sums + c->y.sums) <= TILE_MOST_UNROLLED_READS;
}

static struct launch launch_of(const struct conv2d_shape *s, const struct config *c) {
    struct launch launch = {
        .entry = "dense_large",
        .grid = {(unsigned)c->x.blocks, (unsigned)c->y.blocks, 1},
        .block = {(unsigned)c->x.threads, (unsigned)c->y.threads, 1},
        .n_args = 3,
        .args = {{ARG_IN, 0}, {ARG_IN, 1}, {ARG_OUT, 0}},
    };
    launch_add_epilogue(&launch, s);
    return launch;
}

static int check(const struct conv2d_shape *s, const struct config *c, const struct target *target,
                 struct error *error) {
    struct launch launch = launch_of(s, c);
    int64_t row = c->middle * c->inner | 1;
    return launch_check(&launch, 2 * row * (c->x.size + c->y.size) * (int64_t)sizeof(float), target, error);
}

static void define_config(struct buf *source, const struct config *c) {
    int64_t longest = c->x.size > c->y.size ? c->x.size : c->y.size, sums = c->x.sums * c->y.sums;
    tile_define(source, "X", &c->x);
    tile_define(source, "Y", &c->y);
    define_int(source, "STEPS", c->steps);
    define_int(source, "K_MIDDLE", c->middle);
    define_int(source, "K_INNER", c->inner);
    define_unroll_sums(source, sums);
    define_unroll(source, "UNROLL_MIDDLE", unrolls_middle(c));
    define_unroll(source, "UNROLL_LOADS",
                  c->middle * c->inner * longest <= TILE_MOST_UNROLLED_LOADS * c->x.threads * c->y.threads);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct conv2d_shape s;
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (!shape_of(workload, &s))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "This is no dense layer of many samples.");
    struct config c = config_of(space, index);
    if (check(&s, &c, target, error) < 0)
        return -1;
    define_int(&source, "DEPTH", s.c);
    define_int(&source, "COLUMNS", s.k);
    define_config(&source, &c);
    define_epilogue(&source, &s);
    buf_puts(&source, autotvm_dense_large_source);
    struct launch launch = launch_of(&s, &c);
    return program_of_launch(&source, &launch, arena, ret, error);
}

/* 256 threads of up to 8 × 8 sums, and as much of k a step as a stage has room for. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    struct conv2d_shape s;
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    if (!shape_of(workload, &s))
        return 0;
    digit[TILE_X] = tile_pick(space, TILE_X, 16, 8);
    digit[TILE_Y] = tile_pick(space, TILE_Y, 16, 8);
    const struct knob *k = &space->knobs[TILE_K];
    int64_t best = 0, most = 0;
    for (digit[TILE_K] = 0; digit[TILE_K] < k->n_candidates; digit[TILE_K]++) {
        int64_t index = space_index(space, digit);
        struct config c = config_of(space, index);
        int64_t merit = c.middle * c.inner;
        if (c.middle <= 4 && merit <= 16 && merit > most && check(&s, &c, target, NULL) == 0) {
            best = index;
            most = merit;
        }
    }
    return best;
}

/* ---- features ---- */

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct conv2d_shape s;
    (void)target;
    nest_begin_staged(ret);
    if (!shape_of(workload, &s))
        return;
    struct config c = config_of(space, index);
    const struct tile *x = &c.x, *y = &c.y;
    int64_t row = c.middle * c.inner | 1;
    const int64_t along_x[] = {s.c, 0, row, 0, s.k}, along_y[] = {0, s.c, 0, row, 1};
    const int64_t along_steps[] = {1, 1, 0, 0, 0}, along_k[] = {1, 1, 1, 1, 0};
    nest_loop(ret, LOOP_BLOCK_Y, y->blocks, y->size, along_y);
    nest_loop(ret, LOOP_BLOCK_X, x->blocks, x->size, along_x);
    nest_loop(ret, LOOP_VTHREAD, x->vthreads, x->threads * x->inner, along_x);
    nest_loop(ret, LOOP_VTHREAD, y->vthreads, y->threads * y->inner, along_y);
    nest_loop(ret, LOOP_THREAD_Y, y->threads, y->inner, along_y);
    nest_loop(ret, LOOP_THREAD_X, x->threads, x->inner, along_x);
    nest_loop(ret, LOOP_SERIAL, c.steps, c.middle * c.inner, along_steps);
    nest_loop(ret, unrolls_middle(&c) ? LOOP_UNROLLED : LOOP_SERIAL, c.middle, c.inner, along_k);
    nest_loop(ret, LOOP_SERIAL, c.inner, 1, along_k);
    nest_loop(ret, LOOP_UNROLLED, x->inner, 1, along_x);
    nest_loop(ret, LOOP_UNROLLED, y->inner, 1, along_y);
}

const struct template autotvm_dense_large_cuda = {
    .name = "dense_large_batch.gpu",
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
