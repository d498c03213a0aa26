/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gpu/template/builtin.h"

const struct template *const template_builtin[] = {
    &conv2d_direct_cpu,
    &dense_cuda,
    &conv2d_wgmma_cuda,
    &conv2d_mma_cuda,
    &conv2d_simt_cuda,
    &depthwise_cpu,
    &depthwise_cuda,
    &reduce_cuda,
    &pool_cuda,
    /* a library's */
    &cudnn_cuda,
    /* AutoTVM's, by name */
    &autotvm_conv2d_nchw_cuda,
    &autotvm_group_conv2d_nchw_cuda,
    &autotvm_winograd_cuda,
    &autotvm_depthwise_cuda,
    &autotvm_dense_small_cuda,
    &autotvm_dense_large_cuda,
    /* the references */
    &plain_cpu,
    &plain_cuda,
    NULL,
};

const struct template *template_find(const struct template *const *list, const char *name) {
    for (; *list; list++) {
        if (strcmp((*list)->name, name) == 0)
            return *list;
    }
    return NULL;
}

const struct template *template_for(const struct template *const *list, const struct workload *workload,
                                    const struct target *target) {
    for (; *list; list++) {
        if (!(*list)->by_name && !(*list)->library && strcmp((*list)->device, target->kind) == 0 &&
            (*list)->serves(workload, target))
            return *list;
    }
    return NULL;
}

const struct template *template_plain(const struct target *target) {
    return strcmp(target->kind, plain_cuda.device) == 0 ? &plain_cuda : &plain_cpu;
}
