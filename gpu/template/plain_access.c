/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a plain kernel's text reads and writes its operands as floats. An f16 is converted by one instruction where there
 * is one (CUDA; the CPU with F16C or Arm's 64-bit set, through the compiler's _Float16), else from its bits as half.h
 * does it; the CPU's library functions for it are many times slower.
 */
#include "gpu/template/plain.h"

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

enum { MOST_NAMED = 4 }; /* kernel_open names in0 to in3 */

void plain_define_access(struct buf *source, bool cuda, const struct workload *workload) {
    bool any = workload->out[0].dtype == DTYPE_F16;
    for (int i = 0; i < workload->n_in; i++)
        any = any || workload->in[i].dtype == DTYPE_F16;
    if (any)
        buf_puts(source, cuda ? half_cuda : half_cpu);
    for (int i = 0; i < workload->n_in && i < MOST_NAMED; i++)
        buf_printf(source,
                   workload->in[i].dtype == DTYPE_F16 ? "#define get%d(at) wt_widen(in%d[at])\n"
                                                      : "#define get%d(at) in%d[at]\n",
                   i, i);
    buf_puts(source, workload->out[0].dtype == DTYPE_F16 ? "#define put(at, value) out[at] = wt_narrow(value)\n"
                                                         : "#define put(at, value) out[at] = (value)\n");
}
