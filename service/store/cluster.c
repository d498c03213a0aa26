/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "service/base/buf.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/utf8.h"
#include "service/store/cluster_paths.h"
#include "service/store/cluster_watch.h"

enum {
    LOG_MAX_BYTES = 16 << 20, /* a longer log is emptied at start */
    PREDECESSOR_S = 60,       /* how long a watcher of an earlier life may take to shut its postmaster down */
    INITDB_S = 180,
    START_S = 60,    /* until it answers at all */
    RECOVER_S = 900, /* while it answers that it is recovering */
};

struct cluster {
    struct cluster_paths paths;
    struct cluster_user user;
    struct cluster_watch watch;
    char bin[PATH_MAX];
    int owner_fd; /* of the lock */
    bool no_sync;
    char url[512], admin_url[512];
};

/* --- Where PostgreSQL's programs are --- */

static bool has_programs(const char *dir, char *ret_path, size_t size) {
    static const char *const programs[] = {"postgres", "initdb"};
    char path[PATH_MAX];
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, programs[i]) >= sizeof path || access(path, X_OK) < 0)
            return false;
    char *real = realpath(dir, NULL);
    bool fits = real && strlen(real) < size;
    if (fits)
        memcpy(ret_path, real, strlen(real) + 1);
    free(real);
    return fits;
}

static bool find_beside_program(char *ret_path, size_t size) {
    char self[PATH_MAX], dir[PATH_MAX];
    if (file_self(self, sizeof self, NULL) < 0)
        return false;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    return (size_t)snprintf(dir, sizeof dir, "%s/../pgsql/bin", self) < sizeof dir && has_programs(dir, ret_path, size);
}

static bool find_in_path(char *ret_path, size_t size) {
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        char dir[PATH_MAX];
        if (len && len < sizeof dir) {
            memcpy(dir, path, len);
            dir[len] = 0;
            if (has_programs(dir, ret_path, size))
                return true;
        }
        path += len + (path[len] == ':');
    }
    return false;
}

/* Debian's place: the newest version. */
static bool find_installed(char *ret_path, size_t size) {
    glob_t found;
    double newest = 0;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        double version = strtod(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"), NULL);
        if (version > newest && has_programs(found.gl_pathv[i], ret_path, size))
            newest = version;
    }
    globfree(&found);
    return newest > 0;
}

int cluster_find_bin(char *ret_path, size_t size, struct error *error) {
    const char *chosen = getenv("WARPTUNE_PG_BIN");
    if (chosen && *chosen) {
        if (has_programs(chosen, ret_path, size))
            return 0;
        return error_set(error, ERROR_NOT_FOUND, "no-postgresql", "WARPTUNE_PG_BIN",
                         "WARPTUNE_PG_BIN is %.200s, but there are no programs `postgres` and `initdb`.", chosen);
    }
    if (find_beside_program(ret_path, size) || find_in_path(ret_path, size) || find_installed(ret_path, size))
        return 0;
    return error_set(
        error, ERROR_NOT_FOUND, "no-postgresql", NULL,
        "PostgreSQL's programs `postgres` and `initdb` were not found. Install it (Debian: apt-get install "
        "postgresql), name their folder in WARPTUNE_PG_BIN, or set WARPTUNE_DATABASE_URL.");
}

/* --- Locks --- */

/* A descriptor that holds the lock; ERROR_BUSY when it is held by others past the deadline. */
static int take_lock(const char *path, int64_t deadline, int *ret_fd, struct error *error) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(error, ERROR_IO, "open", NULL, "Cannot open %s: %s.", path, strerror(errno));
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || clock_now_ns() >= deadline) {
            close(fd);
            return error_set(error, ERROR_BUSY, "locked", NULL, "%s is locked by another process.", path);
        }
        nanosleep(&(struct timespec){0, 50000000}, NULL); /* flock has no time limit of its own */
    }
    *ret_fd = fd;
    return 0;
}

static int own_folder(struct cluster *cluster, struct error *error) {
    if (take_lock(cluster->paths.owner_lock, 0, &cluster->owner_fd, error) < 0) {
        if (error && error->class == ERROR_BUSY)
            error_set(error, ERROR_CONFLICT, "data-dir-in-use", NULL,
                      "Another process uses the data folder %s. Stop it, or choose another folder.",
                      cluster->paths.dir);
        return -1;
    }
    return 0;
}

/* --- The log --- */

static int open_log(const struct cluster *cluster, int *ret_fd, struct error *error) {
    struct stat info;
    int truncate = stat(cluster->paths.log, &info) == 0 && info.st_size > LOG_MAX_BYTES ? O_TRUNC : 0;
    *ret_fd = open(cluster->paths.log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | truncate, 0600);
    if (*ret_fd < 0)
        return error_set(error, ERROR_IO, "open", NULL, "Cannot open %s: %s.", cluster->paths.log, strerror(errno));
    return 0;
}

