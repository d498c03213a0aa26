/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conv2d_simt_render.c: the source of a configuration of conv2d_simt.cu, and its launches. With the shape in the
 * arguments the source depends on the tiling, the layout, whether channels come in fours, whether the sum is split, and
 * the activation, unless that is none or a bound; with constants, on all.
 */
#include <math.h>
#include <string.h>

#include "gpu/template/act.h"
#include "gpu/template/conv2d_simt.h"
#include "gpu/template/embed.h"
#include "gpu/template/fastdiv.h"

EMBED(conv2d_simt_source, "gpu/template/conv2d_simt.cu");

#define BLOCK 256 /* threads of the kernels with one thread an element */
#define MAX_FIELDS 48

enum { HAS_BIAS = 1, HAS_RESIDUAL = 2, FOURS = 4 };

/* The kernels' struct shape. */
struct fields {
    struct {
        const char *name, *suffix; /* "area" and "" or what becomes of a divisor */
        int value;
    } list[MAX_FIELDS];
    int n;
};

static void add(struct fields *fields, const char *name, int64_t value) {
    fields->list[fields->n].name = name;
    fields->list[fields->n].suffix = "";
    fields->list[fields->n++].value = (int)value;
}

/* What the kernels divide by comes with its reciprocal. */
static void add_divisor(struct fields *fields, const char *name, int64_t value) {
    struct fastdiv divisor = fastdiv_of((uint32_t)value);
    add(fields, name, value);
    add(fields, name, divisor.multiplier);
    fields->list[fields->n - 1].suffix = "_multiplier";
    add(fields, name, divisor.shift);
    fields->list[fields->n - 1].suffix = "_shift";
}

static void add_bits(struct fields *fields, const char *name, float value) {
    int bits;
    memcpy(&bits, &value, sizeof bits);
    add(fields, name, bits);
}

/* ---- the shape ---- */

static void add_input(struct fields *fields, const struct conv2d_shape *s) {
    add(fields, "h", s->h);
    add(fields, "w", s->w);
    add(fields, "row_stride", s->nhwc ? s->w * s->c : s->w);
    add(fields, "unit_stride", s->nhwc ? s->c : s->h * s->w); /* of columns (NHWC), of channels (NCHW) */
    add(fields, "image_stride", s->h * s->w * s->c);
    add(fields, "sh", s->sh);
    add(fields, "sw", s->sw);
    add(fields, "dh", s->dh);
    add(fields, "dw", s->dw);
    add(fields, "pad_h", s->pad_h);
    add(fields, "pad_w", s->pad_w);
}

static void add_output(struct fields *fields, const struct conv2d_simt *t) {
    const struct conv2d_shape *s = &t->shape;
    add(fields, "pixels", t->pixels);
    add_divisor(fields, "area", s->oh * s->ow);
    add_divisor(fields, "ow", s->ow);
    add_divisor(fields, "k", s->k);
    add_divisor(fields, "groups", s->groups);
    add(fields, "kg", s->kg);
    add(fields, "channels_padded", t->channels_padded);
}

/* k's digits, the fastest first: channel, column and row of the tap (NHWC), or column, row, channel (NCHW). */
static void add_sum(struct fields *fields, const struct conv2d_simt *t) {
    const struct conv2d_shape *s = &t->shape;
    int64_t inner = s->nhwc ? s->cg : s->kw, middle = s->nhwc ? s->kw : s->kh;
    add_divisor(fields, "inner", inner);
    add_divisor(fields, "middle", middle);
    add(fields, "outer", s->nhwc ? s->kh : s->cg);
    add(fields, "step_inner", t->a_step % inner);
    add(fields, "step_middle", t->a_step / inner % middle);
    add(fields, "step_outer", t->a_step / inner / middle);
    add(fields, "parts", t->parts);
    add(fields, "steps_each", t->steps / t->parts);
    add(fields, "steps_over", t->steps % t->parts);
}

/* None, relu and clip are bounds; of the others the source has the text. */
static bool is_bound(enum act act) {
    return act == ACT_NONE || act == ACT_RELU || act == ACT_CLIP;
}

static void add_epilogue(struct fields *fields, const struct conv2d_simt *t) {
    const struct epilogue *epilogue = &t->shape.epilogue;
    bool clips = epilogue->act == ACT_CLIP;
    add(fields, "flags",
        (t->shape.bias_in >= 0 ? HAS_BIAS : 0) | (t->shape.residual_in >= 0 ? HAS_RESIDUAL : 0) |
            (t->fours ? FOURS : 0));
    add_bits(fields, "low", clips ? (float)epilogue->alpha : epilogue->act == ACT_RELU ? 0.0f : -INFINITY);
    add_bits(fields, "high", clips ? (float)epilogue->beta : INFINITY);
}

static void fields_of(const struct conv2d_simt *t, struct fields *ret) {
    ret->n = 0;
    add_input(ret, &t->shape);
    add_output(ret, t);
    add_sum(ret, t);
    add_epilogue(ret, t);
}

/* ---- the source ---- */

static void define(struct buf *source, const char *name, int64_t value) {
    buf_printf(source, "#define %s %lld\n", name, (long long)value);
}

