/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_wgmma: convolution of NHWC tensors of FP16 or BF16 on Hopper's warpgroup products, with sums in FP32, as an
 * implicit matrix product:
 *
 *     output[channel, pixel] = sum over k of  weight[channel, k] × patch[pixel, k],
 *     k = (block of 64 input channels, tap, input channel of the block)
 *
 *   grid       x: tiles of BC output channels (inner) and BP pixels of all images   z: parts of the sum over k
 *              fewer CTAs than tiles: each takes every so many-th tile
 *   cluster    the CLUSTER parts of one tile's sum
 *   CTA        one warpgroup that copies, and WM × WN that multiply, each MB times 64 channels × NP pixels; or
 *              (IN_TURN) two that multiply, each a tile of its own, in turn
 *   instruction 64 channels × NP pixels × 16 of k
 *
 * Channels are on the M side, which comes in 64s, and pixels on the N side, which comes in eights: so a tile can have
 * just as many pixels as share the work out evenly, like 96 or 192, and reads little of shared memory.
 *
 * A step is one tap of 64 channels: a row of 128 bytes for each channel and each pixel, whose 16-byte chunks are
 * permuted by the row's number as the hardware's 128-byte swizzle has it. STAGES steps are on their way or in use.
 * Weights come packed, one block a tile and step that is the image of shared memory, as one bulk copy. Pixels are
 * copied 16 bytes at a time, asynchronously, with zeros where they lie outside the image or beyond the channels. They
 * bypass L1, which has three quarters of a 3 × 3's taps and still makes it no faster. A stage's barrier `full` counts
 * the copying threads and the bulk copy's bytes, its barrier `empty` the multiplying warps.
 *
 * With WIDE more than one a step is a row of so many taps: each column's weights, and the pixels once, with EXTRA more
 * behind them. Then the pixels are those of lines that have as many zeros between one and the next as a row of taps
 * needs, so that a tap's pixels are its neighbour's, some rows of shared memory on. Products for pixels that lie in such
 * zeros are of no use: 1 of 57, where an image has 56 columns.
 *
 * A step reads 128·(BC + BP) bytes of L2 for 128·BC·BP FLOPs; shared memory takes these and gives the products
 * 128·(64 + NP)·MB·WM·WN, at 128 bytes a cycle about as long as the tensor cores need.
 *
 * With at most four channels (NARROW) a step would be nearly empty. Then a first kernel copies the image with four
 * channels a pixel and zeros around it, so that neighbouring taps of a row are neighbours in memory and any two of
 * them, of pixels two apart, 16 bytes that can be copied; k is (row of taps, two taps, four channels).
 *
 * At the end a warpgroup adds bias, residual and activation to its sums in registers, puts them as halfs into shared
 * memory, each 8 × 8 of them turned so that a pixel's channels are neighbours, and stores those 16 bytes at a time. The
 * residual is copied to the same place before. With parts each CTA of the cluster finishes its share of the tile, to
 * which it adds what the others have summed: they store it in its shared memory, where the stages were.
 *
 * In turn means that one warpgroup's products begin when the other's have all begun, so that the other ends its tile
 * meanwhile. It also keeps a warpgroup from awaiting a stage that must be filled twice until it is its own: a barrier
 * tells only two phases apart.
 *
 * In front of this text: struct shape, SHAPE_PARAMS and SHAPE_VALUES; BF16, else halfs; BP, BC, WM, WN (in turn: 1 and
 * 1), IN_TURN, WIDE, EXTRA, STAGES, CLUSTER; NARROW (chunks of a row of taps, or 0), TAPS (more than one), WHOLE (input
 * channels are a multiple of 64), CHECK_COLUMNS (some tap may lie left or right of the image), CONSTANTS; CTAS that an
 * SM shall hold, CLAIM and LEAVE (registers of a multiplying and a copying thread; 0: as they are); MULTIPLY (the
 * instruction) and MULTIPLY_SUMS(sum) (its operands); wt_act(), for activations that are more than bounds.
 */

#define INLINE __device__ static __forceinline__

typedef unsigned short half_bits;
typedef unsigned long long bits64;

