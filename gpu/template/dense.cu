/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense: a dense layer of few samples: output[m, n] = sum over k of x[m, k] × weight[n, k]. Each weight is used
 * SAMPLES times only, so all that counts is to keep enough weights on their way.
 *
 *   grid     x: tiles of WN × ROWS outputs n   z: PARTS of the sum over k
 *   cluster  the parts of one tile
 *   CTA      WN × WK warps: WN tiles of ROWS outputs, for each WK warps that share k
 *   warp     ROWS outputs of each sample; a step is 32 × UNROLL vectors of VEC of k, of each row
 *   lane     UNROLL vectors of a step, ROWS × SAMPLES sums in FP32
 *
 * Weights are read where they are, as [N][K], 32 neighbouring vectors (VEC elements, 16 bytes where K allows) at a time,
 * past L1. The vectors of the next step are loaded into registers before those of this one are multiplied; an SM has
 * warps × ROWS × UNROLL × 512 bytes on their way, and wants 32 KB. The first step's are asked for before the kernel
 * waits for the one ahead of it (EARLY): weights are the same in every run. x comes through L1.
 *
 * At the end a warp's lanes exchange halves of their sums until each has one, the warps of a CTA meet in shared memory,
 * and the CTAs of a cluster in the first one's.
 *
 * In front of this text: struct shape, SHAPE_PARAMS (nothing, or «, int arg_k, …») and SHAPE_VALUES; HALF (elements are
 * FP16, else FP32), VEC, SAMPLES, ROWS, UNROLL, WN, WK, PARTS, BIAS, HALF_BIAS, RESIDUAL, EARLY; wt_act(), for
 * activations that are more than bounds.
 */

#define INLINE __device__ static __forceinline__

typedef unsigned short half_bits;

/* ---- instructions ---- */

/* All of shared memory is named by its 32-bit address. */
INLINE unsigned shared_begin() {
    extern __shared__ __align__(16) unsigned char shared[];
    return (unsigned)__cvta_generic_to_shared(shared);
}

INLINE void store_shared(unsigned to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}

#if PARTS == 1
INLINE float load_one(unsigned from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}
#else
/* From the shared memory of one of the cluster's CTAs. */
INLINE float load_of_rank(unsigned from, int rank) {
    float value;
    asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.f32 %0, [at];\n}"
                 : "=f"(value)
                 : "r"(from), "r"(rank)
                 : "memory");
    return value;
}

/* What every thread of the cluster stored to shared memory is then there for the others. */
INLINE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* Only waits for the others: orders nothing. */
INLINE void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}
#endif

/* What the lane has that differs in this bit of its number. */
INLINE float exchange(float value, int bit) {
    return __shfl_xor_sync(0xffffffffu, value, bit);
}

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

/* Read once only: not to be kept in L1. In order with what else is volatile, so before the wait where it stands so. */
#if VEC * (HALF ? 2 : 4) == 16
INLINE uint4 load_stream(const void *from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
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
#define THREADS (WN * WK * 32)
#define SPLITS (WK * PARTS)
#define STEP (32 * UNROLL) /* vectors of a row */
#define SAMPLES_PADDED (SAMPLES <= 1 ? 1 : SAMPLES <= 2 ? 2 : SAMPLES <= 4 ? 4 : SAMPLES <= 8 ? 8 : 16)
#define SUMS (SAMPLES_PADDED * ROWS) /* of a warp: a power of two, at most 32 */
#define TILE (WN * SUMS)             /* of a CTA */

/* VEC elements as they lie in memory. */
struct vector {
    unsigned word[WORDS];
};

/* Of weights, or of x. */
INLINE struct vector load_vector(const element *from, bool stream) {
    struct vector v;
#if BYTES == 16
    const uint4 four = stream ? load_stream(from) : *(const uint4 *)from;
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

INLINE float value_of(const struct vector &v, int e) {
#if HALF
    return float_of((half_bits)(v.word[e / 2] >> e % 2 * 16));
#else
    return __int_as_float((int)v.word[e]);
#endif
}

/* The vectors of a step, of all rows; zeros behind the last. */
INLINE void fetch(const struct shape &s, const element *const (&row)[ROWS], int first,
                  struct vector (&ret)[UNROLL][ROWS]) {
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const int at = first + u * 32;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int i = 0; i < WORDS; i++)
                ret[u][r].word[i] = 0;
            if (at < s.vectors)
                ret[u][r] = load_vector(row[r] + at * VEC, true);
        }
    }
}

/* One vector of each row by the same vector of each sample. */
INLINE void multiply(const struct shape &s, const element *x, int at, const struct vector (&weights)[ROWS],
                     float (&sum)[SUMS]) {
    float weight[ROWS][VEC];
    if (at >= s.vectors)
        return;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int e = 0; e < VEC; e++)
            weight[r][e] = value_of(weights[r], e);
