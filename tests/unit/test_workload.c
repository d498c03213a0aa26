/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "service/base/rng.h"
#include "service/model/workload.h"

#define CONV_KEY                                                                         \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64) -> f32:nhwc:1x64x56x56 " \
    "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu"

static struct workload *parse(struct arena *arena, const char *key) {
    struct workload *workload = NULL;
    struct error error = {0};
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s\n%s", key, error.text);
    return workload;
}

static void refused(const char *key, const char *because) {
    struct arena *arena = arena_new(0);
    struct workload *workload = NULL;
    struct error error = {0};
    cr_assert_eq(workload_parse(key, arena, &workload, &error), -1, "accepted %.200s", key);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert(strstr(error.text, because), "%.200s\nwas refused with: %s", key, error.text);
    arena_free(arena);
}

static const char *key_of(struct arena *arena, const struct workload *workload) {
    struct buf buf CLEANUP(buf_release) = BUF_INIT(1 << 20);
    workload_key(workload, &buf);
    return arena_strdup(arena, buf_str(&buf));
}

static void same_operands(const struct operand *a, const struct operand *b, int n) {
    for (int i = 0; i < n; i++) {
        cr_assert(a[i].dtype == b[i].dtype && a[i].layout == b[i].layout && shape_equal(&a[i].shape, &b[i].shape));
    }
}

static void same_workload(const struct workload *a, const struct workload *b) {
    cr_assert_eq(a->op, b->op);
    cr_assert_eq(a->n_in, b->n_in);
    cr_assert_eq(a->n_out, b->n_out);
    same_operands(a->in, b->in, a->n_in);
    same_operands(a->out, b->out, a->n_out);
    cr_assert_eq(memcmp(&a->attr, &b->attr, sizeof(a->attr)), 0, "%s", op_name(a->op));
    cr_assert(a->epilogue.bias == b->epilogue.bias && a->epilogue.residual == b->epilogue.residual);
    cr_assert(a->epilogue.act == b->epilogue.act);
    cr_assert(a->epilogue.alpha == b->epilogue.alpha && a->epilogue.beta == b->epilogue.beta);
    cr_assert(a->tf32 == b->tf32);
}

/* ---- random workloads: a random input, and whatever its operator makes of it ---- */

struct maker {
    struct rng rng;
    struct arena *arena;
    struct workload *w;
};

static int64_t pick(struct maker *maker, int64_t low, int64_t high) {
    return low + (int64_t)rng_below(&maker->rng, (uint64_t)(high - low + 1));
}

static double number(struct maker *maker) {
    static const double plain[] = {0, 1, -1, 6, 0.1, 1.0 / 6, 1e-5, 3e300, -0.0, 0.5};
    return pick(maker, 0, 1) ? plain[pick(maker, 0, 9)] : rng_normal(&maker->rng);
}

static void add_in(struct maker *maker, int rank, const int64_t *dim) {
    struct operand *operand = &maker->w->in[maker->w->n_in++];
    operand->dtype = (enum dtype)pick(maker, 0, DTYPE_COUNT - 1);
    operand->shape.rank = rank;
    memcpy(operand->shape.dim, dim, (size_t)rank * sizeof(*dim));
    operand->layout = rank == 4 && pick(maker, 0, 1) ? LAYOUT_NHWC : LAYOUT_ROW;
}

static void set_out(struct maker *maker, int rank, const int64_t *dim) {
    struct workload *w = maker->w;
    add_in(maker, rank, dim);
    w->out[0] = w->in[--w->n_in];
    memset(&w->in[w->n_in], 0, sizeof(w->in[0]));
    w->n_out = 1;
}

static int random_dims(struct maker *maker, int low, int high, int64_t *dim) {
    int rank = (int)pick(maker, low, high);
    for (int i = 0; i < rank; i++) {
        dim[i] = pick(maker, 1, 9);
    }
    return rank;
}