/* An error that ends with the last lines of the log. */
static int fail_with_log(const struct cluster *cluster, const char *what, struct error *error) {
    char tail[601] = "";
    int fd = open(cluster->paths.log, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        off_t end = lseek(fd, 0, SEEK_END);
        ssize_t len = pread(fd, tail, sizeof tail - 1, end > 600 ? end - 600 : 0);
        tail[len > 0 ? len : 0] = 0;
        close(fd);
    }
    utf8_scrub(tail);
    return error_set(error, ERROR_DB, "cluster-start", NULL, "%s See %.160s, which ends: %s", what, cluster->paths.log,
                     tail);
}

/* --- Making it --- */

/* Reads what a child writes until it has closed the pipe, which is when it ends; past the deadline it is killed. */
static bool finish_child(pid_t pid, int output_fd, int64_t deadline, struct buf *ret_output) {
    for (;;) {
        struct pollfd ready = {output_fd, POLLIN, 0};
        char piece[4096];
        int n = poll(&ready, 1, deadline_poll_ms(deadline));
        ssize_t len = n > 0 ? read(output_fd, piece, sizeof piece) : n;
        if (len < 0 && errno == EINTR)
            continue;
        if (n == 0)
            kill(pid, SIGKILL);
        if (len <= 0)
            break;
        buf_append(ret_output, piece, (size_t)len);
    }
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int run_initdb(struct cluster *cluster, struct error *error) {
    char program[PATH_MAX + 16];
    snprintf(program, sizeof program, "%s/initdb", cluster->bin);
    const char *argv[] = {program,
                          "--pgdata",
                          cluster->paths.fresh,
                          "--username=warptune",
                          "--auth=trust", /* the socket's folder lets in nobody but the user and root */
                          "--encoding=UTF8",
                          "--locale=C",
                          "--no-instructions",
                          cluster->no_sync ? "--no-sync" : NULL,
                          NULL};
    struct buf output CLEANUP(buf_release) = BUF_INIT(64 << 10);
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0)
        return error_set(error, ERROR_IO, "pipe", NULL, "Cannot make a pipe: %s.", strerror(errno));
    pid_t pid = cluster_user_spawn(&cluster->user, argv, out[1], SIGKILL);
    close(out[1]);
    bool done = pid > 0 && finish_child(pid, out[0], deadline_in_s(INITDB_S), &output);
    close(out[0]);
    if (done)
        return 0;
    char *text = output.len ? output.data + (output.len > 600 ? output.len - 600 : 0) : NULL;
    if (text)
        utf8_scrub(text);
    return error_set(error, ERROR_DB, "initdb", NULL, "%s could not make the private database in %.200s: %s", program,
                     cluster->paths.fresh, text ? text : "it ended without a word.");
}

/* In a folder beside, so that one cut off half-way is never taken for a cluster. */
static int make_when_missing(struct cluster *cluster, struct error *error) {
    char version[PATH_MAX + 16];
    snprintf(version, sizeof version, "%s/PG_VERSION", cluster->paths.pgdata);
    if (access(version, F_OK) == 0)
        return 0;
    if (file_remove_tree(cluster->paths.fresh, error) < 0 ||
        cluster_user_own_dir(&cluster->user, cluster->paths.fresh, error) < 0 || run_initdb(cluster, error) < 0)
        return -1;
    if (rename(cluster->paths.fresh, cluster->paths.pgdata) < 0)
        return error_set(error, ERROR_IO, "rename", NULL, "Cannot rename %s to %s: %s.", cluster->paths.fresh,
                         cluster->paths.pgdata, strerror(errno));
    return 0;
}

/* --- Starting it --- */

static int start_watch(struct cluster *cluster, struct error *error) {
    char program[PATH_MAX + 16], sockets[160];
    snprintf(program, sizeof program, "%s/postgres", cluster->bin);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=\"%s\"", cluster->paths.socket_dir);
    const char *fsync_setting = cluster->no_sync ? "fsync=off" : "fsync=on";
    const char *const argv[] = {program,
                                "-D",
                                cluster->paths.pgdata,
                                "-p",
                                "5432",
                                "-c",
                                sockets,
                                "-c",
                                fsync_setting,
                                "-c",
                                "listen_addresses=",
                                "-c",
                                "unix_socket_permissions=0700",
                                "-c",
                                "max_connections=100",
                                "-c",
                                "shared_buffers=64MB",
                                "-c",
                                "synchronous_commit=on",
                                "-c",
                                "wal_level=minimal", /* nobody replicates it */
                                "-c",
                                "max_wal_senders=0",
                                "-c",
                                "max_wal_size=2GB",
                                "-c",
                                "checkpoint_timeout=15min",
                                "-c",
                                "random_page_cost=1.1",
                                "-c",
                                "jit=off",
                                "-c",
                                "max_parallel_workers_per_gather=0",
                                "-c",
                                "autovacuum_naptime=15s",
                                "-c",
                                "logging_collector=off",
                                "-c",
                                "log_destination=stderr",
                                NULL};
    int lock_fd = -1, log_fd = -1;
    if (take_lock(cluster->paths.watch_lock, deadline_in_s(PREDECESSOR_S), &lock_fd, error) < 0)
        return -1;
    int status = cluster_paths_clear(&cluster->paths, error);
    if (status == 0)
        status = make_when_missing(cluster, error);
    if (status == 0)
        status = open_log(cluster, &log_fd, error);
    if (status == 0) {
        status = cluster_watch_start(&cluster->user, argv, lock_fd, log_fd, &cluster->watch, error);
        close(log_fd);
    }
    close(lock_fd);
    return status;
}

