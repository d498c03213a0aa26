/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reduce: sums, means, maxima and softmax along lines of a tensor that is [A][LENGTH][B] in memory: A × B lines. Global
 * average pooling in NHWC is A images with B channels, in NCHW A planes with B = 1; a classifier's softmax has B = 1.
 *
 *   ALONG (B = 1)   WAYS threads a line, LINES lines a block; a thread takes every WAYS-th vector of VEC neighbours.
 *                   A line's threads are neighbours and exchange what they have, those of several warps through shared
 *                   memory
 *   across          a thread takes every WAYS-th element of VEC neighbouring lines; LINES such vectors a block, whose
 *                   WAYS threads each meet in shared memory
 *
 * Softmax wants each element three times: for the maximum, the sum and the result. A thread keeps its own in registers
 * where they are few (HELD vectors), else it reads them again.
 *
 * In front of this text: struct shape, SHAPE_PARAMS (nothing, or «, int arg_lines, …») and SHAPE_VALUES; HALF (elements
 * are FP16, else FP32), VEC, ALONG, WAYS, LINES, HELD; KIND (0: mean, 1: maximum, 2: sum, 3: softmax, 4: its logarithm),
 * EARLY, CONSTANTS; wt_exp() and wt_log().
 */

#define INLINE __device__ static __forceinline__

typedef unsigned short half_bits;

#define SOFTMAX (KIND >= 3)
#define SHARES (WAYS > 1 && (!ALONG || WAYS > 32)) /* what threads have through shared memory */
#define STORES_VECTORS (SOFTMAX || (!ALONG && WAYS == 1))

/* ---- instructions ---- */

