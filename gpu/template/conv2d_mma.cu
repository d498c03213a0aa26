/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_mma: convolution of NHWC tensors of FP16, BF16 or FP32 (as TF32) on the tensor cores, with sums in FP32, as an
 * implicit matrix product:
 *
 *     output[pixel, channel] = sum over k of  patch[pixel, k] × weight[channel, k],
 *     k = (block of input channels, tap, input channel of the block)
 *
 *   grid     x: tiles of BP pixels (of all images)   y: tiles of BC output channels of a group   z: groups × parts
 *   cluster  the CLUSTER parts of one tile's sum over k
 *   CTA      BP × BC outputs, K walked in steps of BK; WP × WC warps, SLICES times
 *   warp     BP/WP × BC/WC sums, of every SLICES-th 32 bytes of k of a step: one mma, of 16 × 8 × 16, or × 8 in TF32
 *
 * Both tiles lie in shared memory with k innermost, as rows of BK elements; 16-byte chunks of a row are permuted by the
 * row's number (XOR), so that both the copies into it and ldmatrix touch all banks once. So either tile can be the
 * mma's M side, in sixteens, or its N side, in eights: SWAP puts the channels on M, for tiles like 56 pixels. A step of
 * halfs reads 2·BK·(BP + BC) bytes for 2·BK·BP·BC FLOPs; STAGES steps are on their way or in use, with one barrier a
 * step.
 *
 * ldmatrix moves 4 bytes to each lane, whatever is in them: a pair of halfs, or one float. Which lanes have which of
 * the 32 bytes of k is the same in the mma of either, so they differ in nothing but the number of elements. Floats are
 * rounded to TF32, to the nearest: the weights when they are packed, the patches on their way from shared memory to the
 * mma, which itself would only cut them off.
 *
 * Weights come packed: for each tile of channels and each step one block that is the image of shared memory, zero where
 * there are no weights, so a copy of them is one address and no checks. A chunk of the patch matrix is copied VEC
 * channels of one tap at a time, asynchronously (ASYNC), with zeros where it lies outside the image. Odd numbers of
 * channels (VEC 1) are rounded up to fours, of which k has as many; they go through registers, as everything does on
 * devices without such copies.
 *
 * A block of input channels is BK of them where that divides their number (BLOCKED): then a step is one tap, and steps
 * that read the same pixels follow one another, so that L1, through which patches come where there are TAPS, has most
 * of them. L2 sends little more than the image; the patches of a 3 × 3 are nine times as much. Else one block has all
 * channels.
 *
 * At the end the sums of all slices go through shared memory, from where each thread takes four channels of a pixel at
 * a time: sums them over slices and over the cluster's CTAs, each of which finishes its share of the tile, adds bias
 * and residual, applies the activation and stores. Without clusters (SPLIT) parts leave their sums in memory, and a
 * second kernel adds them.
 *
 * The shape is a struct of ints: either constants, or arguments of the kernel, so that one compile serves every shape.
 *
 * In front of this text: struct shape, SHAPE_PARAMS (nothing, or «, int arg_h, …») and SHAPE_VALUES; the tiling; BF16 and
 * TF32 (what the elements are; neither: halfs); VEC, FOURS (the output's channels come in fours), BLOCKED, TAPS (more
 * than one), ASYNC, EARLY (the kernel may begin before the one ahead has ended), CLUSTER (1: none), SPLIT, CONSTANTS,
 * CHECK_COLUMNS (some tap may lie left or right of the image); wt_act(), for activations that are more than bounds.
 */

#define INLINE __device__ static __forceinline__

#if TF32
typedef float element;
#else
typedef unsigned short element; /* its bits */
#endif

/* ---- instructions ---- */

/* All of shared memory is named by its 32-bit address. */
INLINE unsigned shared_begin() {
    extern __shared__ __align__(1024) unsigned char shared[];
    return (unsigned)__cvta_generic_to_shared(shared);
}

#if SWAP
INLINE void store_shared(unsigned to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}
#endif

#if !SWAP || CLUSTER > 1
INLINE void store_shared(unsigned to, float first, float second) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}
#endif

#if !ASYNC || VEC == 1
INLINE void store_shared(unsigned to, const uint4 &value) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(value.x), "r"(value.y), "r"(value.z),
                 "r"(value.w)
                 : "memory");
}
#endif