static int wait_ready(struct cluster *cluster, struct error *error) {
    int64_t silent_until = deadline_in_s(START_S), recover_until = deadline_in_s(RECOVER_S);
    for (;;) {
        PGPing ping = PQping(cluster->admin_url);
        if (ping == PQPING_OK)
            return 0;
        if (!cluster_watch_alive(&cluster->watch))
            return fail_with_log(cluster, "The private PostgreSQL did not stay up.", error);
        if (clock_now_ns() > (ping == PQPING_REJECT ? recover_until : silent_until))
            return fail_with_log(cluster, "The private PostgreSQL does not answer.", error);
        nanosleep(&(struct timespec){0, 20000000}, NULL); /* a server that starts raises no event for us */
    }
}

static int make_database(struct cluster *cluster, struct error *error) {
    PGconn *conn = PQconnectdb(cluster->admin_url);
    PGresult *found = PQexec(conn, "SELECT 1 FROM pg_database WHERE datname = 'warptune'");
    int status = 0;
    if (PQresultStatus(found) != PGRES_TUPLES_OK) {
        status =
            error_set(error, ERROR_DB, "cluster-start", NULL, "The private PostgreSQL: %.300s", PQerrorMessage(conn));
    } else if (PQntuples(found) == 0) {
        PGresult *made = PQexec(conn, "CREATE DATABASE warptune");
        if (PQresultStatus(made) != PGRES_COMMAND_OK)
            status = error_set(error, ERROR_DB, "cluster-start", NULL, "The private PostgreSQL: %.300s",
                               PQerrorMessage(conn));
        PQclear(made);
    }
    PQclear(found);
    PQfinish(conn);
    return status;
}

static void write_url(const struct cluster *cluster, const char *database, char *ret, size_t size) {
    struct buf url CLEANUP(buf_release) = BUF_INIT(size - 1);
    buf_printf(&url, "postgresql://warptune@/%s?host=", database);
    for (const char *c = cluster->paths.socket_dir; *c; c++) {
        bool plain =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("-_.", *c);
        if (plain)
            buf_putc(&url, *c);
        else
            buf_printf(&url, "%%%02X", (unsigned char)*c);
    }
    snprintf(ret, size, "%s", buf_str(&url));
}

int cluster_start(const struct cluster_options *options, struct cluster **ret, struct error *error) {
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        abort();
    cluster->owner_fd = cluster->watch.owner_fd = -1;
    cluster->no_sync = options->no_sync;
    if (cluster_find_bin(cluster->bin, sizeof cluster->bin, error) < 0 ||
        cluster_user_choose(options->data_dir, &cluster->user, error) < 0 ||
        cluster_paths_init(options->data_dir, &cluster->user, &cluster->paths, error) < 0 ||
        own_folder(cluster, error) < 0)
        goto failed;
    char program[PATH_MAX + 16];
    snprintf(program, sizeof program, "%s/postgres", cluster->bin);
    if (cluster_user_check_reach(&cluster->user, program, error) < 0)
        goto failed;
    write_url(cluster, "postgres", cluster->admin_url, sizeof cluster->admin_url);
    write_url(cluster, "warptune", cluster->url, sizeof cluster->url);
    if (start_watch(cluster, error) < 0 || wait_ready(cluster, error) < 0 || make_database(cluster, error) < 0)
        goto failed;
    *ret = cluster;
    return 0;
failed:
    cluster_stop(cluster);
    return -1;
}

int cluster_running_url(const char *data_dir, char *ret_url, size_t size, struct error *error) {
    struct cluster cluster = {0};
    if (cluster_user_choose(data_dir, &cluster.user, error) < 0 ||
        cluster_paths_init(data_dir, &cluster.user, &cluster.paths, error) < 0)
        return -1;
    write_url(&cluster, "warptune", ret_url, size);
    return 0;
}

bool cluster_alive(struct cluster *cluster) {
    return cluster_watch_alive(&cluster->watch);
}

const char *cluster_url(const struct cluster *cluster) {
    return cluster->url;
}

void cluster_stop(struct cluster *cluster) {
    if (!cluster)
        return;
    cluster_watch_stop(&cluster->watch);
    if (cluster->owner_fd >= 0) {
        cluster_paths_leave(&cluster->paths);
        close(cluster->owner_fd);
    }
    free(cluster);
}
