/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_winograd: convolution in FP32, NCHW, stride 1, by Winograd's minimal filtering, as AutoTVM divides it.
 *
 * The output is cut into PIXELS = N × TILES_H × TILES_W squares of M × M; each needs ALPHA × ALPHA inputs, which
 * overlap. Transformed, the convolution is ALPHA² separate matrix products:
 *
 *     kernel   once: U[ALPHA²][CI][CO] from the weights           a thread a pair of channels
 *     data     V[ALPHA²][CI][PIXELS] from the input               a thread a channel of a square
 *     product  S[b][co][p] = sum over ci of U[b][ci][co] × V[b][ci][p]
 *     output   the squares' pixels from S, and the epilogue       a thread a channel of a square
 *
 *   product: grid    x: squares in tiles of X_SIZE   y: output channels in tiles of Y_SIZE   z: the ALPHA² products
 *            CTA     Y_SIZE × X_SIZE sums, CI walked in STEPS of RC; X_THREADS × Y_THREADS threads
 *            thread  Y_SUMS × X_SUMS sums in registers, laid out by Y_AT and X_AT
 *            shared  RC × (Y_SIZE + X_SIZE) floats for 2·RC·Y_SIZE·X_SIZE FLOPs a step
 *
 * All of it is as fast as its memory: V and S are ALPHA²/M² = 4 (M = 2) or 2.25 (M = 4) times the input and output.
 * Splits divide their extents, so only the squares at the lower and right edge check what they read and write.
 *
 * In front of this text: shape and tiles as macros, kernel_line(), data_line(), output_line(), finish().
 */

#define ALPHA2 (ALPHA * ALPHA)
#define PIXELS (N_ * TILES_H * TILES_W)
#define THREADS (X_THREADS * Y_THREADS)
#define LOADS(n) (((n) + THREADS - 1) / THREADS)
#define UNROLL _Pragma("unroll")

/* Weights [CO][CI][R][R]; neighbouring threads take neighbouring output channels. */
extern "C" __global__ void winograd_kernel(const float *__restrict__ w, float *__restrict__ u) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CI * CO)
        return;
    const float *g = w + (i % CO * CI + i / CO) * (R * R);
    float taps[R * R], half[ALPHA * R], all[ALPHA2];
    UNROLL
    for (int j = 0; j < R * R; j++)
        taps[j] = g[j];
    UNROLL
    for (int j = 0; j < R; j++)
        kernel_line(taps + j, half + j, R);
    UNROLL
    for (int j = 0; j < ALPHA; j++)
        kernel_line(half + j * R, all + j * ALPHA, 1);
    UNROLL
    for (int b = 0; b < ALPHA2; b++)
        u[b * (CI * CO) + i] = all[b];
}

extern "C" __global__ void winograd_data(const float *__restrict__ x, float *__restrict__ v) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CI * PIXELS)
        return;
    const int c = i / PIXELS, p = i % PIXELS, image = p / (TILES_H * TILES_W);
    const int top = p / TILES_W % TILES_H * M - PAD_H, left = p % TILES_W * M - PAD_W;
    const float *from = x + (image * CI + c) * (H_ * W_);
    float square[ALPHA2], half[ALPHA2], all[ALPHA2];
    UNROLL
    for (int j = 0; j < ALPHA2; j++) {
        const int row = top + j / ALPHA, column = left + j % ALPHA;
        const bool inside = (unsigned)row < H_ && (unsigned)column < W_;
        square[j] = inside ? from[row * W_ + column] : 0.0f;
    }
    UNROLL
    for (int j = 0; j < ALPHA; j++)
        data_line(square + j, half + j, ALPHA);
    UNROLL
    for (int j = 0; j < ALPHA; j++)
        data_line(half + j * ALPHA, all + j * ALPHA, 1);
    UNROLL
    for (int b = 0; b < ALPHA2; b++)
        v[b * (CI * PIXELS) + i] = all[b];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd_product(const float *__restrict__ u, const float *__restrict__ v, float *__restrict__ s) {
    __shared__ float kernels[RC][Y_SIZE];
    __shared__ float squares[RC][X_SIZE];
    const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * X_THREADS + tx;
    u += blockIdx.z * (CI * CO) + blockIdx.y * Y_SIZE;
    v += blockIdx.z * (CI * PIXELS) + blockIdx.x * X_SIZE;
    s += blockIdx.z * (CO * PIXELS) + blockIdx.y * Y_SIZE * PIXELS + blockIdx.x * X_SIZE;

    float sum[Y_SUMS][X_SUMS];
    UNROLL_SUMS
    for (int i = 0; i < Y_SUMS; i++)
        UNROLL_SUMS
        for (int j = 0; j < X_SUMS; j++)
            sum[i][j] = 0.0f;

    UNROLL_STEPS
    for (int step = 0; step < STEPS; step++) {
        __syncthreads();
        UNROLL_LOADS
        for (int n = 0; n < LOADS(RC * Y_SIZE); n++) {
            const int i = n * THREADS + tid;
            if (RC * Y_SIZE % THREADS == 0 || i < RC * Y_SIZE)
                kernels[i / Y_SIZE][i % Y_SIZE] = u[(step * RC + i / Y_SIZE) * CO + i % Y_SIZE];
        }
        UNROLL_LOADS
        for (int n = 0; n < LOADS(RC * X_SIZE); n++) {
            const int i = n * THREADS + tid;
            if (RC * X_SIZE % THREADS == 0 || i < RC * X_SIZE)
                squares[i / X_SIZE][i % X_SIZE] = v[(step * RC + i / X_SIZE) * PIXELS + i % X_SIZE];
        }
        __syncthreads();
        UNROLL_RC
        for (int k = 0; k < RC; k++) {
            float a[Y_SUMS], b[X_SUMS];
            UNROLL_SUMS
            for (int i = 0; i < Y_SUMS; i++)
                a[i] = kernels[k][Y_AT(ty, i)];
            UNROLL_SUMS
            for (int j = 0; j < X_SUMS; j++)
                b[j] = squares[k][X_AT(tx, j)];
            UNROLL_SUMS
            for (int i = 0; i < Y_SUMS; i++)
                UNROLL_SUMS
                for (int j = 0; j < X_SUMS; j++)
                    sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
    }

    UNROLL_SUMS
    for (int i = 0; i < Y_SUMS; i++)
        UNROLL_SUMS
        for (int j = 0; j < X_SUMS; j++)
            s[Y_AT(ty, i) * PIXELS + X_AT(tx, j)] = sum[i][j];
}

extern "C" __global__ void winograd_output(const float *__restrict__ s, float *__restrict__ y EPILOGUE_PARAMS) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CO * PIXELS)
        return;
    const int channel = i / PIXELS, p = i % PIXELS, image = p / (TILES_H * TILES_W);
    const int top = p / TILES_W % TILES_H * M, left = p % TILES_W * M;
    float all[ALPHA2], half[M * ALPHA], square[M * M];
    UNROLL
    for (int b = 0; b < ALPHA2; b++)
        all[b] = s[b * (CO * PIXELS) + i];
    UNROLL
    for (int j = 0; j < ALPHA; j++)
        output_line(all + j, half + j, ALPHA);
    UNROLL
    for (int j = 0; j < M; j++)
        output_line(half + j * ALPHA, square + j * M, 1);
    UNROLL
    for (int j = 0; j < M * M; j++) {
        const int row = top + j / M, column = left + j % M;
        const int at = ((image * CO + channel) * OH_ + row) * OW_ + column;
        if (row < OH_ && column < OW_)
            y[at] = finish(square[j], at, channel EPILOGUE_ARGS);
    }
}