INLINE float4 load_shared(unsigned from) {
    float4 value;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(from)
                 : "memory");
    return value;
}

/* Four matrices of 8 rows of 16 bytes: lane l gives the address of row l % 8 of matrix l / 8, gets 4 bytes of each. */
INLINE void load_matrices(unsigned from, unsigned (&matrix)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(from)
                 : "memory");
}

#if BF16
#define MMA "m16n8k16.row.col.f32.bf16.bf16.f32"
#elif TF32
#define MMA "m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define MMA "m16n8k16.row.col.f32.f16.f16.f32"
#endif

/* sum[16][8] += a[16][16] × b[16][8]; in TF32 a[16][8] × b[8][8] */
INLINE void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if ASYNC
    asm("mma.sync.aligned." MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%8}, {%0, %1, %2, %3};\n"
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%6, %7}, {%9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

#if BF16
INLINE float float_of(element bfloat) {
    return __uint_as_float((unsigned)bfloat << 16);
}

INLINE element element_of(float value) {
    element bfloat;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bfloat) : "f"(value));
    return bfloat;
}
#elif TF32
#if SPLIT || !FOURS
INLINE float float_of(element value) {
    return value;
}
#endif

INLINE element element_of(float value) {
    return value;
}

/* Of a float's bits; NaN stays one. Which of two equally near ones it is does not matter: «rn» is one instruction from
 * sm_90 on, «rna» four. */
INLINE unsigned rounded(unsigned bits) {
    unsigned tf32;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(__uint_as_float(bits)));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(__uint_as_float(bits)));
#endif
    return tf32;
}
#else
INLINE float float_of(element half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

INLINE element element_of(float value) {
    element half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
#endif

#if ASYNC
/* Copies 4, 8 or 16 bytes from global memory, or zeros without reading; sixteen past L1 unless CACHED. */
template <int BYTES, bool CACHED> INLINE void copy_async(unsigned to, const void *from, bool real) {
    const int size = real ? BYTES : 0;
    if (BYTES == 16 && !CACHED)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(size)
                     : "memory");
}

INLINE void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most LEFT of the thread's last groups are on their way. */
template <int LEFT> INLINE void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
#endif

#if EARLY
/* The next kernel may begin now, in the room that this one leaves; it waits itself for what this one writes. */
INLINE void let_next_begin() {
    asm volatile("griddepcontrol.launch_dependents;");
}

/* Until all that was launched before is done, and what it wrote is there. */
INLINE void await_previous() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
#endif

#if CLUSTER > 1
/* What every thread of the cluster stored to shared memory is then there for the others. */
INLINE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Only waits for the others: orders nothing, so that stores to global memory need not be there yet. */
INLINE void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/* From the shared memory of another CTA of the cluster. */
INLINE float4 load_cluster(unsigned from, int rank) {
    float4 value;
    asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [at];\n}"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(from), "r"(rank)
                 : "memory");
    return value;
}
#endif

/* ---- tiles ---- */

#define ELEMENT_BYTES (TF32 ? 4 : 2)
#define ROW_BYTES (BK * ELEMENT_BYTES)
#define CHUNKS (ROW_BYTES / 16) /* in a row of a tile */
#define IN_CHUNK (16 / ELEMENT_BYTES)
#define PATCH_BYTES (BP * ROW_BYTES)
#define WEIGHT_BYTES (BC * ROW_BYTES)
#define STAGE_BYTES (PATCH_BYTES + WEIGHT_BYTES)

/* Where a chunk of a row lies: rows of fewer than 128 bytes share a line of the banks. */
#define ROWS_A_LINE (CHUNKS < 8 ? 8 / CHUNKS : 1)
#define SWIZZLE(row) ((row) / ROWS_A_LINE % (CHUNKS < 8 ? CHUNKS : 8))
#define PLACE(row, chunk) (((row) * CHUNKS + ((chunk) ^ SWIZZLE(row))) * 16)

