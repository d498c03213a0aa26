/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/template/autotvm_log.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"
#include "tophub_log.h"

/* ---- AutoTVM's spaces, as it declares them ---- */

static const int64_t flag[] = {0, 1};

static bool serves_conv(const struct workload *workload, const struct target *target) {
    return workload->op == OP_CONV && strcmp(target->kind, "cuda") == 0;
}

static bool serves_dense(const struct workload *workload, const struct target *target) {
    (void)target;
    return workload->op == OP_DENSE;
}

static struct space *output_space(const struct workload *workload, struct arena *arena) {
    const int64_t *out = workload->out[0].shape.dim;
    struct space *space = space_new(arena);
    space_split(space, "tile_f", out[1], 4);
    space_split(space, "tile_y", out[2], 4);
    space_split(space, "tile_x", out[3], 4);
    return space;
}

static struct space *conv_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    const int64_t *w = workload->in[1].shape.dim;
    struct space *space = output_space(workload, arena);
    (void)target;
    space_split(space, "tile_rc", w[1], 2);
    space_split(space, "tile_ry", w[2], 2);
    space_split(space, "tile_rx", w[3], 2);
    space_choice(space, "auto_unroll_max_step", (int64_t[]){0, 512, 1500}, 3);
    space_choice(space, "unroll_explicit", flag, 2);
    return space;
}

static struct space *depthwise_space(const struct workload *workload, const struct target *target,
                                     struct arena *arena) {
    struct space *space = output_space(workload, arena);
    (void)target;
    space_choice(space, "auto_unroll_max_step", (int64_t[]){0, 256, 1500}, 3);
    space_choice(space, "unroll_explicit", flag, 2);
    return space;
}

static struct space *winograd_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    const int64_t *x = workload->in[0].shape.dim, *w = workload->in[1].shape.dim, *out = workload->out[0].shape.dim;
    int64_t m = x[2] % 8 == 0 ? 4 : 2, points = (m + w[2] - 1) * (m + w[2] - 1);
    struct space *space = space_new(arena);
    (void)target;
    space_split_list(space, "tile_b", points, 4, (int64_t[]){points, 1, 1, 1}, 1);
    space_split(space, "tile_y", w[0], 4);
    space_split(space, "tile_x", x[0] * ((out[2] + m - 1) / m) * ((out[3] + m - 1) / m), 4);
    space_split(space, "tile_rc", x[1], 2);
    space_choice(space, "auto_unroll_max_step", (int64_t[]){0, 128, 1500}, 3);
    space_choice(space, "unroll_explicit", flag, 2);
    return space;
}

static struct space *dense_space(const struct workload *workload, const struct target *target, struct arena *arena) {
    struct space *space = space_new(arena);
    (void)target;
    space_split(space, "tile_k", workload->in[0].shape.dim[1], 2);
    return space;
}

static const struct template conv = {"conv2d_nchw.cuda", 1, "cuda", serves_conv, conv_space};
static const struct template winograd = {"conv2d_nchw_winograd.cuda", 1, "cuda", serves_conv, winograd_space};
static const struct template depthwise = {"depthwise_conv2d_nchw.cuda", 1, "cuda", serves_conv, depthwise_space};
static const struct template dense = {"dense_small_batch.gpu", 2, "cuda", serves_dense, dense_space};
static const struct template *const templates[] = {&conv, &winograd, &depthwise, &dense, NULL};

/* ---- helpers ---- */

static struct buf read_log(void) {
    struct buf log = BUF_INIT(0);
    struct error error = {0};
    char path[TOPHUB_MAX_PATH];
    if (!tophub_log(path))
        cr_skip_test("no tuning log");
    cr_assert_eq(file_read(path, 1 << 20, &log, &error), 0, "%s", error.text);
    return log;
}

static double number(struct json_object *value) {
    return json_object_get_double(value);
}

static bool is_number(struct json_object *value) {
    return json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
}

/* Equal as JSON values: 1 and 1.0 are the same number. */
static bool equal(struct json_object *a, struct json_object *b) {
    if (is_number(a) && is_number(b))
        return number(a) == number(b);
    if (json_object_get_type(a) != json_object_get_type(b))
        return false;
    if (json_object_is_type(a, json_type_array)) {
        size_t n = json_object_array_length(a);
        bool same = json_object_array_length(b) == n;
        for (size_t i = 0; same && i < n; i++)
            same = equal(json_object_array_get_idx(a, i), json_object_array_get_idx(b, i));
        return same;
    }
    if (!json_object_is_type(a, json_type_object))
        return json_object_equal(a, b);
    bool same = json_object_object_length(a) == json_object_object_length(b);
    json_object_object_foreach(a, name, value) {
        struct json_object *other = NULL;
        same = same && json_object_object_get_ex(b, name, &other) && equal(value, other);
    }
    return same;
}

