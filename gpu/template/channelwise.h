/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channelwise.h: a configuration of channelwise.cu with what follows from it. Private to channelwise_*.c, which hold
 * the spaces of depthwise convolutions and of pools, the rendering, and what is known of a configuration without
 * compiling.
 */
#ifndef WARPTUNE_TEMPLATE_CHANNELWISE_H
#define WARPTUNE_TEMPLATE_CHANNELWISE_H

#include "gpu/template/conv2d_shape.h"
#include "gpu/template/template.h"

enum channelwise_kind { CHANNELWISE_CONV, CHANNELWISE_MAX, CHANNELWISE_AVERAGE };

struct channelwise {
    struct conv2d_shape shape; /* a pool's too: as many groups as channels */
    enum channelwise_kind kind;
    bool half, half_bias;
    int64_t count_top, count_left, count_h, count_w; /* within which an average counts its taps */
    int64_t vec, tx, ty, threads;                    /* channels, columns and rows of a thread; threads of a block */
    bool constants;                                  /* the shape is in the source, not in the arguments */
    bool early;                                      /* the kernel may begin before the one ahead has ended */
    bool rolled;                                     /* the window's rows are a loop */
    int64_t vectors, tiles_x, tiles_y, items;
    int64_t rows, columns; /* of the input that a thread reads */
    int64_t registers;     /* of a thread, estimated */
};

/* The workload's shape and kind, as the kernel takes it; false for what it does not. */
bool channelwise_shape(const struct workload *workload, struct channelwise *ret);
struct channelwise channelwise_of(const struct workload *workload, const struct target *target,
                                  const struct space *space, int64_t index);
/* ERROR_INVALID "instantiation" when no device, or not this one, can hold it. */
int channelwise_check(const struct channelwise *it, const struct target *target, struct error *error) MUST_CHECK;

/* Members of the templates. */
int channelwise_render(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct arena *arena, struct program **ret, struct error *error);
double channelwise_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                            int64_t index);
void channelwise_nest(const struct workload *workload, const struct target *target, const struct space *space,
                      int64_t index, struct loop_nest *ret);

#endif
