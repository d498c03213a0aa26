/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "service/base/backoff.h"

Test(backoff, waits_within_a_fifth_of_what_was_asked) {
    struct backoff backoff;
    struct error error;
    cr_assert_eq(backoff_parse("5,300,86400", &backoff, &error), 0, "%s", error.text);
    cr_assert_eq(backoff.n, 3);
    for (int i = 0; i < 3; i++)
        for (double unit = 0; unit < 1; unit += 1.0 / 64) {
            double wait_s = backoff_wait_s(&backoff, i + 1, unit), asked_s = backoff.wait_s[i];
            cr_expect(wait_s >= 0.8 * asked_s && wait_s < 1.2 * asked_s, "%g of %g", wait_s, asked_s);
        }
    cr_expect_float_eq(backoff_wait_s(&backoff, 1, 0), 4, 1e-9);
    cr_expect_float_eq(backoff_wait_s(&backoff, 2, 0.5), 300, 1e-9);
}

Test(backoff, ends_after_the_last) {
    struct backoff backoff;
    struct error error;
    cr_assert_eq(backoff_parse("0.5", &backoff, &error), 0);
    cr_expect(isfinite(backoff_wait_s(&backoff, 1, 0.5)));
    cr_expect(isinf(backoff_wait_s(&backoff, 2, 0.5)));
}

Test(backoff, bad_lists_are_refused) {
    static const char *const wrong[] = {
        "",    ",",   "5,",     ",5",  "5,,6", "-1",
        "nan", "inf", "604801", "5;6", "5 6",  "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct backoff backoff;
        struct error error;
        cr_assert_eq(backoff_parse(wrong[i], &backoff, &error), -1, "%s", wrong[i]);
        cr_expect_str_eq(error.code, "bad-backoff");
    }
}