static void expect_same_json(const char *text, size_t len, const char *other, size_t other_len) {
    struct json_object *a CLEANUP(json_put_p) = NULL, *b CLEANUP(json_put_p) = NULL;
    struct error error = {0};
    cr_assert_eq(json_parse(text, len, &a, &error), 0, "%s", error.text);
    cr_assert_eq(json_parse(other, other_len, &b, &error), 0, "%s", error.text);
    cr_assert(equal(a, b), "%.*s\nis not\n%.*s", (int)len, text, (int)other_len, other);
}

#define CONV_ARGS \
    "[[\"TENSOR\",[1,64,56,56],\"float32\"],[\"TENSOR\",[64,64,3,3],\"float32\"],[1,1],[1,1,1,1],[1,1],\"float32\"]"
#define CONV_ENTITY                                                                                    \
    "[[\"tile_f\",\"sp\",[-1,2,16,1]],[\"tile_y\",\"sp\",[-1,1,1,1]],[\"tile_x\",\"sp\",[-1,1,56,1]]," \
    "[\"tile_rc\",\"sp\",[-1,8]],[\"tile_ry\",\"sp\",[-1,3]],[\"tile_rx\",\"sp\",[-1,1]],"             \
    "[\"auto_unroll_max_step\",\"ot\",512],[\"unroll_explicit\",\"ot\",1]]"
#define RESULT "[[2.5e-05,3.5e-05],0,1.25,1600000000.5]"

static const char *line_of(struct arena *arena, const char *target, const char *task, const char *args, long long index,
                           const char *entity, const char *result, const char *more) {
    return arena_printf(arena,
                        "{\"input\":[\"%s\",\"%s\",%s,{}],\"config\":{\"index\":%lld,\"code_hash\":null,\"entity\":%s},"
                        "\"result\":%s,\"version\":0.2,\"tvm_version\":\"0.8\"%s}",
                        target, task, args, index, entity, result, more);
}

static struct autotvm_record parse(struct arena *arena, const char *line) {
    struct autotvm_record record = {0};
    struct error error = {0};
    cr_assert_eq(autotvm_record_parse(line, strlen(line), arena, &record, &error), 0, "%s\n%s", error.text, line);
    return record;
}

/* ---- records ---- */

static int write_back(void *data, const struct autotvm_line *line, const struct autotvm_record *record,
                      struct error *error) {
    struct buf written CLEANUP(buf_release) = BUF_INIT(AUTOTVM_MAX_LINE);
    (void)error;
    autotvm_record_write(record, &written);
    cr_assert_eq(written.data[written.len - 1], '\n');
    cr_assert_null(memchr(written.data, '\n', written.len - 1));
    expect_same_json(line->text, line->len, written.data, written.len - 1);
    (*(int *)data)++;
    return 0;
}

Test(autotvm_record, every_published_record_is_written_as_it_was_read) {
    struct buf log = read_log();
    struct arena *arena = arena_new(0);
    struct autotvm_log result;
    struct error error = {0};
    int seen = 0;
    cr_assert_eq(autotvm_log_each(log.data, log.len, write_back, &seen, arena, &result, &error), 0, "%s", error.text);
    cr_expect_eq(seen, 265);
    cr_expect_eq(result.lines, 265);
    cr_expect_eq(result.bad.count, 0);
    buf_release(&log);
    arena_free(arena);
}

Test(autotvm_record, nothing_of_a_line_is_lost) {
    static const char line[] =
        "{\"zeta\": [1, {\"a\": null}], \"version\": 0.2, \"input\": [\"cuda -model=x\\u00e9\", \"t\", [[1.50, "
        "\"\\n\", "
        "true], -7, 1e300], {\"k\": 1}], \"config\": {\"entity\": [[\"a\", \"re\", [2, 0, 1]], [\"b\", \"an\", "
        "[\"vec\"]]], \"index\": 9007199254740992, \"code_hash\": \"abc\", \"note\": \"x\"}, \"result\": [[0.1, "
        "1.2345678901234567e-05, 1000000000.0], 8, 5e-324, 1535423916.7184713], \"alpha\": \"\\ud83d\\ude00\"}";
    struct arena *arena = arena_new(0);
    struct autotvm_record record = parse(arena, line);
    struct buf written = BUF_INIT(AUTOTVM_MAX_LINE);
    cr_expect_eq(record.index, (int64_t)1 << 53);
    cr_expect_str_eq(record.code_hash, "abc");
    cr_expect_eq(record.n_costs, 3);
    cr_expect_eq(record.costs_s[1], 1.2345678901234567e-05);
    cr_expect_eq(record.error_no, 8);
    cr_expect_null(record.tvm_version);
    autotvm_record_write(&record, &written);
    expect_same_json(line, strlen(line), written.data, written.len - 1);
    buf_release(&written);
    arena_free(arena);
}

Test(autotvm_record, a_failure_costs_a_thousand_million_seconds) {
    struct arena *arena = arena_new(0);
    const char *failed = "[[1000000000.0],4,10.25,1600000000.5]";
    struct autotvm_record record =
        parse(arena, line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, 0, CONV_ENTITY, failed, ""));
    cr_expect_eq(record.error_no, 4);
    cr_expect_eq(autotvm_record_cost(&record), 1e9);
    record = parse(arena, line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, 0, CONV_ENTITY, RESULT, ""));
    cr_expect_float_eq(autotvm_record_cost(&record), 3e-05, 1e-12);
    arena_free(arena);
}

