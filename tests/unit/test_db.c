/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

#include "service/base/clock.h"
#include "service/store/listener.h"
#include "service/store/pg.h"
#include "service/store/uuid.h"

static const struct statement echo = {"test_echo",
                                      "SELECT $1::text, $2::bigint, $3::float8, $4::boolean, $5::timestamptz"};
static const struct statement arrays = {"test_arrays", "SELECT $1::float8[], $2::text[]"};
static const struct statement divide = {"test_divide", "SELECT 1 / $1::int"};
static const struct statement nap = {"test_nap", "SELECT pg_sleep(30)"};
static const struct statement backend = {"test_backend", "SELECT pg_backend_pid()"};
static const struct statement count_up = {"test_count_up", "UPDATE counter SET n = n + 1"};

Test(db, parameters_come_back_as_rows) {
    struct fixture f = fixture_open();
    struct error error;
    PGresult *result;
    struct params params = {0};
    params_text(&params, "a 'quoted' \xc3\xa9");
    params_int(&params, INT64_MIN);
    params_double(&params, 0.1);
    params_bool(&params, true);
    params_time(&params, 1796095440123456);
    OK(db_run(f.db, &echo, &params, &result, &error));
    struct row row = {result, 0, 0};
    cr_expect_str_eq(row_text(&row, f.arena), "a 'quoted' \xc3\xa9");
    cr_expect_eq(row_int(&row), INT64_MIN);
    cr_expect_eq(row_double(&row), 0.1);
    cr_expect(row_bool(&row));
    cr_expect_eq(row_time(&row), 1796095440123456);
    PQclear(result);
    fixture_close(&f);
}

Test(db, nulls_come_back_as_nothing) {
    struct fixture f = fixture_open();
    struct error error;
    PGresult *result;
    struct params params = {0};
    params_text(&params, NULL);
    params_text(&params, NULL);
    params_double(&params, INFINITY);
    params_text(&params, NULL);
    params_time(&params, 0);
    OK(db_run(f.db, &echo, &params, &result, &error));
    struct row row = {result, 0, 0};
    cr_expect_null(row_text(&row, f.arena));
    cr_expect_eq(row_int(&row), 0);
    cr_expect_eq(row_double(&row), INFINITY);
    cr_expect_not(row_bool(&row));
    cr_expect_eq(row_time(&row), 0);
    PQclear(result);
    fixture_close(&f);
}

Test(db, arrays_are_read_with_their_quotes_and_nulls) {
    struct fixture f = fixture_open();
    struct error error;
    PGresult *result;
    struct params params = {0};
    double numbers[4];
    const char *texts[8];
    params_text(&params, "{1.5,2e-06,3}");
    params_text(&params, "{plain,\"with, comma\",NULL,\"NULL\",\"back\\\\slash \\\"quote\\\"\",\"\"}");
    OK(db_run(f.db, &arrays, &params, &result, &error));
    struct row row = {result, 0, 0};
    cr_assert_eq(row_doubles(&row, numbers, 4), 3);
    cr_expect_eq(numbers[1], 2e-6);
    cr_assert_eq(row_texts(&row, f.arena, texts, 8), 6);
    cr_expect_str_eq(texts[0], "plain");
    cr_expect_str_eq(texts[1], "with, comma");
    cr_expect_null(texts[2]);
    cr_expect_str_eq(texts[3], "NULL");
    cr_expect_str_eq(texts[4], "back\\slash \"quote\"");
    cr_expect_str_eq(texts[5], "");
    PQclear(result);
    fixture_close(&f);
}

Test(db, a_refused_statement_says_what_postgresql_says) {
    struct fixture f = fixture_open();
    struct error error;
    struct params params = {0};
    params_int(&params, 0);
    FAILS(db_run(f.db, &divide, &params, NULL, &error), "database");
    cr_expect_eq(error.class, ERROR_DB);
    cr_expect_not_null(strstr(error.text, "division by zero"));
    OK(db_ping(f.db, &error));
    fixture_close(&f);
}

