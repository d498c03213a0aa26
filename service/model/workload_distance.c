/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/workload_distance.h"

#include <math.h>

#include "service/model/workload_table.h"

/* Inputs without what the epilogue adds. */
static int own_inputs(const struct workload *workload) {
    return workload->n_in - workload->epilogue.bias - workload->epilogue.residual;
}

static double of_epilogues(const struct epilogue *a, const struct epilogue *b) {
    int differences = (a->bias != b->bias) + (a->residual != b->residual) + (a->act != b->act);
    return differences / 16.0; /* squared, as all of them here */
}

static double squared(double a, double b) {
    double difference = log2(a / b);
    return difference * difference;
}

static double of_operands(const struct operand *a, const struct operand *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        if (a[i].dtype != b[i].dtype || a[i].layout != b[i].layout || a[i].shape.rank != b[i].shape.rank)
            return INFINITY;
        for (int d = 0; d < a[i].shape.rank; d++)
            sum += squared((double)a[i].shape.dim[d], (double)b[i].shape.dim[d]);
    }
    return sum;
}

/* Attributes may be 0 or less (paddings, an axis), so one more than their size is compared, and their sign. */
static double of_numbers(const int64_t *a, const int64_t *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += squared(1 + fabs((double)a[i]), 1 + fabs((double)b[i])) + ((a[i] < 0) != (b[i] < 0));
    return sum;
}

static double of_attributes(const struct workload *a, const struct workload *b) {
    double sum = 0;
    for (const struct attr_field *field = workload_ops[a->op].fields; field->name; field++) {
        const void *left = (const char *)&a->attr + field->offset, *right = (const char *)&b->attr + field->offset;
        if (field->type == FIELD_INT)
            sum += of_numbers(left, right, attr_field_count(field, a));
    }
    return sum;
}

double workload_distance(const struct workload *a, const struct workload *b) {
    if (a->op != b->op || own_inputs(a) != own_inputs(b) || a->n_out != b->n_out || a->tf32 != b->tf32)
        return INFINITY;
    double operands = of_operands(a->in, b->in, own_inputs(a)) + of_operands(a->out, b->out, a->n_out);
    if (isinf(operands))
        return INFINITY;
    return sqrt(operands + of_attributes(a, b) + of_epilogues(&a->epilogue, &b->epilogue));
}
