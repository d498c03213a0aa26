/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_dense_small: a dense layer in FP32 for few samples, as AutoTVM divides it: each CTA (column x, sample y of the
 * grid) is one output. Its THREADS threads take every THREADS-th product each, neighbours in memory at once, and add
 * their sums up in shared memory, half as many in every round. Every weight is read once a sample: bound by memory.
 *
 * In front of this text: shape and THREADS as macros, and finish().
 */

/* The power of two from which on, halved, the rounds cover all threads. */
constexpr int above(int n) {
    int power = 1;
    while (power < n)
        power *= 2;
    return power;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    dense_small(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y EPILOGUE_PARAMS) {
    __shared__ float sums[THREADS];
    const int tid = threadIdx.x, row = blockIdx.y, column = blockIdx.x;
    x += row * DEPTH;
    w += column * DEPTH;

    float sum = 0.0f;
    _Pragma("unroll 4")
    for (int k = 0; k < DEPTH; k += THREADS)
        sum = fmaf(x[k + tid], w[k + tid], sum);
    sums[tid] = sum;
    __syncthreads();
    for (int half = above(THREADS) / 2; half > 0; half /= 2) {
        if (tid < half && tid + half < THREADS)
            sums[tid] += sums[tid + half];
        __syncthreads();
    }
    if (tid == 0)
        y[row * COLUMNS + column] = finish(sums[0], row * COLUMNS + column, column EPILOGUE_ARGS);
}