#define MB (BC / 64 / WM) /* 64s of channels of a warpgroup */
#define NP (BP / WN)      /* its pixels */
#define SUMS (NP / 2)     /* a thread's sums of each 64 channels */
#define COPIERS 128
#define GROUPS (IN_TURN ? 2 : WM * WN) /* warpgroups that multiply */
#define MULTIPLIERS (GROUPS * 128)
#define THREADS (COPIERS + MULTIPLIERS)

/* ---- instructions ---- */

/* All of shared memory is named by its 32-bit address. */
INLINE unsigned shared_begin() {
    extern __shared__ __align__(1024) unsigned char shared[];
    return (unsigned)__cvta_generic_to_shared(shared);
}

#if BF16
#define PAIR "bf16x2"

INLINE float float_of(half_bits bfloat) {
    return __uint_as_float((unsigned)bfloat << 16);
}
#else
#define PAIR "f16x2"

INLINE float float_of(half_bits half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
#endif

/* Two halfs in a word, the first one low. */
INLINE unsigned halfs_of(float first, float second) {
    unsigned both;
    asm("cvt.rn." PAIR ".f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

INLINE void barrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* So that copies see the barriers that this thread has initialised. */
INLINE void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and says how many bytes must come besides. */
INLINE void barrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Arrives when all that this thread has begun to copy is there. */
INLINE void barrier_arrive_copied(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Until the phase of this parity is over. */
INLINE void barrier_await(unsigned barrier, unsigned parity) {
    asm volatile("{\n.reg .pred over;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 over, [%0], %1;\n@!over bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Of the 128 threads of a warpgroup, or of all that multiply. */
template <int SIZE> INLINE void group_sync(int number) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(SIZE) : "memory");
}

/* Copies from global memory past L1, or zeros without reading. */
template <int BYTES, bool CACHED> INLINE void copy_async(unsigned to, const void *from, bool real) {
    const int size = real ? BYTES : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(size)
                 : "memory");
}

INLINE void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> INLINE void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

INLINE void barrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

INLINE void copy_bulk(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* What copies of 16 bytes wrote is then there for the products, which read shared memory another way. */
INLINE void proxy_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before the first product on sums that were written otherwise. */
INLINE void multiply_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* sum[64][NP] += m[64][16] × n[NP][16], by a warpgroup; m and n describe tiles of shared memory. */
INLINE void multiply(float (&sum)[SUMS], bits64 m, bits64 n) {
    asm volatile(MULTIPLY : MULTIPLY_SUMS(sum) : "l"(m), "l"(n));
}

INLINE void multiply_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most LEFT groups of products are not done. */
template <int LEFT> INLINE void multiply_await() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* Keeps the compiler from moving a use of the sum ahead of the wait for it. */
INLINE void hold(float &sum) {
    asm volatile("" : "+f"(sum)::"memory");
}

/* Four 8 × 8 matrices of halfs, turned; lane l gives the address of row l % 8 of matrix l / 8. */
INLINE void store_matrices_turned(unsigned to, const unsigned (&matrix)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(matrix[0]),
                 "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
                 : "memory");
}

INLINE void load_matrices_turned(unsigned from, unsigned (&matrix)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(from)
                 : "memory");
}

INLINE uint4 load_shared16(unsigned from) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(from)
                 : "memory");
    return value;
}

/* The next kernel may begin now, in the room that this one leaves; it waits itself for what this one writes. */
INLINE void let_next_begin() {
    asm volatile("griddepcontrol.launch_dependents;");
}

/* Until all that was launched before is done, and what it wrote is there. */
INLINE void await_previous() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

#if CLAIM
template <int REGISTERS> INLINE void claim_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> INLINE void leave_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
#endif

#if CLUSTER > 1
/* What every thread of the cluster stored to shared memory is then there for the others. */
INLINE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Only waits for the others: orders nothing. */
INLINE void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/* To the shared memory of another CTA of the cluster. */
INLINE void store_cluster(unsigned to, int rank, float a, float b, float c, float d) {
    asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [at], {%2, %3, %4, %5};\n}" ::"r"(to),
                 "r"(rank), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
}

INLINE float4 load_shared(unsigned from) {
    float4 value;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(from)
                 : "memory");
    return value;
}
#endif

/* ---- tiles ---- */

