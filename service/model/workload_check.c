/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a workload valid: limits first, then the operator's own rule about its shapes. */
#include <string.h>

#include "service/model/workload_table.h"

#define BAD(...) error_set(error, ERROR_INVALID, "bad-workload", "workload", __VA_ARGS__)

static const int64_t *dims(const struct operand *operand) {
    return operand->shape.dim;
}

static int need_rank(const struct operand *operand, int rank, const char *what, struct error *error) {
    if (operand->shape.rank != rank) {
        return BAD("The workload's %s has rank %d; it must have rank %d.", what, operand->shape.rank, rank);
    }
    return 0;
}

static int need_dim(int64_t value, int64_t expected, const char *what, struct error *error) {
    if (value != expected) {
        return BAD("The workload's %s is %lld; its other shapes ask for %lld.", what, (long long)value,
                   (long long)expected);
    }
    return 0;
}

static int need_shape(const struct shape *shape, const struct shape *expected, const char *what, struct error *error) {
    if (!shape_equal(shape, expected)) {
        return BAD("The workload's %s does not have the shape that its other shapes ask for.", what);
    }
    return 0;
}

/* One number a channel, when the epilogue has a bias; the output's shape, when it has a residual. */
static int check_extras(const struct workload *workload, int64_t channels, struct error *error) {
    int next = workload_ops[workload->op].min_in;
    if (workload->epilogue.bias) {
        const struct operand *bias = &workload->in[next++];
        if (need_rank(bias, 1, "bias", error) || need_dim(dims(bias)[0], channels, "number of biases", error)) {
            return -1;
        }
    }
    if (workload->epilogue.residual) {
        return need_shape(&workload->in[next].shape, &workload->out[0].shape, "residual", error);
    }
    return 0;
}

/* Windows along one dimension: (in + pads - ((taps - 1) × dilation + 1)) / stride + 1, rounded down. */
static int64_t window_count(int64_t in, int64_t pad, int64_t taps, int64_t dilation, int64_t stride) {
    int64_t free = in + pad - ((taps - 1) * dilation + 1);
    return free < 0 ? 0 : free / stride + 1;
}

static int check_images(const struct workload *workload, struct error *error) {
    const struct operand *x = &workload->in[0], *out = &workload->out[0];
    if (need_rank(x, 4, "input", error) || need_rank(out, 4, "output", error)) {
        return -1;
    }
    return need_dim(dims(out)[0], dims(x)[0], "output's batch", error);
}

int check_conv(const struct workload *workload, struct error *error) {
    const struct conv_attr *attr = &workload->attr.conv;
    const int64_t *x = dims(&workload->in[0]), *w = dims(&workload->in[1]), *out = dims(&workload->out[0]);
    if (check_images(workload, error) || need_rank(&workload->in[1], 4, "weight", error)) {
        return -1;
    }
    if (x[1] % attr->groups || w[0] % attr->groups) {
        return BAD("The workload's %lld groups divide its %lld and %lld channels unevenly.", (long long)attr->groups,
                   (long long)x[1], (long long)w[0]);
    }
    if (need_dim(w[1], x[1] / attr->groups, "number of channels of a weight", error) ||
        need_dim(out[1], w[0], "number of output channels", error)) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        int64_t n =
            window_count(x[2 + i], attr->pad[i] + attr->pad[2 + i], w[2 + i], attr->dilation[i], attr->stride[i]);
        if (need_dim(out[2 + i], n, i ? "output width" : "output height", error)) {
            return -1;
        }
    }
    return check_extras(workload, w[0], error);
}

/* The height and width are free by the output padding, which the workload does not show: less than a stride or
 * dilation. */
int check_conv_transpose(const struct workload *workload, struct error *error) {
    const struct conv_attr *attr = &workload->attr.conv;
    const int64_t *x = dims(&workload->in[0]), *w = dims(&workload->in[1]), *out = dims(&workload->out[0]);
    if (check_images(workload, error) || need_rank(&workload->in[1], 4, "weight", error) ||
        need_dim(w[0], x[1], "number of weights' input channels", error)) {
        return -1;
    }
    if (x[1] % attr->groups) {
        return BAD("The workload's %lld groups divide its %lld channels unevenly.", (long long)attr->groups,
                   (long long)x[1]);
    }
    /* The quotient first: w[1] × groups could overflow. */
    if (out[1] % attr->groups || need_dim(out[1] / attr->groups, w[1], "number of output channels of a group", error)) {
        return BAD("The workload's output channels are not its groups times its weights' second dimension.");
    }
    for (int i = 0; i < 2; i++) {
        int64_t least =
            (x[2 + i] - 1) * attr->stride[i] + (w[2 + i] - 1) * attr->dilation[i] + 1 - attr->pad[i] - attr->pad[2 + i];
        int64_t spare = attr->stride[i] > attr->dilation[i] ? attr->stride[i] : attr->dilation[i];
        if (out[2 + i] < least || out[2 + i] - least >= spare) {
            return BAD("The workload's output %s is %lld; its other shapes ask for %lld.", i ? "width" : "height",
                       (long long)out[2 + i], (long long)least);
        }
    }
    return check_extras(workload, out[1], error);
}

