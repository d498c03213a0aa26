/* SPDX-License-Identifier: Apache-2.0 */
/* autotvm_args.c: a task's arguments as a workload, and back. They may be a hostile client's. */
#include <stdlib.h>
#include <string.h>

#include "gpu/template/autotvm_map.h"
#include "service/base/json.h"

#define NOT_SERVED(...) error_set(error, ERROR_INVALID, "argument-not-served", "input", __VA_ARGS__)

enum { MOST_DIM = 1 << 20 }; /* keeps all sums and products of two within 64 bits */

static const char *dtype_text(enum dtype dtype) {
    static const char *const texts[] = {
        [DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16",
        [DTYPE_F64] = "float64", [DTYPE_I8] = "int8",     [DTYPE_U8] = "uint8",
        [DTYPE_I32] = "int32",   [DTYPE_I64] = "int64",   [DTYPE_BOOL] = "bool",
    };
    return texts[dtype];
}

/* ---- reading ---- */

struct reader {
    struct json_object *args;
    struct arena *arena;
    struct workload *workload;
    struct error *error;
};

static bool is_text(struct json_object *value, const char *text) {
    return json_object_is_type(value, json_type_string) && strcmp(json_object_get_string(value), text) == 0;
}

/* `array` has n whole numbers in [min, MOST_DIM]. */
static bool take_numbers(struct json_object *array, size_t n, int64_t min, int64_t *ret) {
    if (!json_object_is_type(array, json_type_array) || json_object_array_length(array) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct json_object *value = json_object_array_get_idx(array, i);
        ret[i] = json_object_get_int64(value);
        if (!json_object_is_type(value, json_type_int) || ret[i] < min || ret[i] > MOST_DIM)
            return false;
    }
    return true;
}

static int read_tensor(struct reader *reader, size_t number, const char *what, int rank, struct operand *ret) {
    struct error *error = reader->error;
    struct json_object *tensor = json_object_array_get_idx(reader->args, number);
    *ret = (struct operand){.dtype = DTYPE_F32, .layout = LAYOUT_ROW, .shape = {.rank = rank}};
    if (!json_object_is_type(tensor, json_type_array) || json_object_array_length(tensor) != 3 ||
        !is_text(json_object_array_get_idx(tensor, 0), "TENSOR") ||
        !take_numbers(json_object_array_get_idx(tensor, 1), (size_t)rank, 1, ret->shape.dim))
        return NOT_SERVED("Argument %zu, the %s, must be [\"TENSOR\", shape, dtype] with %d dimensions from 1 to %d.",
                          number, what, rank, MOST_DIM);
    if (!is_text(json_object_array_get_idx(tensor, 2), "float32"))
        return NOT_SERVED("Argument %zu, the %s, has elements other than float32, which are not served.", number, what);
    return 0;
}

static int read_pair(struct reader *reader, size_t number, const char *what, int64_t ret[2]) {
    struct error *error = reader->error;
    if (!take_numbers(json_object_array_get_idx(reader->args, number), 2, 1, ret))
        return NOT_SERVED("Argument %zu, the %s, must be an array of 2 numbers from 1 to %d.", number, what, MOST_DIM);
    return 0;
}

/* Top, left, bottom, right; two numbers stand for both sides. */
static int read_pads(struct reader *reader, size_t number, int64_t ret[4]) {
    struct error *error = reader->error;
    struct json_object *pads = json_object_array_get_idx(reader->args, number);
    if (take_numbers(pads, 4, 0, ret))
        return 0;
    if (!take_numbers(pads, 2, 0, ret))
        return NOT_SERVED("Argument %zu, the padding, must be an array of 2 or 4 numbers from 0 to %d.", number,
                          MOST_DIM);
    ret[2] = ret[0];
    ret[3] = ret[1];
    return 0;
}

static int read_out_dtype(struct reader *reader, size_t number) {
    struct error *error = reader->error;
    if (!is_text(json_object_array_get_idx(reader->args, number), "float32"))
        return NOT_SERVED("Argument %zu, the output's type, is not float32; others are not served.", number);
    return 0;
}

/* The operands and attributes are there, all but the output's shape. */
static int finish_conv(struct reader *reader) {
    struct error *error = reader->error;
    struct workload *workload = reader->workload;
    const struct conv_attr *attr = &workload->attr.conv;
    const int64_t *x = workload->in[0].shape.dim, *w = workload->in[1].shape.dim;
    struct operand *out = &workload->out[0];
    *out = (struct operand){.dtype = DTYPE_F32, .layout = LAYOUT_ROW, .shape = {4, {x[0], w[0]}}};
    for (int i = 0; i < 2; i++) {
        int64_t room = x[2 + i] + attr->pad[i] + attr->pad[2 + i] - ((w[2 + i] - 1) * attr->dilation[i] + 1);
        if (room < 0)
            return NOT_SERVED("Argument 1, the kernel, is larger than the padded image.");
        out->shape.dim[2 + i] = room / attr->stride[i] + 1;
    }
    return 0;
}

/* [data, kernel, strides, padding, dilation, …] */
static int read_conv_common(struct reader *reader) {
    struct workload *workload = reader->workload;
    struct conv_attr *attr = &workload->attr.conv;
    workload->op = OP_CONV;
    attr->groups = 1;
    if (read_tensor(reader, 0, "data", 4, &workload->in[0]) < 0 ||
        read_tensor(reader, 1, "kernel", 4, &workload->in[1]) < 0 ||
        read_pair(reader, 2, "strides", attr->stride) < 0 || read_pads(reader, 3, attr->pad) < 0)
        return -1;
    return read_pair(reader, 4, "dilation", attr->dilation);
}

static int read_conv(struct reader *reader) {
    return read_conv_common(reader) < 0 || read_out_dtype(reader, 5) < 0 ? -1 : finish_conv(reader);
}

/* The kernel comes as [channels, multiplier, height, width]; ours has one row an output channel. */
static int read_depthwise(struct reader *reader) {
    struct error *error = reader->error;
    if (read_conv_common(reader) < 0 || read_out_dtype(reader, 5) < 0)
        return -1;
    int64_t *w = reader->workload->in[1].shape.dim, channels = reader->workload->in[0].shape.dim[1];
    if (w[0] != channels)
        return NOT_SERVED("Argument 1, the kernel, has %lld channels, but the data has %lld.", (long long)w[0],
                          (long long)channels);
    w[0] *= w[1];
    w[1] = 1;
    reader->workload->attr.conv.groups = channels;
    return finish_conv(reader);
}

static int read_group(struct reader *reader) {
    struct error *error = reader->error;
    struct json_object *groups = json_object_array_get_idx(reader->args, 5);
    int64_t number = json_object_get_int64(groups);
    if (read_conv_common(reader) < 0 || read_out_dtype(reader, 6) < 0)
        return -1;
    if (!json_object_is_type(groups, json_type_int) || number < 1 || number > MOST_DIM)
        return NOT_SERVED("Argument 5, the groups, must be a number from 1 to %d.", MOST_DIM);
    reader->workload->attr.conv.groups = number;
    return finish_conv(reader);
}

/* [data, weight, bias or null, out_dtype] */
static int read_dense(struct reader *reader) {
    struct error *error = reader->error;
    struct workload *workload = reader->workload;
    workload->op = OP_DENSE;
    if (read_tensor(reader, 0, "data", 2, &workload->in[0]) < 0 ||
        read_tensor(reader, 1, "weight", 2, &workload->in[1]) < 0 || read_out_dtype(reader, 3) < 0)
        return -1;
    if (json_object_array_get_idx(reader->args, 2))
        return NOT_SERVED("Argument 2, the bias, is not null; a bias within the task is not served.");
    workload->out[0] = (struct operand){.dtype = DTYPE_F32, .layout = LAYOUT_ROW, .shape = {.rank = 2}};
    workload->out[0].shape.dim[0] = workload->in[0].shape.dim[0];
    workload->out[0].shape.dim[1] = workload->in[1].shape.dim[0];
    return 0;
}

static const struct task {
    const char *name;
    size_t n_args;
    int (*read)(struct reader *reader);
} tasks[] = {
    {"conv2d_nchw.cuda", 6, read_conv},
    {"conv2d_nchw_winograd.cuda", 6, read_conv},
    {"depthwise_conv2d_nchw.cuda", 6, read_depthwise},
    {"group_conv2d_nchw.cuda", 7, read_group},
    {"dense_small_batch.gpu", 4, read_dense},
    {"dense_large_batch.gpu", 4, read_dense},
};

static const struct task *find_task(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(tasks); i++)
        if (strcmp(tasks[i].name, name) == 0)
            return &tasks[i];
    return NULL;
}