#define ROW_BYTES 128 /* 64 halfs */
#define CHUNKS 8      /* of 8 halfs in a row */
#define PLACE(row, chunk) ((row)*ROW_BYTES + ((chunk) ^ (row) % 8) * 16)
#define WEIGHT_BYTES (BC * ROW_BYTES)
#define PIXELS (BP + EXTRA) /* of a stage */
#define STAGE_BYTES (WIDE * WEIGHT_BYTES + (PIXELS + 7) / 8 * 8 * ROW_BYTES)
#define PIPE_BYTES (STAGES * STAGE_BYTES)

/* Behind the stages: each warpgroup's halfs, a row a pixel, and the barriers. */
#define OUT_ROW (MB * 128)
#define OUT_BYTES (NP * OUT_ROW)
#define OUT_CHUNKS (MB * 8)
#define OUT_PLACE(pixel, chunk) ((pixel)*OUT_ROW + ((chunk) ^ (pixel) % 8) * 16)
#define BARRIERS (PIPE_BYTES + GROUPS * OUT_BYTES)

/* n / s.d, n >= 0 */
#if CONSTANTS
#define QUOTIENT(n, d) ((int)((unsigned)(n) / (unsigned)s.d))
#else
#define QUOTIENT(n, d) ((int)(__umulhi(2u * (unsigned)(n), (unsigned)s.d##_multiplier) >> s.d##_shift))
#endif

/* s.flags */
#define HAS_BIAS 1
#define HAS_RESIDUAL 2
#define HALF_BIAS 4

#if NARROW
/* A step: eight chunks, of which NARROW are a row of taps. */
struct step {
    int chunk;
};

INLINE struct step step_of(const struct shape &s, int number) {
    struct step at;
    at.chunk = number * CHUNKS;
    return at;
}

INLINE void advance(const struct shape &s, struct step &at) {
    at.chunk += CHUNKS;
}

/* Where the weight of one of a step's 64 lies among those of an output channel; -1: nowhere. */
INLINE int weight_place(const struct shape &s, const struct step &at, int k) {
    const int chunk = at.chunk + k / 8, row = chunk / NARROW, column = chunk % NARROW * 2 + k / 4 % 2;
    return row < s.kh && column < s.kw && k % 4 < s.channels ? (k % 4 * s.kh + row) * s.kw + column : -1;
}

/* A copy of the input with four channels a pixel and zeros around: one thread a pixel. */
extern "C" __global__ void conv2d_wgmma_pad(const half_bits *__restrict__ x, half_bits *__restrict__ padded) {
    let_next_begin();
    const struct shape s = {SHAPE_VALUES};
    const int i = blockIdx.x * blockDim.x + threadIdx.x, line = QUOTIENT(i, w), image = QUOTIENT(line, h);
    const int row = line - image * s.h - s.margin_h, column = i - line * s.w - s.margin_w;
    half_bits channel[4] = {0, 0, 0, 0};
    await_previous();
    if (i >= s.padded)
        return;
    if (row >= 0 && row < s.image_h && column >= 0 && column < s.image_w)
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (c < s.channels)
                channel[c] = x[((image * s.image_h + row) * s.image_w + column) * s.channels + c];
    *(uint2 *)(padded + i * 4) =
        make_uint2(channel[0] | (unsigned)channel[1] << 16, channel[2] | (unsigned)channel[3] << 16);
}
#else
/* A step: the tap's row and column, and how many channels are in the blocks before. */
struct step {
    int row, column, before;
};

INLINE struct step step_of(const struct shape &s, int number) {
    struct step at;
    const int row = WIDE > 1 ? number : QUOTIENT(number, kw), block = QUOTIENT(row, kh);
    at.column = WIDE > 1 ? 0 : number - row * s.kw;
    at.row = row - block * s.kh;
    at.before = block * 64;
    return at;
}

INLINE void advance(const struct shape &s, struct step &at) {
#if TAPS
    if (WIDE == 1 && ++at.column < s.kw)
        return;
    at.column = 0;
    if (++at.row < s.kh)
        return;
    at.row = 0;
#endif
    at.before += 64;
}

INLINE int weight_place(const struct shape &s, const struct step &at, int k) {
    const int channel = at.before + k;
    return channel < s.channels ? (channel * s.kh + at.row) * s.kw + at.column : -1;
}
#endif

