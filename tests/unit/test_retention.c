/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include "service/store/retention_store.h"

struct seen {
    int64_t rows[RETAINED_COUNT];
    int pauses, stop_at;   /* 0: never */
    const char *url, *sql; /* run at the first pause */
};

static void note(void *data, enum retained kind, int64_t rows) {
    struct seen *seen = data;
    cr_expect_leq(rows, RETENTION_BATCH);
    seen->rows[kind] += rows;
}

static bool take_pause(void *data) {
    struct seen *seen = data;
    if (++seen->pauses == 1 && seen->sql)
        fixture_sql(seen->url, seen->sql);
    return seen->stop_at && seen->pauses >= seen->stop_at;
}

static bool pass(struct fixture *f, struct retention retention, struct seen *seen) {
    struct error error;
    bool ran = false;
    retention.pause = take_pause;
    retention.deleted = note;
    retention.data = seen;
    OK(retention_pass(f->db, &retention, &ran, &error));
    return ran;
}

#define LONG_AGO "now() - interval '40 days'"
#define JOB(n) "'00000000-0000-7000-8000-00000000000" #n "'"
#define MODEL(n) "'00000000-0000-7000-9000-00000000000" #n "'"
#define COUNT(f, from) fixture_number((f)->url, "SELECT count(*) FROM " from)

/* A job with one task, n events of each kind but one state event, and n trials; `ended`: SQL for when, or NULL. */
static void make_job(struct fixture *f, const char *id, const char *state, const char *ended, int n) {
    char sql[4096];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO jobs (id, model_id, state, device, device_key, options, finished_at, last_event) "
        "VALUES (%s, " MODEL(
            1) ", '%s', 'cpu', 'cpu/x', '{}', %s, 3 * %d + 1);"
               "INSERT INTO tasks (job_id, number, workload, name, count, flops, bytes, trials_planned, best_template,"
               " best_version, best_index) VALUES (%s, 0, 'dense(a)', 'fc', 1, 1, 1, 10, 't', 1, 1);"
               "INSERT INTO events (job_id, number, kind, data) SELECT %s, i, CASE WHEN i = 0 THEN 'state'"
               " ELSE (ARRAY['log', 'trial', 'progress'])[1 + i %% 3] END, '{}' FROM generate_series(0, 3 * %d) i;"
               "INSERT INTO trials (job_id, task, number, template, version, index, entity, error_no, costs_s, build_s,"
               " run_s, finished_at) SELECT %s, 0, i, 't', 1, i, '[]', 0, '{1}', 0, 0, now()"
               " FROM generate_series(0, %d - 1) i",
        id, state, ended ? ended : "NULL", n, id, id, n, id, n);
    fixture_sql(f->url, sql);
}

Test(retention, events_and_logs_of_jobs_that_ended_long_ago_go_in_batches) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    make_job(&f, JOB(1), "succeeded", LONG_AGO, 1500);
    make_job(&f, JOB(2), "failed", "now() - interval '2 days'", 5);
    make_job(&f, JOB(3), "running", NULL, 5);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_EVENTS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_EVENTS], 3000);
    cr_expect_eq(seen.pauses, 3);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(1) " AND kind = 'log'"), 1500);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(1) " AND kind = 'state'"), 1);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(1)), 1501);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(2)), 16);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(3)), 16);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_LOGS] = 1}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_LOGS], 1505);
    cr_expect_eq(COUNT(&f, "events WHERE job_id = " JOB(3) " AND kind = 'log'"), 5);
    cr_expect_eq(COUNT(&f, "trials"), 1510);
    fixture_close(&f);
}