#define INPUT "\"input\":[\"cuda\",\"t\",[],{}],"
#define CONFIG "\"config\":{\"index\":1,\"code_hash\":null,\"entity\":[]},"
#define END "\"version\":0.2}"

Test(autotvm_record, what_is_wrong_with_a_line_is_named) {
    static const struct {
        const char *line, *code, *field;
    } cases[] = {
        {"{\"i\":[\"cuda\",\"t\",[],{},[],{}],\"r\":[[1],0,1,1],\"v\":0.1}", "record-version", "v"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1],\"version\":0.3}", "record-version", "version"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1]}", "missing-field", "version"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1],\"version\":\"0.2\"}", "wrong-type", "version"},
        {"{" CONFIG "\"result\":[[1],0,1,1]," END, "missing-field", "input"},
        {"{\"input\":[\"cuda\",\"t\",[]]," CONFIG "\"result\":[[1],0,1,1]," END, "bad-record", "input"},
        {"{\"input\":[\"cuda\",7,[],{}]," CONFIG "\"result\":[[1],0,1,1]," END, "bad-record", "input"},
        {"{\"input\":[null,\"t\",[],{}]," CONFIG "\"result\":[[1],0,1,1]," END, "bad-record", "input"},
        {"{\"input\":[\"cuda\",\"t\",{},{}]," CONFIG "\"result\":[[1],0,1,1]," END, "bad-record", "input"},
        {"{\"input\":[\"cuda\",\"t\",[],[]]," CONFIG "\"result\":[[1],0,1,1]," END, "bad-record", "input"},
        {"{" INPUT "\"config\":[],\"result\":[[1],0,1,1]," END, "wrong-type", "config"},
        {"{" INPUT "\"config\":{\"index\":-1,\"entity\":[]},\"result\":[[1],0,1,1]," END, "out-of-range",
         "config.index"},
        {"{" INPUT "\"config\":{\"index\":1.5,\"entity\":[]},\"result\":[[1],0,1,1]," END, "wrong-type",
         "config.index"},
        {"{" INPUT "\"config\":{\"index\":1},\"result\":[[1],0,1,1]," END, "missing-field", "config.entity"},
        {"{" INPUT "\"config\":{\"index\":1,\"entity\":[],\"code_hash\":1},\"result\":[[1],0,1,1]," END, "bad-record",
         "config.code_hash"},
        {"{" INPUT CONFIG "\"result\":[[],0,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[0],0,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[-1e-5],0,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1e10],0,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[\"1\"],0,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1],9,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1],null,1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1],0,-1,1]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1e13]," END, "bad-record", "result"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1],\"tvm_version\":8," END, "wrong-type", "tvm_version"},
        {"{" INPUT CONFIG "\"result\":[[1],0,1,1],\"version\":0.2", "invalid-json", ""},
        {"{" INPUT INPUT CONFIG "\"result\":[[1],0,1,1]," END, "duplicate-key", "input"},
        {"{" INPUT CONFIG "\"result\":[[NaN],0,1,1]," END, "invalid-json", ""},
        {"{" INPUT CONFIG "\"result\":[[1e999],0,1,1]," END, "number-out-of-range", ""},
        {"[]", "bad-record", ""},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "json-too-deep", ""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct arena *arena = arena_new(0);
        struct autotvm_record record = {.index = -5};
        struct error error = {0};
        cr_expect_eq(autotvm_record_parse(cases[i].line, strlen(cases[i].line), arena, &record, &error), -1, "%s",
                     cases[i].line);
        cr_expect_eq(error.class, ERROR_INVALID);
        cr_expect_str_eq(error.code, cases[i].code, "%s: %s", cases[i].line, error.text);
        cr_expect_str_eq(error.field, cases[i].field, "%s: %s", cases[i].line, error.text);
        cr_expect_null(strstr(error.text, "line 1"));
        cr_expect_eq(record.index, -5);
        arena_free(arena);
    }
}

/* ---- workloads ---- */