/* A thread's chunks of a tile are all in the same column of chunks, and in rows of the same SWIZZLE. */
#define PATCH_CHUNKS (BP * CHUNKS)
#define PATCH_LOADS ((PATCH_CHUNKS + THREADS - 1) / THREADS)
#define WEIGHT_CHUNKS (BC * CHUNKS)
#define WEIGHT_LOADS ((WEIGHT_CHUNKS + THREADS - 1) / THREADS)
#define IN_TILE(i, chunks) ((chunks) % THREADS == 0 || (int)threadIdx.x + (i) * THREADS < (chunks))

#define PIECE (VEC > 1 ? VEC : 4) /* elements of a chunk with one address and one check */
#define PATCH_ASYNC (ASYNC && VEC > 1)
#define PATCH_HELD (PATCH_ASYNC ? 1 : PATCH_LOADS) /* chunks in registers on their way */
#define WEIGHT_HELD (ASYNC ? 1 : WEIGHT_LOADS)

/* n / s.d, n >= 0 */
#if CONSTANTS
#define QUOTIENT(n, d) ((int)((unsigned)(n) / (unsigned)s.d))
#else
#define QUOTIENT(n, d) ((int)(__umulhi(2u * (unsigned)(n), (unsigned)s.d##_multiplier) >> s.d##_shift))
#endif

/* s.flags */
#define HAS_BIAS 1
#define HAS_RESIDUAL 2
#define HALF_BIAS 4 /* of elements, not floats */

#define BLOCK (BLOCKED ? BK : s.depth) /* channels of a block */

/* k as input channel of a block, column and row of the tap, and how many channels are in the blocks before. */
struct digits {
    int channel, column, row, before;
};

INLINE struct digits digits_of(const struct shape &s, int k) {
    struct digits at;
    const int tap = BLOCKED ? k / BK : QUOTIENT(k, depth), row = QUOTIENT(tap, kw);
    const int block = BLOCKED ? row / s.kh : row >= s.kh; /* the second of one is beyond all of k */
    at.channel = k - tap * BLOCK;
    at.column = tap - row * s.kw;
    at.row = row - block * s.kh;
    at.before = block * BLOCK;
    return at;
}

/* What is added to channel and column is less than their number, so at most one is carried; rows only grow. */
INLINE void advance(const struct shape &s, struct digits &at, int channel, int column, int row) {
    at.channel += channel;
    at.column += column;
    at.row += row;
    if (at.channel >= BLOCK) {
        at.channel -= BLOCK;
        at.column++;
    }
    if (at.column >= s.kw) {
        at.column -= s.kw;
        at.row++;
    }
    if (at.row >= s.kh) {
        at.row -= s.kh;
        at.before += BLOCK;
    }
}

INLINE void advance_step(const struct shape &s, struct digits &at) {
#if BLOCKED && TAPS
    advance(s, at, 0, 1, 0);
#elif BLOCKED
    at.before += BK;
#else
    advance(s, at, s.step_channel, s.step_column, s.step_row);
#endif
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
    at.offset = image * s.image_stride + y * s.row_stride + at.x * s.c + group * s.cg;
    at.y = pixel < s.pixels ? y : -(1 << 24);
    return at;
}

/* The element of the input at k of a pixel's patch, and whether there is one. */
INLINE bool patch_at(const struct shape &s, const struct corner &corner, const struct digits &k, int &ret_offset) {
    const int down = k.row * s.dh, right = k.column * s.dw;
    const int offset = corner.offset + (down * s.row_stride + right * s.c + k.before + k.channel);
    bool inside = (unsigned)(corner.y + down) < (unsigned)s.h && k.before < s.depth;
#if CHECK_COLUMNS
    inside = inside && (unsigned)(corner.x + right) < (unsigned)s.w;
#endif
    ret_offset = inside ? offset : 0;
    return inside;
}

#if !PATCH_ASYNC
/* PIECE neighbours of the patch matrix, into their place in a chunk that was zero. `channels`: how many there are. */
INLINE void take_patch(const element *from, bool real, int channels, int piece, uint4 &chunk) {
    if (!real)
        return;
#if TF32
    chunk.x = __float_as_uint(from[0]);
    chunk.y = channels > 1 ? __float_as_uint(from[1]) : 0;
    chunk.z = channels > 2 ? __float_as_uint(from[2]) : 0;
    chunk.w = channels > 3 ? __float_as_uint(from[3]) : 0;
#elif VEC == 8
    chunk = *(const uint4 *)from;
#elif VEC == 2
    (piece == 0 ? chunk.x : piece == 1 ? chunk.y : piece == 2 ? chunk.z : chunk.w) = *(const unsigned *)from;
#else
    uint2 two;
#if VEC == 4
    two = *(const uint2 *)from;
#else
    two.x = from[0] | (channels > 1 ? (unsigned)from[1] << 16 : 0);
    two.y = (channels > 2 ? from[2] : 0) | (channels > 3 ? (unsigned)from[3] << 16 : 0);
#endif
    (piece ? chunk.z : chunk.x) = two.x;
    (piece ? chunk.w : chunk.y) = two.y;
#endif
}
#endif

