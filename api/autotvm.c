/* SPDX-License-Identifier: Apache-2.0 */
#include "api/autotvm.h"

#include <ctype.h>
#include <string.h>

#include "api/json_write.h"

/* "cuda/NVIDIA H200/sm_90a/132" gives "nvidia-h200". */
static const char *model_of(const char *device_key, struct arena *arena) {
    const char *start = strchr(device_key, '/');
    if (!start)
        return "unknown";
    char *model = arena_strndup(arena, start + 1, strcspn(start + 1, "/"));
    for (char *c = model; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : '-';
    return model;
}

static const char *dtype_text(enum dtype dtype) {
    static const char *const texts[] = {
        [DTYPE_F32] = "float32", [DTYPE_F16] = "float16", [DTYPE_BF16] = "bfloat16",
        [DTYPE_F64] = "float64", [DTYPE_I8] = "int8",     [DTYPE_U8] = "uint8",
        [DTYPE_I32] = "int32",   [DTYPE_I64] = "int64",   [DTYPE_BOOL] = "bool",
    };
    return texts[dtype];
}

static void write_tensor(struct buf *out, const struct operand *operand) {
    write_array(out, NULL);
    write_text(out, NULL, "TENSOR");
    write_array(out, NULL);
    for (int d = 0; d < operand->shape.rank; d++)
        write_int(out, NULL, operand->shape.dim[d]);
    write_end(out, ']');
    write_text(out, NULL, dtype_text(operand->dtype));
    write_end(out, ']');
}

static void write_numbers(struct buf *out, const int64_t *numbers, int n) {
    write_array(out, NULL);
    for (int i = 0; i < n; i++)
        write_int(out, NULL, numbers[i]);
    write_end(out, ']');
}

/* The arguments of TVM's function of the same purpose: data, kernel, and what fixes the shapes. */
static void write_args(struct buf *out, const struct workload *workload) {
    const struct conv_attr *conv = &workload->attr.conv;
    write_array(out, NULL);
    for (int i = 0; i < workload->n_in && i < 2; i++)
        write_tensor(out, &workload->in[i]);
    if (workload->op == OP_CONV || workload->op == OP_CONV_TRANSPOSE) {
        write_numbers(out, conv->stride, 2);
        write_numbers(out, conv->pad, 4);
        write_numbers(out, conv->dilation, 2);
        if (conv->groups > 1)
            write_int(out, NULL, conv->groups);
    } else if (workload->op == OP_DENSE) {
        write_raw(out, NULL, NULL); /* bias */
    }
    write_text(out, NULL, dtype_text(workload->out[0].dtype));
    write_end(out, ']');
}

void autotvm_task_init(struct autotvm_task *ret, const char *device_kind, const char *device_key,
                       const struct workload *workload, struct arena *arena) {
    struct buf args CLEANUP(buf_release) = BUF_INIT(64 << 10);
    write_args(&args, workload);
    ret->args = arena_strdup(arena, buf_str(&args));
    ret->target =
        strcmp(device_kind, "cuda") == 0 ? arena_printf(arena, "cuda -model=%s", model_of(device_key, arena)) : "llvm";
}

static void write_result(struct buf *out, const struct trial_row *trial) {
    write_array(out, "result");
    write_array(out, NULL);
    for (int i = 0; i < trial->n_costs; i++)
        write_double(out, NULL, trial->costs_s[i]);
    if (trial->n_costs == 0)
        write_double(out, NULL, 1e9);
    write_end(out, ']');
    write_int(out, NULL, trial->error_no);
    write_double(out, NULL, trial->build_s + trial->run_s);
    write_double(out, NULL, (double)trial->finished_us / 1e6);
    write_end(out, ']');
}

void autotvm_write(struct buf *out, const struct autotvm_task *task, const struct trial_row *trial) {
    buf_putc(out, '{');
    write_array(out, "input");
    write_text(out, NULL, task->target);
    write_text(out, NULL, trial->template);
    write_raw(out, NULL, task->args);
    write_raw(out, NULL, "{}");
    write_end(out, ']');
    write_object(out, "config");
    write_int(out, "index", trial->index);
    write_raw(out, "code_hash", NULL);
    write_raw(out, "entity", trial->entity);
    write_end(out, '}');
    write_result(out, trial);
    write_raw(out, "version", "0.2");
    write_text(out, "tvm_version", "warptune-" WARPTUNE_VERSION);
    buf_puts(out, "}\n");
}
