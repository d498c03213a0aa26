/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/act.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct math_function {
    unsigned needs; /* those that it calls */
    const char *cpu, *cuda;
};

/*
 * 2^k as two factors, so that k may run from the denormals to infinity; Taylor's series on |r| <= ln(2)/2. The argument
 * is kept within ±104 by its bits, since compilers turn comparisons with constants into branches.
 */
static const char exp_cpu[] = "static inline float wt_exp(float x) {\n"
                              "    int bits, most = 0x42d00000;\n"
                              "    float y, a, b, p = 1.98412698e-4f;\n"
                              "    __builtin_memcpy(&bits, &x, 4);\n"
                              "    most = (bits & 0x7fffffff) < most ? bits & 0x7fffffff : most;\n"
                              "    bits = most | (bits & (int)0x80000000);\n"
                              "    __builtin_memcpy(&y, &bits, 4);\n"
                              "    const int k = (int)__builtin_floorf(y * 1.44269504f + 0.5f);\n"
                              "    const float r = (y - (float)k * 0.693145752f) - (float)k * 1.42860677e-6f;\n"
                              "    p = p * r + 1.38888889e-3f;\n"
                              "    p = p * r + 8.33333333e-3f;\n"
                              "    p = p * r + 4.16666667e-2f;\n"
                              "    p = p * r + 1.66666667e-1f;\n"
                              "    p = p * r + 0.5f;\n"
                              "    p = p * r + 1.0f;\n"
                              "    p = p * r + 1.0f;\n"
                              "    const int half = k >> 1, low = (half + 127) << 23, high = (k - half + 127) << 23;\n"
                              "    __builtin_memcpy(&a, &low, 4);\n"
                              "    __builtin_memcpy(&b, &high, 4);\n"
                              "    return x != x ? x : p * a * b;\n"
                              "}\n";

/* x = m × 2^k with m in [sqrt(1/2), sqrt(2)); log(m) = 2 artanh((m - 1) / (m + 1)). */
static const char log_cpu[] =
    "static inline float wt_log(float x) {\n"
    "    const float y = x < 1.17549435e-38f ? x * 8388608.0f : x;\n"
    "    int bits;\n"
    "    __builtin_memcpy(&bits, &y, 4);\n"
    "    const int up = (int)((unsigned)bits - 0x3f3504f3u), k = (up >> 23) - (x < 1.17549435e-38f ? 23 : 0);\n"
    "    bits = (up & 0x7fffff) + 0x3f3504f3;\n"
    "    float m;\n"
    "    __builtin_memcpy(&m, &bits, 4);\n"
    "    const float z = (m - 1.0f) / (m + 1.0f), q = z * z;\n"
    "    float p = 1.11111111e-1f;\n"
    "    p = p * q + 1.42857143e-1f;\n"
    "    p = p * q + 0.2f;\n"
    "    p = p * q + 3.33333333e-1f;\n"
    "    p = p * q * z + z;\n"
    "    const float r = (float)k * 0.693145752f + (2.0f * p + (float)k * 1.42860677e-6f);\n"
    "    return x > 3.40282347e38f ? x : x > 0.0f ? r : x == 0.0f ? -__builtin_inff() : __builtin_nanf(\"\");\n"
    "}\n";

/* Taylor's series near 0, where 1 - 2/(e^2x + 1) would cancel. */
static const char tanh_cpu[] = "static inline float wt_tanh(float x) {\n"
                               "    const float a = x < 0.0f ? -x : x, q = x * x;\n"
                               "    float p = -8.86323553e-3f;\n"
                               "    p = p * q + 2.18694885e-2f;\n"
                               "    p = p * q - 5.39682540e-2f;\n"
                               "    p = p * q + 1.33333333e-1f;\n"
                               "    p = p * q - 3.33333333e-1f;\n"
                               "    p = p * q * x + x;\n"
                               "    const float far = 1.0f - 2.0f / (wt_exp(2.0f * a) + 1.0f);\n"
                               "    return a < 0.3f ? p : __builtin_copysignf(far, x);\n"
                               "}\n";

