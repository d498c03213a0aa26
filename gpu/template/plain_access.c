/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a plain kernel's text reads and writes its operands as floats. An f16 is converted by one instruction where there
 * is one (CUDA; the CPU with F16C or Arm's 64-bit set, through the compiler's _Float16), else from its bits as half.h
 * does it; the CPU's library functions for it are many times slower. A bf16 is converted from its bits everywhere, as
 * bfloat.h does it: that is two or three instructions, and works before sm_80 too.
 */
#include "gpu/template/plain.h"
#include "service/model/narrow.h"

static const char half_cuda[] = "static __device__ __forceinline__ float wt_widen(unsigned short h) {\n"
                                "    float f;\n"
                                "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(h));\n"
                                "    return f;\n"
                                "}\n"
                                "static __device__ __forceinline__ unsigned short wt_narrow(float f) {\n"
                                "    unsigned short h;\n"
                                "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f));\n"
                                "    return h;\n"
                                "}\n";

static const char half_cpu[] =
    "#if defined(__FLT16_MANT_DIG__) && (defined(__F16C__) || defined(__aarch64__))\n"
    "static inline float wt_widen(unsigned short h) {\n"
    "    _Float16 f;\n"
    "    __builtin_memcpy(&f, &h, 2);\n"
    "    return (float)f;\n"
    "}\n"
    "static inline unsigned short wt_narrow(float f) {\n"
    "    const _Float16 narrow = (_Float16)f;\n"
    "    unsigned short h;\n"
    "    __builtin_memcpy(&h, &narrow, 2);\n"
    "    return h;\n"
    "}\n"
    "#else\n"
    "static inline float wt_widen(unsigned short h) {\n"
    "    unsigned bits = (unsigned)(h & 0x7fff) << 13;\n"
    "    float f;\n"
    "    __builtin_memcpy(&f, &bits, 4);\n"
    "    f *= 0x1p112f;\n"
    "    __builtin_memcpy(&bits, &f, 4);\n"
    "    bits |= ((h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u) | (unsigned)(h & 0x8000) << 16;\n"
    "    __builtin_memcpy(&f, &bits, 4);\n"
    "    return f;\n"
    "}\n"
    "static inline unsigned short wt_narrow(float f) {\n"
    "    unsigned bits, small;\n"
    "    __builtin_memcpy(&bits, &f, 4);\n"
    "    const unsigned sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;\n"
    "    __builtin_memcpy(&f, &size, 4);\n"
    "    f += 0.5f;\n"
    "    __builtin_memcpy(&small, &f, 4);\n"
    "    const unsigned normal = (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13;\n"
    "    unsigned h = size < 0x38800000u ? small - 0x3f000000u : normal;\n"
    "    h = size >= 0x477ff000u ? 0x7c00u : h;\n"
    "    h = size > 0x7f800000u ? 0x7e00u : h;\n"
    "    return (unsigned short)(h | sign);\n"
    "}\n"
    "#endif\n";

static const char bfloat_cuda[] =
    "static __device__ __forceinline__ float wt_widen_bf16(unsigned short b) {\n"
    "    return __uint_as_float((unsigned)b << 16);\n"
    "}\n"
    "static __device__ __forceinline__ unsigned short wt_narrow_bf16(float f) {\n"
    "    const unsigned bits = __float_as_uint(f), up = bits + 0x7fffu + (bits >> 16 & 1u);\n"
    "    return (unsigned short)(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : up) >> 16);\n"
    "}\n";

static const char bfloat_cpu[] =
    "static inline float wt_widen_bf16(unsigned short b) {\n"
    "    const unsigned bits = (unsigned)b << 16;\n"
    "    float f;\n"
    "    __builtin_memcpy(&f, &bits, 4);\n"
    "    return f;\n"
    "}\n"
    "static inline unsigned short wt_narrow_bf16(float f) {\n"
    "    unsigned bits;\n"
    "    __builtin_memcpy(&bits, &f, 4);\n"
    "    const unsigned up = bits + 0x7fffu + (bits >> 16 & 1u);\n"
    "    return (unsigned short)(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : up) >> 16);\n"
    "}\n";

enum { MOST_NAMED = 4 }; /* kernel_open names in0 to in3 */

static bool uses(const struct workload *workload, enum dtype dtype) {
    bool any = workload->out[0].dtype == dtype;
    for (int i = 0; i < workload->n_in; i++)
        any = any || workload->in[i].dtype == dtype;
    return any;
}

/* What the names of an operand's conversions end with. */
static const char *ending(enum dtype dtype) {
    return dtype == DTYPE_BF16 ? "_bf16" : "";
}

void plain_define_access(struct buf *source, bool cuda, const struct workload *workload) {
    enum dtype out = workload->out[0].dtype;
    if (uses(workload, DTYPE_F16))
        buf_puts(source, cuda ? half_cuda : half_cpu);
    if (uses(workload, DTYPE_BF16))
        buf_puts(source, cuda ? bfloat_cuda : bfloat_cpu);
    for (int i = 0; i < workload->n_in && i < MOST_NAMED; i++) {
        enum dtype in = workload->in[i].dtype;
        if (dtype_is_narrow(in))
            buf_printf(source, "#define get%d(at) wt_widen%s(in%d[at])\n", i, ending(in), i);
        else
            buf_printf(source, "#define get%d(at) in%d[at]\n", i, i);
    }
    if (dtype_is_narrow(out))
        buf_printf(source, "#define put(at, value) out[at] = wt_narrow%s(value)\n", ending(out));
    else
        buf_puts(source, "#define put(at, value) out[at] = (value)\n");
}
