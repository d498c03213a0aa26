/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_mma_cuda.c: the space of conv2d_mma.cu: the CTA's tile, its warps and how they share the tile and the sum over
 * k, the stages, how far the sum is split over CTAs, and whether the shape is in the source or in the arguments. Serves
 * convolutions in NHWC and dense layers of FP16, from sm_80 on of BF16, and of FP32 where factors may be TF32; groups
 * only where each fills the tensor core's tiles. tile_k counts elements; as what matters are bytes, its candidates are
 * half as many elements in TF32.
 *
 * Which side of the mma the pixels are on follows from the tile: sixteens go on the M side; 8, 24, 40 or 56 pixels only
 * on the N side, which comes in eights. A tile of 56 fits the images of most networks: 7², 14², 28² and 56² are 0.875,
 * 3.5, 14 and 56 of them.
 */
#include "gpu/template/builtin.h"
#include "gpu/template/cuda_space.h"
#include "gpu/template/conv2d_mma.h"
#include "service/model/narrow.h"

#define MIN_GROUP_CHANNELS 16
#define MIN_SM 75
#define ASYNC_SM 80
#define CLUSTER_SM 90
#define EARLY_SM 90
#define MAX_SCRATCH (512LL << 20)
#define MAX_REGISTERS 232 /* as estimated: beyond, NVRTC 13 needs all 255 and spills */
#define MANY_PIXELS 2048  /* from which on tiles of 256, with asynchronous copies, can fill a device */
#define PIXEL_TILES 4     /* candidates kept of those that suit the workload */
#define CHANNEL_TILES 3
#define DEPTHS 3 /* 128 bytes are always among them: with them four slices can share the smallest tile */

/* ---- workloads ---- */

/* The oldest device with the mma, and with asynchronous copies where the kernel has no other way. */
static int least_sm(const struct workload *workload) {
    return workload->in[0].dtype == DTYPE_F16 ? MIN_SM : ASYNC_SM;
}

static bool serves(const struct workload *workload, const struct target *target) {
    struct conv2d_shape s;
    return conv2d_tensor_shape(workload, &s) && cuda_sm(target) >= least_sm(workload) &&
           (s.groups == 1 || (s.cg >= MIN_GROUP_CHANNELS && s.kg >= MIN_GROUP_CHANNELS)) && s.groups <= 4096 &&
           fits_int(s.n * s.h * s.w * s.c) && fits_int(s.n * s.oh * s.ow * s.k) &&
           fits_int(s.k * (s.cg + 3) * s.kh * s.kw);
}

static int64_t vec_of(const struct conv2d_shape *s, int64_t element_bytes) {
    return s->cg % 8 == 0 && element_bytes == 2 ? 8 : s->cg % 4 == 0 ? 4 : s->cg % 2 == 0 ? 2 : 1;
}

static int64_t depth_of(const struct conv2d_shape *s) {
    return s->cg % 2 == 0 ? s->cg : ceil_div(s->cg, 4) * 4;
}

/* ---- the space ---- */

/* Of a rising list the last `most` candidates up to the first that covers `enough`. */
static void choose_near(struct space *space, const char *name, const int64_t *values, int n, int64_t enough, int most) {
    int used = 1;
    while (used < n && values[used - 1] < enough)
        used++;
    int skipped = used > most ? used - most : 0;
    space_choice(space, name, values + skipped, used - skipped);
}

/*
 * Without asynchronous copies the next step is in registers, and more than two stages are of no use. `warps`: of the
 * CTA; `slices`: how many of them share each part of the tile, every one with its own part of a step's k.
 */
