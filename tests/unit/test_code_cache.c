/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/code_cache.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/base/file.h"

static char folder[64];
static struct target target;

static void start(void) {
    struct device_info info;
    struct error error = {0};
    snprintf(folder, sizeof folder, "/tmp/warptune-test-XXXXXX");
    cr_assert(mkdtemp(folder));
    cr_assert_eq(device_cpu.describe(0, &info, &error), 0, "%s", error.text);
    target = info.target;
}

static void stop(void) {
    struct error error = {0};
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
}

TestSuite(code_cache, .init = start, .fini = stop);

static struct code_built build(const char *source) {
    struct code_built built;
    struct buf log = BUF_INIT(1 << 20);
    struct error error = {0};
    cr_assert_eq(code_build(folder, &target, source, deadline_in_s(60), &built, &log, &error), 0, "%s", error.text);
    buf_release(&log);
    return built;
}

static const char answer_source[] = "void answer(void *const *args, long b, long e) { *(int *)args[0] = 42; }";

/* Loads the file and asks it for the answer. */
static void expect_answer(const char *path) {
    struct file_map map;
    struct device *device;
    struct device_code *code;
    struct error error = {0};
    int answer = 0;
    cr_assert_eq(file_map(path, &map, &error), 0, "%s", error.text);
    cr_assert_eq(device_cpu.open(0, &device, &error), 0);
    cr_assert_eq(device_cpu.load(device, map.data, map.len, &code, &error), 0, "%s", error.text);
    struct launch launch = {.entry = "answer", .n_args = 1, .items = 1};
    struct device_call call = {&launch, code, {(uintptr_t)&answer}};
    cr_assert_eq(device_cpu.run(device, &call, 1, 1, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(answer, 42);
    device_cpu.close(device);
    file_unmap(&map);
}

Test(code_cache, the_second_time_the_code_is_there) {
    struct code_built first = build(answer_source), second = build(answer_source);
    cr_assert_not(first.hit);
    cr_assert_gt(first.seconds, 0);
    cr_assert(second.hit);
    cr_assert_eq(second.seconds, 0);
    cr_assert_str_eq(first.path, second.path);
    expect_answer(second.path);
}

Test(code_cache, looking_for_code_compiles_nothing) {
    struct code_built found;
    struct error error = {0};
    cr_assert_eq(code_find(folder, &target, answer_source, &found, &error), 0, "%s", error.text);
    cr_assert_not(found.hit);
    struct code_built built = build(answer_source);
    cr_assert_not(built.hit);
    cr_assert_str_eq(found.path, built.path);
    cr_assert_eq(code_find(folder, &target, answer_source, &found, &error), 0, "%s", error.text);
    cr_assert(found.hit);
}

Test(code_cache, other_source_or_architecture_is_other_code) {
    struct code_built first = build(answer_source), other = build("int other;");
    cr_assert_str_neq(first.path, other.path);
    snprintf(target.arch, sizeof target.arch, "%s", strcmp(target.arch, "x86-64-v2") == 0 ? "x86-64" : "x86-64-v2");
    struct code_built third = build(answer_source);
    cr_assert_not(third.hit);
    cr_assert_str_neq(first.path, third.path);
}

Test(code_cache, a_damaged_file_is_compiled_again) {
    struct code_built first = build(answer_source);
    struct buf bytes = BUF_INIT(1 << 26);
    struct error error = {0};
    cr_assert_eq(file_read(first.path, 1 << 26, &bytes, &error), 0);
    bytes.data[bytes.len / 2] ^= 1;
    cr_assert_eq(file_write(first.path, bytes.data, bytes.len, &error), 0);
    cr_assert_not(build(answer_source).hit);
    cr_assert_eq(file_write(first.path, bytes.data, bytes.len / 3, &error), 0);
    cr_assert_not(build(answer_source).hit);
    cr_assert_eq(file_write(first.path, "", 0, &error), 0);
    cr_assert_not(build(answer_source).hit);
    cr_assert(build(answer_source).hit);
    expect_answer(first.path);
    buf_release(&bytes);
}

Test(code_cache, what_does_not_compile_is_not_kept) {
    struct code_built built;
    struct buf log = BUF_INIT(1 << 20);
    struct error error = {0};
    for (int turn = 0; turn < 2; turn++) {
        cr_assert_eq(
            code_build(folder, &target, "int f(void) { return nonsense; }", deadline_in_s(60), &built, &log, &error),
            -1);
        cr_assert_eq(error.class, ERROR_DEVICE);
        cr_assert_str_eq(error.code, "compile-failed");
        cr_assert(strstr(buf_str(&log), "nonsense"));
    }
    buf_release(&log);
}

Test(code_cache, a_target_of_no_known_kind_is_refused) {
    struct code_built built;
    struct buf log = BUF_INIT(1 << 20);
    struct error error = {0};
    snprintf(target.kind, sizeof target.kind, "tpu");
    cr_assert_eq(code_build(folder, &target, "", deadline_in_s(60), &built, &log, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
}
