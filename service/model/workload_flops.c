/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplications and additions of each operator, saturating: a workload may come from a hostile client. */
#include "service/model/workload_table.h"

static int64_t times(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t out_count(const struct workload *workload) {
    return shape_count(&workload->out[0].shape);
}

static int64_t in_count(const struct workload *workload) {
    return shape_count(&workload->in[0].shape);
}

/* Taps that one element sees: dimensions 1 to 3 of the weights. */
static int64_t taps(const struct workload *workload) {
    const int64_t *w = workload->in[1].shape.dim;
    return w[1] * w[2] * w[3];
}

int64_t flops_conv(const struct workload *workload) {
    return times(2, times(out_count(workload), taps(workload)));
}

int64_t flops_conv_transpose(const struct workload *workload) {
    return times(2, times(in_count(workload), taps(workload)));
}

int64_t flops_dense(const struct workload *workload) {
    return times(2, times(out_count(workload), workload->in[1].shape.dim[1]));
}

int64_t flops_matmul(const struct workload *workload) {
    const struct shape *a = &workload->in[0].shape;
    return times(2, times(out_count(workload), a->dim[a->rank - 1]));
}

int64_t flops_pool(const struct workload *workload) {
    return times(out_count(workload), times(workload->attr.pool.kernel[0], workload->attr.pool.kernel[1]));
}

int64_t flops_reduce(const struct workload *workload) {
    return in_count(workload);
}

int64_t flops_affine(const struct workload *workload) {
    return times(2, out_count(workload));
}

int64_t flops_elementwise(const struct workload *workload) {
    return out_count(workload);
}

/* Largest, difference, sum, quotient. */
int64_t flops_softmax(const struct workload *workload) {
    return times(4, out_count(workload));
}

/* A square and a sum for each channel of the window; scale, shift and quotient. */
int64_t flops_lrn(const struct workload *workload) {
    return times(out_count(workload), 2 * workload->attr.lrn.size + 3);
}

/* Linear: a product and a sum for each of the four neighbours. */
int64_t flops_resize(const struct workload *workload) {
    return workload->attr.resize.mode == RESIZE_LINEAR ? times(8, out_count(workload)) : 0;
}
