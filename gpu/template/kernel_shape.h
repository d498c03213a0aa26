/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_shape.h: the struct of ints through which a kernel knows its shape: as arguments, so that one compile serves
 * every shape, or as constants in the source.
 */
#ifndef WARPTUNE_TEMPLATE_KERNEL_SHAPE_H
#define WARPTUNE_TEMPLATE_KERNEL_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/device/program.h"
#include "service/base/buf.h"
#include "service/model/workload.h"

#define KERNEL_SHAPE_FIELDS 48

struct kernel_shape {
    struct {
        const char *name, *suffix; /* "area" and "" or what becomes of a divisor */
        int value;
    } list[KERNEL_SHAPE_FIELDS];
    int n;
};

void kernel_shape_add(struct kernel_shape *shape, const char *name, int64_t value);
/* What the kernel divides by comes with its reciprocal: NAME_multiplier and NAME_shift (fastdiv.h). */
void kernel_shape_add_divisor(struct kernel_shape *shape, const char *name, int64_t value);
/* `low` and `high`, the bits of floats: what the activation keeps a sum within, where none, relu or clip is all it is.
 */
void kernel_shape_add_bounds(struct kernel_shape *shape, const struct epilogue *epilogue);

/* Defines struct shape; SHAPE_PARAMS: nothing, or «, int arg_NAME, …»; SHAPE_VALUES: what initialises the struct. */
void kernel_shape_define(const struct kernel_shape *shape, bool constants, struct buf *source);
/* Defines wt_act() as what the activation does beyond its bounds. */
void kernel_shape_define_act(const struct epilogue *epilogue, struct buf *source);
/* Appends the arguments that SHAPE_PARAMS are, where the shape is no constant. */
void kernel_shape_pass(const struct kernel_shape *shape, bool constants, struct launch *launch);

#endif
