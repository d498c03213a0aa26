/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt: convolution in FP32 on the CUDA cores, as an implicit matrix product.
 *
 *     output[pixel, channel] = sum over k of  patch[pixel, k] × weight[k, channel],      k = (tap, input channel)
 *
 * The patch matrix is never written: each tile of it is gathered from the input while it is loaded.
 *
 *   grid    x: tiles of BP pixels (of all images)   y: tiles of BC output channels of a group   z: groups × parts
 *   CTA     BP × BC outputs, K walked in steps of BK; (BP/TP) × (BC/TC) threads
 *   thread  TP × TC sums in registers, in chunks of four that lie a quarter (TP or TC = 8: a half) of the tile apart,
 *           so that a warp's 16-byte reads of shared memory touch different banks
 *
 * Shared memory holds two stages of the patch tile [BK][BP + 4] and the weight tile [BK][BC]; while one is multiplied
 * the next is on its way through registers. A step reads 4·BK·(BP + BC) bytes for 2·BK·BP·BC FLOPs. The four columns of
 * padding move the rows of the patch tile to other banks, for the transposed writes of the NHWC layout.
 *
 * With few tiles the sum over k is split among some CTAs (SPLIT), each leaving its partial sums where the output would
 * be; a second kernel adds them and applies the epilogue. Weights come packed as [group][k_padded][channels_padded],
 * zero where they do not exist, so that their loads need no checks.
 *
 * The shape is a struct of ints: either constants, or arguments of the kernel, so that one compile serves every shape.
 * Nothing of the loop over k divides: a thread keeps the digits of its k and adds those of a step to them. What is
 * divided once, at the begin and the end, is multiplied by a reciprocal (fastdiv.h).
 *
 * In front of this text: struct shape, SHAPE_PARAMS (nothing, or «, int arg_h, …») and SHAPE_VALUES; the tiling; SPLIT,
 * NHWC, CONSTANTS, VEC_A (4: channels come in fours), CHECK_COLUMNS (some tap may lie left or right of the image);
 * wt_act(), for activations that are more than bounds.
 */

#define A_VECTORS (BP * BK / VEC_A)
#define A_LOADS ((A_VECTORS + THREADS - 1) / THREADS)
#define B_VECTORS (BK * BC / 4)
#define B_LOADS ((B_VECTORS + THREADS - 1) / THREADS)
#define A_ROW (BP + 4)
#define CHUNKS_P (TP / 4)
#define CHUNKS_C (TC / 4)
#define UNROLLED (BK < 16 ? BK : 16) /* of a step: more only makes the code long */

/*
 * Which part of the patch tile is a thread's vector `i`: neighbours in a warp read neighbouring addresses. A_CORNERS
 * vectors of a thread, one after the other, are at the same k in different pixels.
 */
#if NHWC
#define A_K(i) ((i) % (BK / VEC_A) * VEC_A)
#define A_PIXEL(i) ((i) / (BK / VEC_A))
#define A_CORNERS A_LOADS
#else
#define A_K(i) ((i) / BP)
#define A_PIXEL(i) ((i) % BP)
#define A_CORNERS (BP > THREADS ? BP / THREADS : 1)
#endif

/* The digits of k: their sizes are fields of the shape with the same names. */
#if NHWC
#define CHANNEL inner
#define COLUMN middle
#define ROW outer
#else
#define COLUMN inner
#define ROW middle
#define CHANNEL outer
#endif

/* n / s.d, n >= 0 */
#if CONSTANTS
#define QUOTIENT(n, d) ((int)((unsigned)(n) / (unsigned)s.d))
#else
#define QUOTIENT(n, d) ((int)(__umulhi(2u * (unsigned)(n), (unsigned)s.d##_multiplier) >> s.d##_shift))
#endif

/* s.flags */
#define HAS_BIAS 1
#define HAS_RESIDUAL 2
#define FOURS 4 /* four neighbours of the output exist together, and begin at a multiple of 16 bytes */

#define INLINE __device__ static __forceinline__

/* The activation: within bounds, or more than that. */
INLINE float activate(const struct shape &s, float sum) {
    const float low = __int_as_float(s.low), high = __int_as_float(s.high);
    return wt_act(sum < low ? low : sum > high ? high : sum);
}

