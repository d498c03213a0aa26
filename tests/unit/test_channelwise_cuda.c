/* SPDX-License-Identifier: Apache-2.0 */
/* Depthwise convolutions and pools: rendering, compiling, and the kernel's arithmetic on the host. */
#define WARPS_LAUNCHES "\nLAUNCH(channelwise, 1)\n#if KIND == 0\nLAUNCH(channelwise_pack, 1)\n#endif\n"
#include "tests/unit/cuda_check.h"

#define MOBILE                                                                            \
    "conv2d(f16:nhwc:1x96x112x112, f16:row:96x1x3x3, f32:row:96) -> f16:nhwc:1x96x56x56 " \
    "{stride=2x2, dilation=1x1, pad=1x1x1x1, groups=96} bias act=clip:0:6"
#define MOBILE_SMALL                                                                    \
    "conv2d(f32:nhwc:1x960x7x7, f32:row:960x1x3x3, f32:row:960) -> f32:nhwc:1x960x7x7 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=960} bias act=clip:0:6"
#define EFFICIENT                                                                           \
    "conv2d(f16:nhwc:1x240x28x28, f16:row:240x1x5x5, f16:row:240) -> f16:nhwc:1x240x14x14 " \
    "{stride=2x2, dilation=1x1, pad=2x2x2x2, groups=240} bias act=silu"
#define PLANES                                                                            \
    "conv2d(f32:row:1x32x112x112, f32:row:32x1x3x3, f32:row:32) -> f32:row:1x32x112x112 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32} bias act=relu"
#define LARGE                                                                 \
    "conv2d(f16:nhwc:1x64x56x56, f16:row:64x1x31x31) -> f16:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=15x15x15x15, groups=64}"
#define STEM_POOL                                         \
    "pool(f16:nhwc:1x64x112x112) -> f16:nhwc:1x64x56x56 " \
    "{kind=max, kernel=3x3, stride=2x2, dilation=1x1, pad=1x1x1x1, count_include_pad=0}"
#define AVERAGE                                         \
    "pool(f32:row:1x192x35x35) -> f32:row:1x192x35x35 " \
    "{kind=average, kernel=3x3, stride=1x1, dilation=1x1, pad=1x1x1x1, count_include_pad=1}"

static const char *const convs[] = {MOBILE, MOBILE_SMALL, EFFICIENT, PLANES, LARGE};
static const char *const pools[] = {STEM_POOL, AVERAGE};

Test(channelwise_cuda, renders_every_configuration_or_says_why_not) {
    static const char *const archs[] = {"sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a"};
    for (size_t k = 0; k < ARRAY_COUNT(convs); k++)
        check_space(&depthwise_cuda, convs[k], archs[k]);
    for (size_t k = 0; k < ARRAY_COUNT(pools); k++)
        check_space(&pool_cuda, pools[k], archs[k]);
}

Test(channelwise_cuda, serves_windows_over_single_channels_only) {
    cr_assert(served(&depthwise_cuda, MOBILE, "sm_75"));
    cr_assert_not(served(&pool_cuda, MOBILE, "sm_75"));
    cr_assert(served(&pool_cuda, AVERAGE, "sm_75"));
    cr_assert_not(served(&depthwise_cuda, AVERAGE, "sm_75"));
    cr_assert_not(served(&depthwise_cuda,
                         "conv2d(f16:nhwc:1x64x8x8, f16:row:64x2x3x3) -> f16:nhwc:1x64x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}",
                         "sm_90a"));
    cr_assert_not(served(&depthwise_cuda,
                         "conv2d(f32:nhwc:1x1x8x8, f32:row:8x1x3x3) -> f32:nhwc:1x8x8x8 "
                         "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}",
                         "sm_90a"));
}

static const struct template *preferred(const char *key) {
    struct arena *arena = arena_new(0);
    struct target target;
    struct workload *workload;
    struct error error = {0};
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0, "%s", error.text);
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s", error.text);
    const struct template *template = template_for(template_builtin, workload, &target);
    arena_free(arena);
    return template;
}

Test(channelwise_cuda, is_what_a_network_gets_untuned) {
    for (size_t k = 0; k < ARRAY_COUNT(convs); k++)
        cr_assert_eq(preferred(convs[k]), &depthwise_cuda, "%s", convs[k]);
    for (size_t k = 0; k < ARRAY_COUNT(pools); k++)
        cr_assert_eq(preferred(pools[k]), &pool_cuda, "%s", pools[k]);
}

