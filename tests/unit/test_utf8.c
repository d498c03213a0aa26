/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

#include "service/base/attr.h"

Test(utf8, a_sequence_has_the_length_that_rfc_3629_gives_it) {
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
        {"a", 1},
        {"\x7F", 1},
        {"\xC2\x80", 2},
        {"\xDF\xBF", 2},
        {"\xE0\xA0\x80", 3},
        {"\xED\x9F\xBF", 3},
        {"\xEF\xBF\xBF", 3},
        {"\xF0\x90\x80\x80", 4},
        {"\xF4\x8F\xBF\xBF", 4},
        {"\x80", 0},             /* a trail byte alone */
        {"\xC0\x80", 0},         /* overlong NUL */
        {"\xC1\xBF", 0},         /* overlong */
        {"\xE0\x9F\xBF", 0},     /* overlong */
        {"\xF0\x8F\xBF\xBF", 0}, /* overlong */
        {"\xED\xA0\x80", 0},     /* a surrogate */
        {"\xF4\x90\x80\x80", 0}, /* past U+10FFFF */
        {"\xF5\x80\x80\x80", 0},
        {"\xFF", 0},
        {"\xE2\x82", 0}, /* cut off */
        {"\xE2\x82z", 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        cr_expect_eq(utf8_sequence(cases[i].bytes, strlen(cases[i].bytes)), cases[i].length, "case %zu", i);
    cr_expect_eq(utf8_sequence("", 0), 0);
}

Test(utf8, scrub_keeps_valid_text) {
    char text[] = "Gr\xC3\xBC\xC3\x9F"
                  "e \xF0\x9F\x98\x80";
    char before[sizeof text];
    memcpy(before, text, sizeof text);
    utf8_scrub(text);
    cr_assert_str_eq(text, before);
}

Test(utf8, scrub_drops_a_cut_off_end_and_marks_other_bad_bytes) {
    char text[] = "a\x80z\xE2\x82";
    utf8_scrub(text);
    cr_assert_str_eq(text, "a?z");
}
