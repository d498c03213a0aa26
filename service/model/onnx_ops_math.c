/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise arithmetic and matrix products. */
#include <float.h>
#include <string.h>

#include "service/model/onnx_internal.h"

/* ---- One operand ---- */

static int emit_act(struct onnx_call *call, struct epilogue epilogue) {
    const struct value *x = onnx_input(call, 0);
    struct emit emit = {.op = OP_UNARY, .dtype = x->dtype, .shape = x->shape, .n_in = 1, .in = {call->in[0]}};
    emit.epilogue = epilogue;
    return onnx_emit(call, &emit, &call->out[0]);
}

/* Those that integers have too, exactly. */
static bool on_integers(enum act act) {
    return act == ACT_RELU || act == ACT_ABS || act == ACT_NEG || act == ACT_CLIP;
}

static int need_number(const struct onnx_call *call, enum act act) {
    return on_integers(act) && onnx_input(call, 0)->dtype != DTYPE_BOOL ? 0 : onnx_need_float(call, 0);
}

static int lower_unary(struct onnx_call *call) {
    enum act act = (enum act)call->op->param;
    if (need_number(call, act))
        return -1;
    return emit_act(call, (struct epilogue){.act = act});
}

static int lower_leaky_relu(struct onnx_call *call) {
    struct epilogue epilogue = {.act = ACT_LEAKY_RELU, .alpha = 0.01f};
    if (onnx_need_float(call, 0) || onnx_attr_float(call, "alpha", &epilogue.alpha))
        return -1;
    return emit_act(call, epilogue);
}

static int lower_hard_sigmoid(struct onnx_call *call) {
    struct epilogue epilogue = {.act = ACT_HARD_SIGMOID, .alpha = 0.2f, .beta = 0.5};
    if (onnx_need_float(call, 0) || onnx_attr_float(call, "alpha", &epilogue.alpha) ||
        onnx_attr_float(call, "beta", &epilogue.beta))
        return -1;
    return emit_act(call, epilogue);
}

/* Bounds past what a float can hold are none. */
static int emit_clip(struct onnx_call *call, double low, double high) {
    if (low > high) /* ONNX: then everything becomes the maximum */
        low = high;
    low = low < -FLT_MAX ? -FLT_MAX : low > FLT_MAX ? FLT_MAX : low;
    high = high > FLT_MAX ? FLT_MAX : high < -FLT_MAX ? -FLT_MAX : high;
    if (low == 0 && high == FLT_MAX)
        return emit_act(call, (struct epilogue){.act = ACT_RELU});
    if (low == -FLT_MAX && high == FLT_MAX) {
        call->out[0] = call->in[0];
        return 0;
    }
    return emit_act(call, (struct epilogue){.act = ACT_CLIP, .alpha = low, .beta = high});
}

static int clip_attr(struct onnx_call *call, const char *name, double *ret) {
    const Onnx__AttributeProto *attr = onnx_attr(call, name);
    if (attr && attr->has_f && (attr->f > FLT_MAX || attr->f < -FLT_MAX)) { /* infinite: no bound */
        *ret = attr->f;
        return 0;
    }
    return onnx_attr_float(call, name, ret);
}

static int lower_clip_attributes(struct onnx_call *call) {
    double low = -FLT_MAX, high = FLT_MAX;
    if (need_number(call, ACT_CLIP) || clip_attr(call, "min", &low) || clip_attr(call, "max", &high))
        return -1;
    return emit_clip(call, low, high);
}

static int lower_clip_inputs(struct onnx_call *call) {
    double low = -FLT_MAX, high = FLT_MAX;
    if (need_number(call, ACT_CLIP) || onnx_input_number(call, 1, "minimum", &low) ||
        onnx_input_number(call, 2, "maximum", &high))
        return -1;
    return emit_clip(call, low, high);
}

/* ---- Two and more operands ---- */

static int need_operand(const struct onnx_call *call, int i) {
    const struct value *value = onnx_input(call, i);
    if (!value)
        return onnx_bad(call, "input %d is missing.", i);
    if (value->dtype == DTYPE_BOOL)
        return onnx_bad(call, "input %d, %.100s, is bool; only numbers are supported.", i, value->name);
    return 0;
}

/* Sum, Max and Min take any number of inputs; the others two. */
static int lower_binary(struct onnx_call *call) {
    int value = call->in[0];
    if (need_operand(call, 0))
        return -1;
    for (int i = 1; i < call->n_in; i++) {
        if (need_operand(call, i) || onnx_emit_binary(call, (enum binary)call->op->param, value, call->in[i], &value))
            return -1;
    }
    call->out[0] = value;
    return 0;
}

static int lower_pow(struct onnx_call *call) {
    int exponent;
    if (onnx_need_float(call, 0) || need_operand(call, 1) || onnx_emit_cast(call, call->in[1], DTYPE_F32, &exponent))
        return -1;
    return onnx_emit_binary(call, BINARY_POW, call->in[0], exponent, &call->out[0]);
}