/* The window, types, layout and epilogue stay: all else differs. */
Test(channelwise_cuda, with_shapes_as_arguments_one_source_serves_all_sizes) {
    static const char *const alike[] = {
        "conv2d(f16:nhwc:1x144x56x56, f16:row:144x1x3x3, f32:row:144) -> f16:nhwc:1x144x56x56 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=144} bias act=clip:0:6",
        "conv2d(f16:nhwc:7x32x31x29, f16:row:32x1x3x3, f32:row:32) -> f16:nhwc:7x32x29x29 "
        "{stride=1x1, dilation=1x1, pad=0x2x0x0, groups=32} bias act=relu",
    };
    struct subject first = subject_of(&depthwise_cuda, alike[0], "sm_90a");
    struct subject other = subject_of(&depthwise_cuda, alike[1], "sm_90a");
    int64_t index = with_knob(&first, fallback(&first), "shapes", 0), constants = with_knob(&first, index, "shapes", 1);
    cr_assert(depthwise_cuda.banked(first.space, index));
    cr_assert_not(depthwise_cuda.banked(first.space, constants));
    cr_assert_str_eq(render(&first, index)->source, render(&other, index)->source);
    cr_assert_str_neq(render(&first, constants)->source, render(&other, constants)->source);
    arena_free(first.arena);
    arena_free(other.arena);
}

/* At batch 1 parallelism, at batch 32 few loads an output. */
Test(channelwise_cuda, the_fallback_spreads_small_layers_and_reuses_in_large_ones) {
    static const char *const keys[] = {
        "conv2d(f16:nhwc:1x960x7x7, f16:row:960x1x3x3) -> f16:nhwc:1x960x7x7 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=960}",
        "conv2d(f16:nhwc:32x32x112x112, f16:row:32x1x3x3) -> f16:nhwc:32x32x112x112 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=32}",
    };
    struct subject small = subject_of(&depthwise_cuda, keys[0], "sm_90a");
    struct subject large = subject_of(&depthwise_cuda, keys[1], "sm_90a");
    const struct launch *spread = &render(&small, fallback(&small))->run[0];
    cr_assert_geq(spread->grid[0], (unsigned)small.target.units);
    int64_t index = fallback(&large);
    cr_assert_geq(space_value(large.space, index, "tile_x", 0) * space_value(large.space, index, "tile_y", 0) *
                      space_value(large.space, index, "vec", 0),
                  32);
    arena_free(small.arena);
    arena_free(large.arena);
}

Test(channelwise_cuda, its_loops_do_the_work_of_the_workload) {
    check_nest(&depthwise_cuda, MOBILE, "sm_90a", 96.0 * 56 * 56 * 9);
    check_nest(&depthwise_cuda, PLANES, "sm_90a", 32.0 * 112 * 112 * 9);
    check_nest(&pool_cuda, STEM_POOL, "sm_90a", 64.0 * 56 * 56 * 9);
}

/* ---- random workloads and configurations ---- */

#ifndef ROUNDS
#define ROUNDS 8
#endif

static int64_t outputs(int64_t size, int64_t pads, int64_t taps, int64_t dilation, int64_t stride) {
    int64_t room = size + pads - (taps - 1) * dilation - 1;
    return room < 0 ? 0 : room / stride + 1;
}

/* Two dimensions of a window. */
struct sizes {
    long long in[2], out[2], taps[2], stride[2], dilation[2], pad[4];
};

static struct sizes random_sizes(struct rng *rng, bool pool) {
    struct sizes s = {.out = {0, 0}};
    while (s.out[0] < 1 || s.out[1] < 1) {
        for (int i = 0; i < 2; i++) {
            s.in[i] = PICK(rng, 1, 2, 5, 7, 9, 14, 17), s.taps[i] = PICK(rng, 1, 2, 3, 3, 3, 5, 7, 9);
            s.stride[i] = PICK(rng, 1, 1, 1, 2, 3), s.dilation[i] = PICK(rng, 1, 1, 1, 2, 3);
            s.pad[i] = PICK(rng, 0, 1, 1, 2), s.pad[i + 2] = PICK(rng, 0, 1, 2, 3);
            for (int side = i; side < 4 && pool; side += 2)
                s.pad[side] = s.pad[side] < s.taps[i] ? s.pad[side] : s.taps[i] - 1;
            s.out[i] = outputs(s.in[i], s.pad[i] + s.pad[i + 2], s.taps[i], s.dilation[i], s.stride[i]);
        }
    }
    return s;
}

static void put_window(struct buf *ret, const struct sizes *s) {
    buf_printf(ret, "stride=%lldx%lld, dilation=%lldx%lld, pad=%lldx%lldx%lldx%lld", s->stride[0], s->stride[1],
               s->dilation[0], s->dilation[1], s->pad[0], s->pad[1], s->pad[2], s->pad[3]);
}

