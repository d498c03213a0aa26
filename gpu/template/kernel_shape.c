/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/kernel_shape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "gpu/template/act.h"
#include "gpu/template/fastdiv.h"

static void add(struct kernel_shape *shape, const char *name, const char *suffix, int64_t value) {
    assert(shape->n < KERNEL_SHAPE_FIELDS);
    shape->list[shape->n].name = name;
    shape->list[shape->n].suffix = suffix;
    shape->list[shape->n++].value = (int)value;
}

void kernel_shape_add(struct kernel_shape *shape, const char *name, int64_t value) {
    add(shape, name, "", value);
}

void kernel_shape_add_divisor(struct kernel_shape *shape, const char *name, int64_t value) {
    struct fastdiv divisor = fastdiv_of((uint32_t)value);
    add(shape, name, "", value);
    add(shape, name, "_multiplier", divisor.multiplier);
    add(shape, name, "_shift", divisor.shift);
}

static void add_bits(struct kernel_shape *shape, const char *name, float value) {
    int bits;
    memcpy(&bits, &value, sizeof bits);
    add(shape, name, "", bits);
}

void kernel_shape_add_bounds(struct kernel_shape *shape, const struct epilogue *epilogue) {
    bool clips = epilogue->act == ACT_CLIP;
    add_bits(shape, "low", clips ? (float)epilogue->alpha : epilogue->act == ACT_RELU ? 0.0f : -INFINITY);
    add_bits(shape, "high", clips ? (float)epilogue->beta : INFINITY);
}

void kernel_shape_define_act(const struct epilogue *epilogue, struct buf *source) {
    static const struct epilogue bounded = {.act = ACT_NONE};
    bool is_bound = epilogue->act == ACT_NONE || epilogue->act == ACT_RELU || epilogue->act == ACT_CLIP;
    act_define(source, true, is_bound ? &bounded : epilogue, 0);
}

void kernel_shape_define(const struct kernel_shape *shape, bool constants, struct buf *source) {
    buf_puts(source, "struct shape {\n");
    for (int i = 0; i < shape->n; i++)
        buf_printf(source, "    int %s%s;\n", shape->list[i].name, shape->list[i].suffix);
    buf_puts(source, "};\n#define SHAPE_PARAMS");
    for (int i = 0; i < shape->n && !constants; i++)
        buf_printf(source, " , int arg_%s%s", shape->list[i].name, shape->list[i].suffix);
    buf_puts(source, "\n#define SHAPE_VALUES");
    for (int i = 0; i < shape->n && constants; i++)
        buf_printf(source, "%s (int)0x%xu", i ? "," : "", (unsigned)shape->list[i].value);
    for (int i = 0; i < shape->n && !constants; i++)
        buf_printf(source, "%s arg_%s%s", i ? "," : "", shape->list[i].name, shape->list[i].suffix);
    buf_putc(source, '\n');
}

void kernel_shape_pass(const struct kernel_shape *shape, bool constants, struct launch *launch) {
    for (int i = 0; i < shape->n && !constants; i++)
        launch->args[launch->n_args++] = (struct arg){ARG_VALUE, shape->list[i].value};
}