static struct space *make_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    static const int64_t pixels[] = {8, 16, 32, 56, 64, 128, 256}, channels[] = {16, 32, 64, 128},
                         depths[][4] = {{16, 32, 64, 128}, {8, 16, 32, 64}}, warps[] = {4, 8}, slices[] = {1, 2, 4},
                         stages[] = {2, 3, 5}, splits[] = {1, 2, 4, 8}, shapes[] = {ARGUMENTS, CONSTANTS};
    struct conv2d_shape s = {0};
    struct space *space = space_new(arena);
    conv2d_tensor_shape(workload, &s);
    bool wide = workload->in[0].dtype == DTYPE_F32;
    int64_t k = s.kh * s.kw * depth_of(&s), deep = wide ? 32 : 64;
    bool many = cuda_sm(target) >= ASYNC_SM && s.cg % 2 == 0 && s.n * s.oh * s.ow >= MANY_PIXELS;
    choose_near(space, "tile_p", pixels, ARRAY_COUNT(pixels) - !many, s.n * s.oh * s.ow, PIXEL_TILES);
    choose_near(space, "tile_c", channels, ARRAY_COUNT(channels), s.kg, CHANNEL_TILES);
    choose_near(space, "tile_k", depths[wide], ARRAY_COUNT(depths[wide]), k <= deep ? deep : 2 * deep, DEPTHS);
    space_choice(space, "warps", warps, ARRAY_COUNT(warps));
    space_choice(space, "slices", slices, ARRAY_COUNT(slices));
    space_choice(space, "stages", stages, cuda_sm(target) >= ASYNC_SM ? ARRAY_COUNT(stages) : 1);
    choose_near(space, "split_k", splits, ARRAY_COUNT(splits), k / deep, ARRAY_COUNT(splits));
    space_choice(space, "shapes", shapes, ARRAY_COUNT(shapes));
    return space;
}

/* The best by the estimate, with the shape as constants; the first of equals. */
static int64_t fallback(const struct workload *workload, const struct target *target, const struct space *space) {
    return cuda_best_estimated(conv2d_mma_estimate, workload, target, space, space->size / 2);
}

/* ---- a configuration ---- */

/* The warps of a slice: the arrangement whose warps read least from shared memory. wp is 0 when there is none. */
static void arrange(struct conv2d_mma *t, int64_t warps) {
    int64_t unit_p = t->swap ? 8 : 16, unit_c = t->swap ? 16 : 8, least = INT64_MAX;
    for (int64_t wp = 1; wp <= warps; wp++) {
        int64_t wc = warps / wp;
        if (wp * wc != warps || t->bp % (wp * unit_p) != 0 || t->bc % (wc * unit_c) != 0)
            continue;
        int64_t reads = t->bp / wp + t->bc / wc;
        if (reads < least) {
            least = reads;
            t->wp = wp;
            t->wc = wc;
        }
    }
}

/* What NVRTC 13 makes for sm_90a: sums, operands, addresses and places, and what is in registers on its way. */
static int64_t registers_of(const struct conv2d_mma *t) {
    int64_t tp = t->bp / t->wp, tc = t->bc / t->wc, sums = tp * tc / 32;
    int64_t operands = (tp + tc) / 16 * 4;
    int64_t held = (t->async && t->vec > 1 ? 0 : t->patch_loads * 4) + (t->async ? 0 : t->weight_loads * 4);
    return sums + operands + 3 * t->patch_loads + held + 34;
}

static void add_costs(struct conv2d_mma *t) {
    int64_t row_bytes = t->bk * t->element_bytes, pipeline = t->stages * (t->bp + t->bc) * row_bytes;
    int64_t sums = t->slices * t->bp * (t->bc + (t->swap ? 4 : 8)) * 4;
    t->patch_loads = ceil_div(t->bp * row_bytes / 16, t->threads);
    t->weight_loads = ceil_div(t->bc * row_bytes / 16, t->threads);
    t->shared_bytes = pipeline > sums ? pipeline : sums;
    t->registers = t->wp ? registers_of(t) : 0;
}

