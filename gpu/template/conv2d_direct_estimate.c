/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_direct_estimate.c: how long a configuration should take, by arithmetic: the clocks of a tile's multiplications
 * against those of fetching its weights from the cache that holds them, the tiles that the busiest core gets, and what
 * that core must bring in from memory. The rates are those of a common server core: only their ratios matter.
 */
#include <math.h>

#include "gpu/template/conv2d_direct.h"

enum { L1_BYTES = 32 * 1024 };

static const double clock_hz = 3e9;
static const double near_bytes = 32; /* a clock: from the second cache */
static const double far_bytes = 6;   /* a clock: from beyond it */

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

double direct_step_clocks(int64_t width, int64_t vectors) {
    double multiply = (double)(width * vectors), load = (double)(width + vectors);
    return fmax(fmax(multiply, load), 10) / 2;
}

/* Bytes of the weights of one block and one channel block. */
static int64_t part_bytes(const struct direct *d) {
    return d->shape.kh * d->shape.kw * d->channels * d->block * (int64_t)sizeof(float);
}

/* One tile through all channel blocks. Weights too many for the first cache are fetched anew for each tile. */
static double tile_clocks(const struct direct *d, const struct target *target, int64_t width) {
    const struct conv2d_shape *s = &d->shape;
    int64_t taps = s->kh * s->kw, sums = width * d->vectors, parts = s->cg / d->channels;
    double multiply = (double)(taps * d->channels) * direct_step_clocks(width, d->vectors);
    double turns = (double)(taps * ceil_div(d->channels, d->unroll)), fetch = 0;
    if (part_bytes(d) > L1_BYTES)
        fetch = (double)part_bytes(d) / (part_bytes(d) > target->cache_bytes ? far_bytes : near_bytes);
    double part = fmax(multiply, fetch) + turns * (d->prefetch == PREFETCH_NONE ? 1 : 1.5);
    return (double)parts * part + 20 + (double)(2 * parts * sums);
}

static double mean_tile_clocks(const struct direct *d, const struct target *target) {
    int64_t whole = d->shape.ow / d->width, rest = d->shape.ow % d->width;
    double row = (double)whole * tile_clocks(d, target, d->width) + (rest ? tile_clocks(d, target, rest) : 0);
    return row / (double)d->row_tiles;
}

/*
 * Bytes that a core which does `share` neighbouring items brings in. Items side by side have their weights or their
 * input in common; what all of them touch comes once when the second cache holds it.
 */
static double core_bytes(const struct direct *d, const struct target *target, int64_t share) {
    const struct conv2d_shape *s = &d->shape;
    int64_t blocks = direct_blocks(d), cache = target->cache_bytes / 2;
    int64_t own_blocks = d->chunks_outside ? (share < blocks ? share : blocks) : ceil_div(share, d->chunks);
    int64_t own_chunks = d->chunks_outside ? ceil_div(share, blocks) : (share < d->chunks ? share : d->chunks);
    int64_t block = (int64_t)direct_packed_bytes(d) / blocks;
    int64_t chunk = ceil_div(s->n * s->h * s->w * s->cg * (int64_t)sizeof(float), d->chunks);
    int64_t out = ceil_div(s->n * s->oh * s->ow, d->chunks) * d->block * (int64_t)sizeof(float);
    int64_t passes = out > cache ? 2 * (s->cg / d->channels) - 1 : 1; /* partial sums go out and come in again */
    return (double)(block * (own_blocks * block <= cache ? own_blocks : share)) +
           (double)(chunk * (own_chunks * chunk <= cache ? own_chunks : share)) + (double)(share * out * passes);
}

double direct_seconds(const struct direct *d, const struct target *target) {
    static const double waits[] = {[PREFETCH_NONE] = 0.6, [PREFETCH_L2] = 0.3, [PREFETCH_L1] = 0.15};
    int64_t share = ceil_div(direct_items(d), target->units);
    double tiles = (double)ceil_div(d->tiles, d->chunks);
    double compute = (double)share * tiles * mean_tile_clocks(d, target);
    double memory = core_bytes(d, target, share) / far_bytes;
    return fmax(compute + waits[d->prefetch] * memory, memory) / clock_hz;
}