Test(db, a_statement_past_its_limit_times_out) {
    struct fixture f = fixture_open();
    struct error error;
    struct db *hasty;
    OK(db_open(&(struct db_options){.url = f.url, .statement_s = 0.1}, &hasty, &error));
    cr_assert_eq(db_run(hasty, &nap, NULL, NULL, &error), -1);
    cr_expect_eq(error.class, ERROR_TIMEOUT);
    db_close(hasty);
    fixture_close(&f);
}

static int sleep_in_database(struct pg *pg, void *data, struct error *error) {
    struct db *other = data;
    struct error inner;
    cr_expect_eq(db_ping(other, &inner), -1);
    cr_expect_str_eq(inner.code, "database-busy");
    cr_expect_eq(inner.class, ERROR_BUSY);
    return pg_script(pg, "SELECT 1", error);
}

Test(db, a_pool_with_nothing_free_is_busy_and_then_serves_again) {
    struct fixture f = fixture_open();
    struct error error;
    struct db *narrow;
    struct db_stats stats;
    OK(db_open(&(struct db_options){.url = f.url, .connections = 1, .wait_s = 0.05}, &narrow, &error));
    OK(db_with(narrow, sleep_in_database, narrow, &error));
    OK(db_ping(narrow, &error));
    db_stats(narrow, &stats);
    cr_expect_eq(stats.busy, 1);
    cr_expect_eq(stats.in_use, 0);
    cr_expect_eq(stats.open, 1);
    db_close(narrow);
    fixture_close(&f);
}

static void *ping_often(void *data) {
    struct error error;
    for (int i = 0; i < 50; i++)
        cr_expect_eq(db_ping(data, &error), 0);
    return NULL;
}

Test(db, many_threads_share_few_connections) {
    struct fixture f = fixture_open();
    struct error error;
    struct db *narrow;
    struct db_stats stats;
    pthread_t threads[8];
    OK(db_open(&(struct db_options){.url = f.url, .connections = 2}, &narrow, &error));
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ping_often, narrow), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    db_stats(narrow, &stats);
    cr_expect_leq(stats.open, 2);
    db_close(narrow);
    fixture_close(&f);
}

Test(db, a_lost_connection_is_made_again) {
    struct fixture f = fixture_open();
    struct error error;
    PGresult *before, *after;
    OK(db_run(f.db, &backend, NULL, &before, &error));
    char kill_it[64];
    snprintf(kill_it, sizeof kill_it, "SELECT pg_terminate_backend(%s)", PQgetvalue(before, 0, 0));
    fixture_sql(f.url, kill_it);
    OK(db_run(f.db, &backend, NULL, &after, &error));
    cr_expect_str_neq(PQgetvalue(before, 0, 0), PQgetvalue(after, 0, 0));
    PQclear(before);
    PQclear(after);
    fixture_close(&f);
}

struct script {
    const char *url;
    int runs;
    const char *end; /* run at the end of the body */
};

static int lose_connection_once(struct pg *pg, void *data, struct error *error) {
    struct script *script = data;
    if (pg_run(pg, &count_up, NULL, NULL, error) < 0)
        return -1;
    if (++script->runs == 1) {
        char kill_it[64];
        snprintf(kill_it, sizeof kill_it, "SELECT pg_terminate_backend(%d)", PQbackendPID(pg_raw(pg)));
        fixture_sql(script->url, kill_it);
    }
    return 0;
}

Test(db, a_transaction_is_run_again_as_a_whole) {
    struct fixture f = fixture_open();
    struct error error;
    struct script script = {f.url, 0, NULL};
    fixture_sql(f.url, "CREATE TABLE counter AS SELECT 0 AS n");
    OK(db_transaction(f.db, lose_connection_once, &script, &error));
    cr_expect_eq(script.runs, 2);
    cr_expect_eq(fixture_number(f.url, "SELECT n FROM counter"), 1);
    fixture_close(&f);
}

static int refuse(struct pg *pg, void *data, struct error *error) {
    (void)data;
    if (pg_run(pg, &count_up, NULL, NULL, error) < 0)
        return -1;
    return error_set(error, ERROR_CONFLICT, "test-refused", NULL, "Refused.");
}