static const struct {
    const char *task, *args, *key;
} served[] = {
    {"conv2d_nchw.cuda", CONV_ARGS,
     "conv2d(f32:row:1x64x56x56, f32:row:64x64x3x3) -> f32:row:1x64x56x56 {stride=1x1, dilation=1x1, pad=1x1x1x1, "
     "groups=1}"},
    {"conv2d_nchw_winograd.cuda",
     "[[\"TENSOR\",[1,768,36,16],\"float32\"],[\"TENSOR\",[256,768,3,3],\"float32\"],[1,1],[1,2,1,2],[1,1],"
     "\"float32\"]",
     "conv2d(f32:row:1x768x36x16, f32:row:256x768x3x3) -> f32:row:1x256x36x18 {stride=1x1, dilation=1x1, pad=1x2x1x2, "
     "groups=1}"},
    {"depthwise_conv2d_nchw.cuda",
     "[[\"TENSOR\",[1,32,112,112],\"float32\"],[\"TENSOR\",[32,2,3,3],\"float32\"],[2,2],[1,1,1,1],[1,1],\"float32\"]",
     "conv2d(f32:row:1x32x112x112, f32:row:64x1x3x3) -> f32:row:1x64x56x56 {stride=2x2, dilation=1x1, pad=1x1x1x1, "
     "groups=32}"},
    {"group_conv2d_nchw.cuda",
     "[[\"TENSOR\",[1,128,28,28],\"float32\"],[\"TENSOR\",[128,4,3,3],\"float32\"],[1,1],[1,1,1,1],[1,1],32,"
     "\"float32\"]",
     "conv2d(f32:row:1x128x28x28, f32:row:128x4x3x3) -> f32:row:1x128x28x28 {stride=1x1, dilation=1x1, pad=1x1x1x1, "
     "groups=32}"},
    {"dense_small_batch.gpu",
     "[[\"TENSOR\",[1,2048],\"float32\"],[\"TENSOR\",[1000,2048],\"float32\"],null,\"float32\"]",
     "dense(f32:row:1x2048, f32:row:1000x2048) -> f32:row:1x1000"},
};

static struct json_object *json_of(const char *text) {
    struct json_object *object = NULL;
    struct error error = {0};
    cr_assert_eq(json_parse(text, strlen(text), &object, &error), 0, "%s", error.text);
    return object;
}

Test(autotvm_record, arguments_are_a_workload_and_back) {
    for (size_t i = 0; i < ARRAY_COUNT(served); i++) {
        struct json_object *args CLEANUP(json_put_p) = json_of(served[i].args);
        struct arena *arena = arena_new(0);
        struct buf key = BUF_INIT(4096);
        struct workload *workload = NULL;
        struct error error = {0};
        cr_assert_eq(autotvm_workload(served[i].task, args, arena, &workload, &error), 0, "%s", error.text);
        workload_key(workload, &key);
        cr_expect_str_eq(buf_str(&key), served[i].key);
        struct json_object *back CLEANUP(json_put_p) = autotvm_args(workload, served[i].task);
        cr_expect_str_eq(json_text(back, NULL), served[i].args);
        buf_release(&key);
        arena_free(arena);
    }
}

Test(autotvm_record, two_pads_stand_for_both_sides) {
    struct json_object *args CLEANUP(json_put_p) = json_of(
        "[[\"TENSOR\",[1,64,56,56],\"float32\"],[\"TENSOR\",[64,64,1,7],\"float32\"],[1,1],[0,3],[1,1],\"float32\"]");
    struct arena *arena = arena_new(0);
    struct workload *workload = NULL;
    struct error error = {0};
    cr_assert_eq(autotvm_workload("conv2d_nchw.cuda", args, arena, &workload, &error), 0, "%s", error.text);
    static const int64_t expected[] = {0, 3, 0, 3};
    cr_expect_arr_eq(workload->attr.conv.pad, expected, sizeof expected);
    arena_free(arena);
}

#define X "[\"TENSOR\",[1,64,56,56],\"float32\"]"
#define W "[\"TENSOR\",[64,64,3,3],\"float32\"]"
#define HUGE_X "[\"TENSOR\",[1048576,1048576,1048576,1048576],\"float32\"]"

