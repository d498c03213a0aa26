/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_direct.h: direct convolution for the CPU, activations NHWC: one configuration worked out, and its C text.
 *
 * A tile is `width` neighbouring pixels of one output row times `vectors` vectors of output channels, all held in
 * registers: each input channel of each tap costs `vectors` loads, `width` broadcasts and width × vectors FMAs. Tiles
 * stand at fixed places along the row, so which of its pixels a tap meets is known when the text is written: each
 * distinct case has a function of its own, without the products that padding would make zero. Rows of taps beyond the
 * image are cut at run time.
 *
 *   item: one block of output channels × one chunk of tiles
 *     channel block: the partial sums of all tiles wait in the output
 *       tile: rows of taps → runs of neighbouring taps → input channels
 *
 * Weights are packed once, in the order in which they are used: [block][channel block][kh][kw][channel][lane], the
 * lanes of a last, partial block filled with zeros. The output must not overlap any input. Private to conv2d_direct*.c.
 */
#ifndef WARPTUNE_TEMPLATE_CONV2D_DIRECT_H
#define WARPTUNE_TEMPLATE_CONV2D_DIRECT_H

#include "gpu/device/target.h"
#include "gpu/template/conv2d_shape.h"
#include "gpu/template/loop_nest.h"

struct direct {
    struct conv2d_shape shape; /* flattened */
    int64_t lanes, vectors;    /* floats of a vector; vectors of a tile */
    int64_t width;             /* pixels of a tile */
    int64_t block;             /* output channels of a block: vectors × lanes */
    int64_t group_blocks;      /* blocks of one group of channels */
    int64_t channels;          /* input channels of a channel block; it divides the group's */
    int64_t row_tiles, tiles;  /* tiles of one row, of all rows of all images */
    int64_t chunks;            /* into which the tiles are divided, evenly */
    bool chunks_outside;       /* neighbouring items share the chunk, else the block */
    int64_t unroll;            /* input channels of one turn of the innermost loop */
    int64_t prefetch;          /* of the next channel block's weights: PREFETCH_… */
};

enum { PREFETCH_NONE, PREFETCH_L2, PREFETCH_L1 };

int64_t direct_blocks(const struct direct *direct);
int64_t direct_items(const struct direct *direct);
size_t direct_packed_bytes(const struct direct *direct);
/* Lines of multiplication that the text will have: a measure of its compile time. */
int64_t direct_size(const struct direct *direct);
/* Appends the source of `pack` (weights, packed; an item a block) and `conv2d` (conv2d_add_args's, then packed). */
void direct_source(const struct direct *direct, struct buf *source);
/* Clocks of one input channel under one tap: two FMAs and two loads each; five until a sum can be added to again. */
double direct_step_clocks(int64_t width, int64_t vectors);
double direct_seconds(const struct direct *direct, const struct target *target);
void direct_nest(const struct direct *direct, struct loop_nest *ret);

#endif
