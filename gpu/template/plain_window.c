/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, pools, matrix products and LRN, one element of the output at a time: the definition written out.
 * CUDA runs all of them so; the CPU has faster ways for most (plain_cpu_*.c).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "gpu/template/plain.h"

bool serves_window(const struct workload *workload) {
    switch (workload->op) {
    case OP_CONV:
    case OP_CONV_TRANSPOSE:
    case OP_POOL:
    case OP_LRN:
    case OP_MATMUL:
        return plain_floats(workload);
    default:
        return false;
    }
}

/* ---- Convolutions ---- */

/* y and x: where tap r, s of this output element meets the input; `continue` where it does not. */
static void put_conv_taps(struct buf *body, const struct workload *workload, const struct coordinates *at) {
    static const char tap[] = "rs", to[] = "yx";
    const struct conv_attr *conv = &workload->attr.conv;
    for (int i = 0; i < 2; i++) {
        int64_t dim = workload->in[0].shape.dim[2 + i], taps = workload->in[1].shape.dim[2 + i];
        const char *o = at->text[2 + i];
        buf_printf(body, "    for (idx %c = 0; %c < %" PRId64 "; %c++) {\n", tap[i], tap[i], taps, tap[i]);
        if (workload->op == OP_CONV) {
            buf_printf(body, "    const idx %c = %s * %" PRId64 " - (%" PRId64 ") + %c * %" PRId64 ";\n", to[i], o,
                       conv->stride[i], conv->pad[i], tap[i], conv->dilation[i]);
            buf_printf(body, "    if (%c < 0 || %c >= %" PRId64 ") continue;\n", to[i], to[i], dim);
            continue;
        }
        buf_printf(body, "    const idx far_%c = %s + (%" PRId64 ") - %c * %" PRId64 ", %c = far_%c / %" PRId64 ";\n",
                   to[i], o, conv->pad[i], tap[i], conv->dilation[i], to[i], to[i], conv->stride[i]);
        buf_printf(body, "    if (far_%c < 0 || far_%c %% %" PRId64 " != 0 || %c >= %" PRId64 ") continue;\n", to[i],
                   to[i], conv->stride[i], to[i], dim);
    }
}

static void body_conv(struct buf *body, const struct workload *workload) {
    const struct operand *x = &workload->in[0], *w = &workload->in[1];
    int64_t groups = workload->attr.conv.groups, in_group = x->shape.dim[1] / groups;
    int64_t out_group = workload->out[0].shape.dim[1] / groups;
    struct coordinates at, from, weight = {{"k", "c", "r", "s"}};
    coordinates_of(&workload->out[0], &at);
    from = at;
    snprintf(from.text[1], sizeof from.text[1], "(g * %" PRId64 " + c)", in_group);
    snprintf(from.text[2], sizeof from.text[2], "y");
    snprintf(from.text[3], sizeof from.text[3], "x");
    if (workload->op == OP_CONV_TRANSPOSE) {
        snprintf(weight.text[0], sizeof weight.text[0], "(g * %" PRId64 " + c)", in_group);
        snprintf(weight.text[1], sizeof weight.text[1], "(k - g * %" PRId64 ")", out_group);
    }
    buf_printf(body, "    const idx k = %s, g = k / %" PRId64 ";\n    float v = 0.0f;\n", at.text[1], out_group);
    put_conv_taps(body, workload, &at);
    buf_printf(body, "    for (idx c = 0; c < %" PRId64 "; c++)\n    v += get0(", in_group);
    put_offset(body, x, &from);
    buf_puts(body, ") * get1(");
    put_offset(body, w, &weight);
    buf_puts(body, ");\n    }\n    }\n");
    put_result(body, workload, &at, "v", "k");
}

/* ---- Pools ---- */

struct window pool_window(const struct workload *workload, int i) {
    const struct pool_attr *pool = &workload->attr.pool;
    return (struct window){workload->in[0].shape.dim[2 + i], pool->kernel[i], pool->stride[i], pool->pad[i],
                           pool->dilation[i]};
}

void put_tap_range(struct buf *text, const struct window *window, const char *at, char name) {
    int64_t step = window->dilation;
    buf_printf(text,
               "    const idx %c_from = %s * %" PRId64 " - (%" PRId64 ");\n"
               "    const idx %c0 = %c_from >= 0 ? 0 : (%" PRId64 " - %c_from) / %" PRId64 ";\n",
               name, at, window->stride, window->pad, name, name, step - 1, name, step);
    buf_printf(text,
               "    const idx %c_stop = %c_from >= %" PRId64 " ? 0 : (%" PRId64 " - %c_from) / %" PRId64 ";\n"
               "    const idx %c1 = %c_stop < %" PRId64 " ? %c_stop : %" PRId64 ";\n",
               name, name, window->in, window->in + step - 1, name, step, name, name, window->taps, name, window->taps);
}

void put_average(struct buf *text, const struct workload *workload) {
    static const char name[] = "rs";
    const struct pool_attr *pool = &workload->attr.pool;
    if (!pool->count_include_pad) {
        buf_puts(text, "    const float count = (float)((r1 > r0 ? r1 - r0 : 0) * (s1 > s0 ? s1 - s0 : 0));\n");
        return;
    }
    for (int i = 0; i < 2; i++) {
        int64_t dim = workload->in[0].shape.dim[2 + i] + pool->pad[2 + i], step = pool->dilation[i];
        buf_printf(text,
                   "    const idx %c_all = (%" PRId64 " - %c_from) / %" PRId64 ";\n"
                   "    const idx %c_count = %c_all < %" PRId64 " ? %c_all : %" PRId64 ";\n",
                   name[i], dim + step - 1, name[i], step, name[i], name[i], pool->kernel[i], name[i], pool->kernel[i]);
    }
    buf_puts(text, "    const float count = (float)(r_count * s_count);\n");
}