static void random_act(struct maker *maker, int low) {
    struct epilogue *epilogue = &maker->w->epilogue;
    epilogue->act = (enum act)pick(maker, low, ACT_COUNT - 1);
    bool two = epilogue->act == ACT_CLIP || epilogue->act == ACT_HARD_SIGMOID;
    epilogue->alpha = two || epilogue->act == ACT_LEAKY_RELU ? number(maker) : 0;
    epilogue->beta = two ? number(maker) : 0;
}

static void extras(struct maker *maker, int64_t channels, bool residual) {
    struct workload *w = maker->w;
    if (pick(maker, 0, 1)) {
        w->epilogue.bias = true;
        add_in(maker, 1, &channels);
    }
    if (residual && pick(maker, 0, 1)) {
        w->epilogue.residual = true;
        add_in(maker, w->out[0].shape.rank, w->out[0].shape.dim);
    }
    w->tf32 = pick(maker, 0, 3) == 0;
    if (w->tf32) {
        w->in[0].dtype = w->in[1].dtype = DTYPE_F32;
    }
    random_act(maker, ACT_NONE);
}

static void make_conv(struct maker *maker) {
    struct conv_attr *attr = &maker->w->attr.conv;
    attr->groups = pick(maker, 1, 4);
    int64_t x[] = {pick(maker, 1, 4), attr->groups * pick(maker, 1, 8), pick(maker, 9, 40), pick(maker, 9, 40)};
    int64_t w[] = {attr->groups * pick(maker, 1, 8), x[1] / attr->groups, pick(maker, 1, 4), pick(maker, 1, 4)};
    int64_t out[] = {x[0], w[0], 0, 0};
    for (int i = 0; i < 2; i++) {
        attr->stride[i] = pick(maker, 1, 3);
        attr->dilation[i] = pick(maker, 1, 2);
        attr->pad[i] = pick(maker, 0, 3);
        attr->pad[2 + i] = pick(maker, -1, 3);
        int64_t free = x[2 + i] + attr->pad[i] + attr->pad[2 + i] - (w[2 + i] - 1) * attr->dilation[i] - 1;
        out[2 + i] = free / attr->stride[i] + 1;
    }
    add_in(maker, 4, x);
    add_in(maker, 4, w);
    set_out(maker, 4, out);
    extras(maker, w[0], true);
}

static void make_dense(struct maker *maker) {
    int64_t m = pick(maker, 1, 8), k = pick(maker, 1, 4096), n = pick(maker, 1, 4096);
    add_in(maker, 2, (int64_t[]){m, k});
    add_in(maker, 2, (int64_t[]){n, k});
    set_out(maker, 2, (int64_t[]){m, n});
    extras(maker, n, true);
}

static void make_pool(struct maker *maker) {
    struct pool_attr *attr = &maker->w->attr.pool;
    int64_t x[] = {1, pick(maker, 1, 64), pick(maker, 8, 40), pick(maker, 8, 40)}, out[] = {1, x[1], 0, 0};
    attr->kind = pick(maker, 0, 1);
    attr->count_include_pad = pick(maker, 0, 1);
    for (int i = 0; i < 2; i++) {
        attr->kernel[i] = pick(maker, 1, 4);
        attr->stride[i] = pick(maker, 1, 3);
        attr->dilation[i] = pick(maker, 1, 2);
        attr->pad[i] = attr->pad[2 + i] = pick(maker, 0, 1);
        out[2 + i] =
            (x[2 + i] + 2 * attr->pad[i] - (attr->kernel[i] - 1) * attr->dilation[i] - 1) / attr->stride[i] + 1;
    }
    add_in(maker, 4, x);
    set_out(maker, 4, out);
}

