/* SPDX-License-Identifier: Apache-2.0 */
/* plain_cpu.h: the CPU's own ways to compute an operator, with loops that vectorise. Private to plain_cpu*.c. */
#ifndef WARPTUNE_TEMPLATE_PLAIN_CPU_H
#define WARPTUNE_TEMPLATE_PLAIN_CPU_H

#include "gpu/template/plain.h"

bool serves_conv_cpu(const struct workload *workload); /* CONV, CONV_TRANSPOSE */
void emit_conv_cpu(struct plain *plain);
bool serves_pool_cpu(const struct workload *workload); /* POOL, channels last */
void emit_pool_cpu(struct plain *plain);
bool serves_lrn_cpu(const struct workload *workload); /* LRN, channels last */
void emit_lrn_cpu(struct plain *plain);
void emit_reduce_cpu(struct plain *plain);
void emit_softmax_cpu(struct plain *plain);
bool serves_dense_cpu(const struct workload *workload);
void emit_dense_cpu(struct plain *plain);
bool serves_matmul_cpu(const struct workload *workload);
void emit_matmul_cpu(struct plain *plain);

#endif