/* ---- the patch matrix ---- */

struct digits {
    int inner, middle, outer;
};

INLINE struct digits digits_of(const struct shape &s, int k) {
    struct digits at;
    const int taken = QUOTIENT(k, inner);
    at.outer = QUOTIENT(taken, middle);
    at.middle = taken - at.outer * s.middle;
    at.inner = k - taken * s.inner;
    return at;
}

/* A step is smaller than the next digit's weight in each digit but the last, so at most one is carried. */
INLINE void advance(const struct shape &s, struct digits &at) {
    at.inner += s.step_inner;
    at.middle += s.step_middle;
    at.outer += s.step_outer;
    if (at.inner >= s.inner) {
        at.inner -= s.inner;
        at.middle++;
    }
    if (at.middle >= s.middle) {
        at.middle -= s.middle;
        at.outer++;
    }
}

/* A pixel's corner of the input: where its first tap reads. Rows far above the image stand for no pixel at all. */
struct corner {
    int y, x, offset;
};

INLINE struct corner corner_of(const struct shape &s, int pixel, int group) {
    struct corner at;
    const int image = QUOTIENT(pixel, area), in_image = pixel - image * s.area;
    const int oy = QUOTIENT(in_image, ow), ox = in_image - oy * s.ow;
    const int y = oy * s.sh - s.pad_h;
    at.x = ox * s.sw - s.pad_w;
#if NHWC
    at.offset = image * s.image_stride + y * s.row_stride + at.x * s.unit_stride + group * s.CHANNEL;
#else
    at.offset = image * s.image_stride + group * s.CHANNEL * s.unit_stride + y * s.row_stride + at.x;
#endif
    at.y = pixel < s.pixels ? y : -(1 << 24);
    return at;
}

/* VEC_A neighbours of the patch matrix, from k on; zero outside the image and past the last k. */
INLINE void load_patch(const struct shape &s, const float *__restrict__ x, const struct corner &at,
                       const struct digits &k, float *value) {
    const int down = k.ROW * s.dh, right = k.COLUMN * s.dw;
#if NHWC
    const int offset = at.offset + (down * s.row_stride + right * s.unit_stride + k.CHANNEL);
#else
    const int offset = at.offset + (k.CHANNEL * s.unit_stride + down * s.row_stride + right);
#endif
    bool inside = (unsigned)(at.y + down) < (unsigned)s.h && k.outer < s.outer;
#if CHECK_COLUMNS
    inside = inside && (unsigned)(at.x + right) < (unsigned)s.w;
#endif
#if VEC_A == 4
    const float4 four = inside ? *(const float4 *)(x + offset) : make_float4(0, 0, 0, 0);
    value[0] = four.x, value[1] = four.y, value[2] = four.z, value[3] = four.w;
#else
    value[0] = inside ? x[offset] : 0.0f;
#endif
}

/* Weights [K, C/g, R, S] to [group][k_padded][channels_padded]: one thread an element. */
extern "C" __global__ void conv2d_simt_pack(const float *__restrict__ w, float *__restrict__ packed SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int k_padded = (s.steps_each * s.parts + s.steps_over) * BK;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.groups * k_padded * s.channels_padded)
        return;
    const int row = i / s.channels_padded, channel = i % s.channels_padded, group = row / k_padded;
    const struct digits k = digits_of(s, row % k_padded);
    float weight = 0.0f;
    if (k.outer < s.outer && channel < s.kg)
        weight = w[(((group * s.kg + channel) * s.CHANNEL + k.CHANNEL) * s.ROW + k.ROW) * s.COLUMN + k.COLUMN];
    packed[i] = weight;
}

/* ---- the product ---- */

/* Is it the first of four neighbours in memory, and which are they? */
#define BEGINS_FOUR(i, j) ((NHWC ? (j) : (i)) % 4 == 0)
#define FOUR(i, j, e) sum[(i) | (NHWC ? 0 : (e))][(j) | (NHWC ? (e) : 0)]
#define EXISTS(i, j) ((place[i] | column[j]) >= 0)

