/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/event_text.h"

static void expect(const struct event_row *event, const char *text, bool ended_after) {
    struct buf out = BUF_INIT(1 << 16);
    bool ended = false;
    event_write(&out, event, &ended);
    cr_expect_str_eq(buf_str(&out), text);
    cr_expect_eq(ended, ended_after);
    buf_release(&out);
}

Test(event_text, an_event_is_three_lines_and_a_blank_one) {
    struct event_row event = {.number = 7, .kind = "log", .data = "{\"text\": \"hello\"}"};
    expect(&event, "id: 7\nevent: log\ndata: {\"text\": \"hello\"}\n\n", false);
}

Test(event_text, an_event_of_a_project_names_its_job_first) {
    struct event_row log = {.number = 70, .kind = "log", .data = "{}", .job_id = "0197", .job_number = 7};
    struct event_row trial = {
        .number = 71, .kind = "trial", .data = "{ \"task\" : 2 }", .job_id = "0197", .job_number = 8};
    expect(&log, "id: 70\nevent: log\ndata: {\"job_id\":\"0197\",\"event\":7}\n\n", false);
    expect(&trial, "id: 71\nevent: trial\ndata: {\"job_id\":\"0197\",\"event\":8,\"task\" : 2 }\n\n", false);
}

Test(event_text, data_stays_on_one_line) {
    struct event_row event = {.number = 1, .kind = "trial", .data = "{\"a\" : 1,\r\n \"b\" : 2}"};
    expect(&event, "id: 1\nevent: trial\ndata: {\"a\" : 1,   \"b\" : 2}\n\n", false);
}

Test(event_text, progress_gets_the_line_of_autotvm) {
    struct event_row event = {.number = 12,
                              .kind = "progress",
                              .data =
                                  "{\"task\" : 2, \"tasks\" : 12, \"trials_done\" : 960, \"trials_planned\" : 2000, "
                                  "\"current_gflops\" : 541.834, \"best_gflops\" : 3570.66, \"best_us\" : null, "
                                  "\"elapsed_s\" : 101.309}"};
    struct buf out = BUF_INIT(1 << 16);
    bool ended = false;
    event_write(&out, &event, &ended);
    cr_assert(strstr(buf_str(&out), ",\"line\":\"[Task  3/12] Current/Best: 541.83/3570.66 GFLOPS | "
                                    "Progress: (960/2000) | 101.31 s\"}\n\n"),
              "%s", buf_str(&out));
    buf_release(&out);
}

Test(event_text, a_failed_trial_counts_as_zero_gflops) {
    struct event_row event = {.number = 1,
                              .kind = "progress",
                              .data = "{\"task\":0,\"tasks\":1,\"trials_done\":1,\"trials_planned\":2,"
                                      "\"current_gflops\":null,\"best_gflops\":null,\"elapsed_s\":0.5}"};
    struct buf out = BUF_INIT(1 << 16);
    bool ended = false;
    event_write(&out, &event, &ended);
    cr_assert(strstr(buf_str(&out), "Current/Best: 0.00/0.00 GFLOPS"), "%s", buf_str(&out));
    buf_release(&out);
}

Test(event_text, states_tell_whether_the_job_has_ended) {
    struct event_row running = {.number = 2, .kind = "state", .data = "{\"state\":\"running\"}"};
    struct event_row failed = {.number = 3, .kind = "state", .data = "{\"state\":\"failed\",\"error_code\":\"x\"}"};
    expect(&running, "id: 2\nevent: state\ndata: {\"state\":\"running\"}\n\n", false);
    expect(&failed, "id: 3\nevent: state\ndata: {\"state\":\"failed\",\"error_code\":\"x\"}\n\n", true);
}

Test(event_text, the_end_has_no_number) {
    struct buf out = BUF_INIT(1 << 16);
    event_write_end(&out, "succeeded");
    cr_assert_str_eq(buf_str(&out), "event: end\ndata: {\"state\":\"succeeded\"}\n\n");
    buf_release(&out);
}

Test(event_text, a_goodbye_tells_when_to_come_again) {
    struct buf out = BUF_INIT(1 << 16);
    event_write_bye(&out, "stopping");
    cr_assert_str_eq(buf_str(&out), "event: bye\nretry: 2000\ndata: {\"reason\":\"stopping\"}\n\n");
    buf_release(&out);
}
