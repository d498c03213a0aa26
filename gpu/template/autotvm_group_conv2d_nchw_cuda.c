/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_group_conv2d_nchw_cuda.c: AutoTVM's group_conv2d_nchw.cuda: its knobs, in its order, over autotvm_direct's
 * kernel.
 *
 * tile_n, tile_f, tile_y and tile_x split images, the channels of one group, rows and columns over block, virtual
 * thread, thread and inner loop; tile_g splits the groups over blocks and virtual threads. The grid is (x: rows ×
 * columns, y: groups × channels, z: images). fuse_yx says how threads lie in their block: 1: (x: rows × columns, y:
 * channels, z: images); 0: (x: columns, y: rows, z: images × channels). Names of older records: as in
 * autotvm_conv2d_nchw_cuda.c.
 */
#include "gpu/template/autotvm_direct.h"
#include "gpu/template/builtin.h"

static const struct direct_kind apart = {
    .levels = {[AXIS_N] = 4, [AXIS_G] = 2, [AXIS_F] = 4, [AXIS_Y] = 4, [AXIS_X] = 4},
    .grid_dim = {[AXIS_N] = 2, [AXIS_G] = 1, [AXIS_F] = 1, [AXIS_Y] = 0, [AXIS_X] = 0},
    .block_dim = {[AXIS_N] = 2, [AXIS_G] = 2, [AXIS_F] = 2, [AXIS_Y] = 1, [AXIS_X] = 0},
};

static const struct direct_kind fused = {
    .levels = {[AXIS_N] = 4, [AXIS_G] = 2, [AXIS_F] = 4, [AXIS_Y] = 4, [AXIS_X] = 4},
    .grid_dim = {[AXIS_N] = 2, [AXIS_G] = 1, [AXIS_F] = 1, [AXIS_Y] = 0, [AXIS_X] = 0},
    .block_dim = {[AXIS_N] = 2, [AXIS_G] = 2, [AXIS_F] = 1, [AXIS_Y] = 0, [AXIS_X] = 0},
};

/* The grid's y and z end at 65535; the fallback must have a way to stay within. */
static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    (void)target;
    return autotvm_direct_shape(workload, &s) && s.groups > 1 && s.n <= 65535 &&
           s.groups * (s.kg / autotvm_direct_channels(&s)) <= 65535;
}

static struct conv2d_shape shape_of(const struct workload *workload) {
    struct conv2d_shape s = {0};
    (void)autotvm_direct_shape(workload, &s);
    return s;
}

static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t flag[] = {0, 1};
    struct conv2d_shape s = shape_of(workload);
    struct space *space = space_new(arena);
    (void)target;
    autotvm_direct_add_knobs(&apart, &s, space);
    space_choice(space, "fuse_yx", flag, ARRAY_COUNT(flag));
    return space;
}

static struct autotvm_direct direct_of(const struct workload *workload, const struct space *space, int64_t index) {
    struct conv2d_shape s = shape_of(workload);
    return autotvm_direct_of(space_value(space, index, "fuse_yx", 0) ? &fused : &apart, &s, space, index);
}

static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    struct conv2d_shape s = shape_of(workload);
    return autotvm_direct_fallback(&apart, &s, target, space); /* which leaves fuse_yx at 0 */
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

const struct template autotvm_group_conv2d_nchw_cuda = {
    .name = "group_conv2d_nchw.cuda",
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
