/* SPDX-License-Identifier: Apache-2.0 */
/* What a task's search ranges over, how fast it can become, and under what circumstances a trial was measured. */
#include <criterion/criterion.h>
#include <string.h>

#include "scheduler/domains.h"
#include "scheduler/floor.h"
#include "scheduler/trial_context.h"

#define CONV                                                                                                        \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64) -> f32:nhwc:1x64x56x56 {stride=1x1, dilation=1x1, " \
    "pad=1x1x1x1, groups=1} bias act=relu"
#define STRIDED                                                                                                     \
    "conv2d(f32:nhwc:1x64x56x56, f32:row:64x64x3x3, f32:row:64) -> f32:nhwc:1x64x28x28 {stride=2x2, dilation=1x1, " \
    "pad=1x1x1x1, groups=1} bias act=relu"
#define TRANSPOSED                                                                                                   \
    "conv2d_transpose(f32:row:1x8x5x5, f32:row:8x4x3x3) -> f32:row:1x4x7x7 {stride=1x1, dilation=1x1, pad=0x0x0x0, " \
    "groups=1}"

static const struct target cpu = {.kind = "cpu", .arch = "avx2", .units = 4};

static struct workload *parse(struct arena *arena, const char *text) {
    struct workload *workload;
    struct error error;
    cr_assert_eq(workload_parse(text, arena, &workload, &error), 0, "%s: %s", text, error.text);
    return workload;
}

static int domains(struct arena *arena, const char *text, const char *only, struct domain **ret) {
    struct error error;
    int n;
    cr_assert_eq(domains_of(parse(arena, text), &cpu, only, true, arena, ret, &n, &error), 0, "%s", error.text);
    return n;
}

Test(domains, all_that_serve_but_the_plain_one_and_those_by_name) {
    struct arena *arena = arena_new(0);
    struct domain *list;
    int n = domains(arena, CONV, "", &list);
    cr_assert_gt(n, 0);
    cr_expect_eq(list[0].template, template_for(template_builtin, list[0].workload, &cpu));
    for (int i = 0; i < n; i++) {
        cr_expect_neq(list[i].template, template_plain(&cpu));
        cr_expect_not(list[i].template->by_name);
        cr_expect_str_eq(list[i].template->device, "cpu");
        cr_expect(list[i].template->serves(list[i].workload, &cpu));
        cr_expect_eq(domains_find(list, n, list[i].template->name, list[i].template->version), i);
        cr_expect_eq(domains_find(list, n, list[i].template->name, list[i].template->version + 1), -1);
    }
    cr_expect_eq(domains_points(list, n, &tuner_random), list[0].space->size);
    arena_free(arena);
}

Test(domains, the_plain_one_where_there_is_no_other) {
    struct arena *arena = arena_new(0);
    struct domain *list;
    cr_assert_eq(domains(arena, TRANSPOSED, "", &list), 1);
    cr_expect_eq(list[0].template, template_plain(&cpu));
    arena_free(arena);
}

Test(domains, a_named_one_alone_where_it_serves) {
    struct arena *arena = arena_new(0);
    struct domain *list;
    cr_assert_eq(domains(arena, CONV, template_plain(&cpu)->name, &list), 1);
    cr_expect_eq(list[0].template, template_plain(&cpu));
    cr_assert_eq(domains(arena, TRANSPOSED, "conv2d_direct.cpu", &list), 1);
    cr_expect_eq(list[0].template, template_plain(&cpu), "it serves no transposed convolution");
    cr_assert_gt(domains(arena, CONV, "conv2d_simt.cuda", &list), 0);
    cr_expect_str_eq(list[0].template->device, "cpu");
    arena_free(arena);
}

Test(floor, is_set_by_what_the_device_is_slowest_at) {
    struct arena *arena = arena_new(0);
    struct workload *strided = parse(arena, STRIDED);
    double flops = (double)workload_flops(strided), bytes = (double)workload_bytes(strided);
    struct device_info device = {.target = cpu};
    cr_expect_eq(workload_floor_s(strided, &device), 0, "nothing is known");
    device.peak_flops = 1e11;
    cr_expect_float_eq(workload_floor_s(strided, &device), flops / 1e11, 1e-12);
    device.peak_bytes_per_s = 1e6;
    cr_expect_float_eq(workload_floor_s(strided, &device), bytes / 1e6, 1e-9);
    memcpy(device.target.kind, "cuda", sizeof "cuda");
    device.peak_flops = device.peak_bytes_per_s = 1e18;
    cr_expect_eq(workload_floor_s(strided, &device), 2e-6, "a kernel takes its time");
    arena_free(arena);
}

Test(floor, leaves_room_for_winograd) {
    struct arena *arena = arena_new(0);
    struct workload *conv = parse(arena, CONV);
    struct device_info device = {.target = cpu, .peak_flops = 1e11};
    cr_expect_float_eq(workload_floor_s(conv, &device), (double)workload_flops(conv) / 1e11 / 4, 1e-12);
    arena_free(arena);
}

Test(floor, leaves_room_for_the_matrix_units) {
    static const struct {
        const char *key;
        double rate;
    } cases[] = {
        {"dense(f16:row:9x80, f16:row:70x80) -> f16:row:9x70", 1.6e8},
        {"dense(bf16:row:9x80, bf16:row:70x80) -> bf16:row:9x70", 1.6e8},
        {"dense(f32:row:9x80, f32:row:70x80) -> f32:row:9x70 math=tf32", 8e7},
        {"dense(f32:row:9x80, f32:row:70x80) -> f32:row:9x70", 1e7},
    };
    struct arena *arena = arena_new(0);
    struct device_info device = {.target = cpu, .peak_flops = 1e7};
    memcpy(device.target.kind, "cuda", sizeof "cuda");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct workload *dense = parse(arena, cases[i].key);
        cr_expect_float_eq(workload_floor_s(dense, &device), (double)workload_flops(dense) / cases[i].rate, 1e-12);
    }
    arena_free(arena);
}

Test(trial_context, says_what_the_device_tells) {
    struct arena *arena = arena_new(0);
    struct device_info device = {.driver = "580.1", .compiler = "NVRTC 13.0"};
    struct trial trial = {.flags = TRIAL_SHARED | TRIAL_CUT_SHORT, .again = 2, .state = {1980, 2619, 40, -1, 7, 9, 1}};
    cr_expect_str_eq(
        trial_context(&trial, &device, arena),
        "{\"sm_clock_mhz\":1980,\"memory_clock_mhz\":2619,\"temperature_c\":40,\"other_processes\":1,"
        "\"flags\":[\"shared\",\"cut_short\"],\"again\":2,\"driver\":\"580.1\",\"compiler\":\"NVRTC 13.0\"}");
    trial = (struct trial){.state = {-1, -1, -1, -1, -1, -1, -1}};
    device = (struct device_info){.compiler = "gcc 12"};
    cr_expect_str_eq(trial_context(&trial, &device, arena), "{\"flags\":[],\"again\":0,\"compiler\":\"gcc 12\"}");
    arena_free(arena);
}
