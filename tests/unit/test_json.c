/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/json.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/buf.h"
#include "service/base/json_scan.h"

struct text {
    const char *bytes;
    size_t len;
};
#define TEXT(literal) \
    { literal, sizeof(literal) - 1 }

/* An exact copy on the heap, so that the address sanitizer sees a read past the end. */
static int parse(struct text text, struct json_object **ret, struct error *error) {
    char *copy = malloc(text.len ? text.len : 1);
    if (text.len)
        memcpy(copy, text.bytes, text.len);
    int rc = json_parse(copy, text.len, ret, error);
    free(copy);
    return rc;
}

static struct json_object *parsed(const char *text) {
    struct json_object *object = NULL;
    struct error error = {0};
    cr_assert_eq(json_parse(text, strlen(text), &object, &error), 0, "%s: %s", text, error.text);
    return object;
}

static void assert_all_refused(const struct text *texts, size_t count, const char *code) {
    for (size_t i = 0; i < count; i++) {
        struct json_object *object = NULL;
        struct error error = {0};
        cr_expect_eq(parse(texts[i], &object, &error), -1, "case %zu: %s", i, texts[i].bytes);
        cr_expect_eq(error.class, ERROR_INVALID, "case %zu", i);
        cr_expect_str_eq(error.code, code, "case %zu: %s", i, error.text);
        cr_expect_null(object);
    }
}

static void assert_all_taken(const struct text *texts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct json_object *object = NULL;
        struct error error = {0};
        cr_expect_eq(parse(texts[i], &object, &error), 0, "case %zu: %s: %s", i, texts[i].bytes, error.text);
        json_object_put(object);
    }
}

Test(json, takes_what_rfc_8259_allows) {
    static const struct text texts[] = {
        TEXT("{}"),
        TEXT("[]"),
        TEXT("null"),
        TEXT("true"),
        TEXT("false"),
        TEXT("0"),
        TEXT("-0"),
        TEXT("12"),
        TEXT("-12"),
        TEXT("1.5"),
        TEXT("1e5"),
        TEXT("1E+5"),
        TEXT("1.25e-7"),
        TEXT("-0.0"),
        TEXT("1e-999"),
        TEXT("\"\""),
        TEXT("\"x\""),
        TEXT(" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \t\r\n"),
        TEXT("[[],{}]\n"),
        TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\""),
        TEXT("\"\x7F\""),
        TEXT("\"\\ufffe\""),
        TEXT("\"\xF4\x8F\xBF\xBF\""),
        TEXT("{\"\":1}"),
        TEXT("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":2}]}"),
    };
    assert_all_taken(texts, ARRAY_COUNT(texts));
}

