/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_winograd_cuda.c: AutoTVM's space conv2d_nchw_winograd.cuda, rendered with autotvm_winograd.cu, so that its
 * records can be used and its search be repeated. As there, squares are 4 × 4 where the input's height is a multiple of
 * 8, else 2 × 2, and the knobs divide the batched product alone; tile_b never divides, it is there for the records.
 *
 * Served are the kernels whose error stays far within what verification allows: 3 × 3, and 5 × 5, but that only up to
 * 512 channels where squares are 4 × 4.
 */
#include "gpu/template/autotvm_tile.h"
#include "gpu/template/autotvm_winograd_transform.h"
#include "gpu/template/builtin.h"
#include "gpu/template/embed.h"

EMBED(autotvm_winograd_source, "gpu/template/autotvm_winograd.cu");

#define MOST_SCRATCH (8LL << 30)
enum { MOST_CHANNELS_OF_F45 = 512 };

enum { TILE_B, TILE_Y, TILE_X, TILE_RC };

/* The workload as the product sees it. */
struct problem {
    struct conv2d_shape s;
    int64_t m, alpha, tiles_h, tiles_w, pixels; /* pixels: of the product, each an output square */
};

static bool problem_of(const struct workload *workload, struct problem *ret) {
    struct conv2d_shape *s = &ret->s;
    if (workload->op != OP_CONV || !conv2d_shape_of(workload, s) || s->nhwc || s->groups != 1 || s->sh != 1 ||
        s->sw != 1 || s->dh != 1 || s->dw != 1 || s->kh != s->kw || (s->kh != 3 && s->kh != 5))
        return false;
    ret->m = s->h % 8 == 0 ? 4 : 2;
    ret->alpha = ret->m + s->kh - 1;
    ret->tiles_h = (s->oh + ret->m - 1) / ret->m;
    ret->tiles_w = (s->ow + ret->m - 1) / ret->m;
    ret->pixels = s->n * ret->tiles_h * ret->tiles_w;
    return true;
}

static int64_t scratch_floats(const struct problem *p, int64_t channels) {
    return p->alpha * p->alpha * channels * p->pixels;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct problem p;
    (void)target;
    if (!problem_of(workload, &p) || (p.s.kh == 5 && p.m == 4 && p.s.c > MOST_CHANNELS_OF_F45))
        return false;
    const struct conv2d_shape *s = &p.s;
    return fits_int(s->n * s->c * s->h * s->w) && fits_int(s->n * s->k * s->oh * s->ow) &&
           fits_int(p.alpha * p.alpha * s->c * s->k) && fits_int(scratch_floats(&p, s->c)) &&
           fits_int(scratch_floats(&p, s->k)) && scratch_floats(&p, s->c + s->k) <= MOST_SCRATCH / 4;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct problem p;
    struct space *space = space_new(arena);
    (void)target;
    if (!problem_of(workload, &p))
        return space;
    int64_t batch = p.alpha * p.alpha;
    space_split_list(space, "tile_b", batch, 4, (const int64_t[]){batch, 1, 1, 1}, 1);
    space_split(space, "tile_y", p.s.k, 4);
    space_split(space, "tile_x", p.pixels, 4);
    space_split(space, "tile_rc", p.s.c, 2);
    tile_unroll_knobs(space, (const int64_t[]){0, 128, 1500});
    return space;
}

/* About 256 threads of 32 sums, and 8 or more channels a step. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    int64_t digit[SPACE_MAX_KNOBS] = {0};
    (void)workload;
    (void)target;
    digit[TILE_X] = tile_pick(space, TILE_X, 32, 4);
    const struct knob *x = &space->knobs[TILE_X];
    int64_t columns = x->values[digit[TILE_X] * x->parts + 2];
    digit[TILE_Y] = tile_pick(space, TILE_Y, 256 / columns, 8);
    digit[TILE_RC] = tile_pick_factor(space, TILE_RC, 1, 8);
    digit[TILE_RC + 1] = 2;
    digit[TILE_RC + 2] = 1;
    return space_index(space, digit);
}

/* ---- rendering ---- */

struct config {
    struct tile y, x;
    int64_t rc, steps;
    bool unroll_rc, unroll_steps;
};

static struct config config_of(const struct space *space, int64_t index) {
    struct config c = {.y = tile_of(space, index, "tile_y"),
                       .x = tile_of(space, index, "tile_x"),
                       .rc = space_value(space, index, "tile_rc", 1),
                       .steps = space_value(space, index, "tile_rc", 0)};
    int64_t products = c.y.sums * c.x.sums * c.rc, reads = (c.y.sums + c.x.sums) * c.rc;
    c.unroll_rc = tile_unrolls(space, index, products, reads);
    c.unroll_steps = tile_unrolls(space, index, products * c.steps, reads * c.steps);
    return c;
}

static void define_shape(struct buf *source, const struct problem *p) {
    const struct conv2d_shape *s = &p->s;
    const struct {
        const char *name;
        int64_t value;
    } macros[] = {
        {"N_", s->n},
        {"CI", s->c},
        {"CO", s->k},
        {"H_", s->h},
        {"W_", s->w},
        {"OH_", s->oh},
        {"OW_", s->ow},
        {"R", s->kh},
        {"PAD_H", s->pad_h},
        {"PAD_W", s->pad_w},
        {"M", p->m},
        {"ALPHA", p->alpha},
        {"TILES_H", p->tiles_h},
        {"TILES_W", p->tiles_w},
    };
    for (size_t i = 0; i < ARRAY_COUNT(macros); i++)
        define_int(source, macros[i].name, macros[i].value);
}

