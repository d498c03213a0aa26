/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_conv2d_nchw_cuda.c: AutoTVM's conv2d_nchw.cuda: its knobs, in its order, over autotvm_direct's kernel.
 *
 * tile_f, tile_y and tile_x split channels, rows and columns over block, virtual thread, thread and inner loop: grid
 * and block are (x: columns, y: rows, z: channels), an image taking a whole turn of the grid's z. Older
 * records call the split of the window's rows tile_rx and that of its columns tile_ry, but have them in the same order;
 * these two are read by place, so that index and meaning are the same.
 */
#include "gpu/template/autotvm_direct.h"
#include "gpu/template/builtin.h"

static const struct direct_kind kind = {
    .levels = {[AXIS_N] = 1, [AXIS_G] = 0, [AXIS_F] = 4, [AXIS_Y] = 4, [AXIS_X] = 4},
    .grid_dim = {[AXIS_N] = 2, [AXIS_G] = 2, [AXIS_F] = 2, [AXIS_Y] = 1, [AXIS_X] = 0},
    .block_dim = {[AXIS_N] = 2, [AXIS_G] = 2, [AXIS_F] = 2, [AXIS_Y] = 1, [AXIS_X] = 0},
};

/* The grid's y and z end at 65535; the fallback must have a way to stay within. */
static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return autotvm_direct_shape(workload, &s) && s.groups == 1 && s.oh <= 65535 &&
           s.n * (s.kg / autotvm_direct_channels(&s)) <= 65535;
}

static struct conv2d_shape shape_of(const struct workload *workload) {
    struct conv2d_shape s = {0};
    (void)autotvm_direct_shape(workload, &s);
    return s;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct conv2d_shape s = shape_of(workload);
    struct space *space = space_new(arena);
    (void)target;
    autotvm_direct_add_knobs(&kind, &s, space);
    return space;
}

static struct autotvm_direct direct_of(const struct workload *workload, const struct space *space, int64_t index) {
    struct conv2d_shape s = shape_of(workload);
    return autotvm_direct_of(&kind, &s, space, index);
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    struct conv2d_shape s = shape_of(workload);
    return autotvm_direct_fallback(&kind, &s, target, space);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    struct autotvm_direct direct = direct_of(workload, space, index);
    return autotvm_direct_render(&direct, target, arena, ret, error);
}

static double estimate(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index) {
    struct autotvm_direct direct = direct_of(workload, space, index);
    return autotvm_direct_estimate(&direct, target);
}

static void nest(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret) {
    struct autotvm_direct direct = direct_of(workload, space, index);
    (void)target;
    autotvm_direct_nest(&direct, ret);
}

const struct template autotvm_conv2d_nchw_cuda = {
    .name = "conv2d_nchw.cuda",
    .version = 1,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = render,
    .dtypes = DTYPE_BIT(DTYPE_F32),
    .by_name = true,
    .estimate = estimate,
    .nest = nest,
};
