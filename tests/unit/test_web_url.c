/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "service/base/web_url.h"

Test(web_url, gives_the_host) {
    static const char *const good[][2] = {{"http://example.com", "example.com"},
                                          {"https://example.com:8443/hooks/1?a=b#c", "example.com"},
                                          {"HTTPS://example.com/%20", "example.com"},
                                          {"http://10.0.0.1:80/", "10.0.0.1"},
                                          {"http://[::1]:9/x", "[::1]"},
                                          /* other ways to write 127.0.0.1 that resolvers take */
                                          {"http://2130706433/", "127.0.0.1"},
                                          {"http://0x7f.1/", "127.0.0.1"}};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        char host[WEB_URL_HOST];
        struct error error;
        cr_assert_eq(web_url_check(good[i][0], "hook", host, &error), 0, "%s: %s", good[i][0], error.text);
        cr_expect_str_eq(host, good[i][1], "%s", good[i][0]);
    }
}

Test(web_url, others_are_refused) {
    static const char *const wrong[] = {"",
                                        "example.com",
                                        "//example.com/",
                                        "/hooks",
                                        "ftp://example.com/",
                                        "file:///etc/passwd",
                                        "gopher://example.com/",
                                        "javascript:alert(1)",
                                        "http://",
                                        "http://user@example.com/",
                                        "http://user:sesame@example.com/",
                                        "http://example.com:99999/",
                                        "http://example.com/a b",
                                        "http://example.com/\n",
                                        "http://ex\xc3\xa4mple.com/"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        char host[WEB_URL_HOST];
        struct error error;
        cr_assert_eq(web_url_check(wrong[i], "hook", host, &error), -1, "%s", wrong[i]);
        cr_expect_str_eq(error.code, "bad-url");
        cr_expect_str_eq(error.field, "hook");
        cr_expect(!strstr(error.text, "sesame"));
    }
}

Test(web_url, has_a_limit) {
    char url[WEB_URL_MOST + 2] = "http://example.com/", host[WEB_URL_HOST];
    struct error error;
    memset(url + strlen(url), 'a', sizeof url - strlen(url) - 1);
    url[WEB_URL_MOST + 1] = 0;
    cr_expect_eq(web_url_check(url, "hook", host, &error), -1);
    url[WEB_URL_MOST] = 0;
    cr_expect_eq(web_url_check(url, "hook", host, &error), 0, "%s", error.text);
}
