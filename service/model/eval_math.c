/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic one element at a time: activations, binary operators, casts. */
#include <math.h>

#include "service/model/eval_internal.h"

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double clip(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

double eval_act(const struct epilogue *epilogue, double x) {
    switch (epilogue->act) {
    case ACT_RELU:
        return x < 0 ? 0 : x;
    case ACT_LEAKY_RELU:
        return x < 0 ? epilogue->alpha * x : x;
    case ACT_CLIP:
        return clip(x, epilogue->alpha, epilogue->beta);
    case ACT_SIGMOID:
        return sigmoid(x);
    case ACT_HARD_SIGMOID:
        return clip(epilogue->alpha * x + epilogue->beta, 0, 1);
    case ACT_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case ACT_TANH:
        return tanh(x);
    case ACT_SILU:
        return x * sigmoid(x);
    case ACT_EXP:
        return exp(x);
    case ACT_LOG:
        return log(x);
    case ACT_SQRT:
        return sqrt(x);
    case ACT_ABS:
        return fabs(x);
    case ACT_NEG:
        return -x;
    case ACT_ERF:
        return erf(x);
    case ACT_FLOOR:
        return floor(x);
    case ACT_CEIL:
        return ceil(x);
    case ACT_RECIPROCAL:
        return 1 / x;
    case ACT_NONE:
    case ACT_COUNT:
        break;
    }
    return x;
}

static int no_integers(const struct eval *eval) {
    return error_set(eval->error, ERROR_INVALID, "unsupported-data-type", eval->node->name,
                     "This operator is evaluated for f32 only, not for %s.", dtype_name(eval->dtype));
}

static bool is_integer(enum dtype dtype) {
    return dtype == DTYPE_I64 || dtype == DTYPE_I32 || dtype == DTYPE_I8 || dtype == DTYPE_U8 || dtype == DTYPE_BOOL;
}

/* Nearest integer towards zero; what does not fit becomes the nearest that does, NaN 0. */
static int64_t to_int(double x) {
    if (!(x > -0x1p63))
        return isnan(x) ? 0 : INT64_MIN;
    return x < 0x1p63 ? (int64_t)x : INT64_MAX;
}

static int64_t wrap_sub(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t act_int(const struct epilogue *epilogue, int64_t x) {
    switch (epilogue->act) {
    case ACT_RELU:
        return x < 0 ? 0 : x;
    case ACT_ABS:
        return x < 0 ? wrap_sub(0, x) : x;
    case ACT_NEG:
        return wrap_sub(0, x);
    default: /* CLIP */
        return (double)x < epilogue->alpha  ? to_int(ceil(epilogue->alpha))
               : (double)x > epilogue->beta ? to_int(floor(epilogue->beta))
                                            : x;
    }
}

int eval_unary(const struct eval *eval) {
    const struct epilogue *epilogue = &eval->node->epilogue;
    const struct value *x = eval->in[0];
    int64_t count = shape_count(&eval->shape);
    if (is_integer(x->dtype) && x->dtype == eval->dtype) {
        if (epilogue->act != ACT_RELU && epilogue->act != ACT_ABS && epilogue->act != ACT_NEG &&
            epilogue->act != ACT_CLIP)
            return no_integers(eval);
        for (int64_t i = 0; i < count; i++)
            eval_set_int(eval, i, act_int(epilogue, eval_int(x, i)));
        return 0;
    }
    if (eval_need_float(eval, 1))
        return -1;
    for (int64_t i = 0; i < count; i++)
        ((float *)eval->data)[i] = (float)eval_act(epilogue, (double)eval_float(x, i));
    return 0;
}

static double binary_float(enum binary kind, double a, double b) {
    switch (kind) {
    case BINARY_ADD:
        return a + b;
    case BINARY_SUB:
        return a - b;
    case BINARY_MUL:
        return a * b;
    case BINARY_DIV:
        return a / b;
    case BINARY_MAX:
        return a > b ? a : b;
    case BINARY_MIN:
        return a < b ? a : b;
    case BINARY_POW:
        return pow(a, b);
    case BINARY_PRELU:
        return a < 0 ? a * b : a;
    case BINARY_COUNT:
        break;
    }
    return 0;
}

/* Sums and products wrap; quotients round towards zero. -1 when there is no result. */
static int binary_int(enum binary kind, int64_t a, int64_t b, int64_t *ret) {
    switch (kind) {
    case BINARY_ADD:
        *ret = (int64_t)((uint64_t)a + (uint64_t)b);
        return 0;
    case BINARY_SUB:
        *ret = wrap_sub(a, b);
        return 0;
    case BINARY_MUL:
        *ret = (int64_t)((uint64_t)a * (uint64_t)b);
        return 0;
    case BINARY_DIV:
        if (b == 0)
            return -1;
        *ret = b == -1 ? wrap_sub(0, a) : a / b;
        return 0;
    case BINARY_MAX:
        *ret = a > b ? a : b;
        return 0;
    case BINARY_MIN:
        *ret = a < b ? a : b;
        return 0;
    default:
        return -1;
    }
}

static int binary_ints(const struct eval *eval, struct walk *walk) {
    enum binary kind = (enum binary)eval->node->attr.binary.kind;
    for (int64_t i = 0; i < shape_count(&eval->shape); i++, walk_next(walk)) {
        int64_t a = eval_int(eval->in[0], walk->offset[0]), b = eval_int(eval->in[1], walk->offset[1]), result;
        if (binary_int(kind, a, b, &result))
            return error_set(eval->error, ERROR_INVALID, "no-result", eval->node->name,
                             kind == BINARY_DIV ? "An integer is divided by 0."
                                                : "This operator is evaluated for f32 only, not for integers.");
        eval_set_int(eval, i, result);
    }
    return 0;
}

int eval_binary(const struct eval *eval) {
    const struct value *a = eval->in[0], *b = eval->in[1];
    struct walk walk;
    walk_init(&walk, &eval->shape, 2);
    walk_broadcast(&walk, 0, a);
    walk_broadcast(&walk, 1, b);
    if (is_integer(eval->dtype) && a->dtype == eval->dtype && b->dtype == eval->dtype &&
        eval->node->epilogue.act == ACT_NONE)
        return binary_ints(eval, &walk);
    if (eval_need_float(eval, 2))
        return -1;
    enum binary kind = (enum binary)eval->node->attr.binary.kind;
    const float *left = a->data, *right = b->data;
    float *out = eval->data;
    for (int64_t i = 0; i < shape_count(&eval->shape); i++, walk_next(&walk)) {
        double result = binary_float(kind, (double)left[walk.offset[0]], (double)right[walk.offset[1]]);
        out[i] = (float)eval_act(&eval->node->epilogue, result);
    }
    return 0;
}

static int64_t narrow(enum dtype dtype, double x) {
    int64_t whole = to_int(x);
    switch (dtype) {
    case DTYPE_BOOL:
        return x != 0;
    case DTYPE_I32:
        return whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : whole;
    case DTYPE_I8:
        return whole < INT8_MIN ? INT8_MIN : whole > INT8_MAX ? INT8_MAX : whole;
    case DTYPE_U8:
        return whole < 0 ? 0 : whole > UINT8_MAX ? UINT8_MAX : whole;
    default:
        return whole;
    }
}

int eval_cast(const struct eval *eval) {
    const struct value *x = eval->in[0];
    bool from_float = x->dtype == DTYPE_F32, to_float = eval->dtype == DTYPE_F32;
    if ((!from_float && !is_integer(x->dtype)) || (!to_float && !is_integer(eval->dtype)))
        return error_set(eval->error, ERROR_INVALID, "unsupported-data-type", eval->node->name,
                         "A cast from %s to %s cannot be evaluated.", dtype_name(x->dtype), dtype_name(eval->dtype));
    for (int64_t i = 0; i < shape_count(&eval->shape); i++) {
        if (to_float)
            ((float *)eval->data)[i] = from_float ? eval_float(x, i) : (float)eval_int(x, i);
        else
            eval_set_int(eval, i, from_float ? narrow(eval->dtype, (double)eval_float(x, i)) : eval_int(x, i));
    }
    return 0;
}
