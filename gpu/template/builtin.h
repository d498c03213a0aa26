/* SPDX-License-Identifier: Apache-2.0 */
/* builtin.h: the templates that template_list.c lists. */
#ifndef WARPTUNE_TEMPLATE_BUILTIN_H
#define WARPTUNE_TEMPLATE_BUILTIN_H

#include "gpu/template/template.h"

extern const struct template autotvm_conv2d_nchw_cuda;
extern const struct template autotvm_group_conv2d_nchw_cuda;
extern const struct template autotvm_dense_large_cuda;
extern const struct template autotvm_dense_small_cuda;
extern const struct template autotvm_depthwise_cuda;
extern const struct template autotvm_winograd_cuda;
extern const struct template conv2d_direct_cpu;
extern const struct template conv2d_mma_cuda;
extern const struct template conv2d_simt_cuda;
extern const struct template conv2d_wgmma_cuda;
extern const struct template cudnn_cuda;
extern const struct template dense_cuda;
extern const struct template depthwise_cpu;
extern const struct template depthwise_cuda;
extern const struct template plain_cpu;
extern const struct template plain_cuda;
extern const struct template pool_cuda;
extern const struct template reduce_cuda;

#endif
