/* SPDX-License-Identifier: Apache-2.0 */
/* What both devices' reductions and softmax share. */
#include <math.h>

#include "gpu/template/plain.h"

void lines_of(const struct workload *workload, int64_t axes, struct lines *ret) {
    const struct operand *x = &workload->in[0];
    struct nest all;
    *ret = (struct lines){.count = 1};
    map_init(&ret->map, &x->shape, 2);
    map_operand(&ret->map, 0, x);
    map_operand(&ret->map, 1, &workload->out[0]);
    for (int d = 0; d < x->shape.rank; d++) {
        ret->reduced[d] = axes >> d & 1;
        ret->count *= ret->reduced[d] ? x->shape.dim[d] : 1;
    }
    map_simplify(&ret->map, ret->reduced);
    map_nest(&ret->map, "m", &all);
    for (int d = 0; d < all.rank; d++)
        nest_add(ret->reduced[d] ? &ret->along : &ret->kept, all.var[d], all.dim[d]);
    ret->across = all.rank > 0 && !ret->reduced[all.rank - 1];
}

static bool on_integers(const struct workload *workload) {
    return plain_all(workload, DTYPE_I32) || plain_all(workload, DTYPE_I64);
}

/* An integer mean would have to be rounded, so there is none. */
bool serves_reduce(const struct workload *workload) {
    bool whole = workload->op == OP_REDUCE && on_integers(workload);
    return (workload->op == OP_REDUCE && plain_floats(workload)) ||
           (whole && workload->attr.reduce.kind != REDUCE_MEAN);
}

bool serves_softmax(const struct workload *workload) {
    return workload->op == OP_SOFTMAX && plain_floats(workload);
}

const char *reduce_type(const struct workload *workload) {
    return on_integers(workload) ? "long long" : "float";
}

void put_reduce_start(struct plain *plain) {
    bool max = plain->workload->attr.reduce.kind == REDUCE_MAX;
    if (on_integers(plain->workload))
        buf_puts(&plain->source, max ? "-9223372036854775807ll - 1" : "0");
    else
        act_float(&plain->source, plain->cuda, max ? -INFINITY : 0);
}
