/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/device.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/file.h"

static const char add_source[] = "void add(void *const *args, long begin, long end) {\n"
                                 "    const float *a = args[0], *b = args[1];\n"
                                 "    float *c = args[2];\n"
                                 "    for (long i = begin; i < end; i++) c[i] = a[i] + b[i];\n"
                                 "}\n";

static struct device_info describe(void) {
    struct device_info info;
    struct error error = {0};
    cr_assert_eq(device_cpu.describe(0, &info, &error), 0, "%s", error.text);
    return info;
}

static void compile(const char *source, struct buf *code) {
    struct device_info info = describe();
    struct buf log = BUF_INIT(1 << 20);
    struct error error = {0};
    buf_init(code, 1 << 26);
    cr_assert_eq(device_cpu.compile(&info.target, source, deadline_in_s(60), code, &log, &error), 0, "%s", error.text);
    buf_release(&log);
}

static struct device *open_device(void) {
    struct device *device;
    struct error error = {0};
    cr_assert_eq(device_cpu.open(0, &device, &error), 0, "%s", error.text);
    return device;
}

static struct device_code *load(struct device *device, const char *source) {
    struct buf code;
    struct device_code *loaded;
    struct error error = {0};
    compile(source, &code);
    cr_assert_eq(device_cpu.load(device, code.data, code.len, &loaded, &error), 0, "%s", error.text);
    buf_release(&code);
    return loaded;
}

Test(device_cpu, is_found_by_its_kind_and_describes_itself) {
    cr_assert_eq(device_class_find("cpu"), &device_cpu);
    cr_assert_eq(device_class_find("cuda"), &device_cuda);
    cr_assert_null(device_class_find("tpu"));
    struct device_info info = describe();
    cr_assert_str_eq(info.target.kind, "cpu");
    cr_assert_geq(info.target.units, 1);
    cr_assert_gt(info.target.cache_bytes, 0);
    cr_assert_gt(info.memory_bytes, 0);
    cr_assert_eq(strncmp(info.key, "cpu/", 4), 0);
    cr_assert(strncmp(info.compiler, "gcc ", 4) == 0 || strncmp(info.compiler, "clang ", 6) == 0);
}

Test(device_cpu, there_is_only_number_zero) {
    struct device_info info;
    struct device_state state;
    struct device *device;
    struct error error = {0};
    cr_assert_eq(device_cpu.describe(1, &info, &error), -1);
    cr_assert_eq(device_cpu.state(1, &state, &error), -1);
    cr_assert_eq(device_cpu.open(1, &device, &error), -1);
    cr_assert_eq(error.class, ERROR_NOT_FOUND);
    cr_assert_eq(device_cpu.state(0, &state, &error), 0);
    cr_assert_eq(state.temperature_c, -1);
}

Test(device_cpu, runs_what_it_compiled) {
    enum { N = 1000 };
    struct device *device = open_device();
    struct device_code *code = load(device, add_source);
    struct error error = {0};
    uint64_t at[3];
    float host[N];
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(device_cpu.alloc(device, sizeof host, &at[i], &error), 0);
        cr_assert_eq(at[i] % 256, 0);
    }
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    cr_assert_eq(device_cpu.write(device, at[0], host, sizeof host, &error), 0);
    cr_assert_eq(device_cpu.fill(device, at[1], 0x3f800000, N, &error), 0); /* 1.0 */
    struct launch launch = {.entry = "add", .n_args = 3, .items = N};
    struct device_call call = {&launch, code, {at[0], at[1], at[2]}};
    double seconds = -1;
    cr_assert_eq(device_cpu.run(device, &call, 1, 3, &seconds, &error), 0, "%s", error.text);
    cr_assert_geq(seconds, 0);
    cr_assert_eq(device_cpu.read(device, host, at[2], sizeof host, &error), 0);
    for (int i = 0; i < N; i++)
        cr_assert_eq(host[i], (float)i + 1);
    device_cpu.free(device, at[0]);
    device_cpu.unload(device, code);
    device_cpu.close(device);
}

