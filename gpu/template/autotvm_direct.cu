/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_direct: direct convolution in FP32, NCHW, tiled as AutoTVM's knobs say.
 *
 * The output is a box of five axes: N images, G groups, F channels of a group, Y rows, X columns. Each knob divides an
 * axis into blocks × V (virtual threads) × T (threads) × I (inner):
 *
 *     coordinate = ((block × V + v) × T + t) × I + i
 *
 *   CTA     V·T·I outputs along each axis; the sum over (channel, tap row, tap column) in steps of RC_I × RY_I × RX_I
 *   thread  V·I sums along each axis in registers: I neighbours, and V such runs T·I apart, so that neighbouring
 *           threads work on neighbouring outputs
 *
 * A step stages in shared memory the part of the input under the CTA's outputs, [N][G][RC_I][PATCH_H][PATCH_W], with
 * zeros where the padding is, and the weights of its channels, [G][F][RC_I][RY_I][RX_I]: each once, by all threads,
 * neighbours reading neighbours. A step then reads, in each thread, V·I weights and V·I patch values for their product
 * of FMAs.
 *
 * In front of this text: the shape, the tiling and the CTA's and thread's place along each axis (BLOCK_N, THREAD_N, …)
 * as macros, UNROLL_… as pragmas, wt_act() and EPILOGUE_PARAMS.
 */

/* Per axis: outputs of a CTA, sums of a thread, and the place in the CTA's tile of a thread's sum `j`. */
#define N_TILE (N_V * N_T * N_I)
#define G_TILE (G_V * G_T * G_I)
#define F_TILE (F_V * F_T * F_I)
#define Y_TILE (Y_V * Y_T * Y_I)
#define X_TILE (X_V * X_T * X_I)
#define N_SUMS (N_V * N_I)
#define G_SUMS (G_V * G_I)
#define F_SUMS (F_V * F_I)
#define Y_SUMS (Y_V * Y_I)
#define X_SUMS (X_V * X_I)
#define PLACE(T, I, thread, j) (((j) / (I) * (T) + (thread)) * (I) + (j) % (I))
#define N_AT(j) PLACE(N_T, N_I, THREAD_N, j)
#define G_AT(j) PLACE(G_T, G_I, THREAD_G, j)
#define F_AT(j) PLACE(F_T, F_I, THREAD_F, j)
#define Y_AT(j) PLACE(Y_T, Y_I, THREAD_Y, j)
#define X_AT(j) PLACE(X_T, X_I, THREAD_X, j)

#define PATCH_H ((Y_TILE - 1) * SH_ + (RY_I - 1) * DH_ + 1)
#define PATCH_W ((X_TILE - 1) * SW_ + (RX_I - 1) * DW_ + 1)
#define PATCH (N_TILE * G_TILE * RC_I * PATCH_H * PATCH_W)
#define WEIGHTS (G_TILE * F_TILE * RC_I * RY_I * RX_I)
#define LOADS(elements) (((elements) + THREADS - 1) / THREADS)
#define THREAD_ID (((int)threadIdx.z * BLOCK_DIM_Y + (int)threadIdx.y) * BLOCK_DIM_X + (int)threadIdx.x)

/* Copies the step's part of the input, from image n0, channel c0, row y0 and column x0 on. */
__device__ static inline void stage_patch(const float *__restrict__ x, float *patch, int n0, int c0, int y0, int x0) {
    UNROLL_STAGE_PATCH
    for (int i = 0; i < LOADS(PATCH); i++) {
        const unsigned e = THREAD_ID + i * THREADS, channel = e / (PATCH_W * PATCH_H);
        if (PATCH % THREADS == 0 || e < PATCH) {
            const int column = x0 + (int)(e % PATCH_W), row = y0 + (int)(e / PATCH_W % PATCH_H);
            const int c = c0 + (int)(channel % RC_I + channel / RC_I % G_TILE * CG);
            const int n = n0 + (int)(channel / (RC_I * G_TILE));
            float value = 0.0f;
            if ((!CHECK_ROWS || (unsigned)row < H_) && (!CHECK_COLUMNS || (unsigned)column < W_))
                value = x[((n * C_ + c) * H_ + row) * W_ + column];
            patch[e] = value;
        }
    }
}

