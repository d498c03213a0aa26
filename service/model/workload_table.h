/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload_table.h: what each operator's workload may hold, as one table that printing, parsing, checking and counting
 * all read: the number of inputs, the parts of an epilogue, the attributes in canonical order. Private to workload_*.c.
 */
#ifndef WARPTUNE_MODEL_WORKLOAD_TABLE_H
#define WARPTUNE_MODEL_WORKLOAD_TABLE_H

#include "service/model/workload.h"

#define WORKLOAD_MAX_IN 4096
#define WORKLOAD_MAX_KEY ((size_t)1 << 20)
#define WORKLOAD_MAX_ELEMENTS ((int64_t)1 << 40)
#define FIELD_PER_DIMENSION 0 /* as many elements as the first input has dimensions */

enum field_type { FIELD_INT, FIELD_DOUBLE };

/* One attribute: an int64_t or double, or an array of them, at `offset` in union op_attr. */
struct attr_field {
    const char *name; /* NULL ends a list */
    size_t offset;
    enum field_type type;
    int count;
    const char *const *names; /* an enumeration's, NULL-terminated, in order; NULL for a plain number */
    int64_t min, max;         /* integers only */
};

struct op_spec {
    int min_in, max_in; /* without bias and residual */
    bool bias, residual, act;
    const struct attr_field *fields;
    /* Do the shapes fit together? Runs when counts, ranks and element counts are within their limits. */
    int (*check)(const struct workload *workload, struct error *error);
    /* Multiplications and additions; NULL: only moves data. Saturates at INT64_MAX. */
    int64_t (*flops)(const struct workload *workload);
};

struct act_spec {
    const char *name;
    int n_params; /* how many of alpha, beta it uses */
};

extern const struct op_spec workload_ops[OP_COUNT];
extern const struct act_spec workload_acts[ACT_COUNT];

/* Elements of a field in this workload. */
int attr_field_count(const struct attr_field *field, const struct workload *workload);
/* Everything that makes a workload valid: what workload_parse accepts. */
int workload_check(const struct workload *workload, struct error *error) MUST_CHECK;

/* Shape rules and costs, for the table. */
int check_conv(const struct workload *workload, struct error *error) MUST_CHECK;
int check_conv_transpose(const struct workload *workload, struct error *error) MUST_CHECK;
int check_dense(const struct workload *workload, struct error *error) MUST_CHECK;
int check_matmul(const struct workload *workload, struct error *error) MUST_CHECK;
int check_pool(const struct workload *workload, struct error *error) MUST_CHECK;
int check_reduce(const struct workload *workload, struct error *error) MUST_CHECK;
int check_affine(const struct workload *workload, struct error *error) MUST_CHECK;
int check_unary(const struct workload *workload, struct error *error) MUST_CHECK;
int check_binary(const struct workload *workload, struct error *error) MUST_CHECK;
int check_axis_same_shape(const struct workload *workload, struct error *error) MUST_CHECK;
int check_lrn(const struct workload *workload, struct error *error) MUST_CHECK;
int check_reshape(const struct workload *workload, struct error *error) MUST_CHECK;
int check_transpose(const struct workload *workload, struct error *error) MUST_CHECK;
int check_concat(const struct workload *workload, struct error *error) MUST_CHECK;
int check_slice(const struct workload *workload, struct error *error) MUST_CHECK;
int check_pad(const struct workload *workload, struct error *error) MUST_CHECK;
int check_resize(const struct workload *workload, struct error *error) MUST_CHECK;
int check_gather(const struct workload *workload, struct error *error) MUST_CHECK;
int check_expand(const struct workload *workload, struct error *error) MUST_CHECK;
int check_same_shape(const struct workload *workload, struct error *error) MUST_CHECK;

int64_t flops_conv(const struct workload *workload);
int64_t flops_conv_transpose(const struct workload *workload);
int64_t flops_dense(const struct workload *workload);
int64_t flops_matmul(const struct workload *workload);
int64_t flops_pool(const struct workload *workload);
int64_t flops_reduce(const struct workload *workload);
int64_t flops_affine(const struct workload *workload);
int64_t flops_elementwise(const struct workload *workload);
int64_t flops_softmax(const struct workload *workload);
int64_t flops_lrn(const struct workload *workload);
int64_t flops_resize(const struct workload *workload);

#endif