Test(device_cpu, calls_run_in_order_and_keep_their_own_code) {
    struct device *device = open_device();
    struct device_code *doubles =
        load(device, "void f(void *const *a, long b, long e) { for (; b < e; b++) ((int *)a[0])[b] *= 2; }");
    struct device_code *adds =
        load(device, "void f(void *const *a, long b, long e) { for (; b < e; b++) ((int *)a[0])[b] += 3; }");
    struct error error = {0};
    uint64_t at;
    int numbers[4];
    cr_assert_eq(device_cpu.alloc(device, sizeof numbers, &at, &error), 0);
    cr_assert_eq(device_cpu.fill(device, at, 1, 4, &error), 0);
    struct launch launch = {.entry = "f", .n_args = 1, .items = 4};
    struct device_call calls[] = {{&launch, doubles, {at}}, {&launch, adds, {at}}};
    cr_assert_eq(device_cpu.run(device, calls, 2, 2, NULL, &error), 0, "%s", error.text);
    cr_assert_eq(device_cpu.read(device, numbers, at, sizeof numbers, &error), 0);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(numbers[i], (1 * 2 + 3) * 2 + 3);
    device_cpu.close(device); /* with all still loaded and allocated */
}

Test(device_cpu, what_the_compiler_refuses_comes_back_with_its_words) {
    struct device_info info = describe();
    struct buf code = BUF_INIT(1 << 26), log = BUF_INIT(1 << 20);
    struct error error = {0};
    cr_assert_eq(
        device_cpu.compile(&info.target, "int f(void) { return nonsense; }", deadline_in_s(60), &code, &log, &error),
        -1);
    cr_assert_eq(error.class, ERROR_DEVICE);
    cr_assert_str_eq(error.code, "compile-failed");
    cr_assert(strstr(error.text, "nonsense"));
    cr_assert(strstr(buf_str(&log), "nonsense"));
    buf_release(&code);
    buf_release(&log);
}

static int entries(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

Test(device_cpu, a_compiler_that_does_not_end_is_killed_and_leaves_nothing) {
    char folder[] = "/tmp/warptune-test-XXXXXX", compiler[64];
    static const char script[] = "#!/bin/sh\nsleep 100\n";
    struct buf code = BUF_INIT(1 << 26), log = BUF_INIT(1 << 20);
    struct device_info info = describe();
    struct error error = {0};
    cr_assert(mkdtemp(folder));
    snprintf(compiler, sizeof compiler, "%s/slow-cc", folder);
    cr_assert_eq(file_write(compiler, script, strlen(script), &error), 0);
    cr_assert_eq(chmod(compiler, 0700), 0);
    setenv("WARPTUNE_CC", compiler, 1);
    setenv("TMPDIR", folder, 1);
    cr_assert_eq(device_cpu.compile(&info.target, "", deadline_in_s(0.1), &code, &log, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    cr_assert_eq(entries(folder), 1);
    unlink(compiler);
    cr_assert_eq(device_cpu.count(&error), 0);
    cr_assert_eq(error.class, ERROR_DEVICE);
    cr_assert(strstr(error.text, "WARPTUNE_CC"));
    rmdir(folder);
    buf_release(&code);
    buf_release(&log);
}

Test(device_cpu, code_without_the_entry_is_refused) {
    struct device *device = open_device();
    struct device_code *code = load(device, add_source);
    struct launch launch = {.entry = "subtract", .items = 1};
    struct device_call call = {&launch, code, {0}};
    struct error error = {0};
    cr_assert_eq(device_cpu.run(device, &call, 1, 1, NULL, &error), -1);
    cr_assert_eq(error.class, ERROR_DEVICE);
    cr_assert(strstr(error.text, "subtract"));
    device_cpu.close(device);
}

Test(device_cpu, bytes_that_are_no_code_are_refused) {
    struct device *device = open_device();
    struct device_code *code;
    struct error error = {0};
    cr_assert_eq(device_cpu.load(device, "nonsense", 8, &code, &error), -1);
    cr_assert_eq(error.class, ERROR_DEVICE);
    device_cpu.close(device);
}
