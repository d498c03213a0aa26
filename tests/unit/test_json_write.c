/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "api/json_write.h"
#include "service/base/clock.h"
#include "service/base/json.h"

/* The text must be JSON by our own strict reader, too. */
static void expect(struct buf *out, const char *text) {
    struct json_object *object;
    struct error error = {0};
    cr_expect_str_eq(buf_str(out), text);
    cr_expect_eq(json_parse(buf_str(out), out->len, &object, &error), 0, "%s: %s", buf_str(out), error.text);
    json_object_put(object);
    buf_release(out);
}

Test(json_write, commas_come_by_themselves) {
    struct buf out = BUF_INIT(1 << 16);
    write_object(&out, NULL);
    write_int(&out, "a", 1);
    write_array(&out, "b");
    write_int(&out, NULL, -2);
    write_object(&out, NULL);
    write_end(&out, '}');
    write_bool(&out, NULL, true);
    write_end(&out, ']');
    write_array(&out, "c");
    write_end(&out, ']');
    write_raw(&out, "d", "[1, {\"x\": null}]");
    write_raw(&out, "e", NULL);
    write_end(&out, '}');
    expect(&out, "{\"a\":1,\"b\":[-2,{},true],\"c\":[],\"d\":[1, {\"x\": null}],\"e\":null}");
}

Test(json_write, texts_are_escaped) {
    struct buf out = BUF_INIT(1 << 16);
    write_array(&out, NULL);
    write_text(&out, NULL,
               "a\"b\\c\nd\x01"
               "é\x7f");
    write_text(&out, NULL, "");
    write_text(&out, NULL, NULL);
    write_end(&out, ']');
    expect(&out, "[\"a\\\"b\\\\c\\u000ad\\u0001é\x7f\",\"\",null]");
}

Test(json_write, numbers_keep_their_value) {
    struct buf out = BUF_INIT(1 << 16);
    write_array(&out, NULL);
    write_int(&out, NULL, 0);
    write_int(&out, NULL, 9007199254740992);
    write_int(&out, NULL, -9007199254740992);
    write_fixed(&out, NULL, 0);
    write_fixed(&out, NULL, 12.3456);
    write_fixed(&out, NULL, -0.0004);
    write_fixed(&out, NULL, -1.5);
    write_fixed(&out, NULL, 999.9999);
    write_fixed(&out, NULL, INFINITY);
    write_fixed(&out, NULL, NAN);
    write_fixed(&out, NULL, 1e18);
    write_double(&out, NULL, 0.1);
    write_double(&out, NULL, 1.0 / 3);
    write_double(&out, NULL, -INFINITY);
    write_end(&out, ']');
    expect(&out, "[0,9007199254740992,-9007199254740992,0.000,12.346,0.000,-1.500,1000.000,null,null,1e+18,0.1,"
                 "0.3333333333333333,null]");
}

Test(json_write, times_are_those_of_the_clock) {
    static const int64_t times[] = {1,
                                    999,
                                    951782399999999, /* the end of a leap day */
                                    951782400000000,
                                    1709164800123456,
                                    1893456000000000,
                                    4102444799999000};
    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        struct buf out = BUF_INIT(1 << 16);
        char text[32], quoted[40];
        clock_format(times[i], text);
        snprintf(quoted, sizeof quoted, "\"%s\"", text);
        write_time(&out, NULL, times[i]);
        cr_expect_str_eq(buf_str(&out), quoted);
        buf_release(&out);
    }
}

Test(json_write, members_join_the_open_object) {
    struct buf out = BUF_INIT(1 << 16);
    write_object(&out, NULL);
    write_members(&out, " { } ");
    write_members(&out, "{\"a\": {\"b\": 1}}");
    write_members(&out, "{}");
    write_int(&out, "c", 2);
    write_end(&out, '}');
    expect(&out, "{\"a\": {\"b\": 1},\"c\":2}");
}

Test(json_write, what_does_not_fit_is_remembered) {
    struct buf out = BUF_INIT(16);
    struct error error = {0};
    write_text(&out, NULL, "more than sixteen bytes of text");
    write_int(&out, NULL, 1);
    cr_assert_eq(buf_check(&out, "answer", &error), -1);
    cr_assert_leq(out.len, 16);
    buf_release(&out);
}