int check_dense(const struct workload *workload, struct error *error) {
    const struct operand *x = &workload->in[0], *w = &workload->in[1], *out = &workload->out[0];
    if (need_rank(x, 2, "input", error) || need_rank(w, 2, "weight", error) || need_rank(out, 2, "output", error) ||
        need_dim(dims(w)[1], dims(x)[1], "weight's second dimension", error) ||
        need_dim(dims(out)[0], dims(x)[0], "output's first dimension", error) ||
        need_dim(dims(out)[1], dims(w)[0], "output's second dimension", error)) {
        return -1;
    }
    return check_extras(workload, dims(w)[0], error);
}

/* Dimension of `shape` that lines up with dimension i of a shape of `rank`; 1 where it has none. */
static int64_t aligned_dim(const struct shape *shape, int rank, int i) {
    int own = i - (rank - shape->rank);
    return own < 0 ? 1 : shape->dim[own];
}

/* Does broadcasting a and b in their first rank - skip dimensions give out? */
static bool broadcast_gives(const struct shape *a, const struct shape *b, const struct shape *out, int skip) {
    if (a->rank > out->rank || b->rank > out->rank) {
        return false;
    }
    for (int i = 0; i < out->rank - skip; i++) {
        int64_t da = aligned_dim(a, out->rank, i), db = aligned_dim(b, out->rank, i);
        if ((da != db && da != 1 && db != 1) || out->dim[i] != (da == 1 ? db : da)) {
            return false;
        }
    }
    return true;
}

int check_matmul(const struct workload *workload, struct error *error) {
    const struct shape *a = &workload->in[0].shape, *b = &workload->in[1].shape, *out = &workload->out[0].shape;
    if (a->rank < 2 || b->rank < 2 || out->rank < 2) {
        return BAD("The workload's operands have ranks %d, %d and %d; a matrix has at least 2.", a->rank, b->rank,
                   out->rank);
    }
    if (a->dim[a->rank - 1] != b->dim[b->rank - 2] || a->dim[a->rank - 2] != out->dim[out->rank - 2] ||
        b->dim[b->rank - 1] != out->dim[out->rank - 1] || !broadcast_gives(a, b, out, 2)) {
        return BAD("The workload's matrices do not multiply to its output's shape.");
    }
    return 0;
}

/* As many windows as fit, or with ceil_mode one more. */
int check_pool(const struct workload *workload, struct error *error) {
    const struct pool_attr *attr = &workload->attr.pool;
    const int64_t *x = dims(&workload->in[0]), *out = dims(&workload->out[0]);
    if (check_images(workload, error) || need_dim(out[1], x[1], "number of output channels", error)) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        int64_t n = window_count(x[2 + i], attr->pad[i] + attr->pad[2 + i], attr->kernel[i], attr->dilation[i],
                                 attr->stride[i]);
        if (out[2 + i] != n + 1 && need_dim(out[2 + i], n, i ? "output width" : "output height", error)) {
            return -1;
        }
    }
    return 0;
}

int check_reduce(const struct workload *workload, struct error *error) {
    const struct shape *x = &workload->in[0].shape;
    struct shape kept = *x;
    if (workload->attr.reduce.axes >> x->rank) {
        return BAD("The workload reduces an axis that its input of rank %d does not have.", x->rank);
    }
    for (int i = 0; i < kept.rank; i++) {
        kept.dim[i] = workload->attr.reduce.axes >> i & 1 ? 1 : kept.dim[i];
    }
    return need_shape(&workload->out[0].shape, &kept, "output", error);
}

int check_affine(const struct workload *workload, struct error *error) {
    const struct operand *x = &workload->in[0];
    if (x->shape.rank < 2) {
        return BAD("The workload's input has rank %d; an affine's has at least 2.", x->shape.rank);
    }
    for (int i = 1; i < 3; i++) {
        const char *what = i == 1 ? "scale" : "shift";
        if (need_rank(&workload->in[i], 1, what, error) ||
            need_dim(dims(&workload->in[i])[0], dims(x)[1], what, error)) {
            return -1;
        }
    }
    return check_same_shape(workload, error);
}

