/* SPDX-License-Identifier: Apache-2.0 */
/* plain.cpu: every operator on the CPU, and the reference for its tuned templates. */
#include "gpu/template/builtin.h"
#include "gpu/template/plain_cpu.h"

static const struct plain_rule rules[] = {
    {serves_conv_cpu, emit_conv_cpu},     {serves_pool_cpu, emit_pool_cpu},
    {serves_lrn_cpu, emit_lrn_cpu},       {serves_reduce, emit_reduce_cpu},
    {serves_softmax, emit_softmax_cpu},   {serves_dense_cpu, emit_dense_cpu},
    {serves_matmul_cpu, emit_matmul_cpu}, {NULL, NULL},
};

static bool serves(const struct workload *workload, const struct target *target) {
    (void)target;
    return plain_serves(rules, workload);
}

static int render(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    (void)target, (void)space, (void)index;
    return plain_render(rules, false, workload, arena, ret, error);
}

const struct template plain_cpu = {
    .name = "plain.cpu",
    .version = 1,
    .device = "cpu",
    .serves = serves,
    .space = plain_space,
    .fallback = plain_fallback,
    .render = render,
    .dtypes = ~0U,
};