#pragma unroll
    for (int m = 0; m < SAMPLES; m++) {
        const struct vector v = load_vector(x + (m * s.k + at * VEC), false);
#pragma unroll
        for (int e = 0; e < VEC; e++) {
            const float value = value_of(v, e);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[m * ROWS + r] = fmaf(value, weight[r][e], sum[m * ROWS + r]);
        }
    }
}

/*
 * Adds the sums of a warp's lanes: in each round a lane gives half of what it has and takes the same of the other
 * half, until it has one. sum[0] is then the total of number lane / (32 / SUMS), in all of those lanes.
 */
INLINE void add_lanes(float (&sum)[SUMS]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int round = 0; round < 5; round++) {
        const int bit = 16 >> round, half = SUMS >> (round + 1);
        const bool upper = (lane & bit) != 0;
        if (half == 0)
            sum[0] += exchange(sum[0], bit);
#pragma unroll
        for (int i = 0; i < SUMS / 2; i++) {
            if (i >= half)
                continue;
            const float given = upper ? sum[i] : sum[i + half], kept = upper ? sum[i + half] : sum[i];
            sum[i] = kept + exchange(given, bit);
        }
    }
}

/* ---- the end ---- */

/* The activation: within bounds, or more than that. */
INLINE float activate(const struct shape &s, float sum) {
    const float low = __int_as_float(s.low), high = __int_as_float(s.high);
    return wt_act(sum < low ? low : sum > high ? high : sum);
}

/* The total of one sum of the tile, from all warps and CTAs that have parts of it: `number` counts rows, then samples. */
INLINE float total_of(unsigned shared, int warp_n, int number) {
    float parts[SPLITS], total = 0.0f;
#pragma unroll
    for (int i = 0; i < SPLITS; i++) {
        const unsigned from = shared + ((i % WK * WN + warp_n) * SUMS + number) * 4;
#if PARTS > 1
        parts[i] = load_of_rank(from, i / WK);
#else
        parts[i] = load_one(from);
#endif
    }
#pragma unroll
    for (int i = 0; i < SPLITS; i++)
        total += parts[i];
    return total;
}

INLINE void finish(const struct shape &s, unsigned shared, int number, const void *__restrict__ bias,
                   const element *residual, element *y) {
    const int row = number % (WN * ROWS), m = number / (WN * ROWS), n = blockIdx.x * (WN * ROWS) + row;
    float sum = total_of(shared, row / ROWS, m * ROWS + row % ROWS);
    if (m >= SAMPLES || n >= s.n)
        return;
#if HALF_BIAS
    sum += float_of(((const half_bits *)bias)[n]);
#elif BIAS
    sum += ((const float *)bias)[n];
#endif
    const int to = m * s.n + n;
#if HALF && RESIDUAL
    sum += float_of(residual[to]);
#elif RESIDUAL
    sum += residual[to];
#endif
#if HALF
    y[to] = element_of(activate(s, sum));
#else
    y[to] = activate(s, sum);
#endif
}

#if PARTS > 1
#define IN_CLUSTER __cluster_dims__(1, 1, PARTS)
#else
#define IN_CLUSTER
#endif

extern "C" __global__ void IN_CLUSTER __launch_bounds__(THREADS)
    dense(const element *x, const element *__restrict__ w, const void *__restrict__ bias, const element *residual,
          element *y SHAPE_PARAMS) {
#if EARLY
    let_next_begin();
#endif
    const struct shape s = {SHAPE_VALUES};
    const unsigned shared = shared_begin();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_n = warp % WN, warp_k = warp / WN;
    const int split = PARTS > 1 ? blockIdx.z * WK + warp_k : warp_k;
    int first = split * STEP + lane, begin = 0;
    const element *row[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        row[r] = w + min((int)(blockIdx.x * WN + warp_n) * ROWS + r, s.n - 1) * s.k;

    struct vector next[UNROLL][ROWS];
    fetch(s, row, first, next);
#if EARLY
    await_previous(begin);
#endif
    x += begin;
    float sum[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (; first - lane < s.vectors; first += SPLITS * STEP) {
        struct vector weights[UNROLL][ROWS];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                weights[u][r] = next[u][r];
        fetch(s, row, first + SPLITS * STEP, next);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            multiply(s, x, first + u * 32, weights[u], sum);
    }
    add_lanes(sum);
    if (lane % (32 / SUMS) == 0)
        store_shared(shared + ((warp_k * WN + warp_n) * SUMS + lane / (32 / SUMS)) * 4, sum[0]);
#if PARTS > 1
    cluster_sync();
#else
    __syncthreads();
#endif
    /* The first CTA of a cluster has what is left to do. */
    if (PARTS == 1 || blockIdx.z == 0)
        for (int number = threadIdx.x; number < TILE; number += THREADS)
            finish(s, shared, number, bias, residual + begin, y);
#if PARTS > 1
    cluster_meet(); /* before that the first may still read this CTA's sums */
#endif
}
