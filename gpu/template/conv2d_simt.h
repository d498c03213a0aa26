/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt.h: a configuration of conv2d_simt.cu with what follows from it. Private to conv2d_simt_*.c, which hold
 * the space, the rendering, and what is known of a configuration without compiling it.
 */
#ifndef WARPTUNE_TEMPLATE_CONV2D_SIMT_H
#define WARPTUNE_TEMPLATE_CONV2D_SIMT_H

#include "gpu/template/conv2d_shape.h"
#include "gpu/template/template.h"

struct conv2d_simt {
    struct conv2d_shape shape;
    int64_t bp, bc, bk, tp, tc; /* pixels, channels and k of a block's tile; pixels and channels of a thread */
    int64_t parts;              /* of the sum over k */
    bool constants;             /* the shape is in the source, not in the arguments */
    int64_t threads, pixels;
    int64_t k, steps, channels_padded; /* of one group */
    int64_t a_loads, a_step;           /* a thread's loads of a patch tile; from one of its k to the next */
    int vec_a;
    bool fours, check_columns;
    int64_t shared_bytes, registers; /* of a block; of a thread, estimated */
};

/* The workload's shape, as the kernel takes it. */
struct conv2d_shape conv2d_simt_shape(const struct workload *workload);
struct conv2d_simt conv2d_simt_of(const struct workload *workload, const struct space *space, int64_t index);
/* ERROR_INVALID "instantiation" when no device, or not this one, can hold it. */
int conv2d_simt_check(const struct conv2d_simt *simt, const struct target *target, struct error *error) MUST_CHECK;

/* Members of the template. */
int conv2d_simt_render(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct arena *arena, struct program **ret, struct error *error);
double conv2d_simt_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                            int64_t index);
void conv2d_simt_nest(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct loop_nest *ret);

#endif
