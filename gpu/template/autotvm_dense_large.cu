/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_dense_large: a dense layer in FP32 for many samples, as AutoTVM divides it.
 *
 *   grid    x: samples in tiles of X_SIZE   y: outputs of a sample in tiles of Y_SIZE
 *   CTA     X_SIZE × Y_SIZE sums, DEPTH walked in STEPS of K_MIDDLE × K_INNER; X_THREADS × Y_THREADS threads
 *   thread  X_SUMS × Y_SUMS sums in registers, laid out by X_AT and Y_AT
 *   shared  two stages of STEP × (X_SIZE + Y_SIZE) floats, rows padded to an odd length, so that neighbouring rows lie
 *           in different banks; one is filled while the other is multiplied: 2·STEP·X_SIZE·Y_SIZE FLOPs a stage
 *
 * Samples and weights are rows of DEPTH neighbours, and are read along those. Splits divide their extents: no checks.
 *
 * In front of this text: shape and tiles as macros, and finish().
 */

#define STEP (K_MIDDLE * K_INNER)
#define ROW (STEP | 1)
#define THREADS (X_THREADS * Y_THREADS)
#define LOADS(n) (((n) + THREADS - 1) / THREADS)

/* Columns [k, k + STEP) of SIZE rows. */
#define STAGE(to, from, SIZE)                                          \
    UNROLL_LOADS                                                       \
    for (int n = 0; n < LOADS((SIZE)*STEP); n++) {                     \
        const int i = n * THREADS + tid;                               \
        if ((SIZE)*STEP % THREADS == 0 || i < (SIZE)*STEP)             \
            (to)[i / STEP][i % STEP] = (from)[i / STEP * DEPTH + i % STEP]; \
    }

/* Adds the products of one stage. */
static __device__ __forceinline__ void multiply(const float (*samples)[ROW], const float (*weights)[ROW], int tx, int ty,
                                                float (*sum)[Y_SUMS]) {
    UNROLL_MIDDLE
    for (int middle = 0; middle < K_MIDDLE; middle++)
        for (int inner = 0; inner < K_INNER; inner++) {
            const int k = middle * K_INNER + inner;
            float a[X_SUMS], b[Y_SUMS];
            UNROLL_SUMS
            for (int i = 0; i < X_SUMS; i++)
                a[i] = samples[X_AT(tx, i)][k];
            UNROLL_SUMS
            for (int j = 0; j < Y_SUMS; j++)
                b[j] = weights[Y_AT(ty, j)][k];
            UNROLL_SUMS
            for (int i = 0; i < X_SUMS; i++)
                UNROLL_SUMS
                for (int j = 0; j < Y_SUMS; j++)
                    sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dense_large(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y EPILOGUE_PARAMS) {
    __shared__ float samples[2][X_SIZE][ROW];
    __shared__ float weights[2][Y_SIZE][ROW];
    const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * X_THREADS + tx;
    const int row = blockIdx.x * X_SIZE, column = blockIdx.y * Y_SIZE;
    x += row * DEPTH;
    w += column * DEPTH;

    float sum[X_SUMS][Y_SUMS];
    UNROLL_SUMS
    for (int i = 0; i < X_SUMS; i++)
        UNROLL_SUMS
        for (int j = 0; j < Y_SUMS; j++)
            sum[i][j] = 0.0f;

    STAGE(samples[0], x, X_SIZE)
    STAGE(weights[0], w, Y_SIZE)
    /* The last stage is multiplied behind the loop: a condition in it makes the compiler unroll it, for seconds. */
    _Pragma("unroll 1")
    for (int step = 1; step < STEPS; step++) {
        const int next = step & 1;
        __syncthreads(); /* the stage before is complete, and the one before that may be overwritten */
        STAGE(samples[next], x + step * STEP, X_SIZE)
        STAGE(weights[next], w + step * STEP, Y_SIZE)
        multiply(samples[next ^ 1], weights[next ^ 1], tx, ty, sum);
    }
    __syncthreads();
    multiply(samples[(STEPS - 1) & 1], weights[(STEPS - 1) & 1], tx, ty, sum);

    UNROLL_SUMS
    for (int i = 0; i < X_SUMS; i++)
        UNROLL_SUMS
        for (int j = 0; j < Y_SUMS; j++) {
            const int channel = column + Y_AT(ty, j), at = (row + X_AT(tx, i)) * COLUMNS + channel;
            y[at] = finish(sum[i][j], at, channel EPILOGUE_ARGS);
        }
}