/* Weights [K, C, R, S] to [tile of channels][step][tap of a wide step] blocks as shared memory has them: one thread an
 * element. */
extern "C" __global__ void conv2d_wgmma_pack(const half_bits *__restrict__ w,
                                             half_bits *__restrict__ packed SHAPE_PARAMS) {
    const struct shape s = {SHAPE_VALUES};
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s.tiles_c * s.steps * (WIDE * BC * 64))
        return;
    const int block = i / (WIDE * BC * 64), row = i / 64 % BC, tile = QUOTIENT(block, steps), channel = tile * BC + row;
    struct step step = step_of(s, block - tile * s.steps);
#if WIDE > 1
    step.column = i / (BC * 64) % WIDE;
#endif
    const int place = weight_place(s, step, (i / 8 % CHUNKS ^ row % 8) * 8 + i % 8);
    packed[i] = channel < s.k && place >= 0 ? w[channel * s.channels * s.kh * s.kw + place] : (half_bits)0;
}

/* The stage that comes next, and the parity of its phase; both sides go through the stages in the same order. */
struct turn {
    int stage;
    unsigned parity;
};

INLINE void advance(struct turn &at) {
    if (++at.stage == STAGES) {
        at.stage = 0;
        at.parity ^= 1;
    }
}

/* Over the steps of a tile that is not this warpgroup's. */
INLINE void pass(struct turn &at, int steps) {
    const int stage = at.stage + steps;
    at.stage = stage % STAGES;
    at.parity ^= stage / STAGES & 1;
}

#define FULL(shared, stage) ((shared) + BARRIERS + (stage)*16)
#define EMPTY(shared, stage) (FULL(shared, stage) + 8)
/* A warpgroup's turn: one phase each time that the other has begun all its products of a tile. */
#define TURN(shared, group) ((shared) + BARRIERS + STAGES * 16 + (group)*8)
#define USERS (IN_TURN ? 4 : MULTIPLIERS / 32) /* warps that give a stage back */

/* Where a CTA works: its shared memory, the part of the sum, and the steps of that. */
struct place {
    unsigned shared;
    int part, first, last;
};

/* A tile by its number: the first pixel, and the tile of channels. */
struct tile {
    int pixel, channels;
};

INLINE struct tile tile_of(const struct shape &s, int number) {
    struct tile tile;
    const int pixels = QUOTIENT(number, tiles_c);
    tile.channels = number - pixels * s.tiles_c;
    tile.pixel = pixels * BP;
    return tile;
}

/* ---- copying ---- */

/* A thread's chunks of a stage are all in one column, in every ROWS-th row. */
#define ROWS (COPIERS / CHUNKS)
#define PATCH_LOADS ((PIXELS + ROWS - 1) / ROWS)
#define IN_TILE(i) ((i) < PIXELS / ROWS || (int)threadIdx.x < PIXELS % ROWS * CHUNKS)

/* A pixel's corner of the input, where its first tap reads, and a bit for each tap (of a wide step: each row of them)
 * that is in the image. */
struct corner {
    int offset;
    unsigned taps;
};

#define UNROLL_TAPS (CONSTANTS ? 32 : 1)

INLINE struct corner corner_of(const struct shape &s, int pixel) {
    struct corner at;
    const int image = QUOTIENT(pixel, area), in_image = pixel - image * s.area;
    const int oy = QUOTIENT(in_image, ow), ox = in_image - oy * s.ow;
    const int y = oy * s.sh - s.pad_h, x = ox * s.sw - s.pad_w;
    at.offset = image * s.image_stride + y * s.row_stride + x * s.c;
    at.taps = pixel < s.pixels;
#if TAPS
    unsigned rows = 0, columns = 0;
    const int row_taps = WIDE > 1 ? 1 : s.kw;
#pragma unroll UNROLL_TAPS
    for (int row = 0; row < s.kh; row++)
        rows |= ((unsigned)(y + row * s.dh) < (unsigned)s.h ? 1u : 0u) << row * row_taps;
#pragma unroll UNROLL_TAPS
    for (int column = 0; column < row_taps; column++)
        columns |= (!CHECK_COLUMNS || (unsigned)(x + column * s.dw) < (unsigned)s.w ? 1u : 0u) << column;
    at.taps *= rows * columns; /* those of the columns, in each row's place */
#else
    if (y < 0 || y >= s.h || x < 0 || x >= s.w)
        at.taps = 0;
#endif
    return at;
}

