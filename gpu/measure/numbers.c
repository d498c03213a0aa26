/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "service/model/narrow.h"

/* Relative to the largest expected magnitude, for 32 and 64-bit floating point, and for the others. */
static const double tolerances[] = {[NUMBERS_INTEGERS] = 1e-5, [NUMBERS_UNIFORM] = 1e-4};
static const double half_tolerances[] = {[NUMBERS_INTEGERS] = 0x1p-10, [NUMBERS_UNIFORM] = 2e-3};
static const double bfloat_tolerances[] = {[NUMBERS_INTEGERS] = 0x1p-7, [NUMBERS_UNIFORM] = 0x2p-7};
static const double tf32_tolerances[] = {[NUMBERS_INTEGERS] = 1e-5, [NUMBERS_UNIFORM] = 1e-3};

/* Of the products of a sum, those that are not 0 where the weights are f16 or bf16; shorter sums have no zeros but by
 * chance. */
#define HALF_TERMS 256
#define BFLOAT_TERMS 32

enum { BLOCK = 1024, MANY_BLOCKS = 256 }; /* elements compared at once; blocks worth waking threads for */

static bool is_real(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_F64 || dtype_is_narrow(dtype);
}

/* A pseudo-random number for element `i`. */
static uint64_t mix(uint64_t seed, uint64_t i) {
    uint64_t x = (i + seed) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 31;
}

/* The integers that an input holds: `first` … `first + count - 1`. */
struct range {
    int64_t first, count;
};

static struct range range_of(const struct workload *workload, int input) {
    const struct operand *operand = &workload->in[input];
    bool whole = operand->dtype >= DTYPE_I8;
    if (workload->op == OP_GATHER && input == 1)
        return (struct range){0, workload->in[0].shape.dim[workload->attr.gather.axis]};
    if (workload->op == OP_BINARY && workload->attr.binary.kind == BINARY_DIV && input == 1 && whole)
        return (struct range){1, 3};
    if (operand->dtype == DTYPE_BOOL)
        return (struct range){0, 2};
    if (operand->dtype == DTYPE_U8)
        return (struct range){0, 4};
    if (input == 0)
        return (struct range){-3, 7};
    return operand->shape.rank == 1 ? (struct range){-8, 17} : (struct range){-1, 4}; /* bias; weights */
}

/* Products of one sum, for operators that have weights as input 1. */
static int64_t terms_of_sum(const struct workload *workload) {
    const struct shape *x = &workload->in[0].shape, *w = workload->n_in > 1 ? &workload->in[1].shape : NULL;
    switch (workload->op) {
    case OP_CONV:
        return w->dim[1] * w->dim[2] * w->dim[3];
    case OP_CONV_TRANSPOSE:
        return w->dim[0] / workload->attr.conv.groups * w->dim[2] * w->dim[3];
    case OP_DENSE:
    case OP_MATMUL:
        return x->dim[x->rank - 1];
    default:
        return 1;
    }
}

/* One in how many of an input's numbers is kept, the others being 0. */
static uint64_t sparseness(const struct workload *workload, int input) {
    if (input != 1 || !dtype_is_narrow(workload->in[1].dtype))
        return 1;
    int64_t terms = workload->in[1].dtype == DTYPE_F16 ? HALF_TERMS : BFLOAT_TERMS;
    return (uint64_t)((terms_of_sum(workload) + terms - 1) / terms);
}

static void store(enum dtype dtype, void *data, int64_t i, double value) {
    switch (dtype) {
    case DTYPE_F32:
        ((float *)data)[i] = (float)value;
        return;
    case DTYPE_F64:
        ((double *)data)[i] = value;
        return;
    case DTYPE_F16:
    case DTYPE_BF16:
        ((uint16_t *)data)[i] = narrow_from_float(dtype, (float)value);
        return;
    case DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        return;
    case DTYPE_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        return;
    default:
        ((int8_t *)data)[i] = (int8_t)value;
        return;
    }
}

