/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_depthwise: convolution of MULTIPLIER filters a channel in FP32, NCHW, as AutoTVM divides it.
 *
 *   grid    x, y: the output image in tiles of X_SIZE × Y_SIZE   z: images × output channels in tiles of F_SIZE
 *   CTA     F_SIZE × Y_SIZE × X_SIZE outputs by F_THREADS × Y_THREADS × X_THREADS threads (z, y, x)
 *   thread  F_SUMS × Y_SUMS × X_SUMS sums in registers, laid out by F_AT, Y_AT and X_AT
 *   shared  the part of the input that the tile's windows cover, zero outside the image: CHANNELS × IN_Y × IN_X floats,
 *           and F_SIZE × KH_ × KW_ weights; loaded once, then each of the taps is one product a sum
 *
 * Splits divide their extents, so the output needs no checks.
 *
 * In front of this text: shape and tiles as macros, and finish().
 */

#define THREADS (F_THREADS * Y_THREADS * X_THREADS)
#define LOADS(n) (((n) + THREADS - 1) / THREADS)
#define TAPS (KH_ * KW_)
/* Corner to corner of the windows of a tile. */
#define IN_Y ((Y_SIZE - 1) * SH_ + (KH_ - 1) * DH_ + 1)
#define IN_X ((X_SIZE - 1) * SW_ + (KW_ - 1) * DW_ + 1)
#define IMAGE (CHANNELS * IN_Y * IN_X)

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y EPILOGUE_PARAMS) {
    __shared__ float image[CHANNELS][IN_Y][IN_X];
    __shared__ float filters[F_SIZE * TAPS];
    const int tx = threadIdx.x, ty = threadIdx.y, tf = threadIdx.z;
    const int tid = (tf * Y_THREADS + ty) * X_THREADS + tx;
    const int sample = blockIdx.z / (K_ / F_SIZE), first = blockIdx.z % (K_ / F_SIZE) * F_SIZE;
    const int top = blockIdx.y * Y_SIZE, left = blockIdx.x * X_SIZE, channel = first / MULTIPLIER;

    UNROLL_LOADS
    for (int n = 0; n < LOADS(IMAGE); n++) {
        const int i = n * THREADS + tid, c = channel + i / (IN_Y * IN_X);
        const int row = top * SH_ - PAD_H + i / IN_X % IN_Y, column = left * SW_ - PAD_W + i % IN_X;
        const bool inside = c < C_ && (unsigned)row < H_ && (unsigned)column < W_;
        if (IMAGE % THREADS == 0 || i < IMAGE)
            (&image[0][0][0])[i] = inside ? x[((sample * C_ + c) * H_ + row) * W_ + column] : 0.0f;
    }
    UNROLL_LOADS
    for (int n = 0; n < LOADS(F_SIZE * TAPS); n++) {
        const int i = n * THREADS + tid;
        if (F_SIZE * TAPS % THREADS == 0 || i < F_SIZE * TAPS)
            filters[i] = w[first * TAPS + i];
    }
    __syncthreads();

    float sum[F_SUMS][Y_SUMS][X_SUMS];
    UNROLL_SUMS
    for (int f = 0; f < F_SUMS; f++)
        UNROLL_SUMS
        for (int i = 0; i < Y_SUMS; i++)
            UNROLL_SUMS
            for (int j = 0; j < X_SUMS; j++)
                sum[f][i][j] = 0.0f;

    UNROLL_TAPS
    for (int r = 0; r < KH_; r++)
        UNROLL_TAPS
        for (int s = 0; s < KW_; s++)
            UNROLL_SUMS
            for (int f = 0; f < F_SUMS; f++) {
                const int at = F_AT(tf, f);
                const float weight = filters[at * TAPS + r * KW_ + s];
                const float(*from)[IN_X] = image[(first + at) / MULTIPLIER - channel];
                UNROLL_SUMS
                for (int i = 0; i < Y_SUMS; i++)
                    UNROLL_SUMS
                    for (int j = 0; j < X_SUMS; j++) {
                        const float value = from[Y_AT(ty, i) * SH_ + r * DH_][X_AT(tx, j) * SW_ + s * DW_];
                        sum[f][i][j] = fmaf(value, weight, sum[f][i][j]);
                    }
            }

    UNROLL_SUMS
    for (int f = 0; f < F_SUMS; f++)
        UNROLL_SUMS
        for (int i = 0; i < Y_SUMS; i++)
            UNROLL_SUMS
            for (int j = 0; j < X_SUMS; j++) {
                const int k = first + F_AT(tf, f);
                const int at = ((sample * K_ + k) * OH_ + top + Y_AT(ty, i)) * OW_ + left + X_AT(tx, j);
                y[at] = finish(sum[f][i][j], at, k EPILOGUE_ARGS);
            }
}