/* Copies the step's weights, from group g0, its channel f0, input channel c0 and tap (r0, s0) on. */
__device__ static inline void stage_weights(const float *__restrict__ w, float *weights, int g0, int f0, int c0, int r0,
                                            int s0) {
    UNROLL_STAGE_WEIGHTS
    for (int i = 0; i < LOADS(WEIGHTS); i++) {
        const unsigned e = THREAD_ID + i * THREADS, channel = e / (RX_I * RY_I * RC_I);
        if (WEIGHTS % THREADS == 0 || e < WEIGHTS) {
            const int s = s0 + (int)(e % RX_I), r = r0 + (int)(e / RX_I % RY_I);
            const int c = c0 + (int)(e / (RX_I * RY_I) % RC_I);
            const int f = f0 + (int)(channel % F_TILE), g = g0 + (int)(channel / F_TILE);
            weights[e] = w[(((g * KG + f) * CG + c) * KH_ + r) * KW_ + s];
        }
    }
}

/* Adds a step's products of one tap (r, s) of one input channel c to the sums. */
__device__ static inline void multiply(const float *patch, const float *weights, int c, int r, int s,
                                       float sum[N_SUMS][G_SUMS][Y_SUMS][X_SUMS][F_SUMS]) {
#pragma unroll
    for (int g = 0; g < G_SUMS; g++) {
        float b[F_SUMS];
#pragma unroll
        for (int f = 0; f < F_SUMS; f++)
            b[f] = weights[(((G_AT(g) * F_TILE + F_AT(f)) * RC_I + c) * RY_I + r) * RX_I + s];
#pragma unroll
        for (int n = 0; n < N_SUMS; n++)
#pragma unroll
            for (int y = 0; y < Y_SUMS; y++)
#pragma unroll
                for (int x = 0; x < X_SUMS; x++) {
                    const int row = Y_AT(y) * SH_ + r * DH_, column = X_AT(x) * SW_ + s * DW_;
                    const float a =
                        patch[(((N_AT(n) * G_TILE + G_AT(g)) * RC_I + c) * PATCH_H + row) * PATCH_W + column];
#pragma unroll
                    for (int f = 0; f < F_SUMS; f++)
                        sum[n][g][y][x][f] = fmaf(a, b[f], sum[n][g][y][x][f]);
                }
    }
}

/* The epilogue of the element of the output at place `i`. */
__device__ static inline float finish(float sum, int i, int channel EPILOGUE_PARAMS) {
#if HAS_BIAS
    sum += bias[channel];
#endif
#if HAS_RESIDUAL
    sum += residual[i];
#endif
    return wt_act(sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    autotvm_direct(const float *__restrict__ x, float *__restrict__ y EPILOGUE_PARAMS, const float *__restrict__ w) {
    __shared__ float patch[PATCH];
    __shared__ float weights[WEIGHTS];
    const int n0 = BLOCK_N * N_TILE, g0 = BLOCK_G * G_TILE, f0 = BLOCK_F * F_TILE;
    const int y0 = BLOCK_Y * Y_TILE, x0 = BLOCK_X * X_TILE;
    float sum[N_SUMS][G_SUMS][Y_SUMS][X_SUMS][F_SUMS];
#pragma unroll
    for (int i = 0; i < N_SUMS * G_SUMS * Y_SUMS * X_SUMS * F_SUMS; i++)
        (&sum[0][0][0][0][0])[i] = 0.0f;

#pragma unroll 1
    for (int c0 = 0; c0 < CG; c0 += RC_I)
#pragma unroll 1
        for (int r0 = 0; r0 < KH_; r0 += RY_I)
#pragma unroll 1
            for (int s0 = 0; s0 < KW_; s0 += RX_I) {
                __syncthreads();
                stage_patch(x, patch, n0, g0 * CG + c0, y0 * SH_ - PAD_H + r0 * DH_, x0 * SW_ - PAD_W + s0 * DW_);
                stage_weights(w, weights, g0, f0, c0, r0, s0);
                __syncthreads();
                UNROLL_RC
                for (int c = 0; c < RC_I; c++)
                    UNROLL_RY
                    for (int r = 0; r < RY_I; r++)
                        UNROLL_RX
                        for (int s = 0; s < RX_I; s++)
                            multiply(patch, weights, c, r, s, sum);
            }

#pragma unroll
    for (int n = 0; n < N_SUMS; n++)
#pragma unroll
        for (int g = 0; g < G_SUMS; g++)
#pragma unroll
            for (int f = 0; f < F_SUMS; f++) {
                const int channel = (g0 + G_AT(g)) * KG + f0 + F_AT(f);
#pragma unroll
                for (int i = 0; i < Y_SUMS; i++)
#pragma unroll
                    for (int j = 0; j < X_SUMS; j++) {
                        const int row = y0 + Y_AT(i), column = x0 + X_AT(j);
                        const int at = (((n0 + N_AT(n)) * K_ + channel) * OH_ + row) * OW_ + column;
                        y[at] = finish(sum[n][g][i][j][f], at, channel EPILOGUE_ARGS);
                    }
            }
}
