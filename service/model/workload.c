/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/model/workload_table.h"

const char *layout_name(enum layout layout) {
    return layout == LAYOUT_NHWC ? "nhwc" : "row";
}

void operand_strides(const struct operand *operand, int64_t ret_stride[SHAPE_MAX_RANK]) {
    static const int nhwc[] = {0, 2, 3, 1};
    int64_t stride = 1;
    for (int i = operand->shape.rank - 1; i >= 0; i--) {
        int dim = operand->layout == LAYOUT_NHWC ? nhwc[i] : i;
        ret_stride[dim] = stride;
        stride *= operand->shape.dim[dim];
    }
}

size_t operand_bytes(const struct operand *operand) {
    return (size_t)shape_count(&operand->shape) * dtype_size(operand->dtype);
}

static void operand_of_value(const struct value *value, enum layout layout, struct operand *ret) {
    ret->dtype = value->dtype;
    ret->layout = value->shape.rank == 4 && !value->data ? layout : LAYOUT_ROW;
    ret->shape.rank = value->shape.rank;
    for (int i = 0; i < value->shape.rank; i++) {
        ret->shape.dim[i] = value->shape.dim[i];
    }
}

/* Copies only what the key shows, so that equal keys mean equal workloads. */
struct workload *workload_of_node(const struct graph *graph, const struct node *node, enum layout layout,
                                  struct arena *arena) {
    struct workload *workload = arena_alloc(arena, sizeof(*workload));
    workload->op = node->op;
    workload->n_in = node->n_in;
    workload->n_out = node->n_out;
    workload->in = arena_array(arena, (size_t)node->n_in, sizeof(*workload->in));
    workload->out = arena_array(arena, (size_t)node->n_out, sizeof(*workload->out));
    for (int i = 0; i < node->n_in; i++) {
        operand_of_value(&graph->values[node->in[i]], layout, &workload->in[i]);
    }
    for (int i = 0; i < node->n_out; i++) {
        operand_of_value(&graph->values[node->out[i]], layout, &workload->out[i]);
    }
    for (const struct attr_field *field = workload_ops[node->op].fields; field->name; field++) {
        memcpy((char *)&workload->attr + field->offset, (const char *)&node->attr + field->offset,
               (size_t)attr_field_count(field, workload) * 8);
    }
    const struct epilogue *epilogue = &node->epilogue;
    int n_params = workload_acts[epilogue->act].n_params;
    workload->epilogue.bias = epilogue->bias;
    workload->epilogue.residual = epilogue->residual;
    workload->epilogue.act = epilogue->act;
    workload->epilogue.alpha = n_params > 0 ? epilogue->alpha : 0;
    workload->epilogue.beta = n_params > 1 ? epilogue->beta : 0;
    workload->tf32 = node->tf32;
    return workload;
}

static void put_double(struct buf *ret, double value) {
    char text[32];
    if (isnan(value)) {
        buf_puts(ret, "nan");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    buf_puts(ret, text);
}

static void put_operands(struct buf *ret, const struct operand *operands, int n) {
    for (int i = 0; i < n; i++) {
        const struct operand *operand = &operands[i];
        buf_printf(ret, "%s%s:%s:", i ? ", " : "", dtype_name(operand->dtype), layout_name(operand->layout));
        if (operand->shape.rank == 0) {
            buf_puts(ret, "scalar");
        }
        for (int k = 0; k < operand->shape.rank; k++) {
            buf_printf(ret, "%s%lld", k ? "x" : "", (long long)operand->shape.dim[k]);
        }
    }
}

static void put_field(struct buf *ret, const struct attr_field *field, const struct workload *workload) {
    const void *data = (const char *)&workload->attr + field->offset;
    const int64_t *ints = data;
    const double *doubles = data;
    buf_printf(ret, "%s=", field->name);
    for (int i = 0; i < attr_field_count(field, workload); i++) {
        buf_puts(ret, i ? "x" : "");
        if (field->type == FIELD_DOUBLE) {
            put_double(ret, doubles[i]);
        } else if (field->names) {
            buf_puts(ret, field->names[ints[i]]);
        } else {
            buf_printf(ret, "%lld", (long long)ints[i]);
        }
    }
}

static void put_epilogue(struct buf *ret, const struct epilogue *epilogue) {
    const struct act_spec *act = &workload_acts[epilogue->act];
    const double params[] = {epilogue->alpha, epilogue->beta};
    buf_puts(ret, epilogue->bias ? " bias" : "");
    buf_puts(ret, epilogue->residual ? " residual" : "");
    if (epilogue->act == ACT_NONE) {
        return;
    }
    buf_printf(ret, " act=%s", act->name);
    for (int i = 0; i < act->n_params; i++) {
        buf_putc(ret, ':');
        put_double(ret, params[i]);
    }
}

void workload_key(const struct workload *workload, struct buf *ret) {
    const struct attr_field *fields = workload_ops[workload->op].fields;
    buf_printf(ret, "%s(", op_name(workload->op));
    put_operands(ret, workload->in, workload->n_in);
    buf_puts(ret, ") -> ");
    put_operands(ret, workload->out, workload->n_out);
    for (const struct attr_field *field = fields; field->name; field++) {
        buf_puts(ret, field == fields ? " {" : ", ");
        put_field(ret, field, workload);
    }
    buf_puts(ret, fields->name ? "}" : "");
    put_epilogue(ret, &workload->epilogue);
    buf_puts(ret, workload->tf32 ? " math=tf32" : "");
}

int64_t workload_flops(const struct workload *workload) {
    int64_t (*flops)(const struct workload *) = workload_ops[workload->op].flops;
    return flops ? flops(workload) : 0;
}

int64_t workload_bytes(const struct workload *workload) {
    size_t bytes = 0;
    for (int i = 0; i < workload->n_in; i++) {
        bytes += operand_bytes(&workload->in[i]);
    }
    for (int i = 0; i < workload->n_out; i++) {
        bytes += operand_bytes(&workload->out[i]);
    }
    return (int64_t)bytes;
}

static struct workload_use *find_use(struct workload_use *uses, int n, const char *key) {
    for (int i = 0; i < n; i++) {
        if (!strcmp(uses[i].key, key)) {
            return &uses[i];
        }
    }
    return NULL;
}

void workload_list(const struct graph *graph, enum layout layout, struct arena *arena, struct workload_use **ret,
                   int *ret_count) {
    struct workload_use *uses = arena_array(arena, (size_t)graph->n_nodes, sizeof(*uses));
    struct buf key CLEANUP(buf_release) = BUF_INIT(WORKLOAD_MAX_KEY);
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct node *node = &graph->nodes[i];
        if (!op_has_weights(node->op)) {
            continue;
        }
        struct workload *workload = workload_of_node(graph, node, layout, arena);
        buf_clear(&key);
        workload_key(workload, &key);
        struct workload_use *use = find_use(uses, n, buf_str(&key));
        if (!use) {
            use = &uses[n++];
            *use = (struct workload_use){workload, arena_strdup(arena, buf_str(&key)), 0, node->name};
        }
        use->count++;
    }
    *ret = uses;
    *ret_count = n;
}