#if HALF
INLINE float float_of(half_bits half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

INLINE half_bits element_of(float value) {
    half_bits half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
#endif

#if SHARES
/* All of shared memory is named by its 32-bit address. */
INLINE unsigned shared_begin() {
    extern __shared__ __align__(16) unsigned char shared[];
    return (unsigned)__cvta_generic_to_shared(shared);
}

INLINE void store_shared(unsigned to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}

INLINE float load_one(unsigned from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}
#endif

#if ALONG && WAYS > 1
/* What the lane has that differs in this bit of its number. */
INLINE float exchange(float value, int bit) {
    return __shfl_xor_sync(0xffffffffu, value, bit);
}
#endif

#if EARLY
/* The next kernel may begin now, in the room that this one leaves; it waits itself for what this one writes. */
INLINE void let_next_begin() {
    asm volatile("griddepcontrol.launch_dependents;");
}

/* Until all that was launched before is done. What is loaded from `place` on cannot be loaded before. */
INLINE void await_previous(int &place) {
    asm volatile("griddepcontrol.wait;" : "+r"(place)::"memory");
}
#endif

/* ---- tiles ---- */

#if HALF
typedef half_bits element;
#else
typedef float element;
#endif

#define BYTES (VEC * (HALF ? 2 : 4))
#define WORDS ((BYTES + 3) / 4)
#define THREADS (WAYS * LINES)
#define ACCS (ALONG ? 1 : VEC) /* lines that a thread has elements of */
#define WARPS (WAYS / 32)      /* of a line, ALONG */
#define AT_ONCE 4              /* vectors on their way */

/* n / s.d, n >= 0 */
#if CONSTANTS
#define QUOTIENT(n, d) ((int)((unsigned)(n) / (unsigned)s.d))
#else
#define QUOTIENT(n, d) ((int)(__umulhi(2u * (unsigned)(n), (unsigned)s.d##_multiplier) >> s.d##_shift))
#endif

/* VEC elements, as floats. */
struct vector {
    float value[VEC];
};

INLINE struct vector load_vector(const element *from) {
    unsigned word[WORDS];
    struct vector v;
#if BYTES == 16
    const uint4 four = *(const uint4 *)from;
    word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
#elif BYTES == 8
    const uint2 two = *(const uint2 *)from;
    word[0] = two.x, word[1] = two.y;
#elif BYTES == 4
    word[0] = *(const unsigned *)from;
#else
    word[0] = *from;
#endif
#pragma unroll
    for (int e = 0; e < VEC; e++)
#if HALF
        v.value[e] = float_of((half_bits)(word[e / 2] >> e % 2 * 16));
#else
        v.value[e] = __int_as_float((int)word[e]);
#endif
    return v;
}

#if STORES_VECTORS
INLINE void store_vector(element *to, const struct vector &v) {
    unsigned word[WORDS];
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
#if HALF && VEC > 1
        word[i] = element_of(v.value[2 * i]) | (unsigned)element_of(v.value[2 * i + 1]) << 16;
#elif HALF
        word[i] = element_of(v.value[i]);
#else
        word[i] = (unsigned)__float_as_int(v.value[i]);
#endif
    }
#if BYTES == 16
    *(uint4 *)to = make_uint4(word[0], word[1], word[2], word[3]);
#elif BYTES == 8
    *(uint2 *)to = make_uint2(word[0], word[1]);
#elif BYTES == 4
    *(unsigned *)to = word[0];
#else
    *to = (element)word[0];
#endif
}
#else
INLINE element output_of(float value) {
#if HALF
    return element_of(value);
#else
    return value;
#endif
}
#endif

/* ---- a thread's part ---- */

struct part {
    int way, line;   /* of WAYS; of LINES */
    int from, count; /* where its first vector is, and how many it has: the next is `step` further */
    int step;
    int out; /* of a reduction: where the first of its lines' results goes */
};

/* A thread behind the last line has nothing. */
INLINE struct part part_of(const struct shape &s) {
    struct part at;
    const int tid = threadIdx.x;
#if ALONG
    at.way = tid % WAYS, at.line = tid / WAYS;
    const int number = blockIdx.x * LINES + at.line;
    at.from = number * s.length + at.way * VEC;
    at.step = WAYS * VEC;
    at.out = number;
    const int all = s.length / VEC;
#else
    at.line = tid % LINES, at.way = tid / LINES;
    const int number = blockIdx.x * LINES + at.line, outer = QUOTIENT(number, vectors);
    const int inner = (number - outer * s.vectors) * VEC, b = s.vectors * VEC;
    at.from = (outer * s.length + at.way) * b + inner;
    at.step = WAYS * b;
    at.out = outer * b + inner;
    const int all = s.length;
#endif
    at.count = number < s.lines && at.way < all ? (all - at.way + WAYS - 1) / WAYS : 0;
    return at;
}

/* ---- joining ---- */

INLINE float join(float a, float b, bool max) {
    return max ? (b > a ? b : a) : a + b;
}

/* A line's threads then all have its result. `round`: which of a kernel's joins; each has shared memory of its own. */
INLINE void join_ways(const struct part &at, float (&acc)[ACCS], bool max, int round) {
#if SHARES
    unsigned shared = shared_begin();
#endif
#if WAYS > 1
#if ALONG
#pragma unroll
    for (int bit = (WAYS < 32 ? WAYS : 32) / 2; bit > 0; bit /= 2)
        acc[0] = join(acc[0], exchange(acc[0], bit), max);
#if WARPS > 1
    shared += (round * LINES + at.line) * WARPS * 4;
    if (at.way % 32 == 0)
        store_shared(shared + at.way / 32 * 4, acc[0]);
    __syncthreads();
    acc[0] = load_one(shared);
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        acc[0] = join(acc[0], load_one(shared + warp * 4), max);
#endif
#else
    shared += (round * WAYS * VEC * LINES + at.line) * 4;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        store_shared(shared + (at.way * VEC + e) * LINES * 4, acc[e]);
    __syncthreads();
#if SOFTMAX
    for (int e = 0; e < VEC; e++) {
        acc[e] = load_one(shared + e * LINES * 4);
        for (int way = 1; way < WAYS; way++)
            acc[e] = join(acc[e], load_one(shared + (way * VEC + e) * LINES * 4), max);
    }
#else
    /* One result a thread: of the line whose number among VEC is the thread's way. */
    if (at.way < VEC) {
        float result = load_one(shared + at.way * LINES * 4);
#pragma unroll
        for (int way = 1; way < WAYS; way++)
            result = join(result, load_one(shared + (way * VEC + at.way) * LINES * 4), max);
        acc[0] = result;
    }
#endif
#endif
#endif
}

/* ---- reductions ---- */

#if !SOFTMAX
INLINE float finish(const struct shape &s, float acc) {
    return KIND == 0 ? acc / (float)s.length : acc;
}

INLINE void put_results(const struct shape &s, const struct part &at, const float (&acc)[ACCS], element *y) {
    if ((ALONG ? blockIdx.x * LINES + at.line : at.out / VEC) >= s.lines)
        return;
#if ALONG
    if (at.way == 0)
        y[at.out] = output_of(finish(s, acc[0]));
#elif WAYS > 1
    if (at.way < VEC)
        y[at.out + at.way] = output_of(finish(s, acc[0]));
#else
    struct vector v;
#pragma unroll
    for (int e = 0; e < VEC; e++)
        v.value[e] = finish(s, acc[e]);
    store_vector(y + at.out, v);
#endif
}
#endif

#if !SOFTMAX || !HELD
/* A pass over the thread's vectors, AT_ONCE loads on their way. */
INLINE void add_part(const element *x, const struct part &at, float (&acc)[ACCS], bool max) {
    for (int first = 0; first < at.count; first += AT_ONCE) {
        struct vector v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < at.count)
                v[i] = load_vector(x + (at.from + (first + i) * at.step));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int e = 0; e < VEC; e++)
                if (first + i < at.count)
                    acc[ALONG ? 0 : e] = join(acc[ALONG ? 0 : e], v[i].value[e], max);
    }
}
#endif