/* One chunk of a pixel's patch, from k on: on its way to shared memory, or in registers. */
INLINE void fetch_chunk(const struct shape &s, const element *__restrict__ x, const struct corner &corner,
                        struct digits k, unsigned to, uint4 &held) {
    int offset;
#if !PATCH_ASYNC
    held = make_uint4(0, 0, 0, 0);
#endif
#pragma unroll
    for (int piece = 0; piece < IN_CHUNK / PIECE; piece++) {
        const bool real = patch_at(s, corner, k, offset);
#if PATCH_ASYNC
        copy_async<VEC * ELEMENT_BYTES, TAPS>(to + piece * VEC * ELEMENT_BYTES, x + offset, real);
#else
        take_patch(x + offset, real, s.cg - k.before - k.channel, piece, held);
#endif
        if (PIECE < IN_CHUNK)
            advance(s, k, PIECE, 0, 0);
    }
}

/* A thread's part in bringing a step's tiles to shared memory. */
struct walk {
    struct corner corners[PATCH_LOADS];
    struct digits at;       /* of its column of the patch matrix, in the next step */
    const element *weights; /* its first chunk of the next step's block */
    unsigned patch_to;      /* its first chunk in a stage */
    uint4 patch_held[PATCH_HELD], weight_held[WEIGHT_HELD];
};

/* Start the next step's loads into a stage, and go on to the step after. */
INLINE void fetch_weights(unsigned stage, struct walk &walk) {
#pragma unroll
    for (int i = 0; i < WEIGHT_LOADS; i++) {
        if (!IN_TILE(i, WEIGHT_CHUNKS))
            continue;
        const element *from = walk.weights + i * THREADS * IN_CHUNK;
#if ASYNC
        copy_async<16, false>(stage + PATCH_BYTES + (threadIdx.x + i * THREADS) * 16, from, true);
#else
        walk.weight_held[i] = *(const uint4 *)from;
#endif
    }
    walk.weights += BC * BK;
}

INLINE void fetch_patches(const struct shape &s, const element *__restrict__ x, unsigned stage, struct walk &walk) {
#pragma unroll
    for (int i = 0; i < PATCH_LOADS; i++)
        if (IN_TILE(i, PATCH_CHUNKS))
            fetch_chunk(s, x, walk.corners[i], walk.at, stage + walk.patch_to + i * THREADS * 16,
                        walk.patch_held[PATCH_ASYNC ? 0 : i]);
    advance_step(s, walk.at);
}

/* Puts what came through registers into its stage. */
INLINE void settle(unsigned stage, const struct walk &walk) {
#if !PATCH_ASYNC
#pragma unroll
    for (int i = 0; i < PATCH_LOADS; i++)
        if (IN_TILE(i, PATCH_CHUNKS))
            store_shared(stage + walk.patch_to + i * THREADS * 16, walk.patch_held[i]);
#endif
#if !ASYNC
#pragma unroll
    for (int i = 0; i < WEIGHT_LOADS; i++)
        if (IN_TILE(i, WEIGHT_CHUNKS))
            store_shared(stage + PATCH_BYTES + (threadIdx.x + i * THREADS) * 16, walk.weight_held[i]);
#endif
}

