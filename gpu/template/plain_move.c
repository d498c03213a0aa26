/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that work out, for each element of the output, which element of the input it takes or lies between. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/template/plain.h"
#include "service/model/narrow.h"

bool serves_move(const struct workload *workload) {
    const struct operand *in = workload->in, *out = &workload->out[0];
    switch (workload->op) {
    case OP_RESHAPE:
    case OP_PAD:
        return in[0].dtype == out->dtype;
    case OP_RESIZE:
        return plain_floats(workload);
    case OP_GATHER:
        return in[0].dtype == out->dtype && (in[1].dtype == DTYPE_I32 || in[1].dtype == DTYPE_I64);
    default:
        return false;
    }
}

static void put_store(struct buf *body, const struct workload *workload, const char *value) {
    struct coordinates at;
    coordinates_of(&workload->out[0], &at);
    buf_puts(body, "    out[");
    put_offset(body, &workload->out[0], &at);
    buf_printf(body, "] = %s;\n", value);
}

static void put_load(struct buf *body, const struct workload *workload, const struct coordinates *at) {
    buf_puts(body, "in0[");
    put_offset(body, &workload->in[0], at);
    buf_putc(body, ']');
}

/* ---- Reshape between layouts: by the element's number in logical order ---- */

static void body_reshape(struct buf *body, const struct workload *workload) {
    struct operand row = workload->out[0];
    struct coordinates at;
    const struct shape *x = &workload->in[0].shape;
    int64_t after = shape_count(x);
    row.layout = LAYOUT_ROW;
    coordinates_of(&row, &at);
    buf_puts(body, "    const idx number = ");
    put_offset(body, &row, &at);
    buf_puts(body, ";\n");
    for (int d = 0; d < x->rank; d++) {
        after /= x->dim[d];
        snprintf(at.text[d], sizeof at.text[d], "(number / %" PRId64 " %% %" PRId64 ")", after, x->dim[d]);
    }
    buf_printf(body, "    const %s v = ", plain_type(row.dtype));
    put_load(body, workload, &at);
    buf_puts(body, ";\n");
    put_store(body, workload, "v");
}

/* ---- Pad ---- */

/* The coordinate along dimension d in the input, as c0, c1, …; whether it is inside, as `inside`. */
static void put_pad_source(struct buf *body, const struct workload *workload, int d, const char *at) {
    const struct pad_attr *pad = &workload->attr.pad;
    int64_t dim = workload->in[0].shape.dim[d];
    buf_printf(body, "    idx c%d = %s - (%" PRId64 ");\n", d, at, pad->before[d]);
    switch (pad->mode) {
    case PAD_REFLECT:
        buf_printf(body, "    c%d = c%d < 0 ? -c%d : c%d >= %" PRId64 " ? %" PRId64 " - c%d : c%d;\n", d, d, d, d, dim,
                   2 * (dim - 1), d, d);
        break;
    case PAD_EDGE:
        buf_printf(body, "    c%d = c%d < 0 ? 0 : c%d >= %" PRId64 " ? %" PRId64 " : c%d;\n", d, d, d, dim, dim - 1, d);
        break;
    default:
        buf_printf(body, "    inside = inside && c%d >= 0 && c%d < %" PRId64 ";\n", d, d, dim);
    }
}

static void put_pad_value(struct buf *body, const struct workload *workload, bool cuda) {
    double value = workload->attr.pad.value;
    if (workload->in[0].dtype == DTYPE_F32)
        act_float(body, cuda, value);
    else if (dtype_is_narrow(workload->in[0].dtype))
        buf_printf(body, "%u", (unsigned)narrow_from_float(workload->in[0].dtype, (float)value));
    else if (workload->in[0].dtype == DTYPE_F64 && isfinite(value))
        plain_double(body, value);
    else
        buf_printf(body, "%" PRId64 "ll", fabs(value) < 0x1p63 ? (int64_t)value : 0);
}

static void body_pad(struct buf *body, const struct workload *workload, bool cuda) {
    const struct operand *x = &workload->in[0], *out = &workload->out[0];
    struct coordinates at;
    coordinates_of(out, &at);
    buf_puts(body, "    int inside = 1;\n");
    for (int d = 0; d < x->shape.rank; d++) {
        if (x->shape.dim[d] == out->shape.dim[d] && workload->attr.pad.before[d] == 0)
            continue;
        put_pad_source(body, workload, d, at.text[d]);
        snprintf(at.text[d], sizeof at.text[d], "c%d", d);
    }
    buf_printf(body, "    %s v = ", plain_type(x->dtype));
    put_pad_value(body, workload, cuda);
    buf_puts(body, ";\n    if (inside) v = ");
    put_load(body, workload, &at);
    buf_puts(body, ";\n");
    put_store(body, workload, "v");
}

