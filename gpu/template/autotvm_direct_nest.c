/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_direct_nest.c: the kernel's loops for the cost model. The statement is one multiplication; its operands are
 * described both as they lie in global memory and as they were staged, where blocks and steps do not move them.
 */
#include <assert.h>

#include "gpu/template/autotvm_direct.h"

/* What a step of one along each axis and reduction moves an operand by, in elements. */
struct moves {
    int64_t axis[AXIS_COUNT], reduce[REDUCE_COUNT];
};

enum { DATA, KERNEL, OUTPUT, DATA_SHARED, KERNEL_SHARED, ACCESS_COUNT };

static const char *const names[ACCESS_COUNT] = {"data", "kernel", "output", "data.shared", "kernel.shared"};

static void moves_of(const struct autotvm_direct *d, struct moves ret[ACCESS_COUNT]) {
    const struct conv2d_shape *s = &d->shape;
    int64_t plane = d->patch_h * d->patch_w, channels = d->inner[REDUCE_C] * plane;
    int64_t taps = d->inner[REDUCE_Y] * d->inner[REDUCE_X], filter = d->inner[REDUCE_C] * taps;
    int64_t groups = d->tile[AXIS_G].vthreads;
    int64_t filters = d->tile[AXIS_F].vthreads * d->tile[AXIS_F].threads * d->tile[AXIS_F].inner;
    ret[DATA] = (struct moves){{s->c * s->h * s->w, s->cg * s->h * s->w, 0, s->sh * s->w, s->sw},
                               {s->h * s->w, s->dh * s->w, s->dw}};
    ret[KERNEL] =
        (struct moves){{0, s->kg * s->cg * s->kh * s->kw, s->cg * s->kh * s->kw, 0, 0}, {s->kh * s->kw, s->kw, 1}};
    ret[OUTPUT] = (struct moves){{s->k * s->oh * s->ow, s->kg * s->oh * s->ow, s->oh * s->ow, s->ow, 1}, {0, 0, 0}};
    ret[DATA_SHARED] =
        (struct moves){{groups * channels, channels, 0, s->sh * d->patch_w, s->sw}, {plane, s->dh * d->patch_w, s->dw}};
    ret[KERNEL_SHARED] = (struct moves){{0, filters * filter, filter, 0, 0}, {taps, d->inner[REDUCE_X], 1}};
}

/* Adds a loop: `step` along the axis (or the reduction) each time; `staged`: it moves within what was staged. */
static void add_loop(struct loop_nest *nest, int64_t extent, enum loop_kind kind, const struct moves *moves, int axis,
                     int reduction, int64_t step, bool staged) {
    assert(nest->n_loops < NEST_MAX_LOOPS);
    nest->loops[nest->n_loops] = (struct nest_loop){extent, kind};
    for (int i = 0; i < ACCESS_COUNT; i++) {
        int64_t move = axis >= 0 ? moves[i].axis[axis] : moves[i].reduce[reduction];
        nest->accesses[i].stride[nest->n_loops] = staged || i < DATA_SHARED ? move * step : 0;
    }
    nest->n_loops++;
}

/* The loops of one level of the tiles. A split in two (groups) has blocks and virtual threads only. */
static void add_level(struct loop_nest *nest, const struct autotvm_direct *d, const struct moves *moves, int level) {
    for (int a = 0; a < AXIS_COUNT; a++) {
        const struct direct_tile *t = &d->tile[a];
        int64_t extent[] = {t->blocks, t->vthreads, t->threads, t->inner};
        int64_t step[] = {t->vthreads * t->threads * t->inner, t->threads * t->inner, t->inner, 1};
        enum loop_kind kind[] = {LOOP_BLOCK_X + (enum loop_kind)d->kind.grid_dim[a], LOOP_VTHREAD,
                                 LOOP_THREAD_X + (enum loop_kind)d->kind.block_dim[a], LOOP_UNROLLED};
        if (level < d->kind.levels[a])
            add_loop(nest, extent[level], kind[level], moves, a, -1, step[level], level != LEVEL_BLOCK);
    }
}

void autotvm_direct_nest(const struct autotvm_direct *d, struct loop_nest *ret) {
    struct moves moves[ACCESS_COUNT];
    *ret = (struct loop_nest){.n_accesses = ACCESS_COUNT, .additions = 1, .multiplications = 1};
    for (int i = 0; i < ACCESS_COUNT; i++) {
        ret->accesses[i].name = names[i];
        ret->accesses[i].writes = i == OUTPUT;
    }
    moves_of(d, moves);
    for (int level = LEVEL_BLOCK; level <= LEVEL_THREAD; level++)
        add_level(ret, d, moves, level);
    for (int r = 0; r < REDUCE_COUNT; r++)
        add_loop(ret, d->outer[r], LOOP_SERIAL, moves, -1, r, d->inner[r], false);
    for (int r = 0; r < REDUCE_COUNT; r++)
        add_loop(ret, d->inner[r], d->unroll[r] == d->inner[r] ? LOOP_UNROLLED : LOOP_SERIAL, moves, -1, r, 1, true);
    add_level(ret, d, moves, LEVEL_INNER);
}