static int lower_prelu(struct onnx_call *call) {
    struct shape x = onnx_input(call, 0)->shape, both;
    if (onnx_need_float(call, 0) || onnx_need_float(call, 1) ||
        onnx_broadcast(call, &x, &onnx_input(call, 1)->shape, &both))
        return -1;
    if (!shape_equal(&x, &both))
        return onnx_bad(call, "its slope of shape %s does not fit an input of shape %s.",
                        onnx_shape_text(call, &onnx_input(call, 1)->shape), onnx_shape_text(call, &x));
    return onnx_emit_binary(call, BINARY_PRELU, call->in[0], call->in[1], &call->out[0]);
}

/* ---- Gemm ---- */

struct gemm {
    double alpha, beta;
    bool transpose_a, transpose_b;
};

static int emit_scaled(struct onnx_call *call, int value, double factor, int *ret) {
    static const struct shape scalar = {0};
    int constant;
    void *data;
    *ret = value;
    if (factor == 1)
        return 0;
    if (onnx_add_constant(call, DTYPE_F32, &scalar, false, &constant, &data))
        return -1;
    *(float *)data = (float)factor;
    return onnx_emit_binary(call, BINARY_MUL, value, constant, ret);
}

static int emit_flipped(struct onnx_call *call, int value, bool flip, int *ret) {
    static const int64_t perm[] = {1, 0};
    *ret = value;
    return flip ? onnx_emit_transpose(call, value, perm, ret) : 0;
}

static int gemm_read(struct onnx_call *call, struct gemm *gemm) {
    *gemm = (struct gemm){.alpha = 1, .beta = 1};
    if (onnx_attr_float(call, "alpha", &gemm->alpha) || onnx_attr_float(call, "beta", &gemm->beta) ||
        onnx_attr_flag(call, "transA", &gemm->transpose_a) || onnx_attr_flag(call, "transB", &gemm->transpose_b))
        return -1;
    if (call->importer->opset < 11 && !onnx_input(call, 2))
        return onnx_bad(call, "input 2 is missing.");
    for (int i = 0; i < 2; i++) {
        if (onnx_need_float(call, i))
            return -1;
        if (onnx_input(call, i)->shape.rank != 2)
            return onnx_bad(call, "input %d has rank %d; a matrix has 2.", i, onnx_input(call, i)->shape.rank);
    }
    int64_t k = onnx_input(call, 0)->shape.dim[!gemm->transpose_a];
    if (k != onnx_input(call, 1)->shape.dim[gemm->transpose_b])
        return onnx_bad(call, "its matrices of shapes %s and %s do not multiply.",
                        onnx_shape_text(call, &onnx_input(call, 0)->shape),
                        onnx_shape_text(call, &onnx_input(call, 1)->shape));
    return 0;
}

/* C × β of Gemm as a value, or -1 when there is none. */
static int gemm_addend(struct onnx_call *call, const struct gemm *gemm, const struct shape *out, int *ret) {
    const struct value *c = onnx_input(call, 2);
    struct shape both;
    *ret = -1;
    if (!c || gemm->beta == 0)
        return 0;
    if (onnx_need_float(call, 2) || onnx_broadcast(call, out, &c->shape, &both))
        return -1;
    if (!shape_equal(out, &both))
        return onnx_bad(call, "its input C of shape %s does not fit a result of shape %s.",
                        onnx_shape_text(call, &c->shape), onnx_shape_text(call, out));
    return emit_scaled(call, call->in[2], gemm->beta, ret);
}

/* A constant addend that is the same for every row becomes a bias of N numbers. */
static int gemm_bias(struct onnx_call *call, int addend, int64_t n, struct emit *emit) {
    const struct value *c = &call->importer->graph->values[addend];
    bool per_row = c->shape.rank == 2 && c->shape.dim[0] != 1;
    if (!c->data || per_row)
        return 0;
    struct shape row = {1, {n}}, flat = {1, {shape_count(&c->shape)}};
    struct emit expand = {.op = OP_EXPAND, .dtype = DTYPE_F32, .shape = row, .n_in = 1};
    int bias;
    if (onnx_emit_reshape(call, addend, &flat, &bias))
        return -1;
    expand.in[0] = bias;
    if (flat.dim[0] != n && onnx_emit(call, &expand, &bias))
        return -1;
    emit->epilogue.bias = true;
    emit->in[emit->n_in++] = bias;
    return 0;
}

static int lower_gemm(struct onnx_call *call) {
    struct gemm gemm;
    int a, b, addend, product;
    if (gemm_read(call, &gemm) || emit_flipped(call, call->in[0], gemm.transpose_a, &a))
        return -1;
    bool dense = onnx_input(call, 1)->data != NULL; /* DENSE takes B transposed, MATMUL as it is */
    if (emit_flipped(call, call->in[1], gemm.transpose_b != dense, &b) || emit_scaled(call, b, gemm.alpha, &b))
        return -1;
    const struct value *values = call->importer->graph->values;
    struct emit emit = {.op = dense ? OP_DENSE : OP_MATMUL, .dtype = DTYPE_F32, .n_in = 2, .in = {a, b}};
    emit.shape = (struct shape){2, {values[a].shape.dim[0], values[b].shape.dim[dense ? 0 : 1]}};
    if (gemm_addend(call, &gemm, &emit.shape, &addend) ||
        (dense && addend >= 0 && gemm_bias(call, addend, emit.shape.dim[1], &emit)) || onnx_emit(call, &emit, &product))
        return -1;
    call->out[0] = product;
    if (addend < 0 || emit.epilogue.bias)
        return 0;
    return onnx_emit_binary(call, BINARY_ADD, product, addend, &call->out[0]);
}

