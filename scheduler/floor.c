/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/floor.h"

#include <math.h>
#include <string.h>

#include "service/model/narrow.h"

#define CUDA_KERNEL_S 2e-6 /* a kernel that does anything at all */
#define WINOGRAD_TILE 4.0  /* the largest of Winograd's output tiles that keeps float's precision */

/* How many times fewer multiplications F(4×4, k×k) does than the direct sum; it needs unit strides and dilations. */
static double winograd_gain(const struct workload *workload) {
    const struct conv_attr *conv = &workload->attr.conv;
    double gain = 1;
    for (int d = 0; d < 2; d++) {
        if (conv->stride[d] != 1 || conv->dilation[d] != 1)
            return 1;
        double taps = (double)workload->in[1].shape.dim[2 + d];
        gain *= WINOGRAD_TILE * taps / (WINOGRAD_TILE + taps - 1);
    }
    return gain;
}

/* How many times FP32's rate the matrix units of any device do f16's and bf16's at, or TF32's. */
#define CUDA_NARROW_GAIN 16
#define CUDA_TF32_GAIN 8
#define CPU_NARROW_GAIN 2

static double matrix_gain(const struct workload *workload, bool cuda) {
    if (dtype_is_narrow(workload->in[0].dtype))
        return cuda ? CUDA_NARROW_GAIN : CPU_NARROW_GAIN;
    return workload->tf32 && cuda ? CUDA_TF32_GAIN : 1;
}

double workload_floor_s(const struct workload *workload, const struct device_info *device) {
    bool cuda = strcmp(device->target.kind, "cuda") == 0;
    double floor_s = cuda ? CUDA_KERNEL_S : 0;
    double flops = (double)workload_flops(workload), bytes = (double)workload_bytes(workload);
    if (workload->op == OP_CONV)
        flops /= winograd_gain(workload);
    if (device->peak_flops > 0)
        floor_s = fmax(floor_s, flops / (device->peak_flops * matrix_gain(workload, cuda)));
    if (device->peak_bytes_per_s > 0)
        floor_s = fmax(floor_s, bytes / device->peak_bytes_per_s);
    return floor_s;
}