INLINE void begin_weights(unsigned shared, int stage, const half_bits *from) {
    barrier_expect(FULL(shared, stage), WIDE * WEIGHT_BYTES);
    copy_bulk(shared + stage * STAGE_BYTES, from, WIDE * WEIGHT_BYTES, FULL(shared, stage));
}

INLINE const half_bits *weights_of(const struct shape &s, const half_bits *packed, int tile, int step) {
    return packed + (tile_of(s, tile).channels * s.steps + step) * (WIDE * BC * 64);
}

INLINE void copy_patches(const struct shape &s, const half_bits *__restrict__ x, unsigned to,
                         const struct corner (&corners)[PATCH_LOADS], const struct step &at) {
#if NARROW
    const int chunk = at.chunk + threadIdx.x % CHUNKS, row = chunk / NARROW;
    const unsigned tap = row < s.kh;
    x += row * s.dh * s.row_stride + chunk % NARROW * 8;
#else
    const int channel = at.before + threadIdx.x % CHUNKS * 8;
    const unsigned tap = WHOLE || channel < s.channels ? 1u << (WIDE > 1 ? at.row : at.row * s.kw + at.column) : 0;
    x += at.row * s.dh * s.row_stride + at.column * s.dw * s.c + channel;
#endif
#pragma unroll
    for (int i = 0; i < PATCH_LOADS; i++)
        if (IN_TILE(i))
            copy_async<16, false>(to + i * ROWS * ROW_BYTES, x + corners[i].offset, (corners[i].taps & tap) != 0);
}

/* The copying warpgroup: all steps of all of the CTA's tiles. */
INLINE void copy_tiles(const struct shape &s, const half_bits *__restrict__ x, const half_bits *__restrict__ packed,
                       const struct place &at) {
    const int row = threadIdx.x / CHUNKS;
    const unsigned to = WIDE * WEIGHT_BYTES + PLACE(row, threadIdx.x % CHUNKS);
    struct turn turn = {0, 1}; /* the first wait for an empty stage is none */
    /* Weights are the same in every run, so the first ones need not wait; nothing else may come before this. */
    const int ahead = min(STAGES, at.last - at.first);
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int i = 0; i < ahead; i++)
            begin_weights(at.shared, i, weights_of(s, packed, blockIdx.x, at.first + i));
    await_previous();
    int begun = ahead;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < s.tiles; tile += gridDim.x) {
        const int pixel = tile_of(s, tile).pixel + row;
        struct corner corners[PATCH_LOADS];
#pragma unroll
        for (int i = 0; i < PATCH_LOADS; i++)
            corners[i] = corner_of(s, pixel + i * ROWS);
        struct step step = step_of(s, at.first);
        const half_bits *weights = weights_of(s, packed, tile, at.first);
#pragma unroll 1
        for (int i = at.first; i < at.last; i++) {
            barrier_await(EMPTY(at.shared, turn.stage), turn.parity);
            if (begun > 0)
                begun--;
            else if (threadIdx.x == 0)
                begin_weights(at.shared, turn.stage, weights);
            weights += WIDE * BC * 64;
            copy_patches(s, x, at.shared + turn.stage * STAGE_BYTES + to, corners, step);
            barrier_arrive_copied(FULL(at.shared, turn.stage));
            advance(s, step);
            advance(turn);
        }
    }
}

/* ---- multiplying ---- */

/* Rows of 128 bytes, swizzled, k innermost: eight of them are 1024 bytes from the next eight. */
INLINE bits64 describe(unsigned address) {
    return (bits64)(0x40000000u | 1024 >> 4) << 32 | 1u << 16 | (address & 0x3ffff) >> 4;
}

#define EXTRA_TAP (WIDE > 1 ? EXTRA / (WIDE - 1) : 0) /* from a tap's pixels to its neighbour's */

INLINE void multiply_step(bits64 m, bits64 n, float (&sum)[MB][SUMS]) {
    multiply_begin();
#pragma unroll
    for (int tap = 0; tap < WIDE; tap++, m += WEIGHT_BYTES >> 4, n += EXTRA_TAP * ROW_BYTES >> 4)
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < MB; i++)
                multiply(sum[i], m + i * (64 * ROW_BYTES >> 4) + k * 2, n + k * 2);
    multiply_commit();
}