struct conv2d_mma conv2d_mma_of(const struct workload *workload, const struct target *target, const struct space *space,
                                int64_t index) {
    struct conv2d_mma t = {.dtype = workload->in[0].dtype,
                           .element_bytes = (int64_t)dtype_size(workload->in[0].dtype),
                           .sm = cuda_sm(target),
                           .bp = space_value(space, index, "tile_p", 0),
                           .bc = space_value(space, index, "tile_c", 0),
                           .bk = space_value(space, index, "tile_k", 0),
                           .slices = space_value(space, index, "slices", 0),
                           .stages = space_value(space, index, "stages", 0),
                           .parts = space_value(space, index, "split_k", 0),
                           .constants = space_value(space, index, "shapes", 0) == CONSTANTS};
    const struct conv2d_shape *s = &t.shape;
    int64_t warps = space_value(space, index, "warps", 0);
    conv2d_tensor_shape(workload, &t.shape);
    t.swap = t.bp % 16 != 0;
    t.async = t.sm >= ASYNC_SM;
    t.early = t.sm >= EARLY_SM;
    t.cluster = t.parts > 1 && t.sm >= CLUSTER_SM;
    t.threads = warps * 32;
    t.pixels = s->n * s->oh * s->ow;
    t.vec = vec_of(s, t.element_bytes);
    t.depth = depth_of(s);
    t.k = s->kh * s->kw * t.depth;
    t.steps = ceil_div(t.k, t.bk);
    t.tiles_p = ceil_div(t.pixels, t.bp);
    t.tiles_c = ceil_div(s->kg, t.bc);
    t.blocked = s->cg % t.bk == 0;
    t.fours = s->kg % 4 == 0;
    t.half_bias = s->bias_in >= 0 && dtype_is_narrow(workload->in[s->bias_in].dtype);
    t.check_columns = !t.constants || s->pad_w != 0 || (s->ow - 1) * s->sw + (s->kw - 1) * s->dw >= s->w;
    t.taps = !t.constants || s->kh * s->kw > 1;
    arrange(&t, warps / t.slices);
    add_costs(&t);
    return t;
}

static int check_device(const struct conv2d_mma *t, const struct target *target, struct error *error) {
    if (t->threads > target->max_threads)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld threads in a block are too many.",
                         (long long)t->threads);
    if (t->shared_bytes > target->shared_bytes)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A block needs %lld bytes of shared memory.",
                         (long long)t->shared_bytes);
    if (t->registers > MAX_REGISTERS || t->registers * t->threads > target->registers)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "A thread needs about %lld registers.",
                         (long long)t->registers);
    return 0;
}

int conv2d_mma_check(const struct conv2d_mma *t, const struct target *target, struct error *error) {
    const struct conv2d_shape *s = &t->shape;
    if (t->wp == 0)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "A tile of %lld pixels and %lld channels is too small for %lld warps.", (long long)t->bp,
                         (long long)t->bc, (long long)(t->threads / 32 / t->slices));
    if (t->slices > t->bk * t->element_bytes / 32)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld of k cannot be shared by %lld warps.",
                         (long long)t->bk, (long long)t->slices);
    if (check_device(t, target, error) < 0)
        return -1;
    if (t->parts > t->steps)
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "%lld steps cannot be split into %lld parts.",
                         (long long)t->steps, (long long)t->parts);
    if (t->parts > 1 && !t->cluster && t->parts * t->pixels * s->k * 4 > MAX_SCRATCH)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The partial sums of %lld parts take over %lld MB.", (long long)t->parts, MAX_SCRATCH >> 20);
    if (!fits_int(s->groups * t->tiles_c * t->bc * (t->steps + 4) * t->bk) ||
        (t->parts > 1 && !t->cluster && !fits_int(t->parts * t->pixels * s->k)))
        return error_set(error, ERROR_INVALID, "instantiation", NULL, "The weights or partial sums are too many.");
    if (s->groups * t->parts > 65535 || t->tiles_c > 65535)
        return error_set(error, ERROR_INVALID, "instantiation", NULL,
                         "The grid has more than 65535 blocks along y or z.");
    return 0;
}

const struct template conv2d_mma_cuda = {
    .name = "conv2d_mma.cuda",
    .version = 2,
    .device = "cuda",
    .serves = serves,
    .space = make_space,
    .fallback = fallback,
    .render = conv2d_mma_render,
    .dtypes = DTYPE_BIT(DTYPE_F16) | DTYPE_BIT(DTYPE_BF16) | TF32_BIT,
    .estimate = conv2d_mma_estimate,
    .nest = conv2d_mma_nest,
    .banked = cuda_banked,
};
