/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channelwise: what slides a window over each channel by itself: a depthwise convolution, or a pool's maximum or
 * average. Each output needs a few inputs, each input serves a few outputs: a race for bytes, and at batch 1 for latency.
 *
 *   grid    x: blocks of THREADS items
 *   thread  an item: TY × TX outputs next to one another, of VEC channels (NHWC) or of one channel (VEC 1, any layout)
 *
 * Neighbouring threads have neighbouring channels, then neighbouring tiles (NCHW: tiles first), so that a warp's loads
 * of VEC channels, up to 16 bytes, are whole sectors. A thread takes the rows of its window one after the other, each
 * input once, and adds it to all of its TY × TX sums that want it, in FP32 registers; what neighbours share comes from
 * L1. A tile reads ((TY-1)·SH + (KH-1)·DH + 1) × ((TX-1)·SW + (KW-1)·DW + 1) vectors for TY × TX of them; 3 × 3 in 2 × 4
 * is 3 for 1. Nothing goes through shared memory, and nothing waits for other threads.
 *
 * Weights come packed as [tap][channel], the bias as floats. Where a window has many taps (ROLLED), its rows are a loop,
 * whose weights are loaded as they are needed; else they are held in registers, all loaded before the kernel waits for
 * the one ahead of it (EARLY).
 *
 * What is divided, once a thread, is multiplied by a reciprocal (fastdiv.h) or a constant.
 *
 * In front of this text: struct shape, SHAPE_PARAMS (nothing, or «, int arg_h, …») and SHAPE_VALUES; the tiling; the
 * window KH, KW, SH, SW, DH, DW; ROLLED; KIND (0: convolution, 1: maximum, 2: average); HALF (elements are FP16, else
 * FP32), NHWC, BIAS, HALF_BIAS (as it is given), RESIDUAL, MULTIPLE (an input channel has several output channels),
 * EARLY, CONSTANTS; wt_act(), for activations that are more than bounds.
 */

#define INLINE __device__ static __forceinline__

typedef unsigned short half_bits;

/* ---- instructions ---- */