/* ---- Gather ---- */

static void body_gather(struct buf *body, const struct workload *workload) {
    const struct operand *x = &workload->in[0], *indices = &workload->in[1];
    int axis = (int)workload->attr.gather.axis, picked = indices->shape.rank;
    int64_t dim = x->shape.dim[axis];
    struct coordinates out, at, of_index;
    coordinates_of(&workload->out[0], &out);
    for (int d = 0; d < picked; d++)
        memcpy(of_index.text[d], out.text[axis + d], sizeof out.text[0]);
    for (int d = 0; d < x->shape.rank; d++) {
        if (d == axis)
            snprintf(at.text[d], sizeof at.text[d], "row");
        else
            memcpy(at.text[d], out.text[d < axis ? d : d - 1 + picked], sizeof at.text[d]);
    }
    buf_puts(body, "    idx row = (idx)in1[");
    put_offset(body, indices, &of_index);
    buf_printf(body, "];\n    row = row < 0 ? row + %" PRId64 " : row;\n", dim);
    buf_printf(body, "    row = row < 0 ? 0 : row >= %" PRId64 " ? %" PRId64 " : row;\n", dim, dim - 1);
    buf_printf(body, "    const %s v = ", plain_type(x->dtype));
    put_load(body, workload, &at);
    buf_puts(body, ";\n");
    put_store(body, workload, "v");
}

/* ---- Resize ---- */

static bool resizes(const struct workload *workload, int d) {
    return workload->in[0].shape.dim[d] != workload->out[0].shape.dim[d] || workload->attr.resize.scale[d] != 1;
}

/* Enlarging by a whole factor n, the nearest of n equal pixels is the one that they came from. */
static int64_t whole_factor(const struct workload *workload, int d) {
    const struct resize_attr *resize = &workload->attr.resize;
    int64_t in = workload->in[0].shape.dim[d], out = workload->out[0].shape.dim[d];
    bool half =
        resize->coordinates == RESIZE_HALF_PIXEL || (resize->coordinates == RESIZE_PYTORCH_HALF_PIXEL && out > 1);
    bool nearest =
        half && (resize->rounding == RESIZE_ROUND_PREFER_FLOOR || resize->rounding == RESIZE_ROUND_PREFER_CEIL);
    bool floor = resize->coordinates == RESIZE_ASYMMETRIC && resize->rounding == RESIZE_FLOOR;
    int64_t factor = out / in;
    bool whole = factor * in == out && resize->scale[d] == (double)factor;
    return resize->mode == RESIZE_NEAREST && whole && (nearest || floor) ? factor : 0;
}

/* The position in the input, `xD`. Quotients only, which no compiler contracts: the same in every place. */
static void put_position(struct buf *body, const struct workload *workload, int d, const char *at) {
    const struct resize_attr *resize = &workload->attr.resize;
    int64_t in = workload->in[0].shape.dim[d], out = workload->out[0].shape.dim[d];
    buf_printf(body, "    double x%d = ", d);
    if (resize->coordinates == RESIZE_ALIGN_CORNERS && out > 1) {
        buf_printf(body, "(double)%s * %" PRId64 ".0 / %" PRId64 ".0", at, in - 1, out - 1);
    } else if (resize->coordinates == RESIZE_ASYMMETRIC) {
        buf_printf(body, "(double)%s / ", at);
        plain_double(body, resize->scale[d]);
    } else if (resize->coordinates == RESIZE_HALF_PIXEL || (resize->coordinates != RESIZE_ALIGN_CORNERS && out > 1)) {
        buf_printf(body, "((double)%s + 0.5) / ", at);
        plain_double(body, resize->scale[d]);
        buf_puts(body, " - 0.5");
    } else {
        buf_puts(body, "0.0");
    }
    buf_puts(body, ";\n");
}

/* NAMED becomes a whole position, kept within the input: as an integer, since compilers turn comparisons of
 * floating-point numbers with constants into branches. */