/* Odd channels, 1-pixel images, strides, dilation, uneven pads, batches, several outputs a channel, any epilogue. */
static void random_conv(struct rng *rng, struct buf *ret) {
    static const char *const acts[] = {"", " act=relu", " act=clip:0:6", " act=silu"};
    const char *type = rng_below(rng, 3) ? "f16" : "f32", *layout = rng_below(rng, 4) ? "nhwc" : "row";
    struct sizes s = random_sizes(rng, false);
    long long n = PICK(rng, 1, 1, 2, 3), c = PICK(rng, 2, 3, 8, 10, 16, 20, 33, 40), k = c * PICK(rng, 1, 1, 1, 2);
    bool bias = rng_below(rng, 2), residual = rng_below(rng, 2);
    buf_printf(ret, "conv2d(%s:%s:%lldx%lldx%lldx%lld, %s:row:%lldx1x%lldx%lld", type, layout, n, c, s.in[0], s.in[1],
               type, k, s.taps[0], s.taps[1]);
    if (bias)
        buf_printf(ret, ", %s:row:%lld", rng_below(rng, 2) ? type : "f32", k);
    if (residual)
        buf_printf(ret, ", %s:%s:%lldx%lldx%lldx%lld", type, layout, n, k, s.out[0], s.out[1]);
    buf_printf(ret, ") -> %s:%s:%lldx%lldx%lldx%lld {", type, layout, n, k, s.out[0], s.out[1]);
    put_window(ret, &s);
    buf_printf(ret, ", groups=%lld}%s%s%s", c, bias ? " bias" : "", residual ? " residual" : "",
               acts[rng_below(rng, ARRAY_COUNT(acts))]);
}

static void random_pool(struct rng *rng, struct buf *ret) {
    const char *type = rng_below(rng, 2) ? "f16" : "f32", *layout = rng_below(rng, 3) ? "nhwc" : "row";
    struct sizes s = random_sizes(rng, true);
    long long n = PICK(rng, 1, 1, 2), c = PICK(rng, 1, 3, 8, 10, 16, 33);
    buf_printf(ret, "pool(%s:%s:%lldx%lldx%lldx%lld) -> %s:%s:%lldx%lldx%lldx%lld ", type, layout, n, c, s.in[0],
               s.in[1], type, layout, n, c, s.out[0], s.out[1]);
    buf_printf(ret, "{kind=%s, kernel=%lldx%lld, ", rng_below(rng, 2) ? "max" : "average", s.taps[0], s.taps[1]);
    put_window(ret, &s);
    buf_printf(ret, ", count_include_pad=%d}", (int)rng_below(rng, 2));
}

static const char *const emulated[] = {"sm_90a", "sm_75", "sm_80", "sm_90a"};

Test(channelwise_cuda, random_configurations_compute_random_convolutions) {
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(&depthwise_cuda, random_conv, i + 1, emulated[i % ARRAY_COUNT(emulated)]);
}

Test(channelwise_cuda, random_configurations_compute_random_pools) {
    for (uint64_t i = 0; i < ROUNDS; i++)
        check_random(&pool_cuda, random_pool, i + 1, emulated[i % ARRAY_COUNT(emulated)]);
}

/* Many taps are a loop over their rows. */
Test(channelwise_cuda, computes_large_windows) {
    struct subject subject = subject_of(&depthwise_cuda,
                                        "conv2d(f16:nhwc:1x8x13x11, f16:row:8x1x13x9) -> f16:nhwc:1x8x13x11 "
                                        "{stride=1x1, dilation=1x1, pad=6x4x6x4, groups=8}",
                                        "sm_90a");
    struct program *program = render(&subject, fallback(&subject));
    cr_assert(program && strstr(program->source, "#define ROLLED 1"));
    check_on_host(&subject, fallback(&subject));
    arena_free(subject.arena);
}

/* A window that reaches beyond the padding, as with rounding up, has no taps there. */
Test(channelwise_cuda, an_average_counts_what_is_there) {
    struct subject subject =
        subject_of(&pool_cuda,
                   "pool(f32:nhwc:1x4x6x6) -> f32:nhwc:1x4x3x3 "
                   "{kind=average, kernel=3x3, stride=2x2, dilation=1x1, pad=0x0x0x0, count_include_pad=1}",
                   "sm_90a");
    check_on_host(&subject, fallback(&subject));
    arena_free(subject.arena);
}

/* ---- compiling ---- */

Test(channelwise_cuda, compiles_for_hopper) {
    compile_for(&depthwise_cuda, "sm_90a", MOBILE);
    compile_for(&depthwise_cuda, "sm_90a", EFFICIENT);
    compile_for(&pool_cuda, "sm_90a", STEM_POOL);
}

Test(channelwise_cuda, compiles_for_other_architectures) {
    compile_for(&depthwise_cuda, "sm_75", MOBILE_SMALL);
    compile_for(&depthwise_cuda, "sm_80", LARGE);
    compile_for(&depthwise_cuda, "sm_89", PLANES);
    compile_for(&pool_cuda, "sm_75", AVERAGE);
}