static void body_pool(struct buf *body, const struct workload *workload, bool cuda) {
    const struct pool_attr *pool = &workload->attr.pool;
    struct coordinates at, from;
    coordinates_of(&workload->out[0], &at);
    from = at;
    snprintf(from.text[2], sizeof from.text[2], "(r_from + r * %" PRId64 ")", pool->dilation[0]);
    snprintf(from.text[3], sizeof from.text[3], "(s_from + s * %" PRId64 ")", pool->dilation[1]);
    const struct window rows = pool_window(workload, 0), columns = pool_window(workload, 1);
    put_tap_range(body, &rows, at.text[2], 'r');
    put_tap_range(body, &columns, at.text[3], 's');
    buf_puts(body, "    float v = ");
    act_float(body, cuda, pool->kind == POOL_MAX ? -INFINITY : 0);
    buf_puts(body,
             ";\n    for (idx r = r0; r < r1; r++)\n    for (idx s = s0; s < s1; s++) {\n    const float x = get0(");
    put_offset(body, &workload->in[0], &from);
    buf_puts(body, pool->kind == POOL_MAX ? ");\n    v = x > v ? x : v;\n    }\n" : ");\n    v += x;\n    }\n");
    if (pool->kind == POOL_AVERAGE)
        put_average(body, workload);
    buf_puts(body, "    put(");
    put_offset(body, &workload->out[0], &at);
    buf_puts(body, pool->kind == POOL_AVERAGE ? ", v / count);\n" : ", v);\n");
}

/* ---- LRN ---- */

static void body_lrn(struct buf *body, const struct workload *workload, bool cuda) {
    const struct lrn_attr *lrn = &workload->attr.lrn;
    int64_t channels = workload->in[0].shape.dim[1], before = (lrn->size - 1) / 2, after = lrn->size / 2;
    struct coordinates at, near;
    coordinates_of(&workload->out[0], &at);
    near = at;
    snprintf(near.text[1], sizeof near.text[1], "c");
    buf_printf(body,
               "    const idx low = %s < %" PRId64 " ? 0 : %s - %" PRId64 ";\n"
               "    const idx high = %s + %" PRId64 " < %" PRId64 " ? %s + %" PRId64 " : %" PRId64 ";\n",
               at.text[1], before, at.text[1], before, at.text[1], after, channels - 1, at.text[1], after,
               channels - 1);
    buf_puts(body, "    float sum = 0.0f;\n    for (idx c = low; c <= high; c++) {\n    const float x = get0(");
    put_offset(body, &workload->in[0], &near);
    buf_puts(body, ");\n    sum += x * x;\n    }\n    put(");
    put_offset(body, &workload->out[0], &at);
    buf_puts(body, ", get0(");
    put_offset(body, &workload->in[0], &at);
    buf_puts(body, ") * wt_exp(");
    act_float(body, cuda, -lrn->beta);
    buf_puts(body, " * wt_log(");
    act_float(body, cuda, lrn->bias);
    buf_puts(body, " + ");
    act_float(body, cuda, lrn->alpha / (double)lrn->size);
    buf_puts(body, " * sum)));\n");
}

/* ---- Matrix products ---- */

struct coordinates batch_coordinates(const struct operand *operand, const struct coordinates *out, int rank) {
    struct coordinates at;
    int lead = rank - operand->shape.rank;
    for (int d = 0; d < operand->shape.rank; d++)
        snprintf(at.text[d], sizeof at.text[d], "%s", out->text[d + lead]);
    return at;
}

static void body_matmul(struct buf *body, const struct workload *workload) {
    const struct operand *a = &workload->in[0], *b = &workload->in[1], *out = &workload->out[0];
    struct coordinates at, left, right;
    coordinates_of(out, &at);
    left = batch_coordinates(a, &at, out->shape.rank);
    right = batch_coordinates(b, &at, out->shape.rank);
    snprintf(left.text[a->shape.rank - 1], sizeof left.text[0], "k");
    snprintf(right.text[b->shape.rank - 2], sizeof right.text[0], "k");
    buf_printf(body, "    float v = 0.0f;\n    for (idx k = 0; k < %" PRId64 "; k++)\n    v += get0(",
               a->shape.dim[a->shape.rank - 1]);
    put_offset(body, a, &left);
    buf_puts(body, ") * get1(");
    put_offset(body, b, &right);
    buf_puts(body, ");\n    put(");
    put_offset(body, out, &at);
    buf_puts(body, ", v);\n");
}

void emit_window(struct plain *plain) {
    const struct workload *workload = plain->workload;
    struct buf body CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct nest nest;
    if (workload->op == OP_POOL)
        body_pool(&body, workload, plain->cuda);
    else if (workload->op == OP_LRN)
        body_lrn(&body, workload, plain->cuda);
    else if (workload->op == OP_MATMUL)
        body_matmul(&body, workload);
    else
        body_conv(&body, workload);
    nest_of(&workload->out[0], &nest);
    nest_emit(plain, arena_printf(plain->arena, "plain_%s", op_name(workload->op)), 0, workload->n_in - 1, &nest,
              buf_str(&body));
}
