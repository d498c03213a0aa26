/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_wgmma.h: a configuration of conv2d_wgmma.cu with what follows from it. Private to conv2d_wgmma_*.c, which hold
 * the space, the rendering, and what is known of a configuration without compiling it.
 */
#ifndef WARPTUNE_TEMPLATE_CONV2D_WGMMA_H
#define WARPTUNE_TEMPLATE_CONV2D_WGMMA_H

#include "gpu/template/conv2d_shape.h"
#include "gpu/template/template.h"

struct conv2d_wgmma {
    struct conv2d_shape shape;
    int64_t bp, bc; /* pixels and channels of a CTA's tile */
    int64_t groups, wm,
        wn;                /* warpgroups that multiply, and how many along channels and pixels; wm 0: there is no way */
    int64_t stages, parts; /* of the copies; of the sum over k, one a CTA of a cluster */
    int64_t ctas;          /* that an SM shall hold at a time */
    bool stays;            /* a CTA goes on with another tile, so that there are no more of them than fit */
    bool in_turn;          /* its two warpgroups have tiles of their own, and multiply in turn */
    bool constants;        /* the shape is in the source, not in the arguments */
    int64_t wide, extra;   /* taps of a step, and the pixels that it has because of them; else 1 and 0 */
    int64_t line;          /* pixels of a line of the output, with the zeros between lines where steps are wide */
    int64_t pixels, steps, tiles_p, tiles_c, tiles;
    int64_t narrow; /* with few channels: 16-byte chunks of a row of taps, of a padded copy of the input; else 0 */
    int64_t padded_h, padded_w;
    bool bf16, whole, half_bias, check_columns, taps;
    int64_t threads, shared_bytes;
    int64_t sums;           /* of a multiplying thread */
    int64_t registers, cap; /* of a multiplying thread: estimated; what all threads begin with */
    int64_t claim, leave;   /* what multiplying and copying ones then change to; 0: nothing */
};

struct conv2d_wgmma conv2d_wgmma_of(const struct workload *workload, const struct target *target,
                                    const struct space *space, int64_t index);
/* CTAs that run at a time, one an SM, when the sum is in so many parts. */
int64_t conv2d_wgmma_fit(const struct target *target, int64_t parts);
/* ERROR_INVALID "instantiation" when the device cannot hold it. */
int conv2d_wgmma_check(const struct conv2d_wgmma *wgmma, const struct target *target, struct error *error) MUST_CHECK;

/* Members of the template. */
int conv2d_wgmma_render(const struct workload *workload, const struct target *target, const struct space *space,
                        int64_t index, struct arena *arena, struct program **ret, struct error *error);
double conv2d_wgmma_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                             int64_t index);
void conv2d_wgmma_nest(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct loop_nest *ret);

#endif