INLINE void add_residual(const struct shape &s, float (&sum)[TP][TC], const int (&place)[TP], const int (&column)[TC],
                         const float *__restrict__ residual) {
#pragma unroll
    for (int i = 0; i < TP; i++) {
#pragma unroll
        for (int j = 0; j < TC; j++) {
            if (!EXISTS(i, j))
                continue;
            const float *from = residual + place[i] + column[j];
            if (!(s.flags & FOURS)) {
                sum[i][j] += *from;
            } else if (BEGINS_FOUR(i, j)) {
                const float4 four = *(const float4 *)from;
                FOUR(i, j, 0) += four.x, FOUR(i, j, 1) += four.y;
                FOUR(i, j, 2) += four.z, FOUR(i, j, 3) += four.w;
            }
        }
    }
}

/* Residual and activation, unless these are partial sums, and out. */
INLINE void store(const struct shape &s, float (&sum)[TP][TC], const int (&place)[TP], const int (&column)[TC],
                  const float *__restrict__ residual, float *__restrict__ y) {
#if !SPLIT
    if (s.flags & HAS_RESIDUAL)
        add_residual(s, sum, place, column, residual);
#pragma unroll
    for (int i = 0; i < TP; i++)
#pragma unroll
        for (int j = 0; j < TC; j++)
            sum[i][j] = activate(s, sum[i][j]);
#endif
#pragma unroll
    for (int i = 0; i < TP; i++) {
#pragma unroll
        for (int j = 0; j < TC; j++) {
            if (!EXISTS(i, j))
                continue;
            float *to = y + place[i] + column[j];
            if (!(s.flags & FOURS))
                *to = sum[i][j];
            else if (BEGINS_FOUR(i, j))
                *(float4 *)to = make_float4(FOUR(i, j, 0), FOUR(i, j, 1), FOUR(i, j, 2), FOUR(i, j, 3));
        }
    }
}

