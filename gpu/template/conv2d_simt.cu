/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt: convolution in FP32 on the CUDA cores, as an implicit matrix product.
 *
 *     output[pixel, channel] = sum over k of  patch[pixel, k] × weight[k, channel],      k = (tap, input channel)
 *
 * The patch matrix is never written: each tile of it is gathered from the input while it is loaded.
 *
 *   grid    x: tiles of BP pixels (of all images)   y: tiles of BC output channels of a group   z: groups × SPLIT
 *   CTA     BP × BC outputs, K walked in steps of BK; (BP/TP) × (BC/TC) threads
 *   thread  TP × TC sums in registers, in chunks of four that lie a quarter (TP or TC = 8: a half) of the tile apart,
 *           so that a warp's 16-byte reads of shared memory touch different banks
 *
 * Shared memory holds two stages of the patch tile [BK][BP + 4] and the weight tile [BK][BC]; while one is multiplied
 * the next is on its way through registers. A step reads 4·BK·(BP + BC) bytes for 2·BK·BP·BC FLOPs. The four columns of
 * padding move the rows of the patch tile to other banks, for the transposed writes of the NHWC layout.
 *
 * With few tiles the sum over k is split among SPLIT CTAs, each leaving its partial sums where the output would be; a
 * second kernel adds them and applies the epilogue. Weights come packed as [group][KDIMP][KGP], zero where they do not
 * exist, so that their loads need no checks.
 *
 * In front of this text: the shape as macros, wt_act(), EPILOGUE_PARAMS and EPILOGUE_ARGS.
 */

#define PIXELS (N_ * OH_ * OW_)
#define STEPS (KDIMP / BK)
#define A_VECTORS (BP * BK / VEC_A)
#define A_LOADS ((A_VECTORS + THREADS - 1) / THREADS)
#define B_VECTORS (BK * BC / 4)
#define B_LOADS ((B_VECTORS + THREADS - 1) / THREADS)
#define A_ROW (BP + 4)
#define CHUNKS_P (TP / 4)
#define CHUNKS_C (TC / 4)

/* Which part of the patch tile is a thread's vector `i`: neighbours in a warp read neighbouring addresses. */
#if NHWC
#define A_K(i) ((i) % (BK / VEC_A) * VEC_A)
#define A_PIXEL(i) ((i) / (BK / VEC_A))
#else
#define A_K(i) ((i) / BP)
#define A_PIXEL(i) ((i) % BP)
#endif

/* Channel of an element of the output, by its place in memory. */
#if NHWC
#define CHANNEL_OF(i) ((i) % K_)
#else
#define CHANNEL_OF(i) ((i) / (OH_ * OW_) % K_)
#endif

/* The epilogue of the element at place `i`. */
__device__ static inline float finish(float sum, int i, int channel EPILOGUE_PARAMS) {
#if HAS_BIAS
    sum += bias[channel];
#endif
#if HAS_RESIDUAL
    sum += residual[i];
#endif
    return wt_act(sum);
}

/* A pixel's corner of the input: where its first tap reads. Rows far above the image stand for no pixel at all. */
struct corner {
    int y, x, offset;
};

__device__ static inline struct corner corner_of(int pixel, int group) {
    struct corner at;
    int image = pixel / (OH_ * OW_), oy = pixel / OW_ % OH_, ox = pixel % OW_;
    at.y = pixel < PIXELS ? oy * SH_ - PAD_H : -(1 << 24);
    at.x = ox * SW_ - PAD_W;
#if NHWC
    at.offset = ((image * H_ + oy * SH_ - PAD_H) * W_ + at.x) * C_ + group * CG;
#else
    at.offset = ((image * C_ + group * CG) * H_ + oy * SH_ - PAD_H) * W_ + at.x;
#endif
    return at;
}

/* VEC_A neighbours of the patch matrix, from k on; zero outside the image. */
__device__ static inline void load_patch(const float *__restrict__ x, struct corner at, int k, float *value) {
#if NHWC
    int c = k % CG, s = k / CG % KW_, r = k / CG / KW_;
    int offset = at.offset + (r * DH_ * W_ + s * DW_) * C_ + c;
#else
    int s = k % KW_, r = k / KW_ % KH_, c = k / KW_ / KH_;
    int offset = at.offset + (c * H_ + r * DH_) * W_ + s * DW_;
#endif
    bool inside = (unsigned)(at.y + r * DH_) < H_ && k < KDIM;
#if CHECK_COLUMNS
    inside = inside && (unsigned)(at.x + s * DW_) < W_;
#endif
#if VEC_A == 4
    float4 four = inside ? *(const float4 *)(x + offset) : make_float4(0, 0, 0, 0);
    value[0] = four.x, value[1] = four.y, value[2] = four.z, value[3] = four.w;
#else
    value[0] = inside ? x[offset] : 0.0f;
#endif
}

