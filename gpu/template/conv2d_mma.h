/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_mma.h: a configuration of conv2d_mma.cu with what follows from it. Private to conv2d_mma_*.c, which hold the
 * space, the rendering, and what is known of a configuration without compiling it.
 */
#ifndef WARPTUNE_TEMPLATE_CONV2D_MMA_H
#define WARPTUNE_TEMPLATE_CONV2D_MMA_H

#include "gpu/template/conv2d_shape.h"
#include "gpu/template/template.h"

struct conv2d_mma {
    struct conv2d_shape shape;
    enum dtype dtype; /* of the elements; f32: multiplied as TF32 */
    int64_t element_bytes;
    int sm;                 /* of the target: 75, 80, …; 0: not known */
    int64_t bp, bc, bk;     /* pixels, channels and k of a CTA's tile */
    int64_t wp, wc, slices; /* its warps along each */
    int64_t stages, parts;  /* of the copies; of the sum over k */
    bool constants;         /* the shape is in the source, not in the arguments */
    bool swap;              /* channels are the mma's M side, pixels its N side */
    bool async;             /* the device copies to shared memory asynchronously */
    bool early;             /* the kernel may begin before the one ahead has ended: it waits where it must */
    bool cluster;           /* the parts of a tile are a cluster, and add their sums there */
    int64_t threads, pixels;
    int64_t vec;                        /* channels that a copy of the patch matrix takes at a time */
    int64_t depth;                      /* channels of a tap as k counts them: odd numbers are rounded up to fours */
    int64_t k, steps, tiles_p, tiles_c; /* of one group; tiles_p of all */
    bool blocked;                       /* k goes through the taps of bk channels before the next ones */
    bool fours, half_bias, check_columns, taps;
    int64_t patch_loads, weight_loads; /* a thread's 16-byte chunks of a step */
    int64_t shared_bytes, registers;   /* of a CTA; of a thread, estimated */
};

struct conv2d_mma conv2d_mma_of(const struct workload *workload, const struct target *target, const struct space *space,
                                int64_t index);
/* ERROR_INVALID "instantiation" when no device, or not this one, can hold it. */
int conv2d_mma_check(const struct conv2d_mma *mma, const struct target *target, struct error *error) MUST_CHECK;

/* Members of the template. */
int conv2d_mma_render(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct arena *arena, struct program **ret, struct error *error);
double conv2d_mma_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                           int64_t index);
void conv2d_mma_nest(const struct workload *workload, const struct target *target, const struct space *space,
                     int64_t index, struct loop_nest *ret);

#endif
