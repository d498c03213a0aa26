/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/store/event_store.h"
#include "service/store/project_store.h"

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

/* --- All jobs of a project --- */

static void add_by_hand(PGconn *conn, const char *job) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "BEGIN; WITH job AS (UPDATE jobs SET last_event = last_event + 1 WHERE id = '%s' RETURNING id, last_event)"
             " INSERT INTO events (job_id, number, kind, data) SELECT id, last_event, 'log', '{}' FROM job",
             job);
    PGresult *result = PQexec(conn, sql);
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(conn));
    PQclear(result);
}

static void say(PGconn *conn, const char *sql) {
    PGresult *result = PQexec(conn, sql);
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(conn));
    PQclear(result);
}

/* Reads what follows *seen, expects the log events of these jobs (NULL: of none), and goes past it. */
static void expect_logs(struct fixture *f, int64_t *seen, const char *first, const char *second) {
    struct error error;
    struct event_row *events;
    int count;
    OK(event_list_project(f->db, NULL, *seen, 10, f->arena, &events, &count, &error));
    cr_assert_eq(count, (first != NULL) + (second != NULL));
    for (int i = 0; i < count; i++) {
        cr_expect_str_eq(events[i].job_id, i ? second : first);
        cr_expect_str_eq(events[i].kind, "log");
        cr_expect_eq(events[i].number, ++*seen);
    }
}

struct two_jobs {
    struct fixture f;
    char first[UUID_TEXT], second[UUID_TEXT];
    PGconn *one, *two;
    int64_t seen;
};

static void begin_two(struct two_jobs *two) {
    struct error error;
    two->f = fixture_open();
    struct model_row *model = fixture_model(&two->f, "network");
    fixture_job(&two->f, model->id, two->first);
    fixture_job(&two->f, model->id, two->second);
    two->one = PQconnectdb(two->f.url);
    two->two = PQconnectdb(two->f.url);
    OK(event_last_of_project(two->f.db, NULL, &two->seen, &error));
    cr_assert_eq(two->seen, 2);
}

static void end_two(struct two_jobs *two) {
    PQfinish(two->one);
    PQfinish(two->two);
    fixture_close(&two->f);
}

Test(project_events, a_transaction_that_began_first_and_commits_last_is_not_missed) {
    struct two_jobs two;
    begin_two(&two);
    add_by_hand(two.one, two.first);
    add_by_hand(two.two, two.second);
    say(two.two, "COMMIT");
    expect_logs(&two.f, &two.seen, two.second, NULL);
    say(two.one, "COMMIT");
    expect_logs(&two.f, &two.seen, two.first, NULL);
    end_two(&two);
}

Test(project_events, who_has_a_number_already_is_seen_before_the_next) {
    struct two_jobs two;
    begin_two(&two);
    add_by_hand(two.one, two.first);
    say(two.one, "SET CONSTRAINTS ALL IMMEDIATE"); /* as its commit does, but the commit does not come yet */
    add_by_hand(two.two, two.second);
    cr_assert(PQsendQuery(two.two, "COMMIT"));
    char waits[200];
    snprintf(waits, sizeof waits, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
             PQbackendPID(two.two));
    while (!fixture_number(two.f.url, waits))
        usleep(5000);
    expect_logs(&two.f, &two.seen, NULL, NULL);
    say(two.one, "COMMIT");
    PGresult *result = PQgetResult(two.two);
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(two.two));
    PQclear(result);
    expect_logs(&two.f, &two.seen, two.first, two.second);
    end_two(&two);
}

Test(project_events, a_rollback_leaves_no_number_behind) {
    struct two_jobs two;
    begin_two(&two);
    add_by_hand(two.one, two.first);
    say(two.one, "SET CONSTRAINTS ALL IMMEDIATE");
    say(two.one, "ROLLBACK");
    add_by_hand(two.two, two.second);
    say(two.two, "COMMIT");
    expect_logs(&two.f, &two.seen, two.second, NULL);
    end_two(&two);
}

Test(project_events, events_that_came_together_have_a_number_each) {
    struct fixture f = fixture_open();
    struct error error;
    struct event_row *events;
    char job[UUID_TEXT];
    int count;
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    fixture_plan(&f, 3); /* running; then what was planned */
    OK(event_list_project(f.db, PROJECT_DEFAULT_ID, 0, 10, f.arena, &events, &count, &error));
    cr_assert_eq(count, 3);
    for (int i = 0; i < count; i++) {
        cr_expect_eq(events[i].number, i + 1);
        cr_expect_eq(events[i].job_number, i + 1);
        cr_expect_str_eq(events[i].job_id, job);
    }
    fixture_sql(f.url, "BEGIN; UPDATE jobs SET last_event = 8; INSERT INTO events (job_id, number, kind, data)"
                       " SELECT id, i, 'log', '{}' FROM jobs, generate_series(4, 8) i; COMMIT");
    OK(event_list_project(f.db, NULL, 5, 2, f.arena, &events, &count, &error)); /* in the middle of the five */
    cr_assert_eq(count, 2);
    cr_expect_eq(events[0].number, 6);
    cr_expect_eq(events[1].job_number, 7);
    fixture_close(&f);
}

Test(project_events, another_project_sees_none_of_them) {
    struct fixture f = fixture_open();
    struct error error;
    struct event_row *events;
    char job[UUID_TEXT], other[UUID_TEXT];
    int count;
    int64_t last;
    fixture_job(&f, fixture_model(&f, "network")->id, job);
    uuid_make(other);
    OK(event_list_project(f.db, other, 0, 10, f.arena, &events, &count, &error));
    cr_expect_eq(count, 0);
    OK(event_last_of_project(f.db, other, &last, &error));
    cr_expect_eq(last, 0);
    fixture_close(&f);
}

Test(project_events, writers_of_many_jobs_leave_no_gaps_and_readers_skip_none) {
    struct fixture f = fixture_open();
    struct error error;
    pthread_t threads[5];
    struct writer writers[5];
    struct work_item items[5];
    for (int i = 0; i < 5; i++) {
        char job[UUID_TEXT];
        fixture_job(&f, fixture_model(&f, "network")->id, job);
        items[i] = fixture_claim(&f);
        writers[i] = (struct writer){&f, &items[i]};
    }
    for (int i = 0; i < 5; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, &writers[i]), 0);
    for (int64_t seen = 0; seen < 110;) { /* five times: queued, running, 20 lines */
        struct event_row *events;
        int count;
        struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
        OK(event_list_project(f.db, NULL, seen, 7, arena, &events, &count, &error));
        for (int i = 0; i < count; i++)
            cr_assert_eq(events[i].number, ++seen);
    }
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    fixture_close(&f);
}