Test(retention, what_stood_for_events_goes_with_the_last_of_them) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    fixture_sql(f.url, "INSERT INTO jobs (id, model_id, state, device, options, finished_at) VALUES (" JOB(
                           1) ", " MODEL(1) ", 'succeeded', 'cpu', '{}', " LONG_AGO ")");
    for (int i = 1; i <= 3; i++) { /* a commit each: a trial with a log line, a trial, a state */
        char sql[512];
        snprintf(sql, sizeof sql,
                 "INSERT INTO events (job_id, number, kind, data) VALUES (" JOB(1) ", %d, '%s', '{}'), (" JOB(
                     1) ", %d, '%s', '{}'); UPDATE jobs SET last_event = %d",
                 2 * i - 1, i == 3 ? "state" : "trial", 2 * i,
                 i == 1   ? "log"
                 : i == 2 ? "trial"
                          : "state",
                 2 * i);
        fixture_sql(f.url, sql);
    }
    cr_expect_eq(COUNT(&f, "project_events"), 3);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_EVENTS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_EVENTS], 3);
    cr_expect_eq(COUNT(&f, "project_events"), 2);
    cr_expect_eq(COUNT(&f, "project_events WHERE number = 4"), 0);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_LOGS] = 30}}, &seen));
    cr_expect_eq(COUNT(&f, "project_events"), 1);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_JOBS] = 30}}, &seen));
    cr_expect_eq(COUNT(&f, "project_events"), 0);
    fixture_close(&f);
}

Test(retention, every_page_of_jobs_is_looked_at) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    fixture_sql(f.url, "INSERT INTO jobs (id, model_id, state, device, options, finished_at)"
                       " SELECT gen_random_uuid(), " MODEL(
                           1) ", 'cancelled', 'cpu', '{}', " LONG_AGO
                              " - (i % 3) * interval '1 hour' FROM generate_series(1, 250) i;"
                              "INSERT INTO events (job_id, number, kind, data) SELECT id, 1, 'log', '{}' FROM jobs");
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_LOGS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_LOGS], 250);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_JOBS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_JOBS], 250);
    cr_expect_eq(COUNT(&f, "jobs"), 0);
    fixture_close(&f);
}

Test(retention, the_records_of_best_configurations_stay) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    make_job(&f, JOB(1), "succeeded", LONG_AGO, 10);
    make_job(&f, JOB(2), "running", NULL, 10);
    fixture_sql(f.url,
                "INSERT INTO configs (workload, device_key, template, version, index, entity, cost_s, provenance,"
                " job_id) VALUES ('dense(a)', 'cpu/x', 't', 1, 4, '[]', 1, '{}', " JOB(
                    1) "),"
                       " ('dense(b)', 'cpu/x', 't', 1, 5, '[]', 1, '{}', " JOB(
                           1) ");"
                              "INSERT INTO golden (device_key, job_id, model_id, ended_at) VALUES ('cpu/x', " JOB(
                                  1) ", " MODEL(1) ", now()); INSERT INTO golden_configs SELECT number, 'dense(a)', "
                                                   "'fc', 1, 't', 1, 7, '[]', 1"
                                                   " FROM golden");
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_TRIALS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_TRIALS], 7);
    cr_expect_eq(fixture_number(f.url, "SELECT sum(10 ^ index) FROM trials WHERE job_id = " JOB(1)), 10010010);
    cr_expect_eq(COUNT(&f, "trials WHERE job_id = " JOB(2)), 10);
    fixture_close(&f);
}

Test(retention, jobs_go_with_all_they_have_unless_something_names_them) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    make_job(&f, JOB(1), "succeeded", LONG_AGO, 1200);
    make_job(&f, JOB(2), "succeeded", LONG_AGO, 3); /* a configuration's */
    make_job(&f, JOB(3), "succeeded", LONG_AGO, 3); /* golden */
    make_job(&f, JOB(4), "succeeded", LONG_AGO, 3); /* was golden once */
    make_job(&f, JOB(5), "paused", NULL, 3);
    make_job(&f, JOB(6), "failed", "now() - interval '20 days'", 3);
    fixture_sql(f.url,
                "INSERT INTO configs (workload, device_key, template, version, index, entity, cost_s, provenance,"
                " job_id) VALUES ('dense(z)', 'cpu/x', 't', 1, 0, '[]', 1, '{}', " JOB(
                    2) ");"
                       "INSERT INTO golden (device_key, job_id, model_id, ended_at) VALUES ('cpu/x', " JOB(
                           3) ", " MODEL(1) ", NULL), ('cpu/x', " JOB(4) ", " MODEL(1) ", now())");
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_JOBS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_JOBS], 2);
    cr_expect_eq(seen.rows[RETAINED_TRIALS], 1203);
    cr_expect_eq(COUNT(&f, "jobs WHERE id IN (" JOB(2) ", " JOB(3) ", " JOB(5) ", " JOB(6) ")"), 4);
    cr_expect_eq(COUNT(&f, "jobs"), 4);
    cr_expect_eq(COUNT(&f, "trials"), 12);
    cr_expect_eq(COUNT(&f, "events"), 4 * 10);
    cr_expect_eq(COUNT(&f, "golden"), 2);
    fixture_close(&f);
}

