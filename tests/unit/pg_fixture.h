/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pg_fixture.h: a real PostgreSQL for the tests of a program: one private cluster, started before the first test and
 * stopped after the last, and in it a migrated database for each test. Include it from one file of a program.
 */
#ifndef WARPTUNE_TESTS_PG_FIXTURE_H
#define WARPTUNE_TESTS_PG_FIXTURE_H

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "service/base/file.h"
#include "service/store/blob_store.h"
#include "service/store/cluster.h"
#include "service/store/migrate.h"
#include "service/store/model_store.h"
#include "service/store/queue_store.h"

#define FIXTURE_ENV "WARPTUNE_TEST_DATABASE"

/* A call that must succeed. */
#define OK(call) cr_assert_eq((call), 0, "%s: %s", #call, error.text)
/* A call that must fail with this code. */
#define FAILS(call, expected)                                                     \
    do {                                                                          \
        cr_assert_eq((call), -1, "%s succeeded", #call);                          \
        cr_assert_str_eq(error.code, expected, "%s: %s", error.code, error.text); \
    } while (0)

static struct cluster *fixture_cluster; /* in the program that starts the tests, not in the tests */
static char fixture_dir[64] = "/tmp/warptune-test-XXXXXX";

static void fixture_give_up(const struct error *error) {
    fprintf(stderr, "no PostgreSQL for the tests: %s\n", error->text);
    exit(1);
}

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    struct error error;
    struct db *db;
    if (!mkdtemp(fixture_dir) || chmod(fixture_dir, 0711) < 0)
        exit(1);
    if (cluster_start(&(struct cluster_options){fixture_dir, .no_sync = true}, &fixture_cluster, &error) < 0 ||
        db_open(&(struct db_options){.url = cluster_url(fixture_cluster)}, &db, &error) < 0 ||
        migrate_run(db, NULL, &error) < 0)
        fixture_give_up(&error);
    db_close(db); /* the database is the template of the tests' own */
    setenv(FIXTURE_ENV, cluster_url(fixture_cluster), 1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    (void)stats;
    cluster_stop(fixture_cluster);
    if (file_remove_tree(fixture_dir, NULL) < 0)
        fprintf(stderr, "%s is left behind\n", fixture_dir);
}

struct fixture {
    struct db *db;
    struct arena *arena;
    char url[512];
    char dir[64]; /* for the test's files */
};

/* The cluster's URL for another database. */
static void fixture_url(const char *database, char *ret, size_t size) {
    const char *url = getenv(FIXTURE_ENV);
    const char *host = strchr(url, '?');
    snprintf(ret, size, "postgresql://warptune@/%s%s", database, host);
}

/* An own connection, for what the store has no function for. */
static void fixture_sql(const char *url, const char *sql) {
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    cr_assert(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static inline int64_t fixture_number(const char *url, const char *sql) {
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, sql);
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(conn));
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(conn);
    return number;
}

/* `empty`: without the schema. */
static void fixture_open_database(struct fixture *fixture, bool empty) {
    char admin[512], name[32], command[128];
    struct error error;
    snprintf(name, sizeof name, "test_%d", (int)getpid());
    snprintf(command, sizeof command, "CREATE DATABASE %s TEMPLATE %s", name, empty ? "template0" : "warptune");
    fixture_url("postgres", admin, sizeof admin);
    fixture_sql(admin, command);
    fixture_url(name, fixture->url, sizeof fixture->url);
    OK(db_open(&(struct db_options){.url = fixture->url}, &fixture->db, &error));
    fixture->arena = arena_new(0);
    snprintf(fixture->dir, sizeof fixture->dir, "/tmp/warptune-test-XXXXXX");
    cr_assert_not_null(mkdtemp(fixture->dir));
}

static inline struct fixture fixture_open(void) {
    struct fixture fixture;
    fixture_open_database(&fixture, false);
    return fixture;
}

static inline void fixture_close(struct fixture *fixture) {
    struct error error;
    db_close(fixture->db);
    arena_free(fixture->arena);
    OK(file_remove_tree(fixture->dir, &error));
}

/* --- Rows that many tests need --- */

static inline void fixture_blob(struct fixture *fixture, const char *text, char ret_sha256[SHA256_HEX]) {
    struct error error;
    int64_t bytes;
    struct blob_writer *writer = blob_writer_new(fixture->db);
    OK(blob_writer_append(writer, text, strlen(text), &error));
    OK(blob_writer_finish(writer, ret_sha256, &bytes, &error));
    blob_writer_free(writer);
}

static inline struct model_row *fixture_model(struct fixture *fixture, const char *text) {
    struct error error;
    struct model_row *model;
    char sha256[SHA256_HEX];
    bool created;
    fixture_blob(fixture, text, sha256);
    struct model_new new = {
        .name = text, .sha256 = sha256, .bytes = (int64_t)strlen(text), .summary = "{\"inputs\": []}"};
    OK(model_create(fixture->db, &new, fixture->arena, &model, &created, &error));
    return model;
}

/* A job for any device, with some options. */
static inline void fixture_job(struct fixture *fixture, const char *model_id, char ret_id[UUID_TEXT]) {
    struct error error;
    bool created;
    struct job_new new = {.model_id = model_id, .device = "auto", .options = "{\"batch\": 1}"};
    OK(job_create(fixture->db, &new, ret_id, &created, &error));
    cr_assert(created);
}

#define FIXTURE_DEVICE "cpu/test/4"

/* Claims as a device of the class that fixture_plan chooses; the item's id is 0 when there is none. */
static inline struct work_item fixture_claim(struct fixture *fixture) {
    struct error error;
    struct work_item item;
    bool found;
    char worker[UUID_TEXT];
    uuid_make(worker);
    struct claimant claimant = {worker, "cpu", 0, FIXTURE_DEVICE, NULL, 60};
    OK(queue_claim(fixture->db, &claimant, &item, &found, &error));
    return found ? item : (struct work_item){0};
}

static const struct task_new fixture_tasks[] = {
    {"conv2d(a)", "conv1", 2, 1000000, 4096, 100},
    {"conv2d(b)", "conv2", 1, 2000000, 8192, 100},
    {"dense(c)", "fc", 1, 3000000, 12288, 100},
};

/* Claims the plan of the only job and completes it with the first n of those tasks. */
static inline void fixture_plan(struct fixture *fixture, int n) {
    struct error error;
    struct work_item item = fixture_claim(fixture);
    cr_assert_eq(item.kind, WORK_PLAN);
    struct plan_result plan = {"cpu", FIXTURE_DEVICE, fixture_tasks, n};
    OK(queue_complete_plan(fixture->db, &item, &plan, &error));
}

static inline struct job_row *fixture_get(struct fixture *fixture, const char *id) {
    struct error error;
    struct job_row *job;
    OK(job_get(fixture->db, id, fixture->arena, &job, &error));
    return job;
}

#endif
