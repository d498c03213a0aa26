/* SPDX-License-Identifier: Apache-2.0 */
#include "service/serving.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/log.h"
#include "service/base/periodic.h"
#include "service/base/sandbox.h"
#include "service/commands.h"
#include "service/run_as.h"
#include "service/store/blob_store.h"
#include "service/store/idempotency_store.h"
#include "service/store/migrate.h"
#include "service/store/webhook_store.h"
#include "service/systemd.h"

#define DRAIN_LOOK_S 0.05
#define SWEEP_PAUSE_S 0.05
enum {
    LOOK_EVERY_S = 5,
    TIDY_EVERY_S = 600,
    MOST_SWEEPS = 1000,
    ABANDONED_AFTER_S = 3600,
    DELIVERIES_KEPT_S = 30 * 86400,
    SWEEP_ROWS = 1000
};
#define CACHE_BYTES (INT64_C(20) << 30) /* of files kept for sending; the database has them all */

static void print_help(const char *verb, const char *summary) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 16);
    settings_help(&text);
    printf("usage: warptune %s [--OPTION VALUE]…\n\n%s\n\n%s", verb, summary, buf_str(&text));
}

int serving_settings(struct serving *serving, const char *verb, const char *summary, int argc, char **argv) {
    struct error error;
    enum log_level level = LOG_INFO;
    memset(serving, 0, sizeof *serving);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(verb, summary);
            return 0;
        }
    }
    serving->arena = arena_new(0);
    if (settings_load(&serving->settings, argc, argv, serving->arena, &error) < 0 ||
        log_level_parse(serving->settings.log_level, &level, &error) < 0) {
        arena_free(serving->arena);
        serving->arena = NULL;
        return command_misused(verb, "%s", error.text);
    }
    log_init(level);
    systemd_init();
    return -1;
}

int serving_become_user(struct serving *serving, struct error *error) {
    const struct settings *settings = &serving->settings;
    return *settings->user ? run_as(settings->user, settings->data_dir, error) : 0;
}

/* The folder may be walked through, so that the cluster inside it can belong to another user. */
static int make_data_dir(const char *path, struct error *error) {
    if (file_make_dirs(path, error) < 0)
        return error_prefix(error, "making the data folder: ");
    if (chmod(path, 0711) < 0)
        return error_set(error, ERROR_IO, "data-dir", "data-dir", "%s is not ours to use: %m.", path);
    return 0;
}

/* When the private cluster is another process's; the error stays as it is when that may not be. */
static int join(struct serving *serving, struct error *error) {
    if (!serving->may_join || strcmp(error->code, "data-dir-in-use") != 0)
        return -1;
    return cluster_running_url(serving->settings.data_dir, serving->joined_url, sizeof serving->joined_url, error);
}

int serving_open_database(struct serving *serving, bool may_start_cluster, struct error *error) {
    const struct settings *settings = &serving->settings;
    serving->database_url = settings->database_url;
    if (!*settings->database_url && !may_start_cluster)
        return error_set(error, ERROR_INVALID, "no-database", "database-url",
                         "It needs --database-url (or WARPTUNE_DATABASE_URL): the server's database.");
    if (make_data_dir(settings->data_dir, error) < 0)
        return -1;
    if (!*settings->database_url) {
        struct cluster_options options = {.data_dir = settings->data_dir};
        if (cluster_start(&options, &serving->cluster, error) == 0)
            serving->database_url = cluster_url(serving->cluster);
        else if (join(serving, error) == 0)
            serving->database_url = serving->joined_url;
        else
            return -1;
    }
    struct db_options options = {.url = serving->database_url, .connections = serving->connections};
    if (db_open(&options, &serving->db, error) < 0)
        return -1;
    return migrate_run(serving->db, NULL, error);
}