/* Weights [K, C/g, R, S] to [group][tile of channels][step] blocks as shared memory has them: one thread an element. */
extern "C" __global__ void conv2d_mma_pack(const element *__restrict__ w, element *__restrict__ packed SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int steps = s.steps_each * s.parts + s.steps_over;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.groups * s.tiles_c * steps * (BC * BK))
        return;
    const int block = i / (BC * BK), chunk = i / IN_CHUNK % (BC * CHUNKS), row = chunk / CHUNKS;
    const int step = block % steps, tile = block / steps % s.tiles_c, group = block / steps / s.tiles_c;
    const struct digits k = digits_of(s, step * BK + (chunk % CHUNKS ^ SWIZZLE(row)) * IN_CHUNK + i % IN_CHUNK);
    const int channel = tile * BC + row;
    element weight = 0;
    if (k.before + k.channel < s.cg && channel < s.kg)
        weight = w[(((group * s.kg + channel) * s.cg + k.before + k.channel) * s.kh + k.row) * s.kw + k.column];
#if TF32
    weight = __uint_as_float(rounded(__float_as_uint(weight)));
#endif
    packed[i] = weight;
}

/* ---- the product ---- */

#define TP (BP / WP) /* of a warp */
#define TC (BC / WC)
#define BLOCKS_M ((SWAP ? TC : TP) / 16)
#define BLOCKS_N ((SWAP ? TP : TC) / 8)

/* A lane's addresses for ldmatrix, in a stage: of its warp's first blocks' rows, and its slice's first 32 bytes of k. */
struct operands {
    unsigned m, n;
};

INLINE struct operands operands_of(int warp_p, int warp_c, int slice) {
    const int lane = threadIdx.x % 32;
    const int row_m = lane % 16, chunk_m = lane / 16, row_n = lane % 8 + lane / 16 * 8, chunk_n = lane / 8 % 2;
    const unsigned patch = warp_p * TP * ROW_BYTES, weight = PATCH_BYTES + warp_c * TC * ROW_BYTES;
    struct operands at;
    at.m = (SWAP ? weight : patch) + (PLACE(row_m, chunk_m) ^ slice * 32);
    at.n = (SWAP ? patch : weight) + (PLACE(row_n, chunk_n) ^ slice * 32);
    return at;
}

INLINE unsigned next_stage(unsigned shared, unsigned stage) {
    return stage == shared + (STAGES - 1) * STAGE_BYTES ? shared : stage + STAGE_BYTES;
}

/* Patches come as they are; weights are rounded already. */
INLINE void round_patches(unsigned (&words)[4]) {
#if TF32
#pragma unroll
    for (int e = 0; e < 4; e++)
        words[e] = rounded(words[e]);
#endif
}

/* Rows of 16 lie in multiples of their size, so 32 bytes of k further is another bit of the address. */
INLINE void multiply_step(unsigned stage, const struct operands &at, float (&sum)[BLOCKS_M][BLOCKS_N][4]) {
#pragma unroll
    for (int k = 0; k < ROW_BYTES / 32; k += SLICES) {
        unsigned m[BLOCKS_M][4], n[(BLOCKS_N + 1) / 2 * 2][2];
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++) {
            load_matrices((stage + at.m + i * 16 * ROW_BYTES) ^ k * 32, m[i]);
            if (!SWAP)
                round_patches(m[i]);
        }
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j += 2) {
            unsigned both[4];
            /* An odd last block: what stands for its neighbour is read and not used. */
            load_matrices((stage + at.n + (j + 1 < BLOCKS_N || threadIdx.x % 32 < 16 ? j : j - 1) * 8 * ROW_BYTES) ^
                              k * 32,
                          both);
            if (SWAP)
                round_patches(both);
            n[j][0] = both[0], n[j][1] = both[1];
            n[j + 1][0] = both[2], n[j + 1][1] = both[3];
        }
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
            for (int j = 0; j < BLOCKS_N; j++)
                multiply(sum[i][j], m[i], n[j]);
    }
}

/* ---- the end ---- */

/* The tile of sums in shared memory: a row a pixel; the columns of padding keep the writes below in different banks. */
#define SUM_ROW (BC + (SWAP ? 4 : 8))
#define SUM_BYTES (BP * SUM_ROW * 4)

INLINE void put_sums(unsigned to, int warp_p, int warp_c, const float (&sum)[BLOCKS_M][BLOCKS_N][4]) {
    const int lane = threadIdx.x % 32;
    to += (warp_p * TP * SUM_ROW + warp_c * TC) * 4;
#pragma unroll
    for (int i = 0; i < BLOCKS_M; i++) {
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int m = i * 16 + half * 8 + lane / 4, n = j * 8 + lane % 4 * 2;
                const float first = sum[i][j][half * 2], second = sum[i][j][half * 2 + 1];
#if SWAP
                store_shared(to + (n * SUM_ROW + m) * 4, first);
                store_shared(to + ((n + 1) * SUM_ROW + m) * 4, second);
#else
                store_shared(to + (m * SUM_ROW + n) * 4, first, second);
#endif
            }
        }
    }
}