/* Weights [K, C/g, R, S] to [group][KDIMP][KGP]: one thread an element. */
extern "C" __global__ void conv2d_simt_pack(const float *__restrict__ w, float *__restrict__ packed) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (long)GROUPS * KDIMP * KGP)
        return;
    int channel = (int)(i % KGP), k = (int)(i / KGP % KDIMP), group = (int)(i / KGP / KDIMP);
#if NHWC
    int c = k % CG, tap = k / CG;
#else
    int tap = k % (KH_ * KW_), c = k / (KH_ * KW_);
#endif
    packed[i] = k < KDIM && channel < KG ? w[((long)(group * KG + channel) * CG + c) * (KH_ * KW_) + tap] : 0.0f;
}

#if SPLIT > 1
extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_simt(const float *__restrict__ x, const float *__restrict__ packed, float *__restrict__ y) {
#else
extern "C" __global__ void __launch_bounds__(THREADS)
    conv2d_simt(const float *__restrict__ x, float *__restrict__ y EPILOGUE_PARAMS, const float *__restrict__ packed) {
#endif
    __shared__ __align__(16) float patches[2][BK][A_ROW];
    __shared__ __align__(16) float weights[2][BK][BC];
    const int tid = threadIdx.x, group = blockIdx.z % GROUPS, part = blockIdx.z / GROUPS;
    const int first = part * STEPS / SPLIT, last = (part + 1) * STEPS / SPLIT;
    packed += (long)group * KDIMP * KGP + blockIdx.y * BC;

    struct corner corners[A_LOADS];
#pragma unroll
    for (int i = 0; i < A_LOADS; i++)
        corners[i] = corner_of(blockIdx.x * BP + A_PIXEL(tid + i * THREADS), group);

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
            const int k0 = (step + 1) * BK;
#pragma unroll
            for (int i = 0; i < A_LOADS; i++)
                if (A_VECTORS % THREADS == 0 || tid + i * THREADS < A_VECTORS)
                    load_patch(x, corners[i], k0 + A_K(tid + i * THREADS), a_next[i]);
#pragma unroll
            for (int i = 0; i < B_LOADS; i++) {
                const int v = tid + i * THREADS;
                if (B_VECTORS % THREADS == 0 || v < B_VECTORS)
                    b_next[i] = *(const float4 *)(packed + (long)(k0 + v / (BC / 4)) * KGP + v % (BC / 4) * 4);
            }
        }
        if (step >= first) {
            const int stage = step & 1;
#pragma unroll
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

#if SPLIT > 1
    y += (long)part * PIXELS * K_;
#define FINISH(value, i, channel) (value)
#else
#define FINISH(value, i, channel) finish(value, i, channel EPILOGUE_ARGS)
#endif
#pragma unroll
    for (int i = 0; i < TP; i++) {
        const int pixel = blockIdx.x * BP + i / 4 * (BP / CHUNKS_P) + tp * 4 + i % 4;
#pragma unroll
        for (int j = 0; j < TC; j++) {
            const int in_group = blockIdx.y * BC + j / 4 * (BC / CHUNKS_C) + tc * 4 + j % 4;
            const int channel = group * KG + in_group;
#if NHWC
            const int at = pixel * K_ + channel;
#else
            const int at = (pixel / (OH_ * OW_) * K_ + channel) * (OH_ * OW_) + pixel % (OH_ * OW_);
#endif
            if (pixel < PIXELS && in_group < KG)
                sum[i][j] = FINISH(sum[i][j], at, channel);
#if !STORE_VECTORS
            if (pixel < PIXELS && in_group < KG)
                y[at] = sum[i][j];
#elif NHWC
            if (j % 4 == 3 && pixel < PIXELS && in_group < KG)
                *(float4 *)(y + at - 3) = make_float4(sum[i][j - 3], sum[i][j - 2], sum[i][j - 1], sum[i][j]);
#else
            if (i % 4 == 3 && pixel < PIXELS && in_group < KG)
                *(float4 *)(y + at - 3) = make_float4(sum[i - 3][j], sum[i - 2][j], sum[i - 1][j], sum[i][j]);
#endif
        }
    }
}

#if SPLIT > 1
/* Adds the partial sums, in order, and applies the epilogue: one thread an element. */
extern "C" __global__ void conv2d_simt_reduce(const float *__restrict__ x, float *__restrict__ y EPILOGUE_PARAMS,
                                              const float *__restrict__ partial) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PIXELS * K_)
        return;
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < SPLIT; part++)
        sum += partial[(long)part * PIXELS * K_ + i];
    y[i] = finish(sum, i, CHANNEL_OF(i) EPILOGUE_ARGS);
}
#endif