Test(retention, a_job_that_is_taken_up_again_meanwhile_keeps_what_it_has) {
    struct fixture f = fixture_open();
    struct seen seen = {.url = f.url, .sql = "UPDATE jobs SET state = 'queued', finished_at = NULL WHERE id = " JOB(1)};
    make_job(&f, JOB(1), "failed", LONG_AGO, 1500);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_TRIALS] = 30, [RETAINED_JOBS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_TRIALS], RETENTION_BATCH);
    cr_expect_eq(COUNT(&f, "trials"), 500);
    cr_expect_eq(COUNT(&f, "jobs"), 1);
    fixture_close(&f);
}

Test(retention, models_without_a_job_for_long_go_with_their_bytes) {
    struct fixture f = fixture_open();
    struct seen seen = {0};
    char sql[4096];
    const char *id[5];
    for (int i = 0; i < 5; i++)
        id[i] = fixture_model(&f, (const char *[]){"unused", "old job", "open job", "golden", "young"}[i])->id;
    snprintf(
        sql, sizeof sql,
        "UPDATE models SET created_at = " LONG_AGO " WHERE id <> '%s';"
        "INSERT INTO jobs (id, model_id, state, device, options, finished_at) VALUES"
        " (" JOB(1) ", '%s', 'succeeded', 'cpu', '{}', " LONG_AGO "),"
                    " (" JOB(2) ", '%s', 'queued', 'cpu', '{}', NULL);"
                                "INSERT INTO golden (device_key, job_id, model_id) VALUES ('cpu/x', " JOB(1) ", '%s')",
        id[4], id[1], id[2], id[3]);
    fixture_sql(f.url, sql);
    cr_assert(pass(&f, (struct retention){.days = {[RETAINED_MODELS] = 30}}, &seen));
    cr_expect_eq(seen.rows[RETAINED_MODELS], 2);
    cr_expect_eq(COUNT(&f, "models WHERE name IN ('open job', 'golden', 'young')"), 3);
    cr_expect_eq(COUNT(&f, "models"), 3);
    cr_expect_eq(COUNT(&f, "blobs"), 3);
    cr_expect_eq(COUNT(&f, "jobs"), 2);
    fixture_close(&f);
}

Test(retention, one_process_at_a_time_and_it_stops_when_told) {
    struct fixture f = fixture_open();
    struct seen seen = {.stop_at = 1};
    make_job(&f, JOB(1), "succeeded", LONG_AGO, 2500);
    struct retention trials = {.days = {[RETAINED_TRIALS] = 30}};
    PGconn *other = PQconnectdb(f.url);
    PQclear(PQexec(other, "SELECT pg_advisory_lock(2004120901)"));
    cr_expect_not(pass(&f, trials, &seen));
    cr_expect_eq(seen.pauses, 0);
    PQclear(PQexec(other, "SELECT pg_advisory_unlock(2004120901)"));
    PQfinish(other);
    cr_expect(pass(&f, trials, &seen));
    cr_expect_eq(seen.rows[RETAINED_TRIALS], RETENTION_BATCH);
    seen.stop_at = 0;
    cr_expect(pass(&f, trials, &seen), "the lock of a pass that was stopped is gone");
    cr_expect_eq(COUNT(&f, "trials"), 1);
    fixture_close(&f);
}