/* The series of the integral up to 1; beyond it Abramowitz and Stegun 7.1.26, within 1.5e-7. */
static const char erf_cpu[] = "static inline float wt_erf(float x) {\n"
                              "    const float a = __builtin_fabsf(x), q = x * x, t = 1.0f / (1.0f + 0.3275911f * a);\n"
                              "    float p = -1.45038522e-7f * 1.12837917f;\n"
                              "    p = p * q + 1.45891690e-6f * 1.12837917f;\n"
                              "    p = p * q - 1.32275132e-5f * 1.12837917f;\n"
                              "    p = p * q + 1.06837607e-4f * 1.12837917f;\n"
                              "    p = p * q - 7.57575758e-4f * 1.12837917f;\n"
                              "    p = p * q + 4.62962963e-3f * 1.12837917f;\n"
                              "    p = p * q - 2.38095238e-2f * 1.12837917f;\n"
                              "    p = p * q + 0.1f * 1.12837917f;\n"
                              "    p = p * q - 3.33333333e-1f * 1.12837917f;\n"
                              "    p = p * q + 1.0f * 1.12837917f;\n"
                              "    float f = 1.061405429f;\n"
                              "    f = f * t - 1.453152027f;\n"
                              "    f = f * t + 1.421413741f;\n"
                              "    f = f * t - 0.284496736f;\n"
                              "    f = f * t + 0.254829592f;\n"
                              "    f = 1.0f - f * t * wt_exp(-q);\n"
                              "    return a < 1.0f ? p * x : __builtin_copysignf(f, x);\n"
                              "}\n";

/* In double, so that the product with a large exponent keeps a float's digits. */
static const char pow_cpu[] =
    "static inline double wt_log_double(double x) {\n"
    "    long long bits;\n"
    "    __builtin_memcpy(&bits, &x, 8);\n"
    "    const long long root = 0x3fe6a09e667f3bcdLL, k = (bits - root) >> 52;\n"
    "    bits = ((bits - root) & 0xfffffffffffffLL) + root;\n"
    "    double m, p = 1.0 / 15.0;\n"
    "    __builtin_memcpy(&m, &bits, 8);\n"
    "    const double z = (m - 1.0) / (m + 1.0), q = z * z;\n"
    "    for (int i = 13; i > 0; i -= 2)\n"
    "        p = p * q + 1.0 / i;\n"
    "    return 0.6931471805599453 * (double)k + 2.0 * z * p;\n"
    "}\n"
    "static inline float wt_pow(float x, float y) {\n"
    "    const int whole = y == __builtin_floorf(y), odd = whole && y * 0.5f != __builtin_floorf(y * 0.5f);\n"
    "    const float a = x < 0.0f ? -x : x, inf = __builtin_inff();\n"
    "    if (y == 0.0f || x == 1.0f)\n"
    "        return 1.0f;\n"
    "    if (x != x || y != y || (x < 0.0f && !whole && a != inf))\n"
    "        return __builtin_nanf(\"\");\n"
    "    if (y == inf || y == -inf)\n"
    "        return a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? inf : 0.0f;\n"
    "    double r = a == 0.0f ? (y > 0.0f ? -1e4 : 1e4) : a == inf ? (y > 0.0f ? 1e4 : -1e4) : wt_log_double(a) * y;\n"
    "    r = r < -200.0 ? -200.0 : r > 200.0 ? 200.0 : r;\n"
    "    const long long k = (long long)(r * 1.4426950408889634 + (r < 0.0 ? -0.5 : 0.5));\n"
    "    r -= (double)k * 0.6931471805599453;\n"
    "    double p = 1.0, scale;\n"
    "    for (int i = 12; i > 0; i--)\n"
    "        p = p * r / i + 1.0;\n"
    "    const long long bits = (k + 1023) << 52;\n"
    "    __builtin_memcpy(&scale, &bits, 8);\n"
    "    const float v = (float)(p * scale);\n"
    "    return odd && __builtin_signbit(x) ? -v : v;\n"
    "}\n";

/* In the order of their bits; each stands after those that it needs. */
static const struct math_function functions[] = {
    {MATH_EXP, exp_cpu, "static __device__ __forceinline__ float wt_exp(float x) { return expf(x); }\n"},
    {MATH_LOG, log_cpu, "static __device__ __forceinline__ float wt_log(float x) { return logf(x); }\n"},
    {MATH_TANH | MATH_EXP, tanh_cpu, "static __device__ __forceinline__ float wt_tanh(float x) { return tanhf(x); }\n"},
    {MATH_ERF | MATH_EXP, erf_cpu, "static __device__ __forceinline__ float wt_erf(float x) { return erff(x); }\n"},
    {MATH_POW, pow_cpu, "static __device__ __forceinline__ float wt_pow(float x, float y) { return powf(x, y); }\n"},
};

