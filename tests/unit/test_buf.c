/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/buf.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(buf, is_a_c_string_even_when_empty) {
    struct buf buf = BUF_INIT(10);
    cr_assert_str_eq(buf_str(&buf), "");
    buf_append(&buf, NULL, 0);
    buf_puts(&buf, "");
    cr_assert_str_eq(buf_str(&buf), "");
    cr_assert_eq(buf_check(&buf, "it", NULL), 0);
    buf_release(&buf);
}

Test(buf, grows_by_all_ways_of_appending) {
    struct buf buf;
    buf_init(&buf, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        buf_append(&buf, "ab\0", 3);
        buf_puts(&buf, "cd");
        buf_putc(&buf, 'e');
        buf_printf(&buf, "%03d", i);
    }
    cr_assert_eq(buf.len, 9000);
    cr_assert_arr_eq(buf.data + 8991, "ab\0cde999", 10);
    buf_release(&buf);
}

Test(buf, keeps_what_fits_and_remembers_the_rest) {
    struct buf buf = BUF_INIT(5);
    struct error error;
    buf_puts(&buf, "abcd");
    buf_puts(&buf, "efg");
    cr_assert_str_eq(buf_str(&buf), "abcde");
    cr_assert_eq(buf_check(&buf, "The answer", &error), -1);
    cr_assert_eq(error.class, ERROR_LIMIT);
    cr_assert(strstr(error.text, "The answer"));
    buf_release(&buf);
}

Test(buf, leaves_no_holes_after_an_overflow) {
    struct buf buf = BUF_INIT(5);
    buf_printf(&buf, "%s", "toolong");
    buf_putc(&buf, 'x');
    cr_assert_null(buf_reserve(&buf, 1));
    cr_assert_eq(buf.len, 0);
    buf_release(&buf);
}

Test(buf, exactly_the_maximum_is_no_overflow) {
    struct buf buf = BUF_INIT(5);
    buf_printf(&buf, "%d", 12345);
    cr_assert_not(buf.overflowed);
    cr_assert_str_eq(buf_str(&buf), "12345");
    buf_release(&buf);
}

Test(buf, clear_forgets_content_and_overflow) {
    struct buf buf = BUF_INIT(3);
    buf_puts(&buf, "abcd");
    buf_clear(&buf);
    buf_puts(&buf, "xy");
    cr_assert_str_eq(buf_str(&buf), "xy");
    cr_assert_eq(buf_check(&buf, "it", NULL), 0);
    buf_release(&buf);
}

Test(buf, may_be_used_again_after_release) {
    struct buf buf = BUF_INIT(3);
    buf_puts(&buf, "abc");
    buf_release(&buf);
    buf_puts(&buf, "xyz");
    cr_assert_str_eq(buf_str(&buf), "xyz");
    buf_release(&buf);
}

Test(buf, reserved_bytes_are_followed_by_a_nul_however_many_are_used) {
    struct buf buf = BUF_INIT(100);
    memcpy(buf_reserve(&buf, 100), "hello", 5);
    buf.len += 5;
    cr_assert_str_eq(buf_str(&buf), "hello");
    cr_assert_null(buf_reserve(&buf, 96));
    cr_assert(buf.overflowed);
    buf_release(&buf);
}

Test(buf, the_largest_maximum_still_cannot_wrap_around) {
    struct buf buf = BUF_INIT(SIZE_MAX);
    buf_putc(&buf, 'x');
    cr_assert_str_eq(buf_str(&buf), "x");
    cr_assert_null(buf_reserve(&buf, SIZE_MAX - 1));
    cr_assert_null(buf_reserve(&buf, SIZE_MAX));
    cr_assert_eq(buf_check(&buf, "it", NULL), -1);
    buf_release(&buf);
}
