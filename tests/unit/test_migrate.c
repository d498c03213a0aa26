/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <pthread.h>

static const struct migration two[] = {
    {1, "0001_first", "CREATE TABLE first (n int); INSERT INTO first VALUES (1)"},
    {2, "0002_second", "CREATE TABLE second (n int)"},
};

static struct fixture open_empty(void) {
    struct fixture fixture;
    fixture_open_database(&fixture, true);
    return fixture;
}

Test(migrate, run_twice_is_run_once) {
    struct fixture f = open_empty();
    struct error error;
    int applied, version;
    OK(migrate_version(f.db, &version, &error));
    cr_expect_eq(version, 0);
    OK(migrate_run(f.db, &applied, &error));
    cr_expect_eq(applied, migrations_count);
    OK(migrate_run(f.db, &applied, &error));
    cr_expect_eq(applied, 0);
    OK(migrate_version(f.db, &version, &error));
    cr_expect_eq(version, migrations_count);
    OK(migrate_check(f.db, &error));
    fixture_close(&f);
}

static void *run_all(void *data) {
    struct error error;
    struct db *db;
    int applied = -1;
    if (db_open(&(struct db_options){.url = data}, &db, &error) == 0) {
        cr_expect_eq(migrate_run(db, &applied, &error), 0, "%s", error.text);
        db_close(db);
    }
    return (void *)(intptr_t)applied;
}

Test(migrate, programs_that_start_at_once_run_each_migration_once) {
    struct fixture f = open_empty();
    pthread_t threads[4];
    intptr_t total = 0;
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run_all, f.url), 0);
    for (int i = 0; i < 4; i++) {
        void *applied;
        pthread_join(threads[i], &applied);
        total += (intptr_t)applied;
    }
    cr_expect_eq(total, migrations_count);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM migrations"), migrations_count);
    fixture_close(&f);
}

Test(migrate, only_what_is_missing_is_run) {
    struct fixture f = open_empty();
    struct error error;
    int applied;
    OK(migrate_run_list(f.db, two, 1, &applied, &error));
    cr_expect_eq(applied, 1);
    OK(migrate_run_list(f.db, two, 2, &applied, &error));
    cr_expect_eq(applied, 1);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM first"), 1);
    fixture_close(&f);
}

Test(migrate, a_newer_schema_is_refused) {
    struct fixture f = open_empty();
    struct error error;
    OK(migrate_run_list(f.db, two, 2, NULL, &error));
    FAILS(migrate_run_list(f.db, two, 1, NULL, &error), "schema-too-new");
    cr_expect_not_null(strstr(error.text, "version 2"));
    FAILS(migrate_check(f.db, &error), "schema-too-old");
    fixture_sql(f.url, "INSERT INTO migrations VALUES (9999, 'x', 'y')");
    FAILS(migrate_check(f.db, &error), "schema-too-new");
    fixture_close(&f);
}

Test(migrate, a_migration_with_another_text_is_refused) {
    struct fixture f = open_empty();
    struct error error;
    struct migration changed[] = {two[0], two[1]};
    changed[0].sql = "CREATE TABLE first (n bigint)";
    OK(migrate_run_list(f.db, two, 2, NULL, &error));
    FAILS(migrate_run_list(f.db, changed, 2, NULL, &error), "schema-differs");
    fixture_close(&f);
}

Test(migrate, one_that_fails_leaves_nothing_of_itself) {
    struct fixture f = open_empty();
    struct error error;
    int version;
    const struct migration broken[] = {two[0], {2, "0002_broken", "CREATE TABLE half (n int); SELECT 1 / 0"}};
    cr_assert_eq(migrate_run_list(f.db, broken, 2, NULL, &error), -1);
    cr_expect_not_null(strstr(error.text, "0002_broken"), "%s", error.text);
    OK(migrate_version(f.db, &version, &error));
    cr_expect_eq(version, 1);
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM pg_class WHERE relname = 'half'"), 0);
    fixture_close(&f);
}

Test(migrate, every_column_that_needs_one_has_a_comment) {
    struct fixture f = fixture_open();
    cr_expect_geq(fixture_number(f.url, "SELECT count(*) FROM pg_description d JOIN pg_class c ON c.oid = d.objoid "
                                        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'"),
                  50);
    fixture_close(&f);
}