void numbers_fill(const struct workload *workload, int input, enum numbers kind, void *ret_data) {
    const struct operand *operand = &workload->in[input];
    const struct range range = range_of(workload, input);
    const uint64_t seed = (uint64_t)input << 40 | (uint64_t)kind << 56;
    const int64_t n = shape_count(&operand->shape);
    const uint64_t count = (uint64_t)(range.count > 0 ? range.count : 1);
    const bool uniform = kind == NUMBERS_UNIFORM && is_real(operand->dtype);
    const uint64_t sparse = uniform ? 1 : sparseness(workload, input);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = mix(seed, (uint64_t)i);
        double value =
            uniform ? (double)(bits >> 11) * 0x1p-52 - 1 : (double)(range.first + (int64_t)((bits >> 33) % count));
        if (sparse > 1 && (bits & 0xffff) % sparse != 0)
            value = 0;
        store(operand->dtype, ret_data, i, value);
    }
}

static double value_at(enum dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)data)[i];
    case DTYPE_F64:
        return ((const double *)data)[i];
    case DTYPE_F16:
    case DTYPE_BF16:
        return narrow_to_float(dtype, ((const uint16_t *)data)[i]);
    case DTYPE_I32:
        return ((const int32_t *)data)[i];
    case DTYPE_I64:
        return (double)((const int64_t *)data)[i];
    case DTYPE_I8:
        return ((const int8_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* How far apart two values are; infinity when one is a number and the other is not, or they are different infinities.
 */
static double distance(double got, double expected) {
    if (isnan(got) && isnan(expected))
        return 0;
    if (isfinite(got) && isfinite(expected))
        return fabs(got - expected);
    return got == expected ? 0 : INFINITY;
}

/* "[0, 12, 3, 4]": the logical coordinates of the element at `offset`. */
static void put_coordinates(const struct operand *operand, int64_t offset, char *text, size_t size) {
    int64_t stride[SHAPE_MAX_RANK];
    size_t len = 0;
    operand_strides(operand, stride);
    text[0] = '\0';
    for (int d = 0; d < operand->shape.rank && len < size; d++) {
        int64_t at = operand->shape.dim[d] > 1 ? offset / stride[d] % operand->shape.dim[d] : 0;
        len += (size_t)snprintf(text + len, size - len, "%s%" PRId64, d ? ", " : "", at);
    }
}

/* What a comparison found. */
struct findings {
    int64_t differing, worst;
    double distance;
};

static double largest_finite(enum dtype dtype, const void *data, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = fabs(value_at(dtype, data, i));
        if (isfinite(value) && value > largest)
            largest = value;
    }
    return largest;
}

/*
 * Whether BLOCK floats are surely within the limit of each other. The fixed count and the comparisons without branches
 * are what the compiler makes vectors of; the limit is a little stricter than the real one, because of the rounding.
 */
static bool surely_near(const float *got, const float *expected, float strict) {
    int far = 0;
    for (int i = 0; i < BLOCK; i++)
        far |= !(fabsf(got[i] - expected[i]) <= strict);
    return !far;
}

/* Block `b` as floats, which may be in `room`. */
static const float *block_of(enum dtype dtype, const void *data, int64_t b, float room[BLOCK]) {
    if (dtype == DTYPE_F32)
        return (const float *)data + b * BLOCK;
    narrow_widen(dtype, (const uint16_t *)data + b * BLOCK, BLOCK, room);
    return room;
}

static bool block_surely_near(enum dtype dtype, const void *got, const void *expected, int64_t b, float strict) {
    float room[2][BLOCK];
    return surely_near(block_of(dtype, got, b, room[0]), block_of(dtype, expected, b, room[1]), strict);
}

static bool has_blocks(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype_is_narrow(dtype);
}

/* Looks at elements [begin, end) one by one. */
static void compare_some(const struct operand *operand, double limit, const void *got, const void *expected,
                         int64_t begin, int64_t end, struct findings *found) {
    for (int64_t i = begin; i < end; i++) {
        double d = distance(value_at(operand->dtype, got, i), value_at(operand->dtype, expected, i));
        if (d <= limit)
            continue;
        found->differing++;
        if (found->worst < 0 || d > found->distance) {
            found->worst = i;
            found->distance = d;
        }
    }
}

/* The limit of surely_near for what may be `limit` apart. */
static float strict_limit(double limit) {
    return (float)(limit * 0.999);
}

/* What the threads of a quick look share. */
struct look {
    enum dtype dtype;
    const void *got, *expected;
    float strict;
    atomic_bool doubtful;
};

static void look_at_blocks(void *const *args, int64_t begin, int64_t end) {
    struct look *look = args[0];
    for (int64_t b = begin; b < end && !atomic_load_explicit(&look->doubtful, memory_order_relaxed); b++)
        if (!block_surely_near(look->dtype, look->got, look->expected, b, look->strict))
            atomic_store(&look->doubtful, true);
}

bool numbers_surely_agree(struct pool *pool, const struct operand *operand, double limit, const void *got,
                          const void *expected) {
    int64_t n = shape_count(&operand->shape), blocks = n / BLOCK;
    if (!has_blocks(operand->dtype))
        return false;
    struct look look = {.dtype = operand->dtype, .got = got, .expected = expected, .strict = strict_limit(limit)};
    if (pool && blocks >= MANY_BLOCKS)
        pool_run(pool, look_at_blocks, (void *const[]){&look}, blocks);
    else
        look_at_blocks((void *const[]){&look}, 0, blocks);
    for (int64_t i = blocks * BLOCK; i < n; i++)
        if (!(fabs(value_at(operand->dtype, got, i) - value_at(operand->dtype, expected, i)) <= (double)look.strict))
            return false;
    return !atomic_load(&look.doubtful);
}

static struct findings compare(const struct operand *operand, double limit, const void *got, const void *expected) {
    struct findings found = {0, -1, 0};
    int64_t n = shape_count(&operand->shape), done = 0;
    float strict = strict_limit(limit);
    for (; has_blocks(operand->dtype) && done + BLOCK <= n; done += BLOCK)
        if (!block_surely_near(operand->dtype, got, expected, done / BLOCK, strict))
            compare_some(operand, limit, got, expected, done, done + BLOCK, &found);
    compare_some(operand, limit, got, expected, done, n, &found);
    return found;
}

static double tolerance_of(enum dtype dtype, bool tf32, enum numbers kind) {
    switch (dtype) {
    case DTYPE_F16:
        return half_tolerances[kind];
    case DTYPE_BF16:
        return bfloat_tolerances[kind];
    default:
        return tf32 ? tf32_tolerances[kind] : tolerances[kind];
    }
}

double numbers_limit(const struct operand *operand, bool tf32, enum numbers kind, const void *expected) {
    if (!is_real(operand->dtype))
        return 0;
    return tolerance_of(operand->dtype, tf32, kind) *
           largest_finite(operand->dtype, expected, shape_count(&operand->shape));
}

bool numbers_agree_within(const struct operand *operand, double limit, const void *got, const void *expected,
                          char *text, size_t size) {
    char where[128];
    if (memcmp(got, expected, operand_bytes(operand)) == 0)
        return true;
    struct findings found = compare(operand, limit, got, expected);
    if (found.differing == 0)
        return true;
    put_coordinates(operand, found.worst, where, sizeof where);
    snprintf(text, size, "element [%s] should be %.9g and is %.9g; %" PRId64 " of %" PRId64 " elements differ", where,
             value_at(operand->dtype, expected, found.worst), value_at(operand->dtype, got, found.worst),
             found.differing, shape_count(&operand->shape));
    return false;
}

bool numbers_agree(const struct operand *operand, enum numbers kind, const void *got, const void *expected, char *text,
                   size_t size) {
    return numbers_agree_within(operand, numbers_limit(operand, false, kind, expected), got, expected, text, size);
}