/*
 * Four channels of a pixel. A CTA finishes QUADS of its tile, a thread AT_ONCE of them at a time; where that is all,
 * what is added to them is loaded before the sums are there (AHEAD).
 */
#define QUADS (BP * BC / 4 / CLUSTER)
#define QUADS_EACH ((QUADS + THREADS - 1) / THREADS)
#define AHEAD (QUADS_EACH <= 4)
#define AT_ONCE (AHEAD ? QUADS_EACH : 2)

struct quad {
    int place, channel; /* in the output, negative: there is none of it; of the output */
    int count;          /* how many of the four there are */
};

INLINE float4 plus(const float4 &a, const float4 &b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

INLINE struct quad quad_of(const struct shape &s, int number, int group) {
    struct quad quad;
    const int pixel = blockIdx.x * BP + number / (BC / 4), in_group = blockIdx.y * BC + number % (BC / 4) * 4;
    quad.channel = group * s.kg + in_group;
    quad.place = pixel < s.pixels && in_group < s.kg ? pixel * s.k + quad.channel : -1;
    quad.count = min(4, s.kg - in_group);
    return quad;
}

/* The activation: within bounds, or more than that. */
INLINE float activate(const struct shape &s, float sum) {
    const float low = __int_as_float(s.low), high = __int_as_float(s.high);
    return wt_act(sum < low ? low : sum > high ? high : sum);
}

#if SPLIT || !FOURS
INLINE float bias_at(const struct shape &s, const void *__restrict__ bias, int channel) {
    return s.flags & HALF_BIAS ? float_of(((const element *)bias)[channel]) : ((const float *)bias)[channel];
}
#endif

#if FOURS
INLINE float4 four_elements(const void *__restrict__ from, int at) {
#if TF32
    return *(const float4 *)((const element *)from + at);
#else
    const uint2 four = *(const uint2 *)((const element *)from + at);
    return make_float4(float_of(four.x & 0xffff), float_of(four.x >> 16), float_of(four.y & 0xffff),
                       float_of(four.y >> 16));
#endif
}
#endif

/* Bias and residual of a quad; partial sums have neither. */
INLINE float4 addend_of(const struct shape &s, const struct quad &quad, const void *__restrict__ bias,
                        const element *__restrict__ residual) {
    float4 sum = make_float4(0, 0, 0, 0);
    if (SPLIT || quad.place < 0)
        return sum;
#if FOURS
    if (s.flags & HAS_BIAS)
        sum = s.flags & HALF_BIAS ? four_elements(bias, quad.channel)
                                  : *(const float4 *)((const float *)bias + quad.channel);
    if (s.flags & HAS_RESIDUAL)
        sum = plus(sum, four_elements(residual, quad.place));
#else
    float value[4] = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (s.flags & HAS_BIAS && e < quad.count)
            value[e] = bias_at(s, bias, quad.channel + e);
        if (s.flags & HAS_RESIDUAL && e < quad.count)
            value[e] += float_of(residual[quad.place + e]);
    }
    sum = make_float4(value[0], value[1], value[2], value[3]);
#endif
    return sum;
}

#if SPLIT
INLINE void store_quad(const struct shape &s, const struct quad &quad, const float4 &sum, void *__restrict__ to) {
    float *y = (float *)to + quad.place;
#if FOURS
    *(float4 *)y = sum;
#else
    const float value[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < quad.count)
            y[e] = value[e];
#endif
}
#else
INLINE void store_quad(const struct shape &s, const struct quad &quad, const float4 &sum, void *__restrict__ to) {
    element *y = (element *)to + quad.place;
    const element value[4] = {element_of(activate(s, sum.x)), element_of(activate(s, sum.y)),
                              element_of(activate(s, sum.z)), element_of(activate(s, sum.w))};
#if FOURS && TF32
    *(float4 *)y = make_float4(value[0], value[1], value[2], value[3]);
#elif FOURS
    *(uint2 *)y = make_uint2(value[0] | (unsigned)value[1] << 16, value[2] | (unsigned)value[3] << 16);
#else
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (e < quad.count)
            y[e] = value[e];
#endif
}
#endif