#if HALF || HALF_BIAS
INLINE float float_of(half_bits half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
#endif

#if HALF
INLINE half_bits element_of(float value) {
    half_bits half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
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
#define LEAST 0xfc00fc00u
#else
typedef float element;
#define LEAST 0xff800000u
#endif

#define BYTES (VEC * (HALF ? 2 : 4))
#define WORDS ((BYTES + 3) / 4)
#define COLUMNS ((TX - 1) * SW + (KW - 1) * DW + 1)
#define ROWS ((TY - 1) * SH + (KH - 1) * DH + 1)
#define OUTSIDE (KIND == 1 ? LEAST : 0u)

/* n / s.d, n >= 0 */
#if CONSTANTS
#define QUOTIENT(n, d) ((int)((unsigned)(n) / (unsigned)s.d))
#else
#define QUOTIENT(n, d) ((int)(__umulhi(2u * (unsigned)(n), (unsigned)s.d##_multiplier) >> s.d##_shift))
#endif

/* VEC elements as they lie in memory. */
struct vector {
    unsigned word[WORDS];
};

INLINE struct vector load_vector(const element *from) {
    struct vector v;
#if BYTES == 16
    const uint4 four = *(const uint4 *)from;
    v.word[0] = four.x, v.word[1] = four.y, v.word[2] = four.z, v.word[3] = four.w;
#elif BYTES == 8
    const uint2 two = *(const uint2 *)from;
    v.word[0] = two.x, v.word[1] = two.y;
#elif BYTES == 4
    v.word[0] = *(const unsigned *)from;
#else
    v.word[0] = *from;
#endif
    return v;
}

INLINE void store_vector(element *to, const struct vector &v) {
#if BYTES == 16
    *(uint4 *)to = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
#elif BYTES == 8
    *(uint2 *)to = make_uint2(v.word[0], v.word[1]);
#elif BYTES == 4
    *(unsigned *)to = v.word[0];
#else
    *to = (element)v.word[0];
#endif
}

INLINE float value_of(const struct vector &v, int e) {
#if HALF
    return float_of((half_bits)(v.word[e / 2] >> e % 2 * 16));
#else
    return __int_as_float((int)v.word[e]);
#endif
}

INLINE struct vector vector_of(const float (&value)[VEC]) {
    struct vector v;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
#if HALF && VEC > 1
        v.word[i] = element_of(value[2 * i]) | (unsigned)element_of(value[2 * i + 1]) << 16;
#elif HALF
        v.word[i] = element_of(value[i]);
#else
        v.word[i] = (unsigned)__float_as_int(value[i]);
#endif
    }
    return v;
}

/* The activation: within bounds, or more than that. */
INLINE float activate(const struct shape &s, float sum) {
    const float low = __int_as_float(s.low), high = __int_as_float(s.high);
    return wt_act(sum < low ? low : sum > high ? high : sum);
}

/* ---- where a thread works ---- */

struct work {
    int image, channel, y, x; /* of the first output */
};

INLINE struct work work_of(const struct shape &s, int item) {
    struct work at;
#if NHWC
    const int tile = QUOTIENT(item, vectors), row = QUOTIENT(tile, tiles_x);
    at.channel = (item - tile * s.vectors) * VEC;
    at.x = (tile - row * s.tiles_x) * TX;
    at.image = QUOTIENT(row, tiles_y);
    at.y = (row - at.image * s.tiles_y) * TY;
#else
    const int row = QUOTIENT(item, tiles_x), plane = QUOTIENT(row, tiles_y);
    at.x = (item - row * s.tiles_x) * TX;
    at.y = (row - plane * s.tiles_y) * TY;
    at.image = QUOTIENT(plane, vectors);
    at.channel = plane - at.image * s.vectors;
#endif
    return at;
}

/* ---- the window ---- */

/* Does any output of a tile want this column, or row? Known as the kernel is compiled. */
INLINE bool is_wanted(int at, int outputs, int stride, int taps, int dilation) {
    bool wanted = false;
#pragma unroll
    for (int tap = 0; tap < taps; tap++) {
        const int first = at - tap * dilation;
        wanted = wanted || (first >= 0 && first % stride == 0 && first / stride < outputs);
    }
    return wanted;
}

/* Mostly all of them are. */
#define WANTED(at, outputs, stride, taps, dilation) \
    ((dilation == 1 && (stride <= taps || outputs == 1)) || is_wanted(at, outputs, stride, taps, dilation))

/* A row of the input, from `left` on; OUTSIDE where there is none. */
INLINE void take_row(const struct shape &s, const element *x, int place, int y, int left, float (&row)[COLUMNS][VEC]) {
    const bool inside = (unsigned)y < (unsigned)s.h;
    place += y * s.in_row + left * s.in_unit;
#pragma unroll
    for (int column = 0; column < COLUMNS; column++) {
        if (!WANTED(column, TX, SW, KW, DW))
            continue;
        struct vector v;
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            v.word[i] = OUTSIDE;
        if (inside && (unsigned)(left + column) < (unsigned)s.w)
            v = load_vector(x + (place + column * s.in_unit));
#pragma unroll
        for (int e = 0; e < VEC; e++)
            row[column][e] = value_of(v, e);
    }
}

/* Adds one row of taps to a row of outputs, or keeps the largest. */
INLINE void add_row(float (&sum)[TX][VEC], const float (&row)[COLUMNS][VEC], const struct vector *weights) {
#pragma unroll
    for (int tap = 0; tap < KW; tap++) {
#pragma unroll
        for (int e = 0; e < VEC; e++) {
#if KIND == 0
            const float weight = value_of(weights[tap], e);
#endif
#pragma unroll
            for (int i = 0; i < TX; i++) {
                const float value = row[i * SW + tap * DW][e];
#if KIND == 0
                sum[i][e] = fmaf(value, weight, sum[i][e]);
#elif KIND == 1
                sum[i][e] = value > sum[i][e] ? value : sum[i][e];
#else
                sum[i][e] += value;
#endif
            }
        }
    }
}

INLINE void take_weights(const struct shape &s, const element *packed, int channel, int first,
                         struct vector *ret, int n) {
#if KIND == 0
#pragma unroll
    for (int tap = 0; tap < n; tap++)
        ret[tap] = load_vector(packed + ((first + tap) * s.k + channel));
#endif
}

#if KIND == 2
/* Taps of a window, from `from` on, that an average counts. */
INLINE int counted(int from, int taps, int dilation, int end, int begin) {
    int n = 0;
#pragma unroll
    for (int tap = 0; tap < taps; tap++)
        n += from + tap * dilation >= begin && from + tap * dilation < end;
    return n;
}
#endif

/* ---- the end ---- */

INLINE void finish(const struct shape &s, const struct work &at, float (&sum)[TY][TX][VEC], int place,
                   const element *residual, element *y) {
#pragma unroll
    for (int i = 0; i < TY; i++) {
#pragma unroll
        for (int j = 0; j < TX; j++) {
            if (at.y + i >= s.oh || at.x + j >= s.ow)
                continue;
            const int to = place + i * s.out_row + j * s.out_unit;
#if RESIDUAL
            const struct vector other = load_vector(residual + to);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                sum[i][j][e] += value_of(other, e);
#endif
#if KIND == 2
            const int n = counted((at.y + i) * SH - s.pad_h, KH, DH, s.count_h, s.count_top) *
                          counted((at.x + j) * SW - s.pad_w, KW, DW, s.count_w, s.count_left);
#pragma unroll
            for (int e = 0; e < VEC; e++)
                sum[i][j][e] /= (float)n;
#endif
#pragma unroll
            for (int e = 0; e < VEC; e++)
                sum[i][j][e] = activate(s, sum[i][j][e]);
            store_vector(y + to, vector_of(sum[i][j]));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    channelwise(const element *x, const element *__restrict__ packed, const float *__restrict__ bias,
                const element *residual, element *y SHAPE_PARAMS) {
#if EARLY
    let_next_begin();
#endif
    const struct shape s = {SHAPE_VALUES};
    const int item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= s.items)
        return;
    const struct work at = work_of(s, item);
    const int top = at.y * SH - s.pad_h, left = at.x * SW - s.pad_w;
#if MULTIPLE
    const int from_channel = QUOTIENT(at.channel, multiplier);
#else
    const int from_channel = at.channel;
#endif
    int place = at.image * s.in_image + from_channel * s.in_channel;

    float sum[TY][TX][VEC];
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        const float first = KIND == 1 ? __int_as_float((int)0xff800000u) : BIAS ? bias[at.channel + e] : 0.0f;
#pragma unroll
        for (int i = 0; i < TY * TX; i++)
            sum[i / TX][i % TX][e] = first;
    }
#if !ROLLED
    struct vector weights[KH * KW];
    take_weights(s, packed, at.channel, 0, weights, KH * KW);
#endif
#if EARLY
    await_previous(place);
#endif

#if ROLLED
#pragma unroll 1
    for (int tap = 0; tap < KH; tap++) {
        struct vector weights[KW];
        take_weights(s, packed, at.channel, tap * KW, weights, KW);
#pragma unroll
        for (int i = 0; i < TY; i++) {
            float row[COLUMNS][VEC];
            take_row(s, x, place, top + i * SH + tap * DH, left, row);
            add_row(sum[i], row, weights);
        }
    }
#else
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (!WANTED(r, TY, SH, KH, DH))
            continue;
        float row[COLUMNS][VEC];
        take_row(s, x, place, top + r, left, row);
#pragma unroll
        for (int i = 0; i < TY; i++)
            if (r >= i * SH && (r - i * SH) % DH == 0 && r - i * SH <= (KH - 1) * DH)
                add_row(sum[i], row, weights + (r - i * SH) / DH * KW);
    }
#endif
    finish(s, at, sum, at.image * s.out_image + at.channel * s.out_channel + at.y * s.out_row + at.x * s.out_unit,
           residual, y);
}

#if KIND == 0
/* Weights [K][1][KH][KW] to [tap][K], and the bias to floats: one thread an element. */
extern "C" __global__ void channelwise_pack(const element *__restrict__ w, const void *__restrict__ bias,
                                            element *__restrict__ packed,
                                            float *__restrict__ packed_bias SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= KH * KW * s.k)
        return;
    const int tap = QUOTIENT(i, k), channel = i - tap * s.k;
    packed[i] = w[channel * (KH * KW) + tap];
#if HALF_BIAS
    if (tap == 0)
        packed_bias[channel] = float_of(((const half_bits *)bias)[channel]);
#elif BIAS
    if (tap == 0)
        packed_bias[channel] = ((const float *)bias)[channel];
#endif
}
#endif