Test(db, a_transaction_whose_body_fails_is_rolled_back) {
    struct fixture f = fixture_open();
    struct error error;
    fixture_sql(f.url, "CREATE TABLE counter AS SELECT 0 AS n");
    FAILS(db_transaction(f.db, refuse, NULL, &error), "test-refused");
    cr_expect_eq(fixture_number(f.url, "SELECT n FROM counter"), 0);
    fixture_close(&f);
}

Test(db, an_address_without_a_server_is_an_error_within_the_time) {
    struct error error;
    struct db *db;
    FAILS(db_open(&(struct db_options){.url = "postgresql://x@/x?host=/nonexistent", .connect_s = 0.1}, &db, &error),
          "database-away");
    FAILS(db_open(&(struct db_options){.url = "no connection string"}, &db, &error), "database-away");
}

Test(db, a_database_that_is_missing_is_told_at_once) {
    struct error error;
    struct db *db;
    char url[512];
    fixture_url("missing", url, sizeof url);
    FAILS(db_open(&(struct db_options){.url = url, .connect_s = 600}, &db, &error), "database-away");
    cr_expect_not_null(strstr(error.text, "does not exist"), "%s", error.text);
}

Test(listener, a_notification_is_heard) {
    struct fixture f = fixture_open();
    struct error error;
    struct listener *listener;
    char payload[LISTENER_PAYLOAD];
    OK(listener_open(f.url, CHANNEL_JOB, &listener, &error));
    fixture_sql(f.url, "NOTIFY warptune_job, 'one'; NOTIFY warptune_job, 'two'; NOTIFY other, 'three'");
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "one");
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "two");
    cr_expect_eq(listener_wait(listener, deadline_in_s(0.01), payload, &error), -1);
    cr_expect_eq(error.class, ERROR_TIMEOUT);
    listener_close(listener);
    fixture_close(&f);
}

Test(listener, an_interrupt_ends_the_wait) {
    struct fixture f = fixture_open();
    struct error error;
    struct listener *listener;
    char payload[LISTENER_PAYLOAD];
    OK(listener_open(f.url, CHANNEL_JOB, &listener, &error));
    listener_interrupt(listener);
    cr_expect_eq(listener_wait(listener, DEADLINE_NEVER, payload, &error), -1);
    cr_expect_eq(error.class, ERROR_CANCELLED);
    listener_close(listener);
    fixture_close(&f);
}

Test(listener, a_lost_connection_is_made_again_and_told) {
    struct fixture f = fixture_open();
    struct error error;
    struct listener *listener;
    char payload[LISTENER_PAYLOAD];
    OK(listener_open(f.url, CHANNEL_JOB, &listener, &error));
    fixture_sql(f.url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'warptune listener'"
                " AND datname = current_database()");
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "");
    fixture_sql(f.url, "NOTIFY warptune_job, 'again'");
    OK(listener_wait(listener, deadline_in_s(30), payload, &error));
    cr_expect_str_eq(payload, "again");
    listener_close(listener);
    fixture_close(&f);
}

Test(uuid, later_ones_sort_after_earlier_ones_and_none_comes_twice) {
    char first[UUID_TEXT], second[UUID_TEXT];
    uuid_make(first);
    usleep(2000);
    uuid_make(second);
    cr_expect(uuid_valid(first));
    cr_expect_lt(strcmp(first, second), 0, "%s %s", first, second);
    cr_expect_eq(first[14], '7');
}

Test(uuid, other_texts_are_not_valid) {
    cr_expect_not(uuid_valid(NULL));
    cr_expect_not(uuid_valid(""));
    cr_expect_not(uuid_valid("0197-5f3e"));
    cr_expect_not(uuid_valid("01975F3E-0000-7000-8000-000000000000"));
    cr_expect_not(uuid_valid("01975f3e-0000-7000-8000-00000000000' "));
    cr_expect(uuid_valid("01975f3e-0000-7000-8000-000000000000"));
}