int check_same_shape(const struct workload *workload, struct error *error) {
    return need_shape(&workload->out[0].shape, &workload->in[0].shape, "output", error);
}

int check_unary(const struct workload *workload, struct error *error) {
    if (workload->epilogue.act == ACT_NONE) {
        return BAD("The workload is a unary operator without act=; name what it computes.");
    }
    return check_same_shape(workload, error);
}

int check_binary(const struct workload *workload, struct error *error) {
    if (!broadcast_gives(&workload->in[0].shape, &workload->in[1].shape, &workload->out[0].shape, 0)) {
        return BAD("The workload's inputs do not broadcast to its output's shape.");
    }
    return 0;
}

static int need_axis(int64_t axis, int rank, struct error *error) {
    if (axis >= rank) {
        return BAD("The workload's axis %lld is outside its input of rank %d.", (long long)axis, rank);
    }
    return 0;
}

int check_axis_same_shape(const struct workload *workload, struct error *error) {
    return need_axis(workload->attr.softmax.axis, workload->in[0].shape.rank, error)
               ? -1
               : check_same_shape(workload, error);
}

int check_lrn(const struct workload *workload, struct error *error) {
    return need_rank(&workload->in[0], 4, "input", error) ? -1 : check_same_shape(workload, error);
}

int check_reshape(const struct workload *workload, struct error *error) {
    return need_dim(shape_count(&workload->out[0].shape), shape_count(&workload->in[0].shape), "number of elements",
                    error);
}

int check_transpose(const struct workload *workload, struct error *error) {
    const struct shape *x = &workload->in[0].shape;
    struct shape moved = *x;
    int seen = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t from = workload->attr.transpose.perm[i];
        if (from >= x->rank || seen >> from & 1) {
            return BAD("The workload's perm is not a permutation of its input's %d dimensions.", x->rank);
        }
        seen |= 1 << from;
        moved.dim[i] = x->dim[from];
    }
    return need_shape(&workload->out[0].shape, &moved, "output", error);
}

int check_concat(const struct workload *workload, struct error *error) {
    struct shape joined = workload->in[0].shape;
    int64_t axis = workload->attr.concat.axis;
    if (need_axis(axis, joined.rank, error)) {
        return -1;
    }
    for (int i = 1; i < workload->n_in; i++) {
        struct shape part = workload->in[i].shape;
        int64_t extent = part.rank == joined.rank ? part.dim[axis] : 0;
        part.dim[axis] = joined.dim[axis];
        if (need_shape(&part, &joined, "input", error)) {
            return -1;
        }
        joined.dim[axis] += extent;
    }
    return need_shape(&workload->out[0].shape, &joined, "output", error);
}

int check_slice(const struct workload *workload, struct error *error) {
    const struct slice_attr *attr = &workload->attr.slice;
    const struct shape *x = &workload->in[0].shape, *out = &workload->out[0].shape;
    if (need_rank(&workload->out[0], x->rank, "output", error)) {
        return -1;
    }
    for (int i = 0; i < x->rank; i++) {
        int64_t last;
        if (__builtin_mul_overflow(out->dim[i] - 1, attr->step[i], &last) ||
            __builtin_add_overflow(last, attr->start[i], &last) || last < 0 || last >= x->dim[i] ||
            attr->start[i] >= x->dim[i]) {
            return BAD("The workload's slice of dimension %d reaches outside its input.", i);
        }
    }
    return 0;
}

/* A constant may be padded without end; reflections stay within the input, edges only need one element. */
int check_pad(const struct workload *workload, struct error *error) {
    const struct pad_attr *attr = &workload->attr.pad;
    const struct shape *x = &workload->in[0].shape, *out = &workload->out[0].shape;
    if (need_rank(&workload->out[0], x->rank, "output", error)) {
        return -1;
    }
    for (int i = 0; i < x->rank && attr->mode == PAD_REFLECT; i++) {
        int64_t after = out->dim[i] - x->dim[i] - attr->before[i];
        if (attr->before[i] >= x->dim[i] || after >= x->dim[i]) {
            return BAD("The workload reflects more of dimension %d than there is.", i);
        }
    }
    return 0;
}

int check_resize(const struct workload *workload, struct error *error) {
    const struct shape *x = &workload->in[0].shape;
    for (int i = 0; i < x->rank; i++) {
        if (!(workload->attr.resize.scale[i] > 0)) {
            return BAD("The workload's scale of dimension %d is not positive.", i);
        }
    }
    return need_rank(&workload->out[0], x->rank, "output", error);
}