static void define_shape(struct buf *source, const struct fields *fields, bool constants) {
    buf_puts(source, "struct shape {\n");
    for (int i = 0; i < fields->n; i++)
        buf_printf(source, "    int %s%s;\n", fields->list[i].name, fields->list[i].suffix);
    buf_puts(source, "};\n#define SHAPE_PARAMS");
    for (int i = 0; i < fields->n && !constants; i++)
        buf_printf(source, " , int arg_%s%s", fields->list[i].name, fields->list[i].suffix);
    buf_puts(source, "\n#define SHAPE_VALUES");
    for (int i = 0; i < fields->n && constants; i++)
        buf_printf(source, "%s (int)0x%xu", i ? "," : "", (unsigned)fields->list[i].value);
    for (int i = 0; i < fields->n && !constants; i++)
        buf_printf(source, "%s arg_%s%s", i ? "," : "", fields->list[i].name, fields->list[i].suffix);
    buf_putc(source, '\n');
}

static void define_tiling(struct buf *source, const struct conv2d_simt *t) {
    define(source, "BP", t->bp);
    define(source, "BC", t->bc);
    define(source, "BK", t->bk);
    define(source, "TP", t->tp);
    define(source, "TC", t->tc);
    define(source, "THREADS", t->threads);
    define(source, "SPLIT", t->parts > 1);
    define(source, "NHWC", t->shape.nhwc);
    define(source, "CONSTANTS", t->constants);
    define(source, "VEC_A", t->vec_a);
    define(source, "CHECK_COLUMNS", t->check_columns);
}

/* ---- the launches ---- */

static void add_arg(struct launch *launch, enum arg_kind kind, int index) {
    launch->args[launch->n_args++] = (struct arg){kind, index};
}

/* Bias, residual (the input stands for what there is not, and is not read), and the shape where it is no constant. */
static void add_rest(struct launch *launch, const struct conv2d_simt *t, const struct fields *fields, bool epilogue) {
    const int inputs[] = {t->shape.bias_in, t->shape.residual_in};
    for (size_t i = 0; i < ARRAY_COUNT(inputs) && epilogue; i++)
        add_arg(launch, ARG_IN, inputs[i] >= 0 ? inputs[i] : 0);
    for (int i = 0; i < fields->n && !t->constants; i++)
        add_arg(launch, ARG_VALUE, fields->list[i].value);
}

static struct launch blocks_of(const char *entry, int64_t elements) {
    return (struct launch){
        .entry = entry, .grid = {(unsigned)((elements + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
}

static size_t *one_size(struct arena *arena, int64_t floats) {
    size_t *size = arena_array(arena, 1, sizeof *size);
    *size = (size_t)floats * sizeof(float);
    return size;
}

static void add_prepare(struct program *program, const struct conv2d_simt *t, const struct fields *fields,
                        struct arena *arena) {
    int64_t packed = t->shape.groups * t->steps * t->bk * t->channels_padded;
    program->prepared_bytes = one_size(arena, packed);
    program->n_prepared = 1;
    program->prepare = arena_array(arena, 1, sizeof *program->prepare);
    program->prepare[0] = blocks_of("conv2d_simt_pack", packed);
    add_arg(&program->prepare[0], ARG_IN, 1);
    add_arg(&program->prepare[0], ARG_PREPARED, 0);
    add_rest(&program->prepare[0], t, fields, false);
    program->n_prepare = 1;
}

/* Either one kernel that does all, or the parts and their sum. */
static void add_run(struct program *program, const struct conv2d_simt *t, const struct fields *fields,
                    struct arena *arena) {
    program->run = arena_array(arena, 2, sizeof *program->run);
    struct launch *product = &program->run[0], *reduce = &program->run[1];
    *product = (struct launch){.entry = "conv2d_simt",
                               .grid = {(unsigned)((t->pixels + t->bp - 1) / t->bp),
                                        (unsigned)(t->channels_padded / t->bc), (unsigned)(t->shape.groups * t->parts)},
                               .block = {(unsigned)t->threads, 1, 1}};
    add_arg(product, ARG_IN, 0);
    add_arg(product, ARG_PREPARED, 0);
    add_arg(product, t->parts > 1 ? ARG_SCRATCH : ARG_OUT, 0);
    add_rest(product, t, fields, true);
    program->n_run = 1;
    if (t->parts == 1)
        return;
    program->scratch_bytes = one_size(arena, t->parts * t->pixels * t->shape.k);
    program->n_scratch = 1;
    *reduce = blocks_of("conv2d_simt_reduce", t->pixels * t->shape.k);
    add_arg(reduce, ARG_SCRATCH, 0);
    add_arg(reduce, ARG_OUT, 0);
    add_rest(reduce, t, fields, true);
    program->n_run = 2;
}

int conv2d_simt_render(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index, struct arena *arena, struct program **ret, struct error *error) {
    static const struct epilogue bounded = {.act = ACT_NONE};
    struct conv2d_simt t = conv2d_simt_of(workload, space, index);
    struct buf source CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct fields fields;
    if (conv2d_simt_check(&t, target, error) < 0)
        return -1;
    fields_of(&t, &fields);
    define_shape(&source, &fields, t.constants);
    define_tiling(&source, &t);
    act_define(&source, true, is_bound(t.shape.epilogue.act) ? &bounded : &t.shape.epilogue, 0);
    buf_puts(&source, conv2d_simt_source);
    if (buf_check(&source, "the kernel's source", error) < 0)
        return -1;
    struct program *program = arena_alloc(arena, sizeof *program);
    program->source = arena_strdup(arena, buf_str(&source));
    add_prepare(program, &t, &fields, arena);
    add_run(program, &t, &fields, arena);
    *ret = program;
    return 0;
}