/* y: the output, or with SPLIT the parts' sums, each part as large as the output. */
extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_simt(const float *__restrict__ x, const float *__restrict__ packed, float *__restrict__ y,
                const float *__restrict__ bias, const float *__restrict__ residual SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    __shared__ __align__(16) float patches[2][BK][A_ROW];
    __shared__ __align__(16) float weights[2][BK][BC];
    const int tid = threadIdx.x;
#if SPLIT
    const int part = QUOTIENT((int)blockIdx.z, groups), group = blockIdx.z - part * s.groups;
    const int first = part * s.steps_each + min(part, s.steps_over);
    const int last = first + s.steps_each + (part < s.steps_over);
    y += part * s.pixels * s.k;
#else
    const int group = blockIdx.z, first = 0, last = s.steps_each;
#endif

    struct corner corners[A_CORNERS];
#pragma unroll
    for (int i = 0; i < A_CORNERS; i++)
        corners[i] = corner_of(s, blockIdx.x * BP + A_PIXEL(tid + i * THREADS), group);
    struct digits at = digits_of(s, first * BK + A_K(tid));
    const int all_steps = s.steps_each * s.parts + s.steps_over;
    int b_at = ((group * all_steps + first) * BK + tid / (BC / 4)) * s.channels_padded + blockIdx.y * BC +
               tid % (BC / 4) * 4;

    float a_next[A_LOADS][VEC_A];
    float4 b_next[B_LOADS];
    float sum[TP][TC];
#pragma unroll
    for (int i = 0; i < TP; i++)
#pragma unroll
        for (int j = 0; j < TC; j++)
            sum[i][j] = 0.0f;

#if NHWC
    const int tc = tid % (BC / TC), tp = tid / (BC / TC);
#else
    const int tp = tid % (BP / TP), tc = tid / (BP / TP);
#endif

    for (int step = first - 1; step < last; step++) {
        if (step + 1 < last) {
#pragma unroll
            for (int i = 0; i < A_LOADS; i++) {
                if (A_VECTORS % THREADS == 0 || tid + i * THREADS < A_VECTORS)
                    load_patch(s, x, corners[i % A_CORNERS], at, a_next[i]);
                if ((i + 1) % A_CORNERS == 0)
                    advance(s, at);
            }
#pragma unroll
            for (int i = 0; i < B_LOADS; i++)
                if (B_VECTORS % THREADS == 0 || tid + i * THREADS < B_VECTORS)
                    b_next[i] = *(const float4 *)(packed + b_at + i * (THREADS / (BC / 4)) * s.channels_padded);
            b_at += BK * s.channels_padded;
        }
        if (step >= first) {
            const int stage = step & 1;
#pragma unroll UNROLLED
            for (int k = 0; k < BK; k++) {
                float a[TP], b[TC];
#pragma unroll
                for (int i = 0; i < CHUNKS_P; i++)
                    *(float4 *)(a + i * 4) = *(const float4 *)&patches[stage][k][i * (BP / CHUNKS_P) + tp * 4];
#pragma unroll
                for (int j = 0; j < CHUNKS_C; j++)
                    *(float4 *)(b + j * 4) = *(const float4 *)&weights[stage][k][j * (BC / CHUNKS_C) + tc * 4];
#pragma unroll
                for (int i = 0; i < TP; i++)
#pragma unroll
                    for (int j = 0; j < TC; j++)
                        sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
            }
        }
        if (step + 1 < last) {
            const int stage = (step + 1) & 1;
#pragma unroll
            for (int i = 0; i < A_LOADS; i++) {
                const int v = tid + i * THREADS;
                if (A_VECTORS % THREADS == 0 || v < A_VECTORS)
#pragma unroll
                    for (int e = 0; e < VEC_A; e++)
                        patches[stage][A_K(v) + e][A_PIXEL(v)] = a_next[i][e];
            }
#pragma unroll
            for (int i = 0; i < B_LOADS; i++) {
                const int v = tid + i * THREADS;
                if (B_VECTORS % THREADS == 0 || v < B_VECTORS)
                    *(float4 *)&weights[stage][v / (BC / 4)][v % (BC / 4) * 4] = b_next[i];
            }
            __syncthreads();
        }
    }

    /* The output's element of pixel i and channel j is at place[i] + column[j]; negative: there is no such one. */
    int place[TP], column[TC];
#pragma unroll
    for (int i = 0; i < TP; i++) {
        const int pixel = blockIdx.x * BP + i / 4 * (BP / CHUNKS_P) + tp * 4 + i % 4;
        place[i] = NHWC ? pixel * s.k : pixel + QUOTIENT(pixel, area) * (s.k - 1) * s.area;
        place[i] = pixel < s.pixels ? place[i] : -1;
    }
#pragma unroll
    for (int j = 0; j < TC; j++) {
        const int in_group = blockIdx.y * BC + j / 4 * (BC / CHUNKS_C) + tc * 4 + j % 4;
        const int channel = group * s.kg + in_group;
        column[j] = in_group < s.kg ? NHWC ? channel : channel * s.area : -1;
#if !SPLIT
        const float b = s.flags & HAS_BIAS && in_group < s.kg ? bias[channel] : 0.0f;
#pragma unroll
        for (int i = 0; i < TP; i++)
            sum[i][j] += b;
#endif
    }
    store(s, sum, place, column, residual, y);
}

#if SPLIT
#define AT_ONCE 8

/* Adds the partial sums, in order, and applies the epilogue: one thread an element, with AT_ONCE loads on their way. */
extern "C" __global__ void conv2d_simt_reduce(const float *__restrict__ partial, float *__restrict__ y,
                                              const float *__restrict__ bias,
                                              const float *__restrict__ residual SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int i = blockIdx.x * blockDim.x + threadIdx.x, all = s.pixels * s.k;
    if (i >= all)
        return;
    float sum = 0.0f;
    for (int part = 0; part < s.parts; part += AT_ONCE) {
        float value[AT_ONCE];
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            value[e] = part + e < s.parts ? partial[(part + e) * all + i] : 0.0f;
#pragma unroll
        for (int e = 0; e < AT_ONCE; e++)
            sum += value[e];
    }
#if NHWC
    const int row = i;
#else
    const int row = QUOTIENT(i, area);
#endif
    if (s.flags & HAS_BIAS)
        sum += bias[row - QUOTIENT(row, k) * s.k];
    if (s.flags & HAS_RESIDUAL)
        sum += residual[i];
    y[i] = activate(s, sum);
}
#endif
