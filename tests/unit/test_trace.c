/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

Test(trace, the_id_is_taken_from_a_well_formed_header) {
    static const char *const right[] = {"00-" TRACE "-" PARENT "-01", "00-" TRACE "-" PARENT "-00",
                                        "cc-" TRACE "-" PARENT "-01", "cc-" TRACE "-" PARENT "-01-what-comes-later"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        char id[TRACE_ID] = "";
        cr_expect(trace_read(right[i], id), "%s", right[i]);
        cr_expect_str_eq(id, TRACE, "%s", right[i]);
    }
}

Test(trace, anything_else_is_no_trace) {
    static const char *const wrong[] = {NULL,
                                        "",
                                        "00",
                                        "00-" TRACE "-" PARENT,
                                        "00-" TRACE "-" PARENT "-0",
                                        "00-" TRACE "-" PARENT "-01-more",
                                        "00-" TRACE "-" PARENT "-01 ",
                                        "cc-" TRACE "-" PARENT "-01.more",
                                        "ff-" TRACE "-" PARENT "-01",
                                        "0x-" TRACE "-" PARENT "-01",
                                        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
                                        "00-00000000000000000000000000000000-" PARENT "-01",
                                        "00-" TRACE "-0000000000000000-01",
                                        "00-" TRACE "-" PARENT "-0g",
                                        "00_" TRACE "-" PARENT "-01",
                                        "00-4bf92f3577b34da6a3ce929d0e0e473\n-" PARENT "-01"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char id[TRACE_ID] = "untouched";
        cr_expect_not(trace_read(wrong[i], id), "%s", wrong[i] ? wrong[i] : "(none)");
        cr_expect_str_eq(id, "untouched");
    }
}
