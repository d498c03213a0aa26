/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/store/cluster.h"
#include "service/store/db.h"

#define OK(call) cr_assert_eq((call), 0, "%s: %s", #call, error.text)

struct folder {
    char top[64]; /* ours alone */
    char data[128];
};

static struct folder make_folder(void) {
    struct folder folder;
    snprintf(folder.top, sizeof folder.top, "/tmp/warptune-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder.top));
    cr_assert_eq(chmod(folder.top, 0711), 0);
    snprintf(folder.data, sizeof folder.data, "%s/data", folder.top);
    return folder;
}

static void remove_folder(const struct folder *folder) {
    struct error error;
    OK(file_remove_tree(folder->top, &error));
}

static struct cluster *start(const char *data_dir) {
    struct error error;
    struct cluster *cluster;
    OK(cluster_start(&(struct cluster_options){data_dir, .no_sync = true}, &cluster, &error));
    return cluster;
}

/* The first value of a query; -1 when the server cannot be asked. */
static long ask(const char *url, const char *sql) {
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, sql);
    long value = -1;
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
        value = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    else if (PQresultStatus(result) == PGRES_COMMAND_OK)
        value = 0;
    PQclear(result);
    PQfinish(conn);
    return value;
}

static pid_t postmaster_of(const char *data_dir) {
    char path[256];
    struct buf text CLEANUP(buf_release) = BUF_INIT(4096);
    snprintf(path, sizeof path, "%s/postgres/postmaster.pid", data_dir);
    return file_read(path, text.max, &text, NULL) < 0 ? 0 : (pid_t)strtol(buf_str(&text), NULL, 10);
}

static pid_t parent_of(pid_t pid) {
    char path[64];
    struct buf text CLEANUP(buf_release) = BUF_INIT(4096);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    cr_assert_eq(file_read(path, text.max, &text, NULL), 0);
    return (pid_t)strtol(strrchr(buf_str(&text), ')') + 4, NULL, 10);
}

/* A child process that starts the cluster, leaves a table in it, says so, and waits to be killed. */
static pid_t start_in_child(const char *data_dir) {
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct error error;
        struct cluster *cluster;
        bool done = cluster_start(&(struct cluster_options){data_dir, .no_sync = true}, &cluster, &error) == 0 &&
                    ask(cluster_url(cluster), "CREATE TABLE kept AS SELECT 42") == 0;
        if (!done || write(ready[1], "y", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1, "the child could not start the cluster");
    close(ready[0]);
    return pid;
}

static void kill_child(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(cluster, what_is_stored_is_there_after_a_restart) {
    struct folder folder = make_folder();
    struct cluster *cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "CREATE TABLE kept AS SELECT 42"), 0);
    cluster_stop(cluster);
    cr_expect_eq(postmaster_of(folder.data), 0);
    cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "TABLE kept"), 42);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, it_is_durable_and_reached_by_its_socket_only) {
    struct folder folder = make_folder();
    struct error error;
    struct cluster *cluster;
    OK(cluster_start(&(struct cluster_options){folder.data, false}, &cluster, &error));
    const char *url = cluster_url(cluster);
    cr_expect_eq(ask(url, "SELECT (current_setting('fsync') = 'on')::int"), 1);
    cr_expect_eq(ask(url, "SELECT (current_setting('synchronous_commit') = 'on')::int"), 1);
    cr_expect_eq(ask(url, "SELECT length(current_setting('listen_addresses'))"), 0);
    cr_expect_eq(ask(url, "SELECT (pg_encoding_to_char(encoding) = 'UTF8')::int FROM pg_database "
                          "WHERE datname = current_database()"),
                 1);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, a_folder_in_use_is_refused) {
    struct folder folder = make_folder();
    struct cluster *cluster = start(folder.data), *second;
    struct error error;
    cr_expect_eq(cluster_start(&(struct cluster_options){folder.data, true}, &second, &error), -1);
    cr_expect_str_eq(error.code, "data-dir-in-use");
    cr_expect_not_null(strstr(error.text, folder.data));
    cr_expect_eq(ask(cluster_url(cluster), "SELECT 1"), 1);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, a_postmaster_that_was_killed_comes_back) {
    struct folder folder = make_folder();
    struct error error;
    struct db *db;
    struct cluster *cluster = start(folder.data);
    OK(db_open(&(struct db_options){.url = cluster_url(cluster)}, &db, &error));
    ask(cluster_url(cluster), "CREATE TABLE kept AS SELECT 42");
    pid_t before = postmaster_of(folder.data);
    cr_assert_eq(kill(before, SIGKILL), 0);
    int64_t deadline = deadline_in_s(60);
    while ((postmaster_of(folder.data) == before || ask(cluster_url(cluster), "TABLE kept") != 42) &&
           clock_now_ns() < deadline)
        poll(NULL, 0, 50);
    cr_expect_neq(postmaster_of(folder.data), before);
    cr_expect_eq(ask(cluster_url(cluster), "TABLE kept"), 42);
    db_close(db);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, it_recovers_after_its_owner_was_killed) {
    struct folder folder = make_folder();
    kill_child(start_in_child(folder.data));
    struct cluster *cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "TABLE kept"), 42);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, nothing_runs_on_after_its_owner_was_killed) {
    struct folder folder = make_folder();
    pid_t owner = start_in_child(folder.data), postmaster = postmaster_of(folder.data);
    kill_child(owner);
    int64_t deadline = deadline_in_s(60);
    while (kill(postmaster, 0) == 0 && clock_now_ns() < deadline)
        poll(NULL, 0, 20);
    cr_expect_eq(kill(postmaster, 0), -1);
    struct cluster *cluster = start(folder.data); /* waits for the watcher's end */
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, it_recovers_after_owner_and_watcher_were_killed) {
    struct folder folder = make_folder();
    pid_t owner = start_in_child(folder.data);
    kill(parent_of(postmaster_of(folder.data)), SIGKILL);
    kill_child(owner);
    struct cluster *cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "TABLE kept"), 42);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, it_recovers_after_all_of_it_was_killed) {
    struct folder folder = make_folder();
    pid_t owner = start_in_child(folder.data), postmaster = postmaster_of(folder.data), watcher = parent_of(postmaster);
    kill(watcher, SIGSTOP); /* so that it does not start the postmaster again in between */
    kill(postmaster, SIGKILL);
    kill(watcher, SIGKILL);
    kill_child(owner);
    struct cluster *cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "TABLE kept"), 42);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, a_stale_lock_file_with_the_number_of_another_process_is_no_hindrance) {
    struct folder folder = make_folder();
    struct error error;
    char path[256], text[64];
    cluster_stop(start(folder.data));
    snprintf(path, sizeof path, "%s/postgres/postmaster.pid", folder.data);
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    OK(file_write(path, text, strlen(text), &error));
    cluster_stop(start(folder.data));
    remove_folder(&folder);
}