int serving_open_beside(struct serving *serving, const char *data_dir, const char *database_url, struct error *error) {
    char *none[] = {"", NULL};
    memset(serving, 0, sizeof *serving);
    serving->arena = arena_new(0);
    serving->may_join = true;
    serving->connections = 2;
    log_init(LOG_WARN);
    if (settings_load(&serving->settings, 1, none, serving->arena, error) < 0)
        return -1;
    if (data_dir)
        serving->settings.data_dir = data_dir;
    if (database_url || data_dir)
        serving->settings.database_url = database_url ? database_url : "";
    return serving_open_database(serving, true, error);
}

static void stop_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void serving_block_signals(void) {
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* The signal that arrives, or a number below 1. systemd hears that we are alive. */
static int signal_within(double seconds) {
    sigset_t set;
    struct timespec limit = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    stop_signals(&set);
    if (systemd_watchdog_s() > 0)
        systemd_notify("WATCHDOG=1");
    return sigtimedwait(&set, NULL, &limit);
}

void serving_log_bounds(void) {
    if (geteuid() == 0)
        log_line(LOG_INFO, "running as root: --user NAME lets go of that after the start");
    if (!sandbox_filters())
        log_line(LOG_WARN, "this kernel filters no system calls: compilers and kernels run within limits, but could "
                           "reach the network and other processes (see `warptune doctor`)");
}

/* A few blobs at a time, so that a stop need not wait for a large sweep. */
static void tidy(struct periodic *periodic, void *data) {
    struct serving *serving = data;
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const char *cache = arena_printf(arena, "%s/blobs", serving->settings.data_dir);
    struct error error;
    int64_t removed = 0;
    int status, sweeps = 0;
    do
        status = blob_sweep(serving->db, ABANDONED_AFTER_S, &removed, &error);
    while (status == 0 && removed > 0 && ++sweeps < MOST_SWEEPS && !periodic_sleep(periodic, SWEEP_PAUSE_S));
    if (status < 0 || idempotency_sweep(serving->db, IDEMPOTENCY_KEPT_S, SWEEP_ROWS, NULL, &error) < 0 ||
        webhook_sweep(serving->db, DELIVERIES_KEPT_S, SWEEP_ROWS, NULL, &error) < 0 ||
        blob_cache_trim(cache, CACHE_BYTES, &error) < 0)
        log_error(LOG_WARN, "tidying up", &error);
}

int serving_tidy(struct serving *serving, struct error *error) {
    return periodic_start(TIDY_EVERY_S, tidy, serving, &serving->tidying, error);
}

static void do_reload(const struct serving *serving, void (*reload)(const struct settings *settings)) {
    if (!reload)
        return;
    systemd_notify("RELOADING=1");
    reload(&serving->settings);
    systemd_notify("READY=1");
}

int serving_wait_for_signal(struct serving *serving, void (*reload)(const struct settings *settings)) {
    double watchdog_s = systemd_watchdog_s(),
           look_s = watchdog_s > 0 && watchdog_s < LOOK_EVERY_S ? watchdog_s : LOOK_EVERY_S;
    int signal_number;
    do {
        if (serving->cluster && !cluster_alive(serving->cluster)) {
            log_line(LOG_ERROR, "the private PostgreSQL is gone and nothing watches over it: ending");
            return 1;
        }
        if ((signal_number = signal_within(look_s)) == SIGHUP)
            do_reload(serving, reload);
    } while (signal_number <= 0 || signal_number == SIGHUP);
    systemd_notify("STOPPING=1\nSTATUS=finishing what is under way");
    return 0;
}

void serving_drain(struct serving *serving, bool (*done)(void *data), void *data) {
    int64_t deadline = deadline_in_s((double)serving->settings.drain_s);
    while (!done(data) && clock_now_ns() < deadline) {
        int signal_number = signal_within(DRAIN_LOOK_S);
        if (signal_number > 0 && signal_number != SIGHUP)
            break;
    }
}

void serving_close(struct serving *serving) {
    periodic_stop(serving->tidying);
    db_close(serving->db);
    cluster_stop(serving->cluster);
    arena_free(serving->arena);
}