/* A multiplying thread: its warpgroup's number, and what it has of the tile. */
struct part_of_tile {
    int group, pixel, channel; /* the first of the warpgroup, in the output */
    unsigned out;              /* the warpgroup's halfs in shared memory */
};

INLINE struct part_of_tile part_of(const struct shape &s, unsigned shared, int tile) {
    struct part_of_tile own;
    const struct tile at = tile_of(s, tile);
    own.group = threadIdx.x / 128 - COPIERS / 128;
    own.pixel = at.pixel + (IN_TURN ? 0 : own.group / WM * NP);
    own.channel = at.channels * BC + (IN_TURN ? 0 : own.group % WM * (MB * 64));
    own.out = shared + PIPE_BYTES + own.group * OUT_BYTES;
    return own;
}

INLINE void give_back(unsigned shared, int stage) {
    if (threadIdx.x % 32 == 0)
        barrier_arrive(EMPTY(shared, stage));
}

INLINE void begin_turn(unsigned shared, int group, unsigned parity) {
    if (IN_TURN)
        barrier_await(TURN(shared, group), parity);
}

INLINE void end_turn(unsigned shared, int group) {
    if (IN_TURN && threadIdx.x % 32 == 0)
        barrier_arrive(TURN(shared, 1 - group));
}

/* All of the CTA's steps of a tile; a stage is given back when the products of the step after it have begun. */
INLINE void sum_steps(const struct place &at, int group, struct turn &turn, float (&sum)[MB][SUMS]) {
    const unsigned m = IN_TURN ? 0 : group % WM * (MB * 64) * ROW_BYTES,
                   n = WIDE * WEIGHT_BYTES + (IN_TURN ? 0 : group / WM * NP * ROW_BYTES);
    int before = -1;
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int j = 0; j < SUMS; j++)
            sum[i][j] = 0;
#pragma unroll 1
    for (int step = at.first; step < at.last; step++) {
        const unsigned stage = at.shared + turn.stage * STAGE_BYTES;
        barrier_await(FULL(at.shared, turn.stage), turn.parity);
        proxy_fence();
        multiply_step(describe(stage + m), describe(stage + n), sum);
        multiply_await<1>();
        if (before >= 0)
            give_back(at.shared, before);
        before = turn.stage;
        advance(turn);
    }
    end_turn(at.shared, group);
    multiply_await<0>();
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int j = 0; j < SUMS; j++)
            hold(sum[i][j]);
    give_back(at.shared, before);
}

/* ---- the end ---- */

/* Sums are finished by 16 pixels: two blocks of eight; the last one may be one block, taken twice. */
#define BLOCKS (NP / 8)
#define PAIRS ((BLOCKS + 1) / 2)
#define SECOND(pair) (2 * (pair) + 1 < BLOCKS ? 2 * (pair) + 1 : 2 * (pair))

/* The part that finishes a warpgroup's i-th 64 channels of a pair, and the number of the pair in its share. */
#define SHARE ((MB * PAIRS + CLUSTER - 1) / CLUSTER)
#define OWNER(i, pair) (((i)*PAIRS + (pair)) / SHARE)
#define IN_SHARE(i, pair) (((i)*PAIRS + (pair)) % SHARE)
#define IS_SHARE(i, pair, part) (CLUSTER == 1 || OWNER(i, pair) == (part))

/* The n-th of the chunks that a thread stores. */
#define STORES ((NP * OUT_CHUNKS + 127) / 128)

struct chunk {
    int pixel, channel; /* of the warpgroup's */
    int offset;         /* in the output */
    bool real;
};