Test(autotvm_record, arguments_that_are_not_served_say_which) {
    static const struct {
        const char *task, *args, *code, *text;
    } cases[] = {
        {"batch_matmul.cuda", "[]", "task-not-served", "batch_matmul.cuda"},
        {"conv2d_nchw.cuda", "[]", "argument-not-served", "6 arguments"},
        {"conv2d_nchw.cuda", "[" X ",[\"TENSOR\",[64,64,3],\"float32\"],[1,1],[1,1],[1,1],\"float32\"]",
         "argument-not-served", "kernel"},
        {"conv2d_nchw.cuda", "[[\"TENSOR\",[1,64,56,56],\"float16\"]," W ",[1,1],[1,1],[1,1],\"float32\"]",
         "argument-not-served", "data"},
        {"conv2d_nchw.cuda", "[[\"TENSOR\",[0,64,56,56],\"float32\"]," W ",[1,1],[1,1],[1,1],\"float32\"]",
         "argument-not-served", "data"},
        {"conv2d_nchw.cuda", "[[1,2]," W ",[1,1],[1,1],[1,1],\"float32\"]", "argument-not-served", "data"},
        {"conv2d_nchw.cuda", "[" X "," W ",[0,1],[1,1],[1,1],\"float32\"]", "argument-not-served", "strides"},
        {"conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,1,1],[1,1],\"float32\"]", "argument-not-served", "padding"},
        {"conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,-1],[1,1],\"float32\"]", "argument-not-served", "padding"},
        {"conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,1],null,\"float32\"]", "argument-not-served", "dilation"},
        {"conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,1],[1,1],\"float16\"]", "argument-not-served", "output"},
        {"conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,1],[100,1],\"float32\"]", "argument-not-served", "larger"},
        {"conv2d_nchw.cuda", "[" HUGE_X "," W ",[1,1],[1,1],[1,1],\"float32\"]", "bad-workload", "2^40"},
        {"conv2d_nchw.cuda", "[" X ",[\"TENSOR\",[64,32,3,3],\"float32\"],[1,1],[1,1],[1,1],\"float32\"]",
         "bad-workload", "channels"},
        {"depthwise_conv2d_nchw.cuda", "[" X ",[\"TENSOR\",[32,1,3,3],\"float32\"],[1,1],[1,1],[1,1],\"float32\"]",
         "argument-not-served", "channels"},
        {"group_conv2d_nchw.cuda", "[" X "," W ",[1,1],[1,1],[1,1],0,\"float32\"]", "argument-not-served", "groups"},
        {"dense_small_batch.gpu",
         "[[\"TENSOR\",[1,8],\"float32\"],[\"TENSOR\",[4,8],\"float32\"],[\"TENSOR\",[4],\"float32\"],\"float32\"]",
         "argument-not-served", "bias"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_object *args CLEANUP(json_put_p) = json_of(cases[i].args);
        struct arena *arena = arena_new(0);
        struct workload *workload = NULL;
        struct error error = {0};
        cr_expect_eq(autotvm_workload(cases[i].task, args, arena, &workload, &error), -1, "%s", cases[i].args);
        cr_expect_eq(error.class, ERROR_INVALID);
        cr_expect_str_eq(error.code, cases[i].code, "%s: %s", cases[i].args, error.text);
        cr_expect(strstr(error.text, cases[i].text), "%s: %s", cases[i].args, error.text);
        arena_free(arena);
    }
}

/* ---- configurations ---- */

static int map_one(void *data, const struct autotvm_line *line, const struct autotvm_record *record,
                   struct error *error) {
    struct autotvm_mapper *mapper = data;
    struct autotvm_fit fit;
    cr_assert_eq(autotvm_map(mapper, record, &fit, error), 0, "line %d: %s", (int)line->number, error->text);
    cr_assert_eq(fit.index, record->index);
    cr_assert_str_eq(fit.template->name, record->task);
    return 0;
}

Test(autotvm_record, every_published_configuration_is_in_its_space) {
    struct buf log = read_log();
    struct arena *arena = arena_new(0);
    struct autotvm_mapper *mapper = autotvm_mapper_new(templates);
    struct autotvm_log result;
    struct error error = {0};
    cr_assert_eq(autotvm_log_each(log.data, log.len, map_one, mapper, arena, &result, &error), 0, "%s", error.text);
    autotvm_mapper_free(mapper);
    buf_release(&log);
    arena_free(arena);
}

/* Maps one line with a mapper of its own; the error's code, or "" with the index. */
static const char *map_line(struct arena *arena, const char *line, int64_t *ret_index) {
    struct autotvm_record record = parse(arena, line);
    struct autotvm_mapper *mapper = autotvm_mapper_new(templates);
    struct autotvm_fit fit;
    struct error error = {0};
    int status = autotvm_map(mapper, &record, &fit, &error);
    *ret_index = status == 0 ? fit.index : -1;
    autotvm_mapper_free(mapper);
    return status == 0 ? "" : arena_strdup(arena, error.code);
}

/* The index of CONV_ENTITY, from the refusal that names it. */
static int64_t conv_index(void) {
    struct arena *arena = arena_new(0);
    struct json_object *args CLEANUP(json_put_p) = json_of(CONV_ARGS),
                             *entity CLEANUP(json_put_p) = json_of(CONV_ENTITY);
    struct workload *workload = NULL;
    struct error error = {0};
    int64_t index = -1;
    cr_assert_eq(autotvm_workload("conv2d_nchw.cuda", args, arena, &workload, &error), 0);
    cr_assert_eq(space_index_of_entity(conv_space(workload, NULL, arena), entity, &index, &error), 0);
    arena_free(arena);
    return index;
}

Test(autotvm_record, window_knobs_under_swapped_names_go_by_position) {
    struct arena *arena = arena_new(0);
    /* As CONV_ENTITY, whose two window knobs differ, under the names of the early records. */
    const char *entity =
        "[[\"tile_f\",\"sp\",[2,2,16,1]],[\"tile_y\",\"sp\",[56,1,1,1]],[\"tile_x\",\"sp\",[1,1,56,1]],"
        "[\"tile_rc\",\"sp\",[8,8]],[\"tile_rx\",\"sp\",[1,3]],[\"tile_ry\",\"sp\",[3,1]],"
        "[\"auto_unroll_max_step\",\"ot\",512],[\"unroll_explicit\",\"ot\",1]]";
    int64_t index, expected = conv_index();
    const char *code =
        map_line(arena, line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, expected, entity, RESULT, ""), &index);
    cr_expect_str_eq(code, "");
    cr_expect_eq(index, expected);
    arena_free(arena);
}

