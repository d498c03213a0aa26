/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fields.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_range(const char *value, int64_t bytes, int64_t first, int64_t len) {
    struct field_range range = {-1, -1};
    cr_expect_eq(field_range(value, bytes, &range), RANGE_OK, "%s of %lld", value, (long long)bytes);
    cr_expect(range.first == first && range.len == len, "%s: %lld, %lld", value, (long long)range.first,
              (long long)range.len);
}

Test(fields, a_range_is_cut_to_the_file) {
    expect_range("bytes=10-19", 100, 10, 10);
    expect_range("bytes=10-1000", 100, 10, 90);
    expect_range("bytes=99-", 100, 99, 1);
    expect_range("bytes=-5", 100, 95, 5);
    expect_range("bytes=-500", 100, 0, 100);
}

Test(fields, a_range_outside_of_the_file_is_bad) {
    struct field_range range;
    cr_expect_eq(field_range("bytes=100-", 100, &range), RANGE_BAD);
    cr_expect_eq(field_range("bytes=0-0", 0, &range), RANGE_BAD);
    cr_expect_eq(field_range("bytes=-0", 100, &range), RANGE_BAD);
}

Test(fields, what_is_no_single_range_counts_as_none) {
    static const char *const values[] = {NULL,          "",           "bytes=",       "bytes=-",
                                         "bytes=5-4",   "bytes=a-b",  "lines=0-5",    "bytes=0-1,3-4",
                                         "bytes= 1-2",  "bytes=1- 2", "bytes=-5-",    "bytes=1",
                                         "bytes=+1-+2", "Bytes=0-1",  "bytes=0x1-2 ", "bytes=99999999999999999999-"};
    struct field_range range;
    for (size_t i = 0; i < ARRAY_COUNT(values); i++)
        cr_expect_eq(field_range(values[i], 100, &range), RANGE_NONE, "%s", values[i]);
}

Test(fields, a_tag_is_named_in_a_list_weakly_or_by_a_star) {
    cr_expect(field_names_tag("\"a\", W/\"b\"", "\"b\""));
    cr_expect(field_names_tag("*", "\"b\""));
    cr_expect_not(field_names_tag("\"ab\"", "\"b\""));
    cr_expect_not(field_names_tag(NULL, "\"b\""));
    cr_expect_not(field_names_tag("*", NULL));
}

Test(fields, an_event_id_is_a_number_of_up_to_eighteen_digits) {
    struct error error;
    int64_t id = 5;
    cr_expect_eq(field_event_id(NULL, &id, &error), 0);
    cr_expect_eq(field_event_id("", &id, &error), 0);
    cr_expect_eq(id, 5);
    cr_expect_eq(field_event_id("123456789012345678", &id, &error), 0);
    cr_expect_eq(id, 123456789012345678);
    static const char *const values[] = {"two", "-1", "+1", " 1", "1 ", "1.5", "1234567890123456789", "0x10"};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        cr_expect_eq(field_event_id(values[i], &id, &error), -1, "%s", values[i]);
        cr_expect_str_eq(error.field, "Last-Event-ID");
    }
}

Test(fields, an_idempotency_key_is_printable_and_not_too_long) {
    char long_key[IDEMPOTENCY_KEY_MOST + 2];
    memset(long_key, 'x', sizeof long_key);
    long_key[IDEMPOTENCY_KEY_MOST + 1] = 0;
    cr_expect_not(field_is_idempotency_key(long_key));
    long_key[IDEMPOTENCY_KEY_MOST] = 0;
    cr_expect(field_is_idempotency_key(long_key));
    cr_expect(field_is_idempotency_key("build 17~"));
    cr_expect_not(field_is_idempotency_key(""));
    cr_expect_not(field_is_idempotency_key("a\tb"));
    cr_expect_not(field_is_idempotency_key("\xc3\xa4"));
    cr_expect_not(field_is_idempotency_key("\x7f"));
}

#define TOKEN "wt_0123456789ABCDEFGHIJKLMNOPQRST4PMbyp"

Test(fields, a_bearer_token_is_one_of_ours_after_its_scheme) {
    cr_expect_str_eq(field_bearer("Bearer " TOKEN), TOKEN);
    cr_expect_str_eq(field_bearer("bEARER   " TOKEN), TOKEN);
    cr_expect_null(field_bearer(TOKEN));
    cr_expect_null(field_bearer("Basic " TOKEN));
    cr_expect_null(field_bearer("Bearer " TOKEN " "));
    cr_expect_null(field_bearer("Bearer"));
    cr_expect_null(field_bearer("Bearer wt_x"));
}
