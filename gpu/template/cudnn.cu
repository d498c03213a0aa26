/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuDNN's plans want of the weights, once: with NHWC they lie as the pixels do. [K][C][taps] to [K][taps][C], by
 * the size of a number; and the bias in halves. A thread an element, neighbours write neighbours.
 */
typedef unsigned short half_bits;

template <typename T> static __device__ void turn(const T *from, T *to, int n, int channels, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[(i / channels / taps * channels + i % channels) * taps + i / channels % taps];
}

extern "C" __global__ void cudnn_turn_16(const half_bits *from, half_bits *to, int n, int channels, int taps) {
    turn(from, to, n, channels, taps);
}

extern "C" __global__ void cudnn_turn_32(const float *from, float *to, int n, int channels, int taps) {
    turn(from, to, n, channels, taps);
}

extern "C" __global__ void cudnn_narrow(const float *from, half_bits *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(from[i]));
}
