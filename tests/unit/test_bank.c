/* SPDX-License-Identifier: Apache-2.0 */
/* The bank's list, and filling the code cache with it. This program is its own children: `test_bank child build`. */
#include "gpu/template/bank.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/code_cache.h"
#include "gpu/measure/measure.h"
#include "gpu/measure/warm.h"
#include "gpu/template/builtin.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "tests/unit/own_child.h"

static struct arena *arena;
static struct target target;
static char folder[64];

static void start(void) {
    struct error error = {0};
    own_child_allow();
    arena = arena_new(0);
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0, "%s", error.text);
    snprintf(folder, sizeof folder, "/tmp/warptune-test-XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void stop(void) {
    struct error error = {0};
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
    arena_free(arena);
}

TestSuite(bank, .init = start, .fini = stop);

static struct program *render(const struct template *template, const char *key, int64_t index) {
    struct workload *workload;
    struct program *program;
    struct error error = {0};
    cr_assert_eq(workload_parse(key, arena, &workload, &error), 0, "%s", error.text);
    struct space *space = template->space(workload, &target, arena);
    if (template->render(workload, &target, space, index, arena, &program, &error) < 0)
        return NULL;
    return program;
}

static bool holds(const struct bank_entry *entries, int n, const char *source) {
    for (int i = 0; i < n; i++)
        if (strcmp(entries[i].source, source) == 0)
            return true;
    return false;
}

/* ---- the list ---- */

Test(bank, lists_each_source_once_with_a_configuration_that_renders_it) {
    struct bank_entry *entries;
    int n;
    bank_list(&target, arena, &entries, &n);
    cr_assert(n > 100 && n < 1000, "%d", n);
    for (int i = 0; i < n; i++) {
        struct program *program = render(entries[i].template, entries[i].workload, entries[i].index);
        cr_assert(program && strcmp(program->source, entries[i].source) == 0);
        cr_assert(i == 0 || strcmp(entries[i - 1].source, entries[i].source) != 0);
    }
}

/* What a search of a network's layers may ask for: all banked points, with bias, residual, relu, groups, any shape. */
Test(bank, holds_what_layers_of_networks_need) {
    static const char *const keys[] = {
        "conv2d(f32:nhwc:1x3x224x224, f32:row:64x3x7x7, f32:row:64) -> f32:nhwc:1x64x112x112 "
        "{stride=2x2, dilation=1x1, pad=3x3x3x3, groups=1} bias act=relu",
        "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64, f32:nhwc:1x64x56x56) -> f32:nhwc:1x64x56x56 "
        "{stride=1x1, dilation=1x1, pad=1x1x1x1, groups=1} bias residual act=relu",
        "conv2d(f32:row:2x24x15x15, f32:row:32x12x3x3, f32:row:32) -> f32:row:2x32x15x15 "
        "{stride=1x1, dilation=2x2, pad=2x2x2x2, groups=2} bias act=clip:0:6",
        "dense(f32:row:1x512, f32:row:1000x512, f32:row:1000) -> f32:row:1x1000 bias",
    };
    struct bank_entry *entries;
    int n, asked = 0;
    bank_list(&target, arena, &entries, &n);
    for (size_t k = 0; k < ARRAY_COUNT(keys); k++) {
        struct workload *workload;
        struct error error = {0};
        cr_assert_eq(workload_parse(keys[k], arena, &workload, &error), 0, "%s", error.text);
        struct space *space = conv2d_simt_cuda.space(workload, &target, arena);
        for (int64_t i = 0; i < space->size; i++) {
            struct program *program = NULL;
            if (conv2d_simt_cuda.banked(space, i))
                program = render(&conv2d_simt_cuda, keys[k], i);
            if (program)
                cr_assert(holds(entries, n, program->source), "configuration %lld of %s", (long long)i, keys[k]);
            asked += program != NULL;
        }
    }
    cr_assert_gt(asked, 200);
}

Test(bank, is_empty_where_no_template_takes_shapes_as_arguments) {
    struct bank_entry *entries;
    struct error error = {0};
    int n;
    cr_assert_eq(target_of_arch("x86-64-v3", &target, &error), 0, "%s", error.text);
    bank_list(&target, arena, &entries, &n);
    cr_assert_eq(n, 0);
}

/* ---- filling the cache, with kernels for the CPU: the builders are the same ---- */

#define CPU_KEY(act) "unary(f32:row:1x1000) -> f32:row:1x1000 act=" act

static struct warm_result warm(const struct bank_entry *entries, int n) {
    struct warm_options options = {.cache_dir = folder, .target = &target, .builders = 2, .build_timeout_s = 60};
    struct warm_result result;
    struct error error = {0};
    cr_assert_eq(warm_cache(&options, entries, n, &result, &error), 0, "%s", error.text);
    return result;
}

static void use_this_host(void) {
    struct device_info info;
    struct error error = {0};
    cr_assert_eq(device_cpu.describe(0, &info, &error), 0, "%s", error.text);
    target = info.target;
}

static struct bank_entry plain_entry(const char *key) {
    return (struct bank_entry){render(&plain_cpu, key, 0)->source, &plain_cpu, key, 0};
}

Test(bank, what_was_compiled_ahead_is_found_in_the_cache) {
    use_this_host();
    const struct bank_entry entries[] = {plain_entry(CPU_KEY("relu")), plain_entry(CPU_KEY("abs")),
                                         plain_entry(CPU_KEY("floor"))};
    struct warm_result result = warm(entries, ARRAY_COUNT(entries));
    cr_assert_eq(result.compiled, 3, "%s", result.text);
    cr_assert_eq(result.hits + result.failed, 0);
    cr_assert(result.bytes > 0 && result.compile_s > 0);
    for (size_t i = 0; i < ARRAY_COUNT(entries); i++) {
        struct code_built built;
        struct buf log CLEANUP(buf_release) = BUF_INIT(1 << 20);
        struct error error = {0};
        cr_assert_eq(code_build(folder, &target, entries[i].source, deadline_in_s(60), &built, &log, &error), 0, "%s",
                     error.text);
        cr_assert(built.hit);
    }
    struct warm_result again = warm(entries, ARRAY_COUNT(entries));
    cr_assert_eq(again.hits, 3);
    cr_assert_eq(again.bytes, result.bytes);
}

Test(bank, a_program_that_fails_does_not_keep_the_others_from_the_cache) {
    use_this_host();
    struct bank_entry entries[] = {plain_entry(CPU_KEY("relu")), plain_entry(CPU_KEY("abs"))};
    entries[0].index = 12345; /* there is no such configuration */
    struct warm_result result = warm(entries, ARRAY_COUNT(entries));
    cr_assert_eq(result.failed, 1);
    cr_assert_eq(result.compiled, 1);
    cr_assert(strstr(result.text, "12345"), "%s", result.text);
}

static int serve(const char *role) {
    return strcmp(role, "build") == 0 ? builder_child_main(template_builtin) : 2;
}

OWN_CHILD(serve)