/* The number of a thread's i-th quad in a round, among all of the tile; at least QUADS of the share: there is none. */
#define QUAD_IN_SHARE(first, i) ((first) + (int)threadIdx.x + (i) * THREADS)

/* Of a quad of the tile. */
INLINE unsigned sum_place(unsigned sums, int number) {
    return sums + (number / (BC / 4) * SUM_ROW + number % (BC / 4) * 4) * 4;
}

INLINE float4 sum_of_slices(unsigned sums, int number) {
    const unsigned from = sum_place(sums, number);
    float4 sum = load_shared(from);
#pragma unroll
    for (int slice = 1; slice < SLICES; slice++)
        sum = plus(sum, load_shared(from + slice * SUM_BYTES));
    return sum;
}

#if CLUSTER > 1
INLINE float4 sum_of_cluster(unsigned sums, int number) {
    const unsigned from = sum_place(sums, number);
    float4 part[CLUSTER];
#pragma unroll
    for (int rank = 0; rank < CLUSTER; rank++)
        part[rank] = load_cluster(from, rank);
#pragma unroll
    for (int rank = 1; rank < CLUSTER; rank++)
        part[0] = plus(part[0], part[rank]);
    return part[0];
}

/* Adds the slices of this CTA, each thread in places of its own. */
INLINE void fold_slices(unsigned sums) {
#pragma unroll 4
    for (int i = 0; i < (BP * BC / 4 + THREADS - 1) / THREADS; i++) {
        const int number = threadIdx.x + i * THREADS;
        if (BP * BC / 4 % THREADS != 0 && number >= BP * BC / 4)
            break;
        const float4 sum = sum_of_slices(sums, number);
        store_shared(sum_place(sums, number), sum.x, sum.y);
        store_shared(sum_place(sums, number) + 8, sum.z, sum.w);
    }
}
#endif

#if CLUSTER > 1
#define IN_CLUSTER __cluster_dims__(1, 1, CLUSTER)
#else
#define IN_CLUSTER
#endif