/* ---- MatMul ---- */

/* A vector becomes a matrix of one row (left) or one column (right). */
static int as_matrix(struct onnx_call *call, int i, int *ret) {
    struct shape shape = onnx_input(call, i)->shape;
    if (onnx_need_float(call, i))
        return -1;
    if (shape.rank == 0)
        return onnx_bad(call, "input %d is a scalar.", i);
    if (shape.rank == 1)
        shape = i ? (struct shape){2, {shape.dim[0], 1}} : (struct shape){2, {1, shape.dim[0]}};
    return onnx_emit_reshape(call, call->in[i], &shape, ret);
}

static int lower_matmul(struct onnx_call *call) {
    struct emit emit = {.op = OP_MATMUL, .dtype = DTYPE_F32, .n_in = 2};
    if (as_matrix(call, 0, &emit.in[0]) || as_matrix(call, 1, &emit.in[1]))
        return -1;
    struct shape a = call->importer->graph->values[emit.in[0]].shape;
    struct shape b = call->importer->graph->values[emit.in[1]].shape;
    int64_t m = a.dim[a.rank - 2], k = a.dim[a.rank - 1], n = b.dim[b.rank - 1];
    if (k != b.dim[b.rank - 2])
        return onnx_bad(call, "its matrices of shapes %s and %s do not multiply.", onnx_shape_text(call, &a),
                        onnx_shape_text(call, &b));
    a.rank -= 2;
    b.rank -= 2;
    if (onnx_broadcast(call, &a, &b, &emit.shape))
        return -1;
    struct shape final = emit.shape;
    emit.shape.dim[emit.shape.rank++] = m;
    emit.shape.dim[emit.shape.rank++] = n;
    if (onnx_input(call, 0)->shape.rank > 1)
        final.dim[final.rank++] = m;
    if (onnx_input(call, 1)->shape.rank > 1)
        final.dim[final.rank++] = n;
    int product;
    return onnx_emit(call, &emit, &product) || onnx_emit_reshape(call, product, &final, &call->out[0]) ? -1 : 0;
}

const struct onnx_op onnx_ops_math[] = {
    /* name, opsets, inputs, outputs, lowering, parameter */
    {"Relu", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_RELU},
    {"Sigmoid", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_SIGMOID},
    {"HardSwish", 14, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_HARD_SWISH},
    {"Tanh", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_TANH},
    {"Exp", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_EXP},
    {"Log", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_LOG},
    {"Sqrt", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_SQRT},
    {"Abs", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_ABS},
    {"Neg", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_NEG},
    {"Erf", 9, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_ERF},
    {"Floor", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_FLOOR},
    {"Ceil", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_CEIL},
    {"Reciprocal", 6, ONNX_LATEST, 1, 1, 1, lower_unary, ACT_RECIPROCAL},
    {"LeakyRelu", 6, ONNX_LATEST, 1, 1, 1, lower_leaky_relu, 0},
    {"HardSigmoid", 6, ONNX_LATEST, 1, 1, 1, lower_hard_sigmoid, 0},
    {"Clip", 6, 10, 1, 1, 1, lower_clip_attributes, 0},
    {"Clip", 11, ONNX_LATEST, 1, 3, 1, lower_clip_inputs, 0},
    {"Add", 7, ONNX_LATEST, 2, 2, 1, lower_binary, BINARY_ADD},
    {"Sub", 7, ONNX_LATEST, 2, 2, 1, lower_binary, BINARY_SUB},
    {"Mul", 7, ONNX_LATEST, 2, 2, 1, lower_binary, BINARY_MUL},
    {"Div", 7, ONNX_LATEST, 2, 2, 1, lower_binary, BINARY_DIV},
    {"Sum", 6, ONNX_LATEST, 1, ONNX_ANY, 1, lower_binary, BINARY_ADD},
    {"Max", 6, ONNX_LATEST, 1, ONNX_ANY, 1, lower_binary, BINARY_MAX},
    {"Min", 6, ONNX_LATEST, 1, ONNX_ANY, 1, lower_binary, BINARY_MIN},
    {"Pow", 7, ONNX_LATEST, 2, 2, 1, lower_pow, 0},
    {"PRelu", 7, ONNX_LATEST, 2, 2, 1, lower_prelu, 0},
    {"Gemm", 7, ONNX_LATEST, 2, 3, 1, lower_gemm, 0},
    {"MatMul", 1, ONNX_LATEST, 2, 2, 1, lower_matmul, 0},
    {NULL, 0, 0, 0, 0, 0, NULL, 0},
};
