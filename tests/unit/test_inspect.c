/* SPDX-License-Identifier: Apache-2.0 */
#include "service/model/inspect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>

#include "onnx_build.h"
#include "own_child.h"
#include "service/base/clock.h"
#include "service/base/file.h"

static struct error error;
static struct arena *arena;
static char dir[] = "/tmp/warptune-test-inspect-XXXXXX"; /* each test runs in a process of its own */
static char path[256];

static void set_up(void) {
    own_child_allow();
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/model.onnx", dir);
    arena = arena_new(0);
}

static void clean_up(void) {
    arena_free(arena);
    (void)!file_remove_tree(dir, &error);
}

TestSuite(inspect, .init = set_up, .fini = clean_up);

static void write_file(const void *data, size_t len) {
    cr_assert_eq(file_write(path, data, len, &error), 0, "%s", error.text);
}

static void write_model(struct model *model) {
    size_t len;
    void *bytes = model_bytes(model, &len);
    write_file(bytes, len);
    free(bytes);
    model_done(model);
}

/* Two equal convolutions, batch norm and activations folded away, then a matrix. */
static void write_network(void) {
    struct model model = model_new(13);
    struct tensor w = {DIMS(8, 8, 3, 3)}, four = {DIMS(8)}, matrix = {DIMS(8, 5)};
    INPUT(&model, "image", -1, 8, 6, 6);
    model_output(&model, "scores");
    model_constant(&model, "w", &w);
    model_constant(&model, "n", &four);
    model_constant(&model, "m", &matrix);
    const struct attr *pads = ATTRS(A_INTS("pads", 1, 1, 1, 1));
    model_node(&model, "Conv", "one", "image w", "a", pads);
    model_node(&model, "BatchNormalization", "norm", "a n n n n", "b", NULL);
    model_node(&model, "Relu", "relu", "b", "c", NULL);
    model_node(&model, "Conv", "two", "c w n", "d", pads);
    model_node(&model, "Relu", "relu2", "d", "e", NULL);
    model_node(&model, "GlobalAveragePool", "pool", "e", "f", NULL);
    model_node(&model, "Flatten", "flatten", "f", "g", NULL);
    model_node(&model, "MatMul", "matrix", "g m", "scores", NULL);
    write_model(&model);
}

static int inspect_with(const char *program, int64_t batch, struct model_summary **ret) {
    struct inspect_options options = {.program = program, .batch = batch, .layout = LAYOUT_NHWC};
    return model_inspect(path, &options, deadline_in_s(120), arena, ret, &error);
}

static struct model_summary *inspect(int64_t batch) {
    struct model_summary *summary;
    cr_assert_eq(inspect_with(NULL, batch, &summary), 0, "%s", error.text);
    return summary;
}

static void expect_refused(enum error_class class) {
    struct model_summary *summary;
    cr_assert_eq(inspect_with(NULL, 1, &summary), -1);
    cr_assert_eq(error.class, class, "%s: %s", error_class_name(error.class), error.text);
}

Test(inspect, inputs_and_outputs_come_with_shapes_for_the_batch_asked) {
    write_network();
    struct model_summary *summary = inspect(3);
    cr_assert_eq(summary->n_inputs, 1);
    cr_assert_str_eq(summary->inputs[0].name, "image");
    cr_assert_eq(summary->inputs[0].dtype, DTYPE_F32);
    cr_assert(summary->inputs[0].shape.rank == 4 && summary->inputs[0].shape.dim[0] == 3);
    cr_assert_eq(summary->n_outputs, 1);
    cr_assert_str_eq(summary->outputs[0].name, "scores");
    cr_assert(summary->outputs[0].shape.rank == 2 && summary->outputs[0].shape.dim[1] == 5);
}

Test(inspect, tasks_are_the_distinct_workloads_of_the_fused_network) {
    struct workload *workload;
    write_network();
    struct model_summary *summary = inspect(0);
    cr_assert_eq(summary->source_operators, 8);
    cr_assert_eq(summary->n_tasks, 2);
    cr_assert_eq(summary->tasks[0].count, 2);
    cr_assert_str_eq(summary->tasks[0].first, "one");
    cr_assert_eq(workload_parse(summary->tasks[0].workload, arena, &workload, &error), 0, "%s", error.text);
    cr_assert_eq(workload->in[0].layout, LAYOUT_NHWC);
    cr_assert_eq(summary->tasks[0].flops, 2 * 8 * 8 * 9 * 36);
    cr_assert_gt(summary->tasks[0].bytes, 0);
    cr_assert_eq(summary->tasks[1].count, 1);
    cr_assert_gt(summary->flops, 2 * summary->tasks[0].flops);
}

Test(inspect, another_precision_gives_other_tasks) {
    struct inspect_options options = {.batch = 1, .precision = PRECISION_FP16, .layout = LAYOUT_NHWC};
    struct model_summary *summary;
    write_network();
    cr_assert_eq(model_inspect(path, &options, deadline_in_s(120), arena, &summary, &error), 0, "%s", error.text);
    cr_assert_eq(summary->n_tasks, 2);
    cr_assert(strstr(summary->tasks[0].workload, "conv2d(f16:nhwc:") == summary->tasks[0].workload);
    cr_assert_eq(summary->inputs[0].dtype, DTYPE_F32);
    cr_assert_lt(summary->tasks[0].bytes, inspect(1)->tasks[0].bytes);
}

Test(inspect, tf32_marks_the_tasks_of_fp32) {
    struct inspect_options options = {.batch = 1, .precision = PRECISION_TF32, .layout = LAYOUT_NHWC};
    struct model_summary *summary;
    char marked[1024];
    write_network();
    cr_assert_eq(model_inspect(path, &options, deadline_in_s(120), arena, &summary, &error), 0, "%s", error.text);
    cr_assert_eq(summary->n_tasks, 2);
    snprintf(marked, sizeof marked, "%s math=tf32", inspect(1)->tasks[0].workload);
    cr_assert_str_eq(summary->tasks[0].workload, marked);
}