INLINE struct chunk chunk_of(const struct shape &s, const struct part_of_tile &own, int part, int n) {
    struct chunk chunk;
    const int number = threadIdx.x % 128 + n * 128;
    chunk.pixel = number / OUT_CHUNKS;
    chunk.channel = number % OUT_CHUNKS * 8;
    chunk.real = (NP * OUT_CHUNKS % 128 == 0 || chunk.pixel < NP) && IS_SHARE(chunk.channel / 64, chunk.pixel / 16, part) &&
                 own.pixel + chunk.pixel < s.pixels && own.channel + chunk.channel < s.k;
    int pixel = own.pixel + chunk.pixel;
#if WIDE > 1
    const int line = QUOTIENT(pixel, ow), column = pixel - line * s.ow;
    chunk.real &= column < s.columns;
    pixel = line * s.columns + column;
#endif
    chunk.offset = pixel * s.k + own.channel + chunk.channel;
    return chunk;
}

#define CHUNK_PLACE(own, chunk) ((own).out + OUT_PLACE((chunk).pixel, (chunk).channel / 8))

INLINE void copy_residual(const struct shape &s, const half_bits *__restrict__ residual, const struct part_of_tile &own,
                          int part) {
#pragma unroll 4
    for (int n = 0; n < STORES; n++) {
        const struct chunk chunk = chunk_of(s, own, part, n);
        if (chunk.real)
            copy_async<16, false>(CHUNK_PLACE(own, chunk), residual + chunk.offset, true);
    }
    commit_copies();
}

INLINE void store_chunks(const struct shape &s, half_bits *__restrict__ y, const struct part_of_tile &own, int part) {
#pragma unroll 4
    for (int n = 0; n < STORES; n++) {
        const struct chunk chunk = chunk_of(s, own, part, n);
        if (chunk.real)
            *(uint4 *)(y + chunk.offset) = load_shared16(CHUNK_PLACE(own, chunk));
    }
}

/* Of a channel that may be beyond the last. */
INLINE float bias_of(const struct shape &s, const void *__restrict__ bias, int channel) {
    if (!(s.flags & HAS_BIAS) || channel >= s.k)
        return 0;
    return s.flags & HALF_BIAS ? float_of(((const half_bits *)bias)[channel]) : ((const float *)bias)[channel];
}

/* The activation: within bounds, or more than that. */
INLINE float activate(const struct shape &s, float sum) {
    const float low = __int_as_float(s.low), high = __int_as_float(s.high);
    return wt_act(sum < low ? low : sum > high ? high : sum);
}

#if CLUSTER > 1
/* What the n-th part after the owner summed, where the stages were: 16 bytes a thread, thread by thread. */
#define SUM_PLACE(n, i, block) \
    (((((n)-1) * SHARE + IN_SHARE(i, (block) / 2)) * 2 + (block) % 2) * (MULTIPLIERS * 16) + \
     ((int)threadIdx.x - COPIERS) * 16)

INLINE void put_sums(unsigned shared, int part, const float (&sum)[MB][SUMS]) {
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int block = 0; block < BLOCKS; block++) {
            const int owner = OWNER(i, block / 2), after = (part + CLUSTER - owner) % CLUSTER;
            if (after > 0)
                store_cluster(shared + SUM_PLACE(after, i, block), owner, sum[i][block * 4], sum[i][block * 4 + 1],
                              sum[i][block * 4 + 2], sum[i][block * 4 + 3]);
        }
}

INLINE void add_sums(unsigned shared, int part, float (&sum)[MB][SUMS]) {
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int block = 0; block < BLOCKS; block++)
            if (IS_SHARE(i, block / 2, part)) {
#pragma unroll
                for (int after = 1; after < CLUSTER; after++) {
                    const float4 more = load_shared(shared + SUM_PLACE(after, i, block));
                    sum[i][block * 4] += more.x;
                    sum[i][block * 4 + 1] += more.y;
                    sum[i][block * 4 + 2] += more.z;
                    sum[i][block * 4 + 3] += more.w;
                }
            }
}
#endif

/* The sums of 16 pixels × 16 channels, a lane's 8: matrix q has channels q % 2 and pixels q / 2, in eights. */
INLINE void finish_pair(const struct shape &s, unsigned place, const float *first, const float *second,
                        const float (&bias)[2]) {
    unsigned matrix[4] = {0, 0, 0, 0};
    const bool more = (s.flags & HAS_RESIDUAL) != 0;
    if (more)
        load_matrices_turned(place, matrix);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const float *sum = (q / 2 ? second : first) + q % 2 * 2;
        float a = sum[0] + bias[q % 2], b = sum[1] + bias[q % 2];
        if (more) {
            a += float_of(matrix[q] & 0xffff);
            b += float_of(matrix[q] >> 16);
        }
        matrix[q] = halfs_of(activate(s, a), activate(s, b));
    }
    store_matrices_turned(place, matrix);
}