/* ---- softmax ---- */

#if SOFTMAX
#define ACC(e) (ALONG ? 0 : (e))

/* The thread's i-th vector: kept, or read again. */
INLINE struct vector take(const element *x, const struct part &at, const struct vector *held, int i) {
    return HELD ? held[i] : load_vector(x + (at.from + i * at.step));
}

#if HELD
#define EACH_VECTOR(i) \
    _Pragma("unroll") for (int i = 0; i < HELD; i++) if (i < at.count)
#else
#define EACH_VECTOR(i) for (int i = 0; i < at.count; i++)
#endif

INLINE void softmax(const element *x, const struct part &at, element *y) {
    struct vector held[HELD ? HELD : 1];
    float top[ACCS], sum[ACCS];
#pragma unroll
    for (int e = 0; e < ACCS; e++)
        top[e] = __int_as_float((int)0xff800000u), sum[e] = 0.0f;
#if HELD
    EACH_VECTOR(i) held[i] = load_vector(x + (at.from + i * at.step));
    EACH_VECTOR(i) {
#pragma unroll
        for (int e = 0; e < VEC; e++)
            top[ACC(e)] = join(top[ACC(e)], held[i].value[e], true);
    }
#else
    add_part(x, at, top, true);
#endif
    join_ways(at, top, true, 0);
    EACH_VECTOR(i) {
        const struct vector v = take(x, at, held, i);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            sum[ACC(e)] += wt_exp(v.value[e] - top[ACC(e)]);
    }
    join_ways(at, sum, false, 1);
#pragma unroll
    for (int e = 0; e < ACCS; e++)
        sum[e] = KIND == 4 ? top[e] + wt_log(sum[e]) : 1.0f / sum[e];
    EACH_VECTOR(i) {
        struct vector v = take(x, at, held, i);
#pragma unroll
        for (int e = 0; e < VEC; e++)
            v.value[e] =
                wt_act(KIND == 4 ? v.value[e] - sum[ACC(e)] : wt_exp(v.value[e] - top[ACC(e)]) * sum[ACC(e)]);
        store_vector(y + (at.from + i * at.step), v);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) reduce(const element *x, element *y SHAPE_PARAMS) {
#if EARLY
    let_next_begin();
#endif
    const struct shape s = {SHAPE_VALUES};
    struct part at = part_of(s);
#if EARLY
    await_previous(at.from);
#endif
#if SOFTMAX
    softmax(x, at, y);
#else
    float acc[ACCS];
#pragma unroll
    for (int e = 0; e < ACCS; e++)
        acc[e] = KIND == 1 ? __int_as_float((int)0xff800000u) : 0.0f;
    add_part(x, at, acc, KIND == 1);
    join_ways(at, acc, KIND == 1, 0);
    put_results(s, at, acc, y);
#endif
}