static void make_reduce(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 1, SHAPE_MAX_RANK, dim);
    maker->w->attr.reduce = (struct reduce_attr){pick(maker, 0, 2), pick(maker, 1, (1 << rank) - 1)};
    add_in(maker, rank, dim);
    for (int i = 0; i < rank; i++) {
        dim[i] = maker->w->attr.reduce.axes >> i & 1 ? 1 : dim[i];
    }
    set_out(maker, rank, dim);
}

static void make_same(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 0, SHAPE_MAX_RANK, dim);
    add_in(maker, rank, dim);
    set_out(maker, rank, dim);
    if (maker->w->op == OP_UNARY) {
        random_act(maker, ACT_NONE + 1);
    }
}

static void make_affine(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 2, 4, dim);
    add_in(maker, rank, dim);
    add_in(maker, 1, &dim[1]);
    add_in(maker, 1, &dim[1]);
    set_out(maker, rank, dim);
    random_act(maker, ACT_NONE);
}

static void make_binary(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 0, SHAPE_MAX_RANK, dim), skip = (int)pick(maker, 0, rank);
    maker->w->attr.binary.kind = pick(maker, 0, BINARY_COUNT - 1);
    add_in(maker, rank, dim);
    add_in(maker, rank - skip, dim + skip);
    set_out(maker, rank, dim);
    random_act(maker, ACT_NONE);
}

static void make_softmax(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 1, SHAPE_MAX_RANK, dim);
    maker->w->attr.softmax = (struct softmax_attr){pick(maker, 0, rank - 1), pick(maker, 0, 1)};
    add_in(maker, rank, dim);
    set_out(maker, rank, dim);
}

static void make_lrn(struct maker *maker) {
    int64_t dim[4];
    random_dims(maker, 4, 4, dim);
    maker->w->attr.lrn = (struct lrn_attr){pick(maker, 1, 9), number(maker), number(maker), number(maker)};
    add_in(maker, 4, dim);
    set_out(maker, 4, dim);
}

static void make_transpose(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK], out[SHAPE_MAX_RANK], *perm = maker->w->attr.transpose.perm;
    int rank = random_dims(maker, 0, SHAPE_MAX_RANK, dim), turn = rank ? (int)pick(maker, 0, rank - 1) : 0;
    for (int i = 0; i < rank; i++) {
        perm[i] = (i + turn) % rank;
        out[i] = dim[perm[i]];
    }
    add_in(maker, rank, dim);
    set_out(maker, rank, out);
}

static void make_concat(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK], total = 0;
    int rank = random_dims(maker, 1, SHAPE_MAX_RANK, dim), axis = (int)pick(maker, 0, rank - 1);
    maker->w->attr.concat.axis = axis;
    for (int n = (int)pick(maker, 1, 8); n > 0; n--) {
        dim[axis] = pick(maker, 1, 100);
        total += dim[axis];
        add_in(maker, rank, dim);
    }
    dim[axis] = total;
    set_out(maker, rank, dim);
}

static void make_slice(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK], out[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 0, SHAPE_MAX_RANK, dim);
    for (int i = 0; i < rank; i++) {
        bool back = pick(maker, 0, 1);
        out[i] = pick(maker, 1, dim[i]);
        maker->w->attr.slice.step[i] = back ? -1 : 1;
        maker->w->attr.slice.start[i] = back ? dim[i] - 1 : dim[i] - out[i];
    }
    add_in(maker, rank, dim);
    set_out(maker, rank, out);
}

static void make_pad(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK], out[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 0, SHAPE_MAX_RANK, dim);
    maker->w->attr.pad.mode = pick(maker, 0, 2);
    maker->w->attr.pad.value = number(maker);
    for (int i = 0; i < rank; i++) {
        maker->w->attr.pad.before[i] = pick(maker, 1 - dim[i], dim[i] - 1);
        out[i] = dim[i] + maker->w->attr.pad.before[i] + pick(maker, 0, dim[i] - 1);
    }
    add_in(maker, rank, dim);
    set_out(maker, rank, out);
}