int autotvm_workload(const char *task_name, struct json_object *args, struct arena *arena, struct workload **ret,
                     struct error *error) {
    const struct task *task = find_task(task_name);
    struct workload workload = {.n_in = 2, .n_out = 1};
    struct reader reader = {args, arena, &workload, error};
    if (!task)
        return error_set(error, ERROR_INVALID, "task-not-served", "input", "The task %.100s is not served.", task_name);
    if (!json_object_is_type(args, json_type_array) || json_object_array_length(args) != task->n_args)
        return NOT_SERVED("The task %s has %zu arguments.", task->name, task->n_args);
    workload.in = arena_array(arena, 2, sizeof *workload.in);
    workload.out = arena_array(arena, 1, sizeof *workload.out);
    if (task->read(&reader) < 0)
        return -1;
    struct buf key CLEANUP(buf_release) = BUF_INIT(4096);
    workload_key(&workload, &key);
    return workload_parse(buf_str(&key), arena, ret, error); /* knows what else makes a workload valid */
}

/* ---- writing ---- */

static void append(struct json_object *array, struct json_object *value) {
    if (json_object_array_add(array, value) < 0)
        abort();
}

static struct json_object *numbers(const int64_t *values, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++)
        append(array, json_object_new_int64(values[i]));
    return array;
}