Test(cluster, a_creation_that_was_cut_off_is_begun_again) {
    struct folder folder = make_folder();
    struct error error;
    char path[256];
    snprintf(path, sizeof path, "%s/postgres.new/base", folder.data);
    OK(file_make_dirs(path, &error));
    chmod(folder.data, 0711);
    struct cluster *cluster = start(folder.data);
    cr_expect_eq(ask(cluster_url(cluster), "SELECT 1"), 1);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, a_folder_with_a_long_and_strange_name_works) {
    struct folder folder = make_folder();
    char data[512];
    snprintf(data, sizeof data, "%s/a, b 'c' %%41 %0150d/data", folder.top, 7);
    struct cluster *cluster = start(data);
    cr_expect_eq(ask(cluster_url(cluster), "SELECT 1"), 1);
    cluster_stop(cluster);
    cluster = start(data);
    cr_expect_eq(ask(cluster_url(cluster), "SELECT 1"), 1);
    cluster_stop(cluster);
    remove_folder(&folder);
}

Test(cluster, a_folder_that_the_other_user_cannot_reach_is_told) {
    if (geteuid() != 0)
        cr_skip_test("only root runs it as another user");
    struct folder folder = make_folder();
    struct cluster *cluster;
    struct error error;
    cr_assert_eq(chmod(folder.top, 0700), 0);
    cr_assert_eq(cluster_start(&(struct cluster_options){folder.data, true}, &cluster, &error), -1);
    cr_expect_str_eq(error.code, "folder-closed");
    cr_expect_not_null(strstr(error.text, folder.top), "%s", error.text);
    remove_folder(&folder);
}

Test(cluster, a_folder_without_postgresql_is_told) {
    struct error error;
    char path[4096];
    setenv("WARPTUNE_PG_BIN", "/nonexistent", 1);
    cr_assert_eq(cluster_find_bin(path, sizeof path, &error), -1);
    cr_expect_str_eq(error.code, "no-postgresql");
    cr_expect_str_eq(error.field, "WARPTUNE_PG_BIN");
    unsetenv("WARPTUNE_PG_BIN");
    cr_assert_eq(cluster_find_bin(path, sizeof path, &error), 0, "%s", error.text);
}