static void make_resize(struct maker *maker) {
    int64_t dim[SHAPE_MAX_RANK], out[SHAPE_MAX_RANK];
    int rank = random_dims(maker, 1, SHAPE_MAX_RANK, dim);
    maker->w->attr.resize = (struct resize_attr){pick(maker, 0, 1), pick(maker, 0, 3), pick(maker, 0, 3), {0}};
    for (int i = 0; i < rank; i++) {
        out[i] = pick(maker, 1, 20);
        maker->w->attr.resize.scale[i] = (double)out[i] / (double)dim[i];
    }
    add_in(maker, rank, dim);
    set_out(maker, rank, out);
}

static void (*const makers[OP_COUNT])(struct maker *maker) = {
    [OP_CONV] = make_conv,     [OP_DENSE] = make_dense,  [OP_POOL] = make_pool,           [OP_REDUCE] = make_reduce,
    [OP_AFFINE] = make_affine, [OP_UNARY] = make_same,   [OP_BINARY] = make_binary,       [OP_SOFTMAX] = make_softmax,
    [OP_LRN] = make_lrn,       [OP_RESHAPE] = make_same, [OP_TRANSPOSE] = make_transpose, [OP_CONCAT] = make_concat,
    [OP_SLICE] = make_slice,   [OP_PAD] = make_pad,      [OP_RESIZE] = make_resize,       [OP_EXPAND] = make_same,
    [OP_CAST] = make_same,     [OP_COPY] = make_same,
};

static struct workload *random_workload(struct maker *maker) {
    struct workload *w = maker->w = arena_alloc(maker->arena, sizeof(*w));
    w->in = arena_array(maker->arena, 16, sizeof(*w->in));
    w->out = arena_array(maker->arena, 1, sizeof(*w->out));
    do {
        w->op = (enum op)pick(maker, 0, OP_COUNT - 1);
    } while (!makers[w->op]);
    makers[w->op](maker);
    return w;
}

Test(workload, any_workload_is_read_back_from_its_key) {
    struct maker maker = {0};
    rng_seed(&maker.rng, 7);
    for (int i = 0; i < 5000; i++) {
        maker.arena = arena_new(0);
        const struct workload *made = random_workload(&maker);
        const char *key = key_of(maker.arena, made);
        const struct workload *read = parse(maker.arena, key);
        same_workload(made, read);
        cr_assert_str_eq(key_of(maker.arena, read), key);
        arena_free(maker.arena);
    }
}

Test(workload, a_damaged_key_is_refused_or_still_canonical) {
    struct maker maker = {0};
    rng_seed(&maker.rng, 8);
    for (int i = 0; i < 20000; i++) {
        maker.arena = arena_new(0);
        char *key = arena_strdup(maker.arena, key_of(maker.arena, random_workload(&maker)));
        size_t at = rng_below(&maker.rng, strlen(key));
        key[at] = (char)(pick(&maker, 0, 3) ? "0123456789x,-. e:abct{"[pick(&maker, 0, 21)] : pick(&maker, 1, 255));
        struct workload *read = NULL;
        struct error error = {0};
        if (workload_parse(key, maker.arena, &read, &error) == 0) {
            cr_assert_str_eq(key_of(maker.arena, read), key);
        } else {
            cr_assert_eq(error.class, ERROR_INVALID);
        }
        arena_free(maker.arena);
    }
}

Test(workload, the_key_of_a_convolution_reads_as_documented) {
    struct arena *arena = arena_new(0);
    struct workload *conv = parse(arena, CONV_KEY);
    cr_assert_eq(conv->op, OP_CONV);
    cr_assert_eq(conv->in[0].layout, LAYOUT_NHWC);
    cr_assert_eq(conv->attr.conv.pad[3], 1);
    cr_assert(conv->epilogue.bias);
    cr_assert_eq(conv->epilogue.act, ACT_RELU);
    cr_assert_str_eq(key_of(arena, conv), CONV_KEY);
    arena_free(arena);
}