Test(autotvm_record, an_index_that_is_not_the_entitys_is_refused_with_both) {
    struct arena *arena = arena_new(0);
    struct autotvm_record record =
        parse(arena, line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, 12345, CONV_ENTITY, RESULT, ""));
    struct autotvm_mapper *mapper = autotvm_mapper_new(templates);
    struct autotvm_fit fit;
    struct error error = {0};
    char both[32];
    cr_assert_eq(autotvm_map(mapper, &record, &fit, &error), -1);
    cr_expect_str_eq(error.code, "index-mismatch");
    snprintf(both, sizeof both, "%lld", (long long)conv_index());
    cr_expect(strstr(error.text, "12345") && strstr(error.text, both), "%s", error.text);
    autotvm_mapper_free(mapper);
    arena_free(arena);
}

Test(autotvm_record, what_is_of_no_use_says_why) {
    struct arena *arena = arena_new(0);
    const char *dense_args = served[4].args, *dense_entity = "[[\"tile_k\",\"sp\",[-1,64]]]";
    const char *large =
        "[[\"TENSOR\",[1024,1024,64,64],\"float32\"],[\"TENSOR\",[64,1024,1,1],\"float32\"],[1,1],[0,0],"
        "[1,1],\"float32\"]";
    const char *own = ",\"warptune\":{\"workload\":\"dense(f32:row:1x2048, f32:row:1000x2048) -> f32:row:1x1000\","
                      "\"device_key\":\"cuda/X/sm_90a/132\",\"version\":1}";
    const struct {
        const char *target, *task, *args, *entity, *more, *code;
    } cases[] = {
        {"opencl -model=x", "conv2d_nchw.cuda", CONV_ARGS, CONV_ENTITY, "", "target-not-served"},
        {"llvm", "conv2d_nchw.cuda", CONV_ARGS, CONV_ENTITY, "", "other-device"},
        {"cuda", "dense_large_batch.gpu", dense_args, dense_entity, "", "unknown-template"},
        {"cuda", "batch_matmul.cuda", "[]", "[]", "", "task-not-served"},
        {"cuda", "conv2d_nchw.cuda", large, CONV_ENTITY, "", "workload-too-large"},
        {"cuda", "conv2d_nchw.cuda", CONV_ARGS, dense_entity, "", "bad-entity"},
        {"cuda", "dense_small_batch.gpu", dense_args, "[[\"tile_k\",\"sp\",[-1,3]]]", "", "bad-entity"},
        {"cuda", "dense_small_batch.gpu", "[]", dense_entity, own, "other-version"},
        {"cuda", "conv2d_nchw.cuda", "[]", dense_entity, own, "workload-not-served"},
        {"cuda", "dense_small_batch.gpu", "[]", dense_entity, ",\"warptune\":{}", "missing-field"},
        {"cuda", "dense_small_batch.gpu", "[]", dense_entity, ",\"warptune\":7", "wrong-type"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t index;
        const char *code = map_line(
            arena,
            line_of(arena, cases[i].target, cases[i].task, cases[i].args, 0, cases[i].entity, RESULT, cases[i].more),
            &index);
        cr_expect_str_eq(code, cases[i].code, "%s for %s: %s", cases[i].task, cases[i].target, code);
    }
    arena_free(arena);
}

Test(autotvm_record, our_own_member_says_the_workload_that_arguments_cannot) {
    static const char key[] = "dense(f32:row:1x2048, f32:row:1000x2048, f32:row:1000) -> f32:row:1x1000 bias act=relu";
    struct arena *arena = arena_new(0);
    struct json_object *provenance CLEANUP(json_put_p) = json_of("{\"driver\":\"550\"}");
    struct autotvm_own own = {key, "cuda/NVIDIA H200/sm_90a/132", 2, 1e-7, 2e-5, provenance}, back;
    struct json_object *args CLEANUP(json_put_p) = json_of(served[4].args);
    struct json_object *entity CLEANUP(json_put_p) = json_of("[[\"tile_k\",\"sp\",[-1,1]]]");
    struct json_object *extra CLEANUP(json_put_p) = autotvm_own_make(&own);
    static const double costs[] = {1e-5};
    struct autotvm_record record = {.target = "cuda -model=nvidia-h200",
                                    .task = "dense_small_batch.gpu",
                                    .args = args,
                                    .entity = entity,
                                    .costs_s = costs,
                                    .n_costs = 1,
                                    .version = 0.2,
                                    .extra = extra};
    struct buf line = BUF_INIT(AUTOTVM_MAX_LINE);
    autotvm_record_write(&record, &line);
    struct autotvm_record read = parse(arena, buf_str(&line));
    struct autotvm_mapper *mapper = autotvm_mapper_new(templates);
    struct autotvm_fit fit;
    struct error error = {0};
    cr_assert_eq(autotvm_map(mapper, &read, &fit, &error), 0, "%s", error.text);
    cr_expect_str_eq(fit.key, key);
    cr_expect_str_eq(fit.target->arch, "sm_90a");
    cr_assert_eq(autotvm_own_read(&read, &back, &error), 0, "%s", error.text);
    cr_expect_str_eq(back.device_key, own.device_key);
    cr_expect_eq(back.spread_s, 1e-7);
    cr_expect_eq(back.baseline_s, 2e-5);
    cr_expect_str_eq(json_text(back.provenance, NULL), "{\"driver\":\"550\"}");
    autotvm_mapper_free(mapper);
    buf_release(&line);
    arena_free(arena);
}

Test(autotvm_record, a_foreign_target_is_a_class_that_no_local_device_has) {
    struct arena *arena = arena_new(0);
    cr_expect_str_eq(autotvm_device_key("cuda -model=v100", arena), "cuda/v100");
    cr_expect_str_eq(autotvm_device_key("cuda -keys=cuda,gpu -arch=sm_70 -model=1080ti -x=1", arena), "cuda/1080ti");
    cr_expect_str_eq(autotvm_device_key("cuda -submodel=y", arena), "cuda/unknown");
    cr_expect_str_eq(autotvm_device_key("llvm -mcpu=core-avx2", arena), "llvm/unknown");
    /* Not the key of a local device, whatever the target says. */
    cr_expect_str_eq(autotvm_device_key("cuda -model=H200/sm_90a/132", arena), "cuda/H200-sm_90a-132");
    cr_expect_str_eq(autotvm_device_key("cuda/H200/sm_90a/132", arena), "cuda-H200-sm_90a-132/unknown");
    cr_expect_str_eq(autotvm_device_key("", arena), "unknown/unknown");
    arena_free(arena);
}

/* ---- logs ---- */

struct collected {
    int n;
    int64_t numbers[16];
};

static int collect(void *data, const struct autotvm_line *line, const struct autotvm_record *record,
                   struct error *error) {
    struct collected *collected = data;
    (void)record;
    (void)error;
    cr_assert_lt(collected->n, 16);
    collected->numbers[collected->n++] = line->number;
    return 0;
}

Test(autotvm_record, a_bad_line_is_named_and_loses_no_good_one) {
    struct arena *arena = arena_new(0);
    const char *good = line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, 0, CONV_ENTITY, RESULT, "");
    struct buf log = BUF_INIT(1 << 20);
    buf_printf(&log, "%s\r\n\n \t\r\nnot json\n%s\n", good, good); /* 1 good, 4 bad, 5 good */
    buf_printf(&log, "%.100s%s\n", good, good);                    /* 6: a half line that another one followed */
    buf_append(&log, good, 50);                                    /* 7: a NUL inside */
    buf_append(&log, "\0\n", 2);
    buf_printf(&log, "%s\n{\"x\":\"", good);            /* 8 good */
    char *filler = buf_reserve(&log, AUTOTVM_MAX_LINE); /* 9: too long */
    memset(filler, 'x', AUTOTVM_MAX_LINE);
    log.len += AUTOTVM_MAX_LINE;
    buf_printf(&log, "\"}\n%s\n%.200s", good, good); /* 10 good, 11 cut off */
    struct collected collected = {0};
    struct autotvm_log result;
    struct error error = {0};
    cr_assert_eq(autotvm_log_each(log.data, log.len, collect, &collected, arena, &result, &error), 0, "%s", error.text);
    static const int64_t bad[] = {4, 6, 7, 9, 11}, expected[] = {1, 5, 8, 10};
    cr_assert_eq(result.bad.count, 5);
    cr_expect_eq(result.lines, 9);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(result.bad.first[i].line, bad[i]);
    cr_assert_eq(collected.n, 4);
    cr_expect_arr_eq(collected.numbers, expected, sizeof expected);
    cr_expect(strstr(result.bad.first[3].reason, "longer"), "%s", result.bad.first[3].reason);
    cr_expect(strstr(result.bad.first[4].reason, "cut off"), "%s", result.bad.first[4].reason);
    buf_release(&log);
    arena_free(arena);
}

