/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_direct_nest.c: the kernel's loops for the cost model. The statement multiplies one input by one weight and
 * adds it to one sum; the weights' strides are those of their packed order.
 */
#include "gpu/template/conv2d_direct.h"

static void add_blocks(const struct direct *d, struct loop_nest *nest) {
    const struct conv2d_shape *s = &d->shape;
    int64_t group = d->group_blocks > 1 ? 0 : s->cg; /* a block moves the input only where it is a group of its own */
    loop_nest_add(nest, direct_blocks(d), LOOP_PARALLEL, group, d->block * s->cg * s->kh * s->kw, d->block);
}

/* Tiles of a chunk lie side by side but for the ends of rows. */
static void add_chunks(const struct direct *d, struct loop_nest *nest, int64_t tiles) {
    const struct conv2d_shape *s = &d->shape;
    int64_t pixels = tiles * d->width;
    loop_nest_add(nest, d->chunks, LOOP_PARALLEL, pixels * s->sw * s->sh * s->c, 0, pixels * s->k);
}

void direct_nest(const struct direct *d, struct loop_nest *ret) {
    const struct conv2d_shape *s = &d->shape;
    int64_t tiles = (d->tiles + d->chunks - 1) / d->chunks, part = s->kh * s->kw * d->channels * d->block;
    int64_t turn = d->unroll < d->channels ? d->unroll : d->channels;
    loop_nest_sum(ret);
    if (d->chunks_outside)
        add_chunks(d, ret, tiles);
    add_blocks(d, ret);
    if (!d->chunks_outside)
        add_chunks(d, ret, tiles);
    loop_nest_add(ret, s->cg / d->channels, LOOP_SERIAL, d->channels, part, 0);
    loop_nest_add(ret, tiles, LOOP_SERIAL, d->width * s->sw * s->c, 0, d->width * s->k);
    loop_nest_add(ret, s->kh, LOOP_SERIAL, s->dh * s->w * s->c, s->kw * d->channels * d->block, 0);
    loop_nest_add(ret, s->kw, LOOP_SERIAL, s->dw * s->c, d->channels * d->block, 0);
    loop_nest_add(ret, (d->channels + turn - 1) / turn, LOOP_SERIAL, turn, turn * d->block, 0);
    loop_nest_add(ret, turn, LOOP_UNROLLED, 1, d->block, 0);
    loop_nest_add(ret, d->width, LOOP_UNROLLED, s->sw * s->c, 0, s->k);
    loop_nest_add(ret, d->vectors, LOOP_UNROLLED, 0, d->lanes, d->lanes);
    loop_nest_add(ret, d->lanes, LOOP_VECTORIZED, 0, 1, 1);
}
