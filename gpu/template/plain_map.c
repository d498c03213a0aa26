/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators whose operands all walk along the output's dimensions in fixed strides: elementwise arithmetic with
 * broadcasting, and moves without arithmetic on indices. Concatenation is one such walk for each input.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/template/plain.h"
#include "service/model/narrow.h"

/* The element of input i is v1 + i in these. */
static const char *const binary_float[BINARY_COUNT] = {
    [BINARY_ADD] = "v1 + v2",           [BINARY_SUB] = "v1 - v2",
    [BINARY_MUL] = "v1 * v2",           [BINARY_DIV] = "v1 / v2",
    [BINARY_MAX] = "v1 > v2 ? v1 : v2", [BINARY_MIN] = "v1 < v2 ? v1 : v2",
    [BINARY_POW] = "wt_pow(v1, v2)",    [BINARY_PRELU] = "v1 < 0.0f ? v1 * v2 : v1",
};

/* Sums wrap; a quotient by 0, which has no value, is 0. */
static const char *const binary_int[BINARY_COUNT] = {
    [BINARY_ADD] = "(long long)((unsigned long long)v1 + (unsigned long long)v2)",
    [BINARY_SUB] = "(long long)((unsigned long long)v1 - (unsigned long long)v2)",
    [BINARY_MUL] = "(long long)((unsigned long long)v1 * (unsigned long long)v2)",
    [BINARY_DIV] = "v2 == 0 ? 0 : v2 == -1 ? (long long)(0ull - (unsigned long long)v1) : v1 / v2",
    [BINARY_MAX] = "v1 > v2 ? v1 : v2",
    [BINARY_MIN] = "v1 < v2 ? v1 : v2",
};