Test(autotvm_record, a_last_line_without_its_end_may_be_whole) {
    struct arena *arena = arena_new(0);
    const char *good = line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, 0, CONV_ENTITY, RESULT, "");
    struct collected collected = {0};
    struct autotvm_log result;
    struct error error = {0};
    cr_assert_eq(autotvm_log_each(good, strlen(good), collect, &collected, arena, &result, &error), 0);
    cr_expect_eq(collected.n, 1);
    cr_assert_eq(autotvm_log_each(NULL, 0, collect, &collected, arena, &result, &error), 0);
    cr_expect_eq(result.lines, 0);
    arena_free(arena);
}

Test(autotvm_record, all_bad_lines_are_counted_and_the_first_named) {
    struct arena *arena = arena_new(0);
    struct buf log = BUF_INIT(1 << 20);
    for (int i = 0; i < 1000; i++)
        buf_puts(&log, "{\n");
    struct collected collected = {0};
    struct autotvm_log result;
    struct error error = {0};
    cr_assert_eq(autotvm_log_each(log.data, log.len, collect, &collected, arena, &result, &error), 0);
    cr_expect_eq(result.bad.count, 1000);
    cr_expect_eq(result.bad.n_first, AUTOTVM_MAX_NOTES);
    cr_expect_eq(result.bad.first[AUTOTVM_MAX_NOTES - 1].line, AUTOTVM_MAX_NOTES);
    buf_release(&log);
    arena_free(arena);
}

