/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/store/event_store.h"

static struct work_item begin(struct fixture *f, char ret_job[UUID_TEXT]) {
    *f = fixture_open();
    fixture_job(f, fixture_model(f, "network")->id, ret_job);
    return fixture_claim(f);
}

Test(event, a_reader_resumes_after_the_number_it_saw) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct event_row *events;
    int count;
    struct work_item item = begin(&f, job);
    OK(event_log(f.db, &item, "info", "one", &error));
    OK(event_log(f.db, &item, "warn", "two", &error));
    OK(event_list(f.db, job, NULL, 0, 3, f.arena, &events, &count, &error));
    cr_assert_eq(count, 3); /* queued, running, one */
    cr_expect_str_eq(events[1].data, "{\"state\":\"running\"}");
    OK(event_list(f.db, job, NULL, events[2].number, 3, f.arena, &events, &count, &error));
    cr_assert_eq(count, 1);
    cr_expect_str_eq(events[0].kind, "log");
    cr_expect_str_eq(events[0].data, "{\"level\":\"warn\",\"text\":\"two\"}");
    cr_expect_gt(events[0].created_us, 1700000000000000);
    OK(event_list(f.db, job, "log", 0, 10, f.arena, &events, &count, &error));
    cr_expect_eq(count, 2);
    OK(event_list(f.db, "nonsense", NULL, 0, 10, f.arena, &events, &count, &error));
    cr_expect_eq(count, 0);
    fixture_close(&f);
}

Test(event, a_line_that_is_no_utf8_is_made_so) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct event_row *events;
    int count;
    struct work_item item = begin(&f, job);
    OK(event_log(f.db, &item, "error", "bad \xff byte\n\t\"quoted\"", &error));
    OK(event_list(f.db, job, "log", 0, 10, f.arena, &events, &count, &error));
    cr_assert_eq(count, 1);
    cr_expect_not_null(strstr(events[0].data, "bad ? byte\\n\\t\\\"quoted\\\""), "%s", events[0].data);
    fixture_close(&f);
}

Test(event, a_lost_lease_logs_nothing) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    struct work_item item = begin(&f, job);
    OK(job_cancel(f.db, job, &error));
    FAILS(event_log(f.db, &item, "info", "late", &error), "lease-lost");
    fixture_close(&f);
}

struct writer {
    struct fixture *fixture;
    const struct work_item *item;
};

static void *write_lines(void *data) {
    struct writer *writer = data;
    struct error error;
    for (int i = 0; i < 20; i++)
        OK(event_log(writer->fixture->db, writer->item, "info", "line", &error));
    return NULL;
}

Test(event, writers_at_once_leave_no_gaps_and_readers_skip_none) {
    struct fixture f;
    struct error error;
    char job[UUID_TEXT];
    pthread_t threads[5];
    struct work_item item = begin(&f, job);
    struct writer writer = {&f, &item};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, &writer), 0);
    for (int64_t seen = 0; seen < 102;) { /* queued, running, 5 × 20 lines */
        struct event_row *events;
        int count;
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        OK(event_list(f.db, job, NULL, seen, 7, arena, &events, &count, &error));
        for (int i = 0; i < count; i++)
            cr_assert_eq(events[i].number, ++seen);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(fixture_get(&f, job)->last_event, 102);
    fixture_close(&f);
}