Test(workload, that_factors_may_be_tf32_is_the_last_word_of_a_key) {
    struct arena *arena = arena_new(0);
    cr_assert(parse(arena, CONV_KEY " math=tf32")->tf32 && !parse(arena, CONV_KEY)->tf32);
    cr_assert(parse(arena, "dense(f32:row:2x3, f32:row:4x3) -> f32:row:2x4 math=tf32")->tf32);
    refused("dense(f32:row:2x3, f32:row:4x3) -> f32:row:2x4 math=tf32 act=relu", "expected the end");
    refused("dense(f32:row:2x3, f32:row:4x3) -> f32:row:2x4 math=fp32", "expected the end");
    refused("dense(f16:row:2x3, f16:row:4x3) -> f16:row:2x4 math=tf32", "of f32");
    refused("matmul(f32:row:2x3, f32:row:3x4) -> f32:row:2x4 math=tf32", "is for conv2d");
    refused("unary(f32:row:3) -> f32:row:3 act=relu math=tf32", "is for conv2d");
    arena_free(arena);
}

Test(workload, parameters_follow_the_activation_that_uses_them) {
    struct arena *arena = arena_new(0);
    struct workload *clip = parse(arena, "unary(f32:row:3) -> f32:row:3 act=clip:0:6");
    cr_assert_eq(clip->epilogue.beta, 6);
    parse(arena, "unary(f32:row:3) -> f32:row:3 act=leaky-relu:0.1");
    parse(arena, "unary(f32:row:scalar) -> f32:row:scalar act=clip:-inf:inf");
    arena_free(arena);
}

Test(workload, flops_and_bytes_count_every_operand_once) {
    struct arena *arena = arena_new(0);
    const struct workload *conv = parse(arena, CONV_KEY);
    cr_assert_eq(workload_flops(conv), 2LL * 64 * 56 * 56 * 64 * 9);
    cr_assert_eq(workload_bytes(conv), 4LL * (2 * 64 * 56 * 56 + 64 * 64 * 9 + 64));
    const struct workload *dense = parse(arena, "dense(f16:row:2x30, f16:row:40x30) -> f16:row:2x40");
    cr_assert_eq(workload_flops(dense), 2 * 2 * 30 * 40);
    cr_assert_eq(workload_flops(parse(arena, "copy(f32:nhwc:1x2x3x4) -> f32:row:1x2x3x4")), 0);
    arena_free(arena);
}

Test(workload, flops_of_absurd_shapes_saturate) {
    struct arena *arena = arena_new(0);
    const struct workload *w = parse(arena, "matmul(f32:row:1048576x1048576, f32:row:1048576x1048576) -> "
                                            "f32:row:1048576x1048576");
    cr_assert_eq(workload_flops(w), 1LL << 61);
    w = parse(arena, "conv2d(f32:row:1x1x1048576x1048576, f32:row:1x1x1048576x1048576) -> f32:row:1x1x1048576x1048576 "
                     "{stride=1x1, dilation=1x1, pad=524288x524288x524287x524287, groups=1}");
    cr_assert_eq(workload_flops(w), INT64_MAX);
    arena_free(arena);
}

Test(workload, channels_last_strides_keep_channels_together) {
    struct operand operand = {DTYPE_F32, LAYOUT_NHWC, {4, {2, 3, 5, 7}}};
    int64_t stride[SHAPE_MAX_RANK];
    operand_strides(&operand, stride);
    cr_assert(stride[0] == 105 && stride[1] == 1 && stride[2] == 21 && stride[3] == 3);
    operand.layout = LAYOUT_ROW;
    operand_strides(&operand, stride);
    cr_assert(stride[0] == 105 && stride[1] == 35 && stride[2] == 7 && stride[3] == 1);
    cr_assert_eq(operand_bytes(&operand), 840);
}