static int put_line(void *data, const char *line, size_t len, struct error *error) {
    (void)error;
    buf_append(data, line, len);
    buf_putc(data, '\n');
    return 0;
}

static struct autotvm_cleaned clean(const struct buf *log, bool keep_best, struct buf *ret) {
    struct arena *arena = arena_new(0);
    struct autotvm_clean_options options = {templates, keep_best, DEADLINE_NEVER};
    struct autotvm_cleaned cleaned;
    struct error error = {0};
    cr_assert_eq(autotvm_log_clean(log->data, log->len, &options, put_line, ret, arena, &cleaned, &error), 0, "%s",
                 error.text);
    arena_free(arena);
    return cleaned;
}

Test(autotvm_record, cleaning_keeps_the_best_of_each_task) {
    struct arena *arena = arena_new(0);
    long long index = conv_index();
    const char *fast = "[[1e-05],0,1,1]", *slow = "[[2e-05],0,1,1]", *failed = "[[1000000000.0],7,1,1]";
    const char *lines[] = {
        line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, index, CONV_ENTITY, slow, ""),
        line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, index, CONV_ENTITY, failed, ""),
        line_of(arena, "cuda", "dense_small_batch.gpu", served[4].args, 0, "[[\"tile_k\",\"sp\",[-1,1]]]", slow, ""),
        line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, index, CONV_ENTITY, fast, ""),
        line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, index, CONV_ENTITY, fast, ",\"second\":1"),
        line_of(arena, "cuda", "conv2d_nchw.cuda", CONV_ARGS, index + 1, CONV_ENTITY, fast, ""),
        line_of(arena, "cuda -model=x", "conv2d_nchw.cuda", CONV_ARGS, index, CONV_ENTITY, slow, ""),
        "{}",
    };
    struct buf log = BUF_INIT(1 << 20), all = BUF_INIT(1 << 20), best = BUF_INIT(1 << 20), expected = BUF_INIT(1 << 20);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        buf_printf(&log, "%s\n", lines[i]);
    struct autotvm_cleaned cleaned = clean(&log, false, &all);
    cr_expect_eq(cleaned.log.lines, 8);
    cr_expect_eq(cleaned.kept, 5);
    cr_expect_eq(cleaned.failed, 1);
    cr_expect_eq(cleaned.stale.count, 1);
    cr_expect_eq(cleaned.stale.first[0].line, 6);
    cr_expect_eq(cleaned.log.bad.count, 1);
    cr_expect_eq(cleaned.duplicates, 0);
    cleaned = clean(&log, true, &best);
    cr_expect_eq(cleaned.kept, 3);
    cr_expect_eq(cleaned.duplicates, 2);
    buf_printf(&expected, "%s\n%s\n%s\n", lines[2], lines[3], lines[6]);
    cr_expect_str_eq(buf_str(&best), buf_str(&expected));
    buf_release(&log);
    buf_release(&all);
    buf_release(&best);
    buf_release(&expected);
    arena_free(arena);
}

Test(autotvm_record, cleaning_ends_with_its_time) {
    struct buf log = read_log(), out = BUF_INIT(1 << 20);
    struct arena *arena = arena_new(0);
    struct autotvm_clean_options options = {templates, true, .deadline = 0};
    struct autotvm_cleaned cleaned;
    struct error error = {0};
    cr_assert_eq(autotvm_log_clean(log.data, log.len, &options, put_line, &out, arena, &cleaned, &error), -1);
    cr_expect_eq(error.class, ERROR_TIMEOUT);
    buf_release(&log);
    buf_release(&out);
    arena_free(arena);
}

Test(autotvm_record, cleaning_a_long_log_keeps_one_line_a_task) {
    enum { TASKS = 700, TRIALS = 5 };
    struct arena *arena = arena_new(0);
    struct buf log = BUF_INIT(8 << 20), best = BUF_INIT(8 << 20);
    for (int i = 0; i < TASKS * TRIALS; i++) {
        const char *args = arena_printf(
            arena, "[[\"TENSOR\",[%d,8],\"float32\"],[\"TENSOR\",[4,8],\"float32\"],null,\"float32\"]", i % TASKS + 1);
        const char *result = arena_printf(arena, "[[%de-06],0,1,1]", 1 + (i / TASKS * 2 + i) % TRIALS);
        buf_printf(
            &log, "%s\n",
            line_of(arena, "cuda", "dense_small_batch.gpu", args, 0, "[[\"tile_k\",\"sp\",[-1,1]]]", result, ""));
    }
    struct autotvm_cleaned cleaned = clean(&log, true, &best);
    cr_expect_eq(cleaned.kept, TASKS);
    cr_expect_eq(cleaned.duplicates, TASKS * (TRIALS - 1));
    int fastest = 0;
    for (const char *at = buf_str(&best); (at = strstr(at, "[[1e-06]")); at++)
        fastest++;
    cr_expect_eq(fastest, TASKS);
    buf_release(&log);
    buf_release(&best);
    arena_free(arena);
}