INLINE void finish(const struct shape &s, const struct part_of_tile &own, int part, const float (&sum)[MB][SUMS],
                   const float (&bias)[MB][2]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++)
            if (IS_SHARE(i, pair, part)) {
                const int block = lane < 16 ? 2 * pair : SECOND(pair);
                const unsigned place = own.out + OUT_PLACE(block * 8 + lane % 8, i * 8 + warp * 2 + lane / 8 % 2);
                finish_pair(s, place, &sum[i][pair * 8], &sum[i][SECOND(pair) * 4], bias[i]);
            }
}

/* A multiplying warpgroup: its part of all of the CTA's tiles. */
INLINE void multiply_tiles(const struct shape &s, half_bits *__restrict__ y, const void *__restrict__ bias,
                           const half_bits *__restrict__ residual, const struct place &at) {
    const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    const int skipped = IN_TURN ? threadIdx.x / 128 - COPIERS / 128 : 0; /* tiles before the first */
    struct turn turn = {0, 0};
    unsigned parity = skipped ? 0 : 1; /* the first wait of the first warpgroup for its turn is none */
    if (skipped)
        pass(turn, at.last - at.first);
    await_previous();
#pragma unroll 1
    for (int tile = blockIdx.x + skipped * gridDim.x; tile < s.tiles; tile += gridDim.x * (IN_TURN + 1)) {
        const struct part_of_tile own = part_of(s, at.shared, tile);
        float sum[MB][SUMS], biases[MB][2];
#pragma unroll
        for (int i = 0; i < MB * 2; i++)
            biases[i / 2][i % 2] = bias_of(s, bias, own.channel + i / 2 * 64 + i % 2 * 8 + row);
        if (s.flags & HAS_RESIDUAL)
            copy_residual(s, residual, own, at.part);
        begin_turn(at.shared, own.group, parity);
        sum_steps(at, own.group, turn, sum);
#if IN_TURN
        parity ^= 1;
        pass(turn, at.last - at.first);
#endif
#if CLUSTER > 1
        cluster_meet(); /* all stages are read: sums go there */
        put_sums(at.shared, at.part, sum);
        cluster_sync();
        add_sums(at.shared, at.part, sum);
#endif
        if (s.flags & HAS_RESIDUAL) {
            await_copies<0>();
            group_sync<128>(2 + own.group);
        }
        finish(s, own, at.part, sum, biases);
        group_sync<128>(2 + own.group);
        store_chunks(s, y, own, at.part);
        group_sync<128>(2 + own.group); /* the next tile's halfs go to the same place */
    }
}

#if CLUSTER > 1
#define IN_CLUSTER __cluster_dims__(1, 1, CLUSTER)
#else
#define IN_CLUSTER
#endif

extern "C" __global__ void IN_CLUSTER __launch_bounds__(THREADS, CTAS)
    conv2d_wgmma(const half_bits *__restrict__ x, const half_bits *__restrict__ packed, half_bits *__restrict__ y,
                 const void *__restrict__ bias, const half_bits *__restrict__ residual SHAPE_PARAMS) {
    let_next_begin();
    const struct shape s = {SHAPE_VALUES};
    struct place at;
    at.shared = shared_begin();
    at.part = CLUSTER > 1 ? blockIdx.z : 0;
    at.first = at.part * s.steps_each + min(at.part, s.steps_over);
    at.last = at.first + s.steps_each + (at.part < s.steps_over);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(FULL(at.shared, i), COPIERS + 1);
            barrier_init(EMPTY(at.shared, i), USERS);
        }
        for (int i = 0; i < 2 * IN_TURN; i++)
            barrier_init(TURN(at.shared, i), 4);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x < COPIERS) {
#if CLAIM
        leave_registers<LEAVE>();
#endif
        copy_tiles(s, x, packed, at);
#if CLUSTER > 1
        cluster_meet();
        cluster_sync();
#endif
    } else {
#if CLAIM
        claim_registers<CLAIM>();
#endif
        multiply_tiles(s, y, bias, residual, at);
    }
}