Test(workload, syntax_errors_say_where_and_what) {
    refused("", "name of an operator");
    refused("conv3d(f32:row:1)", "byte 0: expected the name of an operator");
    refused("unary(f33:row:3) -> f32:row:3 act=relu", "byte 6: expected the name of an element type");
    refused("unary(f32:col:3) -> f32:row:3 act=relu", "\"row:\" or \"nhwc:\"");
    refused("unary(f32:row:3) => f32:row:3 act=relu", "expected \") -> \"");
    refused("unary(f32:row:3) -> f32:row:3 act=gelu", "name of an activation");
    refused("unary(f32:row:3) -> f32:row:3 act=relu bias", "expected the end");
    refused("unary(f32:row:3) -> f32:row:3 act=clip:0", "expected \":\"");
    refused("unary(f32:row:1x1x1x1x1x1x1x1x1) -> f32:row:1 act=relu", "at most 8 dimensions");
    refused("unary(f32:row:99999999999999999999) -> f32:row:1 act=relu", "64 bits");
    refused("unary(\xff\x01\n) -> f32:row:1 act=relu", "found \"\?\?\?)");
    refused("binary(f32:row:3, f32:row:3) -> f32:row:3 {kind=xor}", "names of this attribute");
    refused("conv2d(f32:row:1x1x1x1, f32:row:1x1x1x1) -> f32:row:1x1x1x1", "expected \" {\"");
}

Test(workload, other_spellings_of_a_key_are_refused) {
    refused("unary(f32:row:03) -> f32:row:3 act=relu", "canonical form, which is: unary(f32:row:3) ->");
    refused("unary(f32:row:3) -> f32:row:3 act=clip:0.0:6", "canonical");
    refused("unary(f32:row:3) -> f32:row:3 act=clip:0:6e0", "canonical");
    refused("unary(f32:row:3) -> f32:row:3 act=none", "name of an activation");
}

Test(workload, shapes_that_do_not_fit_together_are_refused) {
    static const char attrs[] = "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}";
    static const char *const convs[] = {
        "f32:row:1x64x56x56, f32:row:64x32x3x3) -> f32:row:1x64x56x56",
        "f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:1x64x56x57",
        "f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:1x65x56x56",
        "f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:2x64x56x56",
        "f32:row:64x56x56, f32:row:64x64x3x3) -> f32:row:1x64x56x56",
        "f32:row:1x64x56x56) -> f32:row:1x64x56x56",
        "f32:row:1x1x1x1, f32:row:1x1x9x9) -> f32:row:1x1x1x1",
    };
    char key[256];
    for (size_t i = 0; i < ARRAY_COUNT(convs); i++) {
        snprintf(key, sizeof(key), "conv2d(%s %s", convs[i], attrs);
        refused(key, "workload");
    }
    refused("dense(f32:row:2x3, f32:row:4x3, f32:row:3) -> f32:row:2x4 bias", "number of biases");
    refused("dense(f32:row:2x3, f32:row:4x3, f32:row:2x3) -> f32:row:2x4 residual", "residual");
    refused("dense(f32:row:2x3, f32:row:4x3) -> f32:row:2x4 bias", "takes 3");
    refused("unary(f32:row:3) -> f32:row:3", "without act=");
    refused("reshape(f32:row:3) -> f32:row:4", "number of elements");
    refused("reshape(f32:row:3) -> f32:row:3 act=relu", "epilogue");
    refused("copy(f32:nhwc:3x4) -> f32:row:3x4", "nhwc");
    refused("transpose(f32:row:3x4) -> f32:row:3x3 {perm=0x0}", "permutation");
    refused("slice(f32:row:5) -> f32:row:3 {start=1, step=2}", "outside");
    refused("slice(f32:row:5) -> f32:row:3 {start=1, step=9223372036854775807}", "outside");
    refused("reduce(f32:row:5) -> f32:row:1 {kind=mean, axes=2}", "axis");
    refused("gather(f32:row:5, f32:row:2) -> f32:row:2 {axis=0}", "i32 or i64");
}

