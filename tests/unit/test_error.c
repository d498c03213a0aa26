/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/error.h"

#include <criterion/criterion.h>
#include <string.h>

#include "service/base/utf8.h"

Test(error, set_fills_everything_and_returns_minus_one) {
    struct error error;
    cr_assert_eq(error_set(&error, ERROR_LIMIT, "too-large", "body", "%d bytes are too many.", 7), -1);
    cr_assert_eq(error.class, ERROR_LIMIT);
    cr_assert_str_eq(error.code, "too-large");
    cr_assert_str_eq(error.field, "body");
    cr_assert_str_eq(error.text, "7 bytes are too many.");
}

Test(error, set_takes_null_for_what_nobody_wants) {
    struct error error;
    cr_assert_eq(error_set(NULL, ERROR_IO, "x", NULL, "text"), -1);
    cr_assert_eq(error_set(&error, ERROR_IO, "x", NULL, "text"), -1);
    cr_assert_str_eq(error.field, "");
}

Test(error, text_cut_off_in_a_character_stays_valid_utf8) {
    struct error error;
    char text[1200];
    for (size_t i = 0; i + 3 <= sizeof text; i += 3)
        memcpy(text + i, "\xE2\x82\xAC", 3);
    text[sizeof text - 1] = '\0';
    error_set(&error, ERROR_IO, "x", NULL, "a%s", text);
    size_t len = strlen(error.text);
    cr_assert_eq(len, 1 + 340 * 3);
    for (size_t i = 0, n; i < len; i += n)
        cr_assert_gt(n = utf8_sequence(error.text + i, len - i), 0);
}

Test(error, bytes_that_are_no_utf8_become_question_marks) {
    struct error error;
    error_set(&error, ERROR_IO, "x", "\xFF", "a\xC0\x80z");
    cr_assert_str_eq(error.text, "a??z");
    cr_assert_str_eq(error.field, "?");
}

Test(error, set_may_quote_its_own_old_text) {
    struct error error;
    error_set(&error, ERROR_IO, "x", NULL, "inner");
    error_set(&error, ERROR_DEVICE, error.code, error.text, "outer: %s", error.text);
    cr_assert_str_eq(error.text, "outer: inner");
    cr_assert_str_eq(error.field, "inner");
}

Test(error, prefix_keeps_class_code_and_field) {
    struct error error;
    error_set(&error, ERROR_INVALID, "bad", "node", "It is bad.");
    cr_assert_eq(error_prefix(&error, "Reading %s: ", "x.onnx"), -1);
    cr_assert_str_eq(error.text, "Reading x.onnx: It is bad.");
    cr_assert_eq(error.class, ERROR_INVALID);
    cr_assert_str_eq(error.code, "bad");
    cr_assert_str_eq(error.field, "node");
}

Test(error, prefixes_never_run_past_the_end) {
    struct error error;
    error_set(&error, ERROR_INVALID, "bad", NULL, "end");
    for (int i = 0; i < 500; i++)
        error_prefix(&error, "%d: ", i);
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
    error_prefix(&error, "%2000s", "x");
    cr_assert_eq(strlen(error.text), sizeof error.text - 1);
    cr_assert_eq(error_prefix(NULL, "x"), -1);
}

Test(error, every_class_has_a_name) {
    for (int i = ERROR_NONE; i <= ERROR_INTERNAL; i++)
        cr_assert_str_not_empty(error_class_name((enum error_class)i));
    cr_assert_str_eq(error_class_name(ERROR_NOT_FOUND), "not_found");
    cr_assert_str_eq(error_class_name((enum error_class)99), "unknown");
}