/* y: the output's elements, or with SPLIT the parts' sums as floats, each part as large as the output. */
extern "C" __global__ void IN_CLUSTER __launch_bounds__(THREADS)
    conv2d_mma(const element *__restrict__ x, const element *__restrict__ packed, void *__restrict__ y,
               const void *__restrict__ bias, const element *__restrict__ residual SHAPE_PARAMS) {
#if EARLY
    let_next_begin();
#endif
    const struct shape s = {SHAPE_VALUES};
    const unsigned shared = shared_begin();
    const int tid = threadIdx.x, warp = tid / 32;
    const int warp_p = warp % WP, warp_c = warp / WP % WC, slice = warp / (WP * WC);
#if CLUSTER > 1 || SPLIT
    const int group = QUOTIENT((int)blockIdx.z, parts), part = blockIdx.z - group * s.parts;
#else
    const int group = blockIdx.z, part = 0;
#endif
    const int first = part * s.steps_each + min(part, s.steps_over);
    const int last = first + s.steps_each + (part < s.steps_over);

#if SPLIT
    y = (float *)y + part * s.pixels * s.k;
#endif

    struct walk walk;
    walk.weights = packed + ((group * s.tiles_c + (int)blockIdx.y) * (s.steps_each * s.parts + s.steps_over) + first) *
                                (BC * BK) +
                   tid * IN_CHUNK;
    walk.at = digits_of(s, first * BK + tid % CHUNKS * IN_CHUNK);
    walk.patch_to = PLACE(tid / CHUNKS, tid % CHUNKS);
#pragma unroll
    for (int i = 0; i < PATCH_LOADS; i++)
        walk.corners[i] = corner_of(s, blockIdx.x * BP + tid / CHUNKS + i * (THREADS / CHUNKS), group);

    /* Weights are the same in every run, so the first ones need not wait; nothing else may come before this. */
#if EARLY
#pragma unroll 1
    for (int step = first; step < min(last, first + STAGES - 1); step++)
        fetch_weights(shared + (step - first) * STAGE_BYTES, walk);
    await_previous();
#endif

    const struct operands at = operands_of(warp_p, warp_c, slice);
    float sum[BLOCKS_M][BLOCKS_N][4];
#pragma unroll
    for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
        for (int j = 0; j < BLOCKS_N; j++)
            sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0;

    /*
     * The first steps' loads have a loop of their own: in one with the product ptxas 13.0 sees a negative step fail an
     * unsigned test against a bound, takes it for the signed test against that bound, and leaves out the patches.
     */
    unsigned reading = shared, writing = shared;
#pragma unroll 1
    for (int step = first; step < first + STAGES - 1; step++) {
        if (step < last) {
            if (!EARLY)
                fetch_weights(writing, walk);
            fetch_patches(s, x, writing, walk);
            settle(writing, walk);
        }
#if ASYNC
        commit_copies();
#endif
        writing += STAGE_BYTES;
    }
#pragma unroll 1
    for (int step = first; step < last; step++) {
        const bool more = step + STAGES - 1 < last;
#if ASYNC
        await_copies<STAGES - 2>();
#endif
        __syncthreads();
        if (more) {
            fetch_weights(writing, walk);
            fetch_patches(s, x, writing, walk);
        }
#if ASYNC
        commit_copies();
#endif
        multiply_step(reading, at, sum);
        if (more)
            settle(writing, walk);
        reading = next_stage(shared, reading);
        writing = next_stage(shared, writing);
    }

    const int share = CLUSTER > 1 ? part * QUADS : 0;
    float4 addend[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE && AHEAD; i++)
        addend[i] = addend_of(s, quad_of(s, share + QUAD_IN_SHARE(0, i), group), bias, residual);
#if ASYNC
    await_copies<0>();
#endif
    __syncthreads();
    put_sums(shared + slice * SUM_BYTES, warp_p, warp_c, sum);
#if CLUSTER > 1
    if (SLICES > 1) {
        __syncthreads();
        fold_slices(shared);
    }
    cluster_sync();
#else
    __syncthreads();
#endif
#pragma unroll 1
    for (int round = 0; round < QUADS; round += AT_ONCE * THREADS) {
#pragma unroll
        for (int i = 0; i < AT_ONCE && !AHEAD; i++)
            addend[i] = addend_of(s, quad_of(s, share + QUAD_IN_SHARE(round, i), group), bias, residual);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int in_share = QUAD_IN_SHARE(round, i);
            const struct quad quad = quad_of(s, share + in_share, group);
            if ((QUADS % (AT_ONCE * THREADS) != 0 && in_share >= QUADS) || quad.place < 0)
                continue;
#if CLUSTER > 1
            store_quad(s, quad, plus(addend[i], sum_of_cluster(shared, share + in_share)), y);
#else
            store_quad(s, quad, plus(addend[i], sum_of_slices(shared, in_share)), y);
#endif
        }
    }
#if CLUSTER > 1
    cluster_meet(); /* before that the others may still read this CTA's sums */
#endif
}

#if SPLIT
#define PARTS_AT_ONCE 8

/* Adds the partial sums, in order, and applies the epilogue: one thread an element. */
extern "C" __global__ void conv2d_mma_reduce(const float *__restrict__ partial, element *__restrict__ y,
                                             const void *__restrict__ bias,
                                             const element *__restrict__ residual SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int i = blockIdx.x * blockDim.x + threadIdx.x, all = s.pixels * s.k;
    if (i >= all)
        return;
    float sum = 0.0f;
    for (int part = 0; part < s.parts; part += PARTS_AT_ONCE) {
        float value[PARTS_AT_ONCE];
#pragma unroll
        for (int e = 0; e < PARTS_AT_ONCE; e++)
            value[e] = part + e < s.parts ? partial[(part + e) * all + i] : 0.0f;
#pragma unroll
        for (int e = 0; e < PARTS_AT_ONCE; e++)
            sum += value[e];
    }
    if (s.flags & HAS_BIAS)
        sum += bias_at(s, bias, i - QUOTIENT(i, k) * s.k);
    if (s.flags & HAS_RESIDUAL)
        sum += float_of(residual[i]);
    y[i] = element_of(activate(s, sum));
}
#endif