/* $a and $b stand for alpha and beta. */
struct act_text {
    unsigned math;
    const char *expression;
};

static const struct act_text acts[ACT_COUNT] = {
    [ACT_NONE] = {0, "x"},
    [ACT_RELU] = {0, "x < 0.0f ? 0.0f : x"},
    [ACT_LEAKY_RELU] = {0, "x < 0.0f ? $a * x : x"},
    [ACT_CLIP] = {0, "x < $a ? $a : x > $b ? $b : x"},
    [ACT_SIGMOID] = {MATH_EXP, "1.0f / (1.0f + wt_exp(-x))"},
    [ACT_HARD_SIGMOID] = {0, "wt_unit($a * x + $b)"},
    [ACT_HARD_SWISH] = {0, "x * wt_unit(x * 0.166666667f + 0.5f)"},
    [ACT_TANH] = {MATH_TANH, "wt_tanh(x)"},
    [ACT_SILU] = {MATH_EXP, "x / (1.0f + wt_exp(-x))"},
    [ACT_EXP] = {MATH_EXP, "wt_exp(x)"},
    [ACT_LOG] = {MATH_LOG, "wt_log(x)"},
    [ACT_SQRT] = {0, "wt_sqrt(x)"},
    [ACT_ABS] = {0, "x < 0.0f ? -x : x"},
    [ACT_NEG] = {0, "-x"},
    [ACT_ERF] = {MATH_ERF, "wt_erf(x)"},
    [ACT_FLOOR] = {0, "wt_floor(x)"},
    [ACT_CEIL] = {0, "wt_ceil(x)"},
    [ACT_RECIPROCAL] = {0, "1.0f / x"},
};

void act_float(struct buf *source, bool cuda, double value) {
    float f = (float)value;
    char text[32];
    if (isnan(f)) {
        buf_puts(source, cuda ? "__int_as_float(0x7fffffff)" : "__builtin_nanf(\"\")");
    } else if (isinf(f)) {
        buf_puts(source, f < 0 ? "-" : "");
        buf_puts(source, cuda ? "__int_as_float(0x7f800000)" : "__builtin_inff()");
    } else {
        snprintf(text, sizeof text, "%.9g", (double)f);
        buf_printf(source, signbit(f) ? "(%s%sf)" : "%s%sf", text, strpbrk(text, ".e") ? "" : ".0");
    }
}

static void define_math(struct buf *source, bool cuda, unsigned wanted) {
    unsigned needed = 0;
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++)
        needed |= wanted >> i & 1 ? functions[i].needs : 0;
    for (size_t i = 0; i < ARRAY_COUNT(functions); i++) {
        if (needed >> i & 1)
            buf_puts(source, cuda ? functions[i].cuda : functions[i].cpu);
    }
}

void act_define(struct buf *source, bool cuda, const struct epilogue *epilogue, unsigned math) {
    const struct act_text *act = &acts[epilogue->act];
    const char *prefix = cuda ? "static __device__ __forceinline__ float" : "static inline float";
    const char *builtin = cuda ? "" : "__builtin_";
    define_math(source, cuda, math | act->math);
    if (strstr(act->expression, "wt_unit"))
        buf_printf(source, "%s wt_unit(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }\n", prefix);
    if (strstr(act->expression, "wt_sqrt"))
        buf_printf(source, "%s wt_sqrt(float x) { return %ssqrtf(x); }\n", prefix, builtin);
    if (strstr(act->expression, "wt_floor"))
        buf_printf(source, "%s wt_floor(float x) { return %sfloorf(x); }\n", prefix, builtin);
    if (strstr(act->expression, "wt_ceil"))
        buf_printf(source, "%s wt_ceil(float x) { return %sceilf(x); }\n", prefix, builtin);
    buf_printf(source, "%s wt_act(float x) { return ", prefix);
    for (const char *c = act->expression; *c; c++) {
        if (c[0] == '$' && (c[1] == 'a' || c[1] == 'b'))
            act_float(source, cuda, *++c == 'a' ? epilogue->alpha : epilogue->beta);
        else
            buf_putc(source, *c);
    }
    buf_puts(source, "; }\n");
}
