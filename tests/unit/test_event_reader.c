/* SPDX-License-Identifier: Apache-2.0 */
#include "service/event_reader.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct heard {
    char text[4096]; /* name|data; of each */
    int most;        /* events, then it is enough; 0: no limit */
    int n;
};

static bool hear(void *context, const char *name, const char *data) {
    struct heard *heard = context;
    size_t len = strlen(heard->text);
    snprintf(heard->text + len, sizeof heard->text - len, "%s|%s;", name, data);
    return ++heard->n != heard->most;
}

/* Reads the text in pieces of `step` bytes and expects these events and the id after them. */
static void expect(const char *text, size_t step, const char *events, const char *id) {
    struct heard heard = {.text = ""};
    struct event_reader reader;
    event_reader_init(&reader, hear, &heard);
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += step)
        cr_assert(event_reader_add(&reader, text + at, len - at < step ? len - at : step));
    cr_expect_str_eq(heard.text, events, "in steps of %zu: %s", step, heard.text);
    cr_expect_str_eq(reader.id, id);
    event_reader_release(&reader);
}

static void expect_in_all_steps(const char *text, const char *events, const char *id) {
    for (size_t step = 1; step <= strlen(text); step++)
        expect(text, step, events, id);
}

Test(event_reader, events_have_a_name_and_data) {
    expect_in_all_steps("retry: 1000\n\nid: 7\nevent: state\ndata: {\"a\":1}\n\nid: 8\nevent: end\ndata: {}\n\n",
                        "state|{\"a\":1};end|{};", "8");
}

Test(event_reader, every_end_of_a_line_is_one) {
    expect_in_all_steps("event: a\r\ndata: 1\r\n\r\nevent: b\rdata: 2\r\revent: c\ndata: 3\n\n", "a|1;b|2;c|3;", "");
}

Test(event_reader, comments_and_what_is_unknown_are_passed_over) {
    expect_in_all_steps(": keep-alive\n\nfoo: bar\ndata\ndata:x\ndata:  y\n\n", "message|\nx\n y;", "");
}

Test(event_reader, an_id_without_data_counts) {
    expect_in_all_steps("id: 41\n\n: nothing\n\n", "", "41");
}

Test(event_reader, what_breaks_off_is_no_event) {
    struct heard heard = {.text = ""};
    struct event_reader reader;
    event_reader_init(&reader, hear, &heard);
    const char *half = "id: 5\nevent: state\ndata: {\"state\"", *next = "event: log\ndata: {}\n\n";
    cr_assert(event_reader_add(&reader, half, strlen(half)));
    event_reader_restart(&reader);
    cr_expect_str_eq(reader.id, "", "it comes again");
    cr_assert(event_reader_add(&reader, next, strlen(next)));
    cr_expect_str_eq(heard.text, "log|{};");
    event_reader_release(&reader);
}

Test(event_reader, enough_is_enough) {
    struct heard heard = {.text = "", .most = 2};
    struct event_reader reader;
    event_reader_init(&reader, hear, &heard);
    const char *text = "data: 1\n\ndata: 2\n\ndata: 3\n\n";
    cr_expect_not(event_reader_add(&reader, text, strlen(text)));
    cr_expect_str_eq(heard.text, "message|1;message|2;");
    event_reader_release(&reader);
}

Test(event_reader, lines_and_ids_without_end_take_no_memory_without_end) {
    struct heard heard = {.text = ""};
    struct event_reader reader;
    static char much[3 << 20];
    event_reader_init(&reader, hear, &heard);
    memset(much, 'x', sizeof much);
    memcpy(much, "id: ", 4);
    cr_assert(event_reader_add(&reader, much, sizeof much));
    cr_expect_leq(reader.line.len, (size_t)EVENT_MOST);
    cr_assert(event_reader_add(&reader, "\ndata: 1\n\n", 10));
    cr_expect_str_eq(heard.text, "message|1;");
    cr_expect_str_eq(reader.id, "");
    event_reader_release(&reader);
}