Test(json, refuses_what_is_no_json) {
    static const struct text texts[] = {
        TEXT(""),
        TEXT(" "),
        TEXT("{"),
        TEXT("}"),
        TEXT("["),
        TEXT("]"),
        TEXT("[1"),
        TEXT("[1,"),
        TEXT("[1,]"),
        TEXT("[,1]"),
        TEXT("[1 2]"),
        TEXT("{\"a\"}"),
        TEXT("{\"a\":}"),
        TEXT("{\"a\":1,}"),
        TEXT("{,}"),
        TEXT("{a:1}"),
        TEXT("{1:1}"),
        TEXT("{null:1}"),
        TEXT("{'a':1}"),
        TEXT("'a'"),
        TEXT("[1}"),
        TEXT("{\"a\":1]"),
        TEXT("tru"),
        TEXT("True"),
        TEXT("nul"),
        TEXT("nil"),
        TEXT("undefined"),
        TEXT("//x\n1"),
        TEXT("/**/1"),
        TEXT("\"abc"),
        TEXT("\"abc\\"),
        TEXT("\"abc\\\""),
        TEXT("\xEF\xBB\xBF{}"),
        TEXT("\f1"),
        TEXT("\xC2\xA0"
             "1"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, refuses_numbers_that_only_c_knows) {
    static const struct text texts[] = {
        TEXT("NaN"),   TEXT("nan"),   TEXT("-NaN"), TEXT("Infinity"), TEXT("-Infinity"), TEXT("inf"),
        TEXT("+1"),    TEXT("01"),    TEXT("-01"),  TEXT("00"),       TEXT("1."),        TEXT(".5"),
        TEXT("-.5"),   TEXT("-"),     TEXT("1e"),   TEXT("1e+"),      TEXT("1.e5"),      TEXT("0x10"),
        TEXT("1_000"), TEXT("1e5.5"), TEXT("--1"),  TEXT("[1.2.3]"),  TEXT("[NaN]"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, takes_integers_up_to_2_to_the_53) {
    static const struct text good[] = {TEXT("9007199254740992"), TEXT("-9007199254740992"), TEXT("1e15")};
    static const struct text bad[] = {
        TEXT("9007199254740993"),
        TEXT("-9007199254740993"),
        TEXT("9223372036854775807"),
        TEXT("9223372036854775808"),
        TEXT("18446744073709551617"),
        TEXT("[100000000000000000000000000000000000]"),
        TEXT("1e309"),
        TEXT("-1e999"),
    };
    assert_all_taken(good, ARRAY_COUNT(good));
    assert_all_refused(bad, ARRAY_COUNT(bad), "number-out-of-range");
}

Test(json, refuses_a_number_of_endless_digits) {
    struct buf buf = BUF_INIT(1 << 20);
    buf_puts(&buf, "0.");
    while (buf.len < JSON_MAX_NUMBER)
        buf_putc(&buf, '3');
    struct text text = {buf.data, buf.len};
    assert_all_taken(&text, 1);
    buf_putc(&buf, '3');
    assert_all_refused(&(struct text){buf.data, buf.len}, 1, "number-too-long");
    buf_release(&buf);
}

Test(json, refuses_keys_that_come_twice) {
    static const struct text texts[] = {
        TEXT("{\"a\":1,\"a\":1}"),
        TEXT("{\"a\":1,\"b\":2,\"c\":3,\"a\":4}"),
        TEXT("{\"a\":1,\"\\u0061\":2}"),
        TEXT("{\"\\u0061\":1,\"a\":2}"),
        TEXT("{\"/\":1,\"\\/\":2}"),
        TEXT("{\"\":1,\"\":2}"),
        TEXT("{\"\\n\":1,\"\\u000A\":2}"),
        TEXT("{\"\xC3\xA9\":1,\"\\u00e9\":2}"),
        TEXT("{\"\xF0\x9F\x98\x80\":1,\"\\uD83D\\uDE00\":2}"),
        TEXT("{\"x\":{\"y\":[{\"a\":1,\"a\":2}]}}"),
        TEXT("{\"a\":{\"b\":1,\"c\":2},\"a\":1}"),
        TEXT("{\"a\":1,\"b\":{\"a\":1},\"a\":1}"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "duplicate-key");
}

Test(json, names_the_key_that_comes_twice) {
    struct json_object *object = NULL;
    struct error error;
    static const struct text text = TEXT("{\"trials\":1,\n \"\\u0074rials\":2}");
    cr_assert_eq(parse(text, &object, &error), -1);
    cr_assert_str_eq(error.field, "trials");
    cr_assert(strstr(error.text, "line 2"));
}

Test(json, tells_keys_apart_that_differ_only_a_little) {
    static const struct text texts[] = {
        TEXT("{\"a\":1,\"aa\":2,\"\":3,\"A\":4,\"a \":5,\"b\":6}"),
        TEXT("{\"\xC3\xA9\":1,\"e\xCC\x81\":2}"), /* composed and decomposed: two keys */
        TEXT("{\"\\\\u0061\":1,\"a\":2}"),
    };
    assert_all_taken(texts, ARRAY_COUNT(texts));
}

Test(json, stops_at_depth_32) {
    struct buf buf = BUF_INIT(1 << 22);
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        buf_putc(&buf, '[');
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        buf_putc(&buf, ']');
    assert_all_taken(&(struct text){buf.data, buf.len}, 1);
    buf_clear(&buf);
    for (int i = 0; i <= JSON_MAX_DEPTH; i++)
        buf_puts(&buf, "{\"a\":");
    assert_all_refused(&(struct text){buf.data, buf.len}, 1, "json-too-deep");
    buf_clear(&buf);
    for (int i = 0; i < 1000000; i++)
        buf_putc(&buf, '[');
    assert_all_refused(&(struct text){buf.data, buf.len}, 1, "json-too-deep");
    buf_release(&buf);
}

Test(json, depth_counts_what_is_open_not_what_was) {
    struct buf buf = BUF_INIT(1 << 20);
    buf_putc(&buf, '[');
    for (int i = 0; i < 1000; i++)
        buf_puts(&buf, "{\"a\":[]},");
    buf_puts(&buf, "1]");
    assert_all_taken(&(struct text){buf.data, buf.len}, 1);
    buf_release(&buf);
}

Test(json, refuses_control_characters_in_strings) {
    for (int c = 0; c < 0x20; c++) {
        char raw[] = {'"', 'a', (char)c, 'b', '"'};
        assert_all_refused(&(struct text){raw, sizeof raw}, 1, "invalid-json");
    }
}

Test(json, refuses_nul_however_it_is_written) {
    static const struct text texts[] = {
        TEXT("\"a\\u0000b\""), TEXT("\"\\u0000\""), TEXT("{\"a\\u0000\":1}"), TEXT("\"a\0b\""), TEXT("{}\0"),
        TEXT("1\0"),           TEXT("\0"),          TEXT("[1,\0 2]"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, refuses_bytes_after_the_value) {
    static const struct text texts[] = {
        TEXT("{}x"),        TEXT("{} {}"),  TEXT("1 2"),       TEXT("[],"), TEXT("null null"),
        TEXT("\"a\"\"b\""), TEXT("{}\xFF"), TEXT("truefalse"), TEXT("12a"), TEXT("1,"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, refuses_lone_surrogates_and_bad_escapes) {
    static const struct text texts[] = {
        TEXT("\"\\uD800\""),
        TEXT("\"\\uDBFFx\""),
        TEXT("\"\\uDC00\""),
        TEXT("\"\\uDFFF\\uD800\""),
        TEXT("\"\\uD800\\uD800\""),
        TEXT("\"\\uD800\\u0061\""),
        TEXT("\"\\uD83D\\n\""),
        TEXT("\"\\uD83D\\"),
        TEXT("\"\\uD83D\\u"),
        TEXT("\"\\uD83D\\uDE\""),
        TEXT("\"\\x41\""),
        TEXT("\"\\u12\""),
        TEXT("\"\\u12g4\""),
        TEXT("\"\\U0041\""),
        TEXT("\"\\a\""),
        TEXT("\"\\'\""),
        TEXT("\"\\0\""),
        TEXT("\"\\\n\""),
        TEXT("\"\\u+123\""),
        TEXT("\"\\"),
        TEXT("\"\\u"),
        TEXT("{\"\\uD800\":1}"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, refuses_bytes_that_are_no_utf8) {
    static const struct text texts[] = {
        TEXT("\"\xC0\x80\""),
        TEXT("\"\xC0\xAF\""),
        TEXT("\"\xE0\x80\xAF\""),
        TEXT("\"\xF0\x80\x80\xAF\""),
        TEXT("\"\xC1\xBF\""),
        TEXT("\"\x80\""),
        TEXT("\"\xFF\""),
        TEXT("\"\xFE\""),
        TEXT("\"\xED\xA0\x80\""),
        TEXT("\"\xED\xB0\x80\""),
        TEXT("\"\xF4\x90\x80\x80\""),
        TEXT("\"\xF8\x88\x80\x80\x80\""),
        TEXT("\"\xE2\x82\""),
        TEXT("\"\xC3\""),
        TEXT("\"\xC3"),
        TEXT("\"\xF0\x9F\x98"),
        TEXT("{\"\xC0\xA2\":1}"),
        TEXT("\xC3\xA9"),
    };
    assert_all_refused(texts, ARRAY_COUNT(texts), "invalid-json");
}

Test(json, refuses_a_text_cut_off_anywhere) {
    static const char whole[] = "{\"a\":[1.5e3,true,null,\"\\uD83D\\uDE00\xC3\xA9\"],\"b\":{\"c\":-12}}";
    for (size_t len = 0; len < sizeof whole - 1; len++)
        assert_all_refused(&(struct text){whole, len}, 1, "invalid-json");
    assert_all_taken(&(struct text)TEXT(whole), 1);
}

Test(json, says_where_it_stopped) {
    struct json_object *object = NULL;
    struct error error;
    static const struct text text = TEXT("{\n  \"a\": 1,\n  \"b\": tru\n}");
    cr_assert_eq(parse(text, &object, &error), -1);
    cr_assert(strstr(error.text, "line 3, column 11"), "%s", error.text);
}

Test(json, many_keys_are_checked_in_reasonable_time) {
    struct buf buf = BUF_INIT(1 << 24);
    buf_putc(&buf, '{');
    for (int i = 0; i < 100000; i++)
        buf_printf(&buf, "\"key%d\":%d,", i, i);
    buf_puts(&buf, "\"last\":1}");
    assert_all_taken(&(struct text){buf.data, buf.len}, 1);
    buf_release(&buf);
}

Test(json, only_fields_names_the_stranger) {
    static const char *const allowed[] = {"a", "b", NULL};
    struct error error;
    CLEANUP(json_put_p)
    struct json_object *good = parsed("{\"b\":1}"), *bad = parsed("{\"a\":1,\"c\":2}"), *array = parsed("[]");
    cr_assert_eq(json_only_fields(good, allowed, &error), 0);
    cr_assert_eq(json_only_fields(bad, allowed, &error), -1);
    cr_assert_str_eq(error.code, "unknown-field");
    cr_assert_str_eq(error.field, "c");
    cr_assert_eq(json_only_fields(array, allowed, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_eq(json_only_fields(NULL, allowed, &error), -1);
}

Test(json, reads_every_type) {
    CLEANUP(json_put_p)
    struct json_object *object = parsed("{\"s\":\"text\",\"i\":-5,\"d\":1.5,\"b\":true,\"o\":{\"x\":1},\"a\":[1,2]}");
    struct error error;
    const char *s = NULL;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    struct json_object *o = NULL, *a = NULL;
    cr_assert_eq(json_read_string(object, "s", JSON_REQUIRED, 4, &s, &error), 0);
    cr_assert_eq(json_read_int(object, "i", JSON_REQUIRED, -5, 5, &i, &error), 0);
    cr_assert_eq(json_read_double(object, "d", JSON_REQUIRED, 0, 2, &d, &error), 0);
    cr_assert_eq(json_read_bool(object, "b", JSON_REQUIRED, &b, &error), 0);
    cr_assert_eq(json_read_object(object, "o", JSON_REQUIRED, &o, &error), 0);
    cr_assert_eq(json_read_array(object, "a", JSON_REQUIRED, &a, &error), 0);
    cr_assert_str_eq(s, "text");
    cr_assert_eq(i, -5);
    cr_assert_eq(d, 1.5);
    cr_assert(b);
    cr_assert_eq(json_object_object_length(o), 1);
    cr_assert_eq(json_object_array_length(a), 2);
    cr_assert_eq(json_read_double(object, "i", JSON_REQUIRED, -10, 2, &d, &error), 0, "an integer is a number");
    cr_assert_eq(d, -5);
}

Test(json, leaves_absent_optional_fields_alone) {
    CLEANUP(json_put_p) struct json_object *object = parsed("{}");
    struct error error;
    const char *s = "default";
    int64_t i = 7;
    bool b = true;
    cr_assert_eq(json_read_string(object, "s", JSON_OPTIONAL, 4, &s, &error), 0);
    cr_assert_eq(json_read_int(object, "i", JSON_OPTIONAL, 0, 1, &i, &error), 0);
    cr_assert_eq(json_read_bool(object, "b", JSON_OPTIONAL, &b, &error), 0);
    cr_assert_str_eq(s, "default");
    cr_assert_eq(i, 7);
    cr_assert(b);
    cr_assert_eq(json_read_int(object, "i", JSON_REQUIRED, 0, 1, &i, &error), -1);
    cr_assert_str_eq(error.code, "missing-field");
    cr_assert_str_eq(error.field, "i");
}

Test(json, refuses_wrong_types_and_null) {
    CLEANUP(json_put_p)
    struct json_object *object = parsed("{\"n\":null,\"s\":\"12\",\"d\":1.0,\"i\":1,\"a\":[],\"o\":{}}");
    struct error error;
    const char *s = NULL;
    int64_t i = 7;
    double d = 7;
    bool b = true;
    struct json_object *o = NULL;
    const struct {
        int rc;
        const char *field;
    } calls[] = {
        {json_read_int(object, "n", JSON_OPTIONAL, 0, 9, &i, &error), "n"},
        {json_read_string(object, "n", JSON_OPTIONAL, 9, &s, &error), "n"},
        {json_read_object(object, "n", JSON_OPTIONAL, &o, &error), "n"},
        {json_read_int(object, "s", JSON_REQUIRED, 0, 99, &i, &error), "s"},
        {json_read_int(object, "d", JSON_REQUIRED, 0, 9, &i, &error), "d"},
        {json_read_string(object, "i", JSON_REQUIRED, 9, &s, &error), "i"},
        {json_read_bool(object, "i", JSON_REQUIRED, &b, &error), "i"},
        {json_read_double(object, "s", JSON_REQUIRED, 0, 99, &d, &error), "s"},
        {json_read_object(object, "a", JSON_REQUIRED, &o, &error), "a"},
        {json_read_array(object, "o", JSON_REQUIRED, &o, &error), "o"},
    };
    for (size_t n = 0; n < ARRAY_COUNT(calls); n++)
        cr_expect_eq(calls[n].rc, -1, "case %zu", n);
    cr_assert_str_eq(error.code, "wrong-type");
    cr_assert_str_eq(error.field, "o");
    cr_assert(i == 7 && d == 7 && b && !s && !o);
}

Test(json, refuses_values_out_of_range) {
    CLEANUP(json_put_p) struct json_object *object = parsed("{\"i\":3000000000,\"d\":-1e300,\"s\":\"12345\"}");
    struct error error;
    const char *s;
    int64_t i;
    double d;
    cr_assert_eq(json_read_int(object, "i", JSON_REQUIRED, 0, 2999999999, &i, &error), -1);
    cr_assert_str_eq(error.code, "out-of-range");
    cr_assert_eq(json_read_int(object, "i", JSON_REQUIRED, 0, 3000000000, &i, &error), 0);
    cr_assert_eq(i, 3000000000, "not cut to 32 bits");
    cr_assert_eq(json_read_double(object, "d", JSON_REQUIRED, 0, 1, &d, &error), -1);
    cr_assert_eq(json_read_string(object, "s", JSON_REQUIRED, 4, &s, &error), -1);
    cr_assert_str_eq(error.field, "s");
}

Test(json, writes_what_it_reads) {
    CLEANUP(json_put_p) struct json_object *object = json_object_new_object();
    json_add_string(object, "s", "a/b \"\n\xC3\xA9");
    json_add_string(object, "none", NULL);
    json_add_int(object, "i", -9007199254740992);
    json_add_double(object, "d", 0.1);
    json_add_double(object, "inf", INFINITY);
    json_add_double(object, "nan", NAN);
    json_add_bool(object, "b", true);
    json_add(object, "a", json_object_new_array());
    size_t len;
    const char *text = json_text(object, &len);
    cr_assert_str_eq(text, "{\"s\":\"a/b \\\"\\n\xC3\xA9\",\"none\":null,\"i\":-9007199254740992,\"d\":0.1,"
                           "\"inf\":null,\"nan\":null,\"b\":true,\"a\":[]}");
    cr_assert_eq(len, strlen(text));
    cr_assert_str_eq(json_text(object, NULL), text);
    json_object_put(parsed(text));
}

Test(json, writes_bad_utf8_as_question_marks) {
    CLEANUP(json_put_p) struct json_object *object = json_object_new_object();
    json_add_string(object, "s", "ptxas\xFF\xC0 said \xE2\x82");
    cr_assert_str_eq(json_text(object, NULL), "{\"s\":\"ptxas?? said \"}");
}

Test(json, writes_doubles_shortest_and_exact) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e22, "1e+22"},
        {5e-324, "5e-324"},
        {12.5, "12.5"},
        {-0.0, "-0"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {0.30000000000000004, "0.30000000000000004"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CLEANUP(json_put_p) struct json_object *object = json_object_new_object();
        json_add_double(object, "d", cases[i].value);
        char expected[64];
        snprintf(expected, sizeof expected, "{\"d\":%s}", cases[i].text);
        const char *text = json_text(object, NULL);
        cr_expect_str_eq(text, expected);
        CLEANUP(json_put_p) struct json_object *again = parsed(text);
        double d = 1;
        cr_expect_eq(json_read_double(again, "d", JSON_REQUIRED, -INFINITY, INFINITY, &d, NULL), 0);
        cr_expect_eq(d, cases[i].value);
    }
}