static void define_config(struct buf *source, const struct config *c) {
    int64_t longest = c->x.size > c->y.size ? c->x.size : c->y.size;
    tile_define(source, "Y", &c->y);
    tile_define(source, "X", &c->x);
    define_int(source, "RC", c->rc);
    define_int(source, "STEPS", c->steps);
    define_unroll_sums(source, c->y.sums * c->x.sums);
    define_unroll(source, "UNROLL_RC", c->unroll_rc);
    define_unroll(source, "UNROLL_STEPS", c->unroll_steps);
    define_unroll(source, "UNROLL_LOADS", c->rc * longest <= TILE_MOST_UNROLLED_LOADS * c->x.threads * c->y.threads);
}

static struct launch product_of(const struct problem *p, const struct config *c) {
    return (struct launch){
        .entry = "winograd_product",
        .grid = {(unsigned)c->x.blocks, (unsigned)c->y.blocks, (unsigned)(p->alpha * p->alpha)},
        .block = {(unsigned)c->x.threads, (unsigned)c->y.threads, 1},
        .n_args = 3,
        .args = {{ARG_PREPARED, 0}, {ARG_SCRATCH, 0}, {ARG_SCRATCH, 1}},
    };
}

static void add_launches(struct program *program, const struct problem *p, const struct launch *product,
                         struct arena *arena) {
    const struct conv2d_shape *s = &p->s;
    program->n_prepared = 1;
    program->prepared_bytes = arena_array(arena, 1, sizeof *program->prepared_bytes);
    program->prepared_bytes[0] = (size_t)(p->alpha * p->alpha * s->c * s->k) * sizeof(float);
    program->n_prepare = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = launch_over("winograd_kernel", s->c * s->k);
    launch_add_arg(&program->prepare[0], ARG_IN, 1);
    launch_add_arg(&program->prepare[0], ARG_PREPARED, 0);

    program->n_scratch = 2;
    program->scratch_bytes = arena_array(arena, 2, sizeof *program->scratch_bytes);
    program->scratch_bytes[0] = (size_t)scratch_floats(p, s->c) * sizeof(float);
    program->scratch_bytes[1] = (size_t)scratch_floats(p, s->k) * sizeof(float);
    program->n_run = 3;
    program->run = arena_array(arena, 3, sizeof *program->run);
    program->run[0] = launch_over("winograd_data", s->c * p->pixels);
    launch_add_arg(&program->run[0], ARG_IN, 0);
    launch_add_arg(&program->run[0], ARG_SCRATCH, 0);
    program->run[1] = *product;
    struct launch *output = &program->run[2];
    *output = launch_over("winograd_output", s->k * p->pixels);
    launch_add_arg(output, ARG_SCRATCH, 1);
    launch_add_arg(output, ARG_OUT, 0);
    launch_add_epilogue(output, s);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct problem p;
    struct winograd transform;
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    if (!problem_of(workload, &p))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "This is no convolution for Winograd's method.");
    struct config c = config_of(space, index);
    struct launch product = product_of(&p, &c);
    if (launch_check(&product, c.rc * (c.y.size + c.x.size) * (int64_t)sizeof(float), target, error) < 0)
        return -1;
    define_shape(&source, &p);
    define_config(&source, &c);
    winograd_of((int)p.m, (int)p.s.kh, &transform);
    winograd_define(&source, &transform);
    define_epilogue(&source, &p.s);
    buf_puts(&source, autotvm_winograd_source);
    if (program_of(&source, arena, ret, error) < 0)
        return -1;
    add_launches(*ret, &p, &product, arena);
    return 0;
}

/* ---- features ---- */

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct problem p;
    (void)target;
    nest_begin_staged(ret);
    if (!problem_of(workload, &p))
        return;
    struct config c = config_of(space, index);
    const struct tile *y = &c.y, *x = &c.x;
    int64_t ci = p.s.c, co = p.s.k, n = p.pixels;
    const int64_t along_b[] = {ci * n, ci * co, 0, 0, co * n}, along_y[] = {0, 1, 0, 1, n}, along_x[] = {1, 0, 1, 0, 1};
    const int64_t along_steps[] = {n, co, 0, 0, 0}, along_rc[] = {n, co, x->size, y->size, 0};
    nest_loop(ret, LOOP_BLOCK_Z, p.alpha * p.alpha, 1, along_b);
    nest_loop(ret, LOOP_BLOCK_Y, y->blocks, y->size, along_y);
    nest_loop(ret, LOOP_BLOCK_X, x->blocks, x->size, along_x);
    nest_loop(ret, LOOP_VTHREAD, y->vthreads, y->threads * y->inner, along_y);
    nest_loop(ret, LOOP_VTHREAD, x->vthreads, x->threads * x->inner, along_x);
    nest_loop(ret, LOOP_THREAD_Y, y->threads, y->inner, along_y);
    nest_loop(ret, LOOP_THREAD_X, x->threads, x->inner, along_x);
    nest_loop(ret, c.unroll_steps ? LOOP_UNROLLED : LOOP_SERIAL, c.steps, c.rc, along_steps);
    nest_loop(ret, c.unroll_rc ? LOOP_UNROLLED : LOOP_SERIAL, c.rc, 1, along_rc);
    nest_loop(ret, LOOP_UNROLLED, y->inner, 1, along_y);
    nest_loop(ret, LOOP_UNROLLED, x->inner, 1, along_x);
}

const struct template autotvm_winograd_cuda = {
    .name = "conv2d_nchw_winograd.cuda",
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
