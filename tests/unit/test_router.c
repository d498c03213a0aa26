/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/router.h"

static int route(const char *method, const char *target, struct request *request, const char **allow,
                 struct error *error) {
    *request = (struct request){.arena = arena_new(0), .method = method};
    *allow = NULL;
    return route_request(request, target, allow, error);
}

static void expect_not_found(const char *target) {
    struct request request;
    struct error error = {0};
    const char *allow;
    cr_expect_eq(route("GET", target, &request, &allow, &error), -1, "%s", target);
    cr_expect(error.class == ERROR_NOT_FOUND || error.class == ERROR_INVALID, "%s", target);
    cr_expect_null(allow);
    arena_free(request.arena);
}

Test(router, captures_segments_and_queries) {
    struct request request;
    struct error error = {0};
    const char *allow;
    cr_assert_eq(route("GET", "/v1/jobs/a%20b?wait=5", &request, &allow, &error), 0, "%s", error.text);
    cr_assert_str_eq(request.params[0], "a b");
    cr_assert_str_eq(request_query(&request, "wait"), "5");
    arena_free(request.arena);
}

Test(router, head_is_answered_by_get) {
    struct request request;
    struct error error = {0};
    const char *allow;
    cr_assert_eq(route("HEAD", "/healthz", &request, &allow, &error), 0, "%s", error.text);
    arena_free(request.arena);
}

Test(router, wrong_method_names_the_right_ones) {
    struct request request;
    struct error error = {0};
    const char *allow;
    cr_assert_eq(route("DELETE", "/v1/jobs", &request, &allow, &error), -1);
    cr_assert_str_eq(error.code, "method-not-allowed");
    cr_assert(allow && strstr(allow, "GET") && strstr(allow, "POST"), "%s", allow ? allow : "(none)");
    arena_free(request.arena);
}

Test(router, hostile_targets_match_nothing) {
    static const char *const targets[] = {"/v1/jobs/..",         "/v1/jobs/%2e%2e", "/v1/jobs/%2e%2e%2fhealthz",
                                          "/v1/jobs/a%2fb",      "/v1/jobs/a%00b",  "/v1/jobs/%",
                                          "/v1/jobs/%zz",        "/v1/jobs/",       "/v1//jobs",
                                          "/v1/../healthz",      "healthz",         "*",
                                          "/v1/jobs/x/events/y", "/healthz/",       ""};
    for (size_t i = 0; i < ARRAY_COUNT(targets); i++)
        expect_not_found(targets[i]);
}

Test(router, unknown_repeated_and_malformed_queries_are_refused) {
    static const char *const targets[] = {"/v1/jobs/x?wat=1", "/v1/jobs/x?wait=1&wait=2", "/v1/jobs/x?wait=%4",
                                          "/v1/jobs/x?w=1"};
    for (size_t i = 0; i < ARRAY_COUNT(targets); i++) {
        struct request request;
        struct error error = {0};
        const char *allow;
        cr_expect_eq(route("GET", targets[i], &request, &allow, &error), -1, "%s", targets[i]);
        cr_expect_eq(error.class, ERROR_INVALID);
        arena_free(request.arena);
    }
}

Test(router, a_query_without_a_value_is_empty) {
    struct request request;
    struct error error = {0};
    const char *allow;
    cr_assert_eq(route("GET", "/v1/jobs?state&limit=&label=a%3Db+c", &request, &allow, &error), 0, "%s", error.text);
    cr_assert_str_eq(request_query(&request, "state"), "");
    cr_assert_str_eq(request_query(&request, "label"), "a=b c");
    cr_assert_null(request_query(&request, "cursor"));
    arena_free(request.arena);
}

Test(router, every_route_is_found_by_its_own_pattern) {
    for (const struct route *row = routes; row->method; row++) {
        struct request request;
        struct error error = {0};
        const char *allow;
        cr_expect_eq(route(row->method, row->pattern, &request, &allow, &error), 0, "%s %s: %s", row->method,
                     row->pattern, error.text);
        cr_expect_eq(request.route, row, "%s %s", row->method, row->pattern);
        arena_free(request.arena);
    }
}

Test(router, numbers_of_a_query_are_whole_and_in_range) {
    static const struct {
        const char *target;
        int status;
        int64_t value;
    } cases[] = {{"/v1/jobs/x?wait=5", 0, 5},
                 {"/v1/jobs/x", 0, 7},
                 {"/v1/jobs/x?wait=", -1, 0},
                 {"/v1/jobs/x?wait=5x", -1, 0},
                 {"/v1/jobs/x?wait=-1", -1, 0},
                 {"/v1/jobs/x?wait=301", -1, 0},
                 {"/v1/jobs/x?wait=99999999999999999999", -1, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct request request;
        struct error error = {0};
        const char *allow;
        int64_t value;
        cr_assert_eq(route("GET", cases[i].target, &request, &allow, &error), 0, "%s", error.text);
        cr_expect_eq(request_query_int(&request, "wait", 0, 300, 7, &value, &error), cases[i].status, "%s",
                     cases[i].target);
        if (cases[i].status == 0)
            cr_expect_eq(value, cases[i].value, "%s", cases[i].target);
        arena_free(request.arena);
    }
}
