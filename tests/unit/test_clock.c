/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/clock.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <math.h>

Test(clock, monotonic_time_does_not_go_back) {
    int64_t before = clock_now_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_now_ns();
        cr_assert_geq(now, before);
        before = now;
    }
}

Test(clock, wall_time_is_in_microseconds) {
    cr_assert_gt(clock_wall_us(), 1700000000LL * 1000000);
    cr_assert_lt(clock_wall_us(), 7000000000LL * 1000000);
}

Test(clock, deadlines_saturate) {
    cr_assert_eq(deadline_in_s(INFINITY), DEADLINE_NEVER);
    cr_assert_eq(deadline_in_s(1e300), DEADLINE_NEVER);
    cr_assert_leq(deadline_in_s(-5), clock_now_ns());
    cr_assert_leq(deadline_in_s(NAN), clock_now_ns());
    int64_t before = clock_now_ns(), hour = deadline_in_s(3600);
    cr_assert_geq(hour, before + 3600 * NS_PER_S);
}

Test(clock, poll_gets_what_is_left) {
    cr_assert_eq(deadline_poll_ms(DEADLINE_NEVER), -1);
    cr_assert_eq(deadline_poll_ms(0), 0);
    cr_assert_eq(deadline_poll_ms(clock_now_ns() - 1), 0);
    cr_assert_eq(deadline_poll_ms(DEADLINE_NEVER - 1), INT_MAX);
    int ms = deadline_poll_ms(clock_now_ns() + 3600 * NS_PER_S);
    cr_assert_gt(ms, 0);
    cr_assert_leq(ms, 3600 * 1000);
}

Test(clock, format_is_rfc_3339) {
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1767323045678999, "2026-01-02T03:04:05.678Z"},
        {951782400000000, "2000-02-29T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        clock_format(cases[i].us, text);
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(clock, format_fits_for_any_number) {
    char text[32];
    clock_format(INT64_MAX, text);
    cr_assert_str_eq(text, "294247-01-10T04:00:54.775Z");
    clock_format(INT64_MIN, text);
    cr_assert_str_not_empty(text);
}