Test(inspect, operators_and_parameters_are_counted_after_fusing) {
    int nodes = 0;
    write_network();
    struct model_summary *summary = inspect(0);
    for (int i = 0; i < summary->n_operators; i++) {
        nodes += summary->operators[i].count;
        if (strcmp(summary->operators[i].name, "conv2d") == 0)
            cr_assert_eq(summary->operators[i].count, 2);
    }
    cr_assert_leq(nodes, 6);
    cr_assert_eq(summary->parameters, 2 * (8 * 8 * 9 + 8) + 40);
}

Test(inspect, names_that_are_no_text_are_made_so) {
    struct model model = model_new(13);
    INPUT(&model, "x\xff\"", 4);
    model_output(&model, "y");
    model_node(&model, "Relu", "r", "x\xff\"", "y", NULL);
    write_model(&model);
    cr_assert_str_eq(inspect(0)->inputs[0].name, "x?\"");
}

Test(inspect, what_is_not_supported_names_the_node) {
    struct model model = model_new(13);
    INPUT(&model, "x", 4);
    model_output(&model, "y");
    model_node(&model, "NonMaxSuppression", "culprit", "x", "y", NULL);
    write_model(&model);
    expect_refused(ERROR_INVALID);
    cr_assert_str_eq(error.field, "culprit");
    cr_assert_not_null(strstr(error.text, "NonMaxSuppression"));
}

Test(inspect, what_is_no_model_is_refused) {
    write_file("not a protobuf", 14);
    expect_refused(ERROR_INVALID);
    write_file("", 0);
    expect_refused(ERROR_INVALID);
}

Test(inspect, a_file_that_is_not_there_is_not_found) {
    expect_refused(ERROR_NOT_FOUND);
}

/* A graph in an attribute of a node of a graph in an attribute …: 100,000 of each. */
Test(inspect, endless_nesting_is_refused) {
    enum { LEVELS = 300000, MOST_HEAD = 8 };
    static const unsigned char fields[] = {6 << 3 | 2, 5 << 3 | 2, 1 << 3 | 2}; /* the attribute's, node's, graph's */
    unsigned char *bytes = malloc((size_t)LEVELS * MOST_HEAD), *end = bytes + (size_t)LEVELS * MOST_HEAD, *at = end;
    for (int i = 0; i < LEVELS; i++) {
        unsigned char head[MOST_HEAD] = {fields[i % 3]};
        size_t n = 1, inner = (size_t)(end - at);
        for (; inner >= 0x80; inner >>= 7)
            head[n++] = (unsigned char)(inner | 0x80);
        head[n++] = (unsigned char)inner;
        at -= n;
        memcpy(at, head, n);
    }
    struct buf file = BUF_INIT(PB_MAX), opset = BUF_INIT(PB_MAX);
    pb_bytes(&file, 7, at, (size_t)(end - at));
    pb_int(&opset, 2, 13);
    pb_message(&file, 8, &opset);
    write_file(file.data, file.len);
    buf_release(&file);
    free(bytes);
    expect_refused(ERROR_INVALID);
}

/* Programs that stand in for a child that dies in a given way. */
static void expect_after(const char *script, enum error_class class, const char *code) {
    char program[300];
    struct model_summary *summary;
    write_network();
    snprintf(program, sizeof program, "%s/program", dir);
    cr_assert_eq(file_write(program, script, strlen(script), &error), 0);
    cr_assert_eq(chmod(program, 0700), 0);
    cr_assert_eq(inspect_with(program, 1, &summary), -1);
    cr_assert_eq(error.class, class, "%s: %s", error_class_name(error.class), error.text);
    cr_assert_str_eq(error.code, code);
}

Test(inspect, a_child_that_aborts_was_at_its_limit_of_memory) {
    expect_after("#!/bin/sh\nkill -ABRT $$\n", ERROR_LIMIT, "model-too-large");
}

Test(inspect, a_child_that_faults_met_a_model_that_cannot_be_read) {
    expect_after("#!/bin/sh\nkill -SEGV $$\n", ERROR_INVALID, "unreadable-model");
}

Test(inspect, a_child_that_ran_out_of_processor_time_was_at_its_limit) {
    expect_after("#!/bin/sh\nkill -XCPU $$\n", ERROR_LIMIT, "model-too-large");
    cr_assert_not_null(strstr(error.text, "processor time"));
}

Test(inspect, a_child_that_just_ends_is_no_fault_of_the_model) {
    expect_after("#!/bin/sh\nexit 3\n", ERROR_IO, "child-died");
}

Test(inspect, a_program_that_is_not_there_is_said_so) {
    struct model_summary *summary;
    write_network();
    cr_assert_eq(inspect_with("/no/such/program", 1, &summary), -1);
    cr_assert_eq(error.class, ERROR_IO);
}

Test(inspect, the_deadline_holds) {
    struct model_summary *summary;
    char program[300];
    struct inspect_options options = {.program = program, .batch = 1};
    write_network();
    snprintf(program, sizeof program, "%s/program", dir);
    cr_assert_eq(file_write(program, "#!/bin/sh\nexec sleep 100\n", 25, &error), 0);
    cr_assert_eq(chmod(program, 0700), 0);
    cr_assert_eq(model_inspect(path, &options, deadline_in_s(0.2), arena, &summary, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT, "%s", error.text);
}

static int serve(const char *role) {
    (void)role;
    return inspect_child_main();
}
OWN_CHILD(serve)
