/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_layers.c verifies with, independent of every template; HALF: the numbers are f16, else f32. */
#if HALF
typedef unsigned short number;
static __device__ float wide(number h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
static __device__ number narrow(float f) {
    number h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#else
typedef float number;
static __device__ float wide(number f) { return f; }
static __device__ number narrow(float f) { return f; }
#endif

/* Between -1 and 1. */
extern "C" __global__ void fill(number *to, int n, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned h = (i + seed) * 0x9e3779b9u;
    h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13; h *= 0xc2b2ae35u; h ^= h >> 16;
    to[i] = narrow((int)h * (1.0f / 2147483648.0f));
}

extern "C" __global__ void convert(const float *from, number *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = narrow(from[i]);
}

/* [n][rows][columns] to [n][columns][rows]. */
extern "C" __global__ void turn(const number *from, number *to, int n, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[(i / columns / rows * columns + i % columns) * rows + i / columns % rows] = from[i];
}

/* [K, C, R, S] to [R, S, C, K], so that neighbouring threads read neighbours. */
extern "C" __global__ void spread(const number *w, number *to, int n, int k, int c, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[(i % taps * c + i / taps % c) * k + i / taps / c] = w[i];
}

/* NHWC; `raw`: the convolution alone, `full`: with what follows. `residual` may be null. */
extern "C" __global__ void reference(const number *x, const number *w, const float *bias, const number *residual,
                                     float *raw, float *full, int n, int h, int c, int cg, int out, int k, int r, int s,
                                     int p, float lower, float upper) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int channel = i % k, ox = i / k % out, oy = i / k / out % out, image = i / k / out / out;
    int group = channel / (k / (c / cg));
    float sum = 0;
    for (int a = 0; a < r; a++)
        for (int b = 0; b < r; b++) {
            int iy = oy * s + a - p, ix = ox * s + b - p;
            if (iy < 0 || iy >= h || ix < 0 || ix >= h) continue;
            const number *from = x + ((size_t)(image * h + iy) * h + ix) * c + group * cg;
            const number *weight = w + (size_t)(a * r + b) * cg * k + channel;
            for (int e = 0; e < cg; e++) sum += wide(from[e]) * wide(weight[(size_t)e * k]);
        }
    raw[i] = sum;
    sum += bias[channel] + (residual ? wide(residual[i]) : 0.0f);
    full[i] = fminf(fmaxf(sum, lower), upper);
}

/* most: the largest difference and the largest expected, as bits: those of floats that are not negative have their
 * order, NaN the last. `hw` 0: `got` is NHWC as `expected` is, else NCHW. */
extern "C" __global__ void compare(const number *got, const float *expected, int *most, int n, int k, int hw) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = hw ? (i / k / hw * k + i % k) * hw + i / k % hw : i;
    float off = wide(got[at]) - expected[i];
    atomicMax(&most[0], __float_as_int(off) & 0x7fffffff);
    atomicMax(&most[1], __float_as_int(expected[i]) & 0x7fffffff);
}