int check_gather(const struct workload *workload, struct error *error) {
    const struct shape *x = &workload->in[0].shape, *indices = &workload->in[1].shape;
    int64_t axis = workload->attr.gather.axis;
    struct shape picked = {0};
    if (need_axis(axis, x->rank, error)) {
        return -1;
    }
    if (x->rank - 1 + indices->rank > SHAPE_MAX_RANK) {
        return BAD("The workload's output would have rank %d; at most %d is supported.", x->rank - 1 + indices->rank,
                   SHAPE_MAX_RANK);
    }
    if (workload->in[1].dtype != DTYPE_I32 && workload->in[1].dtype != DTYPE_I64) {
        return BAD("The workload's indices are %s; they must be i32 or i64.", dtype_name(workload->in[1].dtype));
    }
    for (int i = 0; i < axis; i++) {
        picked.dim[picked.rank++] = x->dim[i];
    }
    for (int i = 0; i < indices->rank; i++) {
        picked.dim[picked.rank++] = indices->dim[i];
    }
    for (int i = (int)axis + 1; i < x->rank; i++) {
        picked.dim[picked.rank++] = x->dim[i];
    }
    return need_shape(&workload->out[0].shape, &picked, "output", error);
}

int check_expand(const struct workload *workload, struct error *error) {
    const struct shape *x = &workload->in[0].shape, *out = &workload->out[0].shape;
    if (!broadcast_gives(x, out, out, 0)) {
        return BAD("The workload's input does not broadcast to its output's shape.");
    }
    return 0;
}

static int check_operand(const struct operand *operand, struct error *error) {
    int64_t count = 1;
    if (operand->layout == LAYOUT_NHWC && operand->shape.rank != 4) {
        return BAD("The workload has an operand of rank %d in layout nhwc, which is for rank 4.", operand->shape.rank);
    }
    for (int i = 0; i < operand->shape.rank; i++) {
        int64_t dim = operand->shape.dim[i];
        if (dim < 1 || dim > WORKLOAD_MAX_ELEMENTS / count) {
            return BAD("The workload has a dimension of %lld; a dimension is at least 1, and a tensor has at most 2^40 "
                       "elements.",
                       (long long)dim);
        }
        count *= dim;
    }
    return 0;
}

static int check_field(const struct workload *workload, const struct attr_field *field, struct error *error) {
    const int64_t *ints = (const void *)((const char *)&workload->attr + field->offset);
    for (int i = 0; i < attr_field_count(field, workload) && field->type == FIELD_INT; i++) {
        if (ints[i] < field->min || ints[i] > field->max) {
            return BAD("The workload's %s is %lld; it must lie between %lld and %lld.", field->name, (long long)ints[i],
                       (long long)field->min, (long long)field->max);
        }
    }
    return 0;
}

/* Of operators that have factors, both f32. */
static int check_tf32(const struct workload *workload, struct error *error) {
    if (!op_has_weights(workload->op) || workload->in[0].dtype != DTYPE_F32 || workload->in[1].dtype != DTYPE_F32) {
        return BAD("The workload's math is tf32, which is for conv2d, conv2d_transpose and dense of f32.");
    }
    return 0;
}

int workload_check(const struct workload *workload, struct error *error) {
    const struct op_spec *op = &workload_ops[workload->op];
    const struct epilogue *epilogue = &workload->epilogue;
    if ((epilogue->bias && !op->bias) || (epilogue->residual && !op->residual) ||
        (epilogue->act != ACT_NONE && !op->act)) {
        return BAD("The workload's operator %s cannot have this epilogue.", op_name(workload->op));
    }
    int own = workload->n_in - epilogue->bias - epilogue->residual;
    if (own < op->min_in || own > op->max_in || workload->n_out != 1) {
        return BAD("The workload's operator %s has %d inputs and %d outputs with this epilogue; it takes %d and 1.",
                   op_name(workload->op), workload->n_in, workload->n_out,
                   op->min_in + epilogue->bias + epilogue->residual);
    }
    for (int i = 0; i < workload->n_in + workload->n_out; i++) {
        const struct operand *operand = i < workload->n_in ? &workload->in[i] : &workload->out[i - workload->n_in];
        if (check_operand(operand, error)) {
            return -1;
        }
    }
    for (const struct attr_field *field = op->fields; field->name; field++) {
        if (check_field(workload, field, error)) {
            return -1;
        }
    }
    if (workload->tf32 && check_tf32(workload, error)) {
        return -1;
    }
    return op->check(workload, error);
}
