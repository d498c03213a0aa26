/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/target.h"

#include <criterion/criterion.h>
#include <string.h>

#include "service/base/json.h"

Test(target, an_architecture_stands_for_a_device_that_has_it) {
    struct target target;
    struct error error;
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0);
    cr_assert_str_eq(target.kind, "cuda");
    cr_assert_eq(target.units, 132);
    cr_assert_eq(target.shared_bytes, 227 * 1024);
    cr_assert_eq(target_of_arch("x86-64-v3", &target, &error), 0);
    cr_assert_str_eq(target.kind, "cpu");
    cr_assert_eq(target.shared_bytes, 0);
}

Test(target, an_unknown_architecture_is_refused_with_the_list) {
    struct target target;
    struct error error;
    cr_assert_eq(target_of_arch("sm_1", &target, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert(strstr(error.text, "sm_90a"));
    cr_assert(strstr(error.text, "x86-64-v4"));
}

Test(target, json_and_back_is_the_same) {
    struct target target, again;
    struct error error;
    cr_assert_eq(target_of_arch("sm_90a", &target, &error), 0);
    struct json_object *object = target_to_json(&target);
    cr_assert_eq(target_from_json(object, &again, &error), 0);
    json_object_put(object);
    cr_assert_str_eq(again.arch, target.arch);
    cr_assert_str_eq(again.kind, target.kind);
    cr_assert_eq(again.units, target.units);
    cr_assert_eq(again.cache_bytes, target.cache_bytes);
    cr_assert_eq(again.shared_bytes, target.shared_bytes);
    cr_assert_eq(again.max_threads, target.max_threads);
    cr_assert_eq(again.registers, target.registers);
}

static void expect_refused(const char *text, const char *field) {
    struct json_object *object;
    struct target target;
    struct error error;
    cr_assert_eq(json_parse(text, strlen(text), &object, &error), 0);
    cr_assert_eq(target_from_json(object, &target, &error), -1, "%s", text);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_str_eq(error.field, field);
    json_object_put(object);
}

Test(target, json_of_something_else_is_refused_with_the_field) {
#define REST "\"cache_bytes\":1,\"shared_bytes\":1,\"max_threads\":1,\"registers\":1}"
    expect_refused("{}", "kind");
    expect_refused("{\"kind\":\"tpu\",\"arch\":\"v1\",\"units\":1," REST, "kind");
    expect_refused("{\"kind\":\"cpu\",\"arch\":\"v1\",\"units\":0," REST, "units");
    expect_refused("{\"kind\":\"cpu\",\"arch\":\"v1\",\"units\":1,\"x\":1," REST, "x");
}