static void put_within(struct buf *body, const struct workload *workload, int d, char name, const char *position) {
    int64_t most = workload->in[0].shape.dim[d] - 1;
    buf_printf(body,
               "    idx %c%d = (idx)(%s);\n    %c%d = %c%d < 0 ? 0 : %c%d;\n"
               "    %c%d = %c%d > %" PRId64 " ? %" PRId64 " : %c%d;\n",
               name, d, position, name, d, name, d, name, d, name, d, name, d, most, most, name, d);
}

static void put_nearest(struct buf *body, const struct workload *workload, int d, const char *at, bool cuda) {
    static const char *const rounded[] = {
        [RESIZE_ROUND_PREFER_FLOOR] = "ceil(x%d - 0.5)",
        [RESIZE_ROUND_PREFER_CEIL] = "floor(x%d + 0.5)",
        [RESIZE_FLOOR] = "floor(x%d)",
        [RESIZE_CEIL] = "ceil(x%d)",
    };
    const char *form = rounded[workload->attr.resize.rounding];
    int64_t factor = whole_factor(workload, d);
    if (factor) {
        buf_printf(body, "    const idx a%d = %s / %" PRId64 ";\n", d, at, factor);
        return;
    }
    const char *slot = strstr(form, "%d");
    char position[64];
    put_position(body, workload, d, at);
    snprintf(position, sizeof position, "%s%.*s%d%s", cuda ? "" : "__builtin_", (int)(slot - form), form, d, slot + 2);
    put_within(body, workload, d, 'a', position);
}

/* Beyond the edge both neighbours are the same element, whatever the share. */
static void put_between(struct buf *body, const struct workload *workload, int d, const char *at, bool cuda) {
    char position[64];
    put_position(body, workload, d, at);
    buf_printf(body, "    const double f%d = %sfloor(x%d);\n    const float s%d = (float)(x%d - f%d);\n", d,
               cuda ? "" : "__builtin_", d, d, d, d);
    snprintf(position, sizeof position, "f%d", d);
    put_within(body, workload, d, 'a', position);
    snprintf(position, sizeof position, "f%d + 1", d);
    put_within(body, workload, d, 'b', position);
}

/* The sum over the corners of the cell that the position lies in, of which there are 2^n_cell. */
static void put_corners(struct buf *body, const struct workload *workload, struct coordinates *at, const int *cell,
                        int n_cell) {
    for (int corner = 0; corner < 1 << n_cell; corner++) {
        buf_puts(body, corner ? "    v += " : "    float v = ");
        for (int i = 0; i < n_cell; i++) {
            bool high = corner >> i & 1;
            snprintf(at->text[cell[i]], sizeof at->text[0], "%c%d", high ? 'b' : 'a', cell[i]);
            buf_printf(body, high ? "s%d * " : "(1.0f - s%d) * ", cell[i]);
        }
        buf_puts(body, "get0(");
        put_offset(body, &workload->in[0], at);
        buf_puts(body, ");\n");
    }
}

static void body_resize(struct buf *body, const struct workload *workload, bool cuda) {
    struct coordinates at;
    int cell[SHAPE_MAX_RANK], n_cell = 0;
    coordinates_of(&workload->out[0], &at);
    for (int d = 0; d < workload->in[0].shape.rank; d++) {
        if (!resizes(workload, d))
            continue;
        if (workload->attr.resize.mode == RESIZE_NEAREST) {
            put_nearest(body, workload, d, at.text[d], cuda);
            snprintf(at.text[d], sizeof at.text[d], "a%d", d);
        } else {
            put_between(body, workload, d, at.text[d], cuda);
            cell[n_cell++] = d;
        }
    }
    put_corners(body, workload, &at, cell, n_cell);
    coordinates_of(&workload->out[0], &at);
    buf_puts(body, "    put(");
    put_offset(body, &workload->out[0], &at);
    buf_puts(body, ", v);\n");
}

void emit_move(struct plain *plain) {
    const struct workload *workload = plain->workload;
    struct buf body CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct nest nest;
    if (workload->op == OP_RESHAPE)
        body_reshape(&body, workload);
    else if (workload->op == OP_PAD)
        body_pad(&body, workload, plain->cuda);
    else if (workload->op == OP_GATHER)
        body_gather(&body, workload);
    else
        body_resize(&body, workload, plain->cuda);
    nest_of(&workload->out[0], &nest);
    nest.simd = true;
    nest_emit(plain, arena_printf(plain->arena, "plain_%s", op_name(workload->op)), 0, workload->n_in - 1, &nest,
              buf_str(&body));
}
