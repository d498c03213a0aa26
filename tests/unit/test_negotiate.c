/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "api/negotiate.h"

#define JSON "application/json"
#define BOTH "application/octet-stream application/x-tar"

Test(negotiate, the_closest_range_decides) {
    static const struct {
        const char *accept, *makes;
        bool accepted;
    } cases[] = {
        {NULL, JSON, true},
        {"", JSON, true},
        {" , ", JSON, true},
        {"*/*", JSON, true},
        {"application/json", JSON, true},
        {"APPLICATION/JSON", JSON, true},
        {"application/*", JSON, true},
        {"application/json; charset=utf-8", JSON, true},
        {"text/html, application/xhtml+xml;q=0.9, */*;q=0.8", JSON, true},
        {"text/html", JSON, false},
        {"text/*", JSON, false},
        {"application/jso", JSON, false},
        {"application/jsonp", JSON, false},
        {"json", JSON, false},
        {"/", JSON, false},
        {"*/*;q=0", JSON, false},
        {"application/json;q=0, */*", JSON, false},
        {"*/*, application/json; q=0.000", JSON, false},
        {"*/*;q=0, application/json", JSON, true},
        {"application/json;q=0.001", JSON, true},
        {"application/json;v=1;q=0", JSON, false},
        {"application/json;seq=0", JSON, true},
        {"application/*;q=0, application/json;q=0.5", JSON, true},
        {"application/x-tar", BOTH, true},
        {"application/octet-stream;q=0, application/*", BOTH, true},
        {"application/gzip", BOTH, false},
        {"text/html", "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(negotiate_accepts(cases[i].accept, cases[i].makes), cases[i].accepted, "%s for %s",
                     cases[i].accept ? cases[i].accept : "(none)", cases[i].makes);
}

Test(negotiate, the_closest_range_says_how_much) {
    static const char accept[] = "text/*;q=0.5, text/html; level=1; q=0.75, */*;q=0.1, a/b;q=2, a/c;q=nan";
    cr_expect_float_eq(negotiate_quality(accept, "text/html", 9), 0.75, 1e-9);
    cr_expect_float_eq(negotiate_quality(accept, "text/plain", 10), 0.5, 1e-9);
    cr_expect_float_eq(negotiate_quality(accept, "image/png", 9), 0.1, 1e-9);
    cr_expect_float_eq(negotiate_quality(accept, "a/b", 3), 1, 0, "no weight is above 1, so it is none");
    cr_expect_float_eq(negotiate_quality(accept, "a/c", 3), 1, 0);
    cr_expect_float_eq(negotiate_quality("text/html", "text/plain", 10), 0, 0);
    cr_expect_float_eq(negotiate_quality(NULL, "text/plain", 10), 1, 0);
}