static struct json_object *tensor(const struct operand *operand) {
    struct json_object *array = json_object_new_array();
    append(array, json_object_new_string("TENSOR"));
    append(array, numbers(operand->shape.dim, operand->shape.rank));
    append(array, json_object_new_string(dtype_text(operand->dtype)));
    return array;
}

/* A depthwise kernel in that task's own order of dimensions. */
static struct operand kernel_of(const struct workload *workload, bool depthwise) {
    struct operand kernel = workload->in[1];
    if (depthwise) {
        kernel.shape.dim[1] = kernel.shape.dim[0] / workload->attr.conv.groups;
        kernel.shape.dim[0] = workload->attr.conv.groups;
    }
    return kernel;
}

struct json_object *autotvm_args(const struct workload *workload, const char *task_name) {
    const struct conv_attr *conv = &workload->attr.conv;
    const struct task *task = find_task(task_name);
    bool depthwise = task && task->read == read_depthwise && workload->op == OP_CONV,
         grouped = task && task->read == read_group;
    struct json_object *args = json_object_new_array();
    append(args, tensor(&workload->in[0]));
    if (workload->n_in > 1) {
        struct operand kernel = kernel_of(workload, depthwise);
        append(args, tensor(&kernel));
    }
    if (workload->op == OP_CONV || workload->op == OP_CONV_TRANSPOSE) {
        append(args, numbers(conv->stride, 2));
        append(args, numbers(conv->pad, 4));
        append(args, numbers(conv->dilation, 2));
        if (grouped || (conv->groups > 1 && !depthwise))
            append(args, json_object_new_int64(conv->groups));
    } else if (workload->op == OP_DENSE) {
        append(args, NULL); /* bias */
    }
    append(args, json_object_new_string(dtype_text(workload->out[0].dtype)));
    return args;
}
