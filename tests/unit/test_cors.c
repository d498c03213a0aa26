/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "api/cors.h"

static struct cors *make(const char *origins) {
    struct cors *cors = NULL;
    struct error error = {0};
    cr_assert_eq(cors_new(origins, &cors, &error), 0, "%s", error.text);
    return cors;
}

Test(cors, without_origins_only_the_server_itself) {
    struct cors *cors = make(NULL);
    cr_expect_null(cors_allow(cors, NULL));
    cr_expect_null(cors_allow(cors, "https://a.example"));
    cr_expect_not(cors_varies(cors));
    cr_expect(cors_may_change(cors, NULL, "host:80"));
    cr_expect(cors_may_change(cors, "http://host:80", "host:80"));
    cr_expect(cors_may_change(cors, "https://HOST", "host"));
    cr_expect_not(cors_may_change(cors, "http://host:81", "host:80"));
    cr_expect_not(cors_may_change(cors, "http://evil", "host"));
    cr_expect_not(cors_may_change(cors, "null", "host"));
    cr_expect_not(cors_may_change(cors, "http://host", NULL));
    cors_free(cors);
}

Test(cors, named_origins_are_compared_whole) {
    struct cors *cors = make(" https://a.example,http://localhost:3000 ,, http://[::1]:8080");
    cr_expect_str_eq(cors_allow(cors, "https://a.example"), "https://a.example");
    cr_expect_str_eq(cors_allow(cors, "http://localhost:3000"), "http://localhost:3000");
    cr_expect_str_eq(cors_allow(cors, "http://[::1]:8080"), "http://[::1]:8080");
    cr_expect_null(cors_allow(cors, "https://a.example.evil"));
    cr_expect_null(cors_allow(cors, "https://b.a.example"));
    cr_expect_null(cors_allow(cors, "http://a.example"));
    cr_expect_null(cors_allow(cors, "null"));
    cr_expect_null(cors_allow(cors, ""));
    cr_expect(cors_varies(cors));
    cr_expect(cors_may_change(cors, "https://a.example", "host"));
    cr_expect_not(cors_may_change(cors, "https://b.example", "host"));
    cors_free(cors);
}

Test(cors, a_star_is_everybody) {
    struct cors *cors = make("*");
    cr_expect_str_eq(cors_allow(cors, "https://any.example"), "*");
    cr_expect_null(cors_allow(cors, NULL));
    cr_expect_not(cors_varies(cors));
    cors_free(cors);
}

Test(cors, what_is_no_origin_is_refused_by_name) {
    static const char *const wrong[] = {
        "a.example",      "https://", "https://a.example/", "://a",        "https://a.example?",
        "https://a b/ c", "null",     "https://a*",         "https://u@a", "ht tp://a.example"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct cors *cors = NULL;
        struct error error = {0};
        cr_expect_eq(cors_new(wrong[i], &cors, &error), -1, "%s", wrong[i]);
        cr_expect_str_eq(error.field, "cors-origins", "%s", wrong[i]);
        cr_expect_null(cors);
    }
}