static bool is_integer(enum dtype dtype) {
    return dtype == DTYPE_I8 || dtype == DTYPE_U8 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

static bool is_floating(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype_is_narrow(dtype);
}

static bool unary_on_integers(enum act act) {
    return act == ACT_RELU || act == ACT_ABS || act == ACT_NEG || act == ACT_CLIP;
}

static bool moves_only(enum op op) {
    return op == OP_TRANSPOSE || op == OP_SLICE || op == OP_EXPAND || op == OP_COPY;
}

/* In both operands' logical order, a reshape is a walk where memory order is logical order. */
static bool is_flat_reshape(const struct workload *workload) {
    return workload->op == OP_RESHAPE && workload->in[0].layout == LAYOUT_ROW && workload->out[0].layout == LAYOUT_ROW;
}

bool serves_map(const struct workload *workload) {
    enum dtype dtype = workload->in[0].dtype;
    bool same = plain_all(workload, dtype);
    switch (workload->op) {
    case OP_AFFINE:
        return plain_floats(workload);
    case OP_UNARY:
        return plain_floats(workload) || (same && is_integer(dtype) && unary_on_integers(workload->epilogue.act));
    case OP_BINARY:
        return plain_floats(workload) || (same && is_integer(dtype) && binary_int[workload->attr.binary.kind] &&
                                          workload->epilogue.act == ACT_NONE);
    case OP_CAST:
        return true;
    default:
        return same && (moves_only(workload->op) || is_flat_reshape(workload));
    }
}

/* ---- Values ---- */

static void put_long(struct buf *text, double value) {
    if (value <= (double)INT64_MIN)
        buf_puts(text, "(-9223372036854775807ll - 1)");
    else if (value >= (double)INT64_MAX)
        buf_puts(text, "9223372036854775807ll");
    else
        buf_printf(text, "%" PRId64 "ll", (int64_t)value);
}

static void put_unary_int(struct buf *text, const struct epilogue *epilogue) {
    if (epilogue->act == ACT_CLIP) {
        double bounds[] = {ceil(epilogue->alpha), floor(epilogue->beta)};
        for (int i = 0; i < 2; i++) {
            buf_puts(text, i ? "v1 > " : "v1 < ");
            put_long(text, bounds[i]);
            buf_puts(text, " ? ");
            put_long(text, bounds[i]);
            buf_puts(text, " : ");
        }
        buf_puts(text, "v1");
        return;
    }
    buf_puts(text, epilogue->act == ACT_RELU  ? "v1 < 0 ? 0 : v1"
                   : epilogue->act == ACT_NEG ? "(long long)(0ull - (unsigned long long)v1)"
                                              : "v1 < 0 ? (long long)(0ull - (unsigned long long)v1) : v1");
}

/* From a floating-point number: towards zero; what does not fit becomes the nearest that does, NaN 0. */
static void put_saturated(struct buf *text, enum dtype dtype) {
    static const struct {
        const char *low, *high, *least, *most;
    } ranges[DTYPE_COUNT] = {
        [DTYPE_I8] = {"-128.0", "127.0", "-128", "127"},
        [DTYPE_U8] = {"0.0", "255.0", "0", "255"},
        [DTYPE_I32] = {"-2147483648.0", "2147483647.0", "(-2147483647 - 1)", "2147483647"},
        [DTYPE_I64] = {"-9223372036854775808.0", "9223372036854775807.0", "(-9223372036854775807ll - 1)",
                       "9223372036854775807ll"},
    };
    buf_printf(text, "v1 != v1 ? 0 : v1 <= %s ? %s : v1 >= %s ? %s : (long long)v1", ranges[dtype].low,
               ranges[dtype].least, ranges[dtype].high, ranges[dtype].most);
}

static void put_cast(struct buf *text, const struct workload *workload) {
    enum dtype from = workload->in[0].dtype, to = workload->out[0].dtype;
    bool from_float = is_floating(from), to_float = is_floating(to);
    if (to == DTYPE_BOOL)
        buf_puts(text, "v1 != 0");
    else if (from_float && !to_float)
        put_saturated(text, to);
    else
        buf_puts(text, "v1");
}

static void put_value(struct buf *text, const struct workload *workload) {
    bool is_float = is_floating(workload->in[0].dtype);
    switch (workload->op) {
    case OP_AFFINE:
        buf_puts(text, "wt_act(v1 * v2 + v3)");
        break;
    case OP_UNARY:
        if (is_float)
            buf_puts(text, "wt_act(v1)");
        else
            put_unary_int(text, &workload->epilogue);
        break;
    case OP_BINARY:
        if (is_float)
            buf_printf(text, "wt_act(%s)", binary_float[workload->attr.binary.kind]);
        else
            buf_puts(text, binary_int[workload->attr.binary.kind]);
        break;
    default: /* CAST */
        put_cast(text, workload);
    }
}

static bool computes(enum op op) {
    return op == OP_UNARY || op == OP_BINARY || op == OP_AFFINE || op == OP_CAST;
}

/* The type in which input i is computed with: integers as the widest, f16 and bf16 as f32. */
static const char *value_type(const struct workload *workload, int i) {
    enum dtype dtype = workload->in[i].dtype;
    if (dtype_is_narrow(dtype))
        return plain_type(DTYPE_F32);
    return plain_type(workload->op != OP_CAST && is_integer(dtype) ? DTYPE_I64 : dtype);
}

/* ---- Walks ---- */

static void walk_transposed(struct map *map, const struct workload *workload) {
    int64_t stride[SHAPE_MAX_RANK];
    operand_strides(&workload->in[0], stride);
    for (int d = 0; d < map->rank; d++)
        map->stride[1][d] = stride[workload->attr.transpose.perm[d]];
}

static void walk_slice(struct map *map, const struct workload *workload) {
    const struct slice_attr *slice = &workload->attr.slice;
    int64_t stride[SHAPE_MAX_RANK];
    operand_strides(&workload->in[0], stride);
    for (int d = 0; d < map->rank; d++) {
        map->stride[1][d] = map->dim[d] == 1 ? 0 : stride[d] * slice->step[d];
        map->offset[1] += stride[d] * slice->start[d];
    }
}

static void walk_operands(struct map *map, const struct workload *workload) {
    map_init(map, &workload->out[0].shape, 1 + workload->n_in);
    if (workload->op == OP_RESHAPE) {
        map->rank = 1;
        map->dim[0] = shape_count(&workload->out[0].shape);
        map->stride[0][0] = map->stride[1][0] = 1;
        return;
    }
    map_operand(map, 0, &workload->out[0]);
    if (workload->op == OP_TRANSPOSE) {
        walk_transposed(map, workload);
    } else if (workload->op == OP_SLICE) {
        walk_slice(map, workload);
    } else {
        map_operand(map, 1, &workload->in[0]);
        for (int i = 1; i < workload->n_in && workload->op != OP_AFFINE; i++)
            map_operand(map, 1 + i, &workload->in[i]);
    }
    if (workload->op == OP_AFFINE) /* numbers of a channel */
        map->stride[2][1] = map->stride[3][1] = 1;
}

static void put_computed(struct buf *body, const struct workload *workload, const struct map *map) {
    enum dtype out = workload->out[0].dtype;
    for (int i = 0; i < workload->n_in; i++) {
        buf_printf(body, "    const %s v%d = get%d(", value_type(workload, i), i + 1, i);
        map_put_offset(body, map, 1 + i, "m");
        buf_puts(body, ");\n");
    }
    buf_puts(body, "    put(");
    map_put_offset(body, map, 0, "m");
    buf_printf(body, ", (%s)(", plain_type(dtype_is_narrow(out) ? DTYPE_F32 : out));
    put_value(body, workload);
    buf_puts(body, "));\n");
}

static void put_moved(struct buf *body, const struct map *map) {
    buf_puts(body, "    out[");
    map_put_offset(body, map, 0, "m");
    buf_puts(body, "] = in0[");
    map_put_offset(body, map, 1, "m");
    buf_puts(body, "];\n");
}

void emit_map(struct plain *plain) {
    const struct workload *workload = plain->workload;
    struct buf body CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct map map;
    struct nest nest;
    walk_operands(&map, workload);
    map_simplify(&map, NULL);
    map_nest(&map, "m", &nest);
    nest.simd = true;
    if (computes(workload->op))
        put_computed(&body, workload, &map);
    else
        put_moved(&body, &map);
    nest_emit(plain, arena_printf(plain->arena, "plain_%s", op_name(workload->op)), 0, workload->n_in - 1, &nest,
              buf_str(&body));
}

/* ---- Concatenation ---- */

bool serves_concat(const struct workload *workload) {
    return workload->op == OP_CONCAT && plain_all(workload, workload->out[0].dtype);
}

static void emit_part(struct plain *plain, int i, int64_t start) {
    const struct operand *part = &plain->workload->in[i], *out = &plain->workload->out[0];
    struct kernel_arg args[] = {{{ARG_IN, i}, part->dtype, "part"}, {{ARG_OUT, 0}, out->dtype, "out", true}};
    struct buf body CLEANUP(buf_release) = BUF_INIT(1 << 16);
    int64_t stride[SHAPE_MAX_RANK];
    struct map map;
    struct nest nest;
    operand_strides(out, stride);
    map_init(&map, &part->shape, 2);
    for (int d = 0; d < part->shape.rank; d++)
        map.stride[0][d] = stride[d];
    map.offset[0] = start * stride[plain->workload->attr.concat.axis];
    map_operand(&map, 1, part);
    map_simplify(&map, NULL);
    map_nest(&map, "m", &nest);
    nest.simd = true;
    buf_puts(&body, "    out[");
    map_put_offset(&body, &map, 0, "m");
    buf_puts(&body, "] = part[");
    map_put_offset(&body, &map, 1, "m");
    buf_puts(&body, "];\n");
    nest_emit_with(plain, arena_printf(plain->arena, "plain_concat_%d", i), args, ARRAY_COUNT(args), &nest,
                   buf_str(&body));
}

/* A launch for each input, into its slice of the output. */
void emit_concat(struct plain *plain) {
    int64_t start = 0;
    for (int i = 0; i < plain->workload->n_in; i++) {
        emit_part(plain, i, start);
        start += plain->workload->in[i].shape.dim[plain->workload->attr.concat.axis];
    }
}