Test(workload, sizes_are_bounded) {
    refused("reshape(f32:row:0) -> f32:row:0", "at least 1");
    refused("reshape(f32:row:-4) -> f32:row:-4", "at least 1");
    refused("reshape(f32:row:2097152x1048576) -> f32:row:1", "2^40");
    refused("reshape(f32:row:4611686018427387904x4) -> f32:row:1", "2^40");
    refused("transpose(f32:row:1) -> f32:row:1 {perm=64}", "between 0 and 7");
}

Test(workload, a_key_with_too_many_inputs_is_refused) {
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 22);
    buf_puts(&key, "concat(f32:row:1");
    for (int i = 0; i < 4096; i++) {
        buf_puts(&key, ", f32:row:1");
    }
    buf_puts(&key, ") -> f32:row:4097 {axis=0}");
    refused(buf_str(&key), "4096");
    buf_clear(&key);
    for (int i = 0; i < 100000; i++) {
        buf_puts(&key, "concat(f32:row:1");
    }
    refused(buf_str(&key), "longer than");
}

/* ---- from a graph ---- */

static int image(struct graph *graph, int64_t c, int64_t size) {
    return graph_add_value(graph, "x", DTYPE_F32, &(struct shape){4, {1, c, size, size}});
}

static int conv_node(struct graph *graph, const char *name, int x, int weight) {
    struct node *node = graph_add_node(graph, OP_CONV, name, 2, 1);
    int out = image(graph, 8, 6);
    node->in[0] = x;
    node->in[1] = weight;
    node->out[0] = out;
    node->attr.conv = (struct conv_attr){{1, 1}, {1, 1}, {1, 1, 1, 1}, 1};
    return out;
}

Test(workload, equal_layers_of_a_graph_are_one_workload_with_a_count) {
    static const float weights[8 * 8 * 9];
    struct arena *arena = arena_new(0);
    struct graph *graph = graph_new(arena);
    int w = graph_add_value(graph, "w", DTYPE_F32, &(struct shape){4, {8, 8, 3, 3}});
    graph->values[w].data = weights;
    int a = conv_node(graph, "first", image(graph, 8, 6), w);
    int b = conv_node(graph, "second", a, w);
    struct node *relu = graph_add_node(graph, OP_UNARY, "relu", 1, 1);
    relu->epilogue.act = ACT_RELU;
    relu->in[0] = b;
    relu->out[0] = image(graph, 8, 6);
    struct workload_use *uses;
    int n;
    workload_list(graph, LAYOUT_NHWC, arena, &uses, &n);
    cr_assert_eq(n, 1);
    cr_assert_eq(uses[0].count, 2);
    cr_assert_str_eq(uses[0].first, "first");
    cr_assert_str_eq(uses[0].key, "conv2d(f32:nhwc:1x8x6x6, f32:row:8x8x3x3) -> f32:nhwc:1x8x6x6 "
                                  "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1}");
    arena_free(arena);
}

Test(workload, parts_of_a_node_that_its_key_does_not_show_are_left_out) {
    struct arena *arena = arena_new(0);
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, OP_TRANSPOSE, "t", 1, 1);
    memset(&node->attr, 0x5a, sizeof(node->attr));
    node->attr.transpose.perm[0] = 1;
    node->attr.transpose.perm[1] = 0;
    node->epilogue.alpha = 3;
    int x = graph_add_value(graph, "x", DTYPE_F32, &(struct shape){2, {2, 3}});
    int out = graph_add_value(graph, "y", DTYPE_F32, &(struct shape){2, {3, 2}});
    node->in[0] = x;
    node->out[0] = out;
    const struct workload *made = workload_of_node(graph, node, LAYOUT_NHWC, arena);
    same_workload(made, parse(arena, key_of(arena, made)));
    arena_free(arena);
}
