/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "api/autotvm.h"
#include "service/base/json.h"

static void write_line(const char *workload_key, const char *kind, const char *key, const struct trial_row *trial,
                       struct buf *ret) {
    struct arena *arena = arena_new(0);
    struct error error = {0};
    struct autotvm_task task;
    cr_assert_eq(autotvm_task_init(&task, kind, key, workload_key, arena, &error), 0, "%s", error.text);
    autotvm_write(ret, &task, trial);
    arena_free(arena);
    struct json_object *object;
    cr_assert_eq(json_parse(buf_str(ret), ret->len, &object, &error), 0, "%s", error.text);
    json_object_put(object);
}

#define CONV                                                                                \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:128x64x3x3, f32:row:128) -> f32:nhwc:1x128x28x28 " \
    "{stride=2x2, dilation=1x1, pad=1x1x1x1, groups=1} bias act=relu"

Test(autotvm, a_trial_is_a_record_of_version_0_2) {
    static const double costs[] = {1.5e-05, 1.25e-05};
    struct trial_row trial = {.template = "conv2d_simt.cuda",
                              .index = 512,
                              .entity = "[[\"tile_f\",\"sp\",[-1,2,16,1]],[\"unroll\",\"ot\",512]]",
                              .costs_s = costs,
                              .n_costs = 2,
                              .cost_s = 1.375e-05,
                              .build_s = 0.25,
                              .run_s = 0.5,
                              .version = 3,
                              .finished_us = 1535423916718471};
    struct buf line = BUF_INIT(1 << 16);
    write_line(CONV, "cuda", "cuda/NVIDIA H200/sm_90a/132", &trial, &line);
    cr_assert_str_eq(buf_str(&line),
                     "{\"input\":[\"cuda -model=nvidia-h200\",\"conv2d_simt.cuda\",[[\"TENSOR\",[1,64,56,56],"
                     "\"float32\"],[\"TENSOR\",[128,64,3,3],\"float32\"],[2,2],[1,1,1,1],[1,1],\"float32\"],{}],"
                     "\"config\":{\"index\":512,\"code_hash\":null,\"entity\":[[\"tile_f\",\"sp\",[-1,2,16,1]],"
                     "[\"unroll\",\"ot\",512]]},\"result\":[[1.5e-05,1.25e-05],0,0.75,1535423916.718471],"
                     "\"version\":0.2,\"tvm_version\":\"warptune-" WARPTUNE_VERSION
                     "\",\"warptune\":{\"workload\":\"" CONV
                     "\",\"device_key\":\"cuda/NVIDIA H200/sm_90a/132\",\"version\":3}}\n");
    buf_release(&line);
}

Test(autotvm, a_failed_trial_costs_a_thousand_million_seconds) {
    struct trial_row trial = {.template = "conv2d_direct.cpu",
                              .entity = "[]",
                              .error_no = 4,
                              .error_text = "it crashed",
                              .cost_s = INFINITY,
                              .finished_us = 1000000};
    struct buf line = BUF_INIT(1 << 16);
    write_line(CONV, "cpu", "cpu/Some CPU/x86-64-v3/2", &trial, &line);
    cr_assert(strstr(buf_str(&line), "\"result\":[[1000000000],4,0,1]"), "%s", buf_str(&line));
    cr_assert(strstr(buf_str(&line), "[\"llvm\","), "%s", buf_str(&line));
    buf_release(&line);
}
