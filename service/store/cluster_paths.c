/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/cluster_paths.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/file.h"

#define SOCKET_NAME "/.s.PGSQL.5432"

static int join(char ret[PATH_MAX], const char *dir, const char *name, struct error *error) {
    if ((size_t)snprintf(ret, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return error_set(error, ERROR_INVALID, "bad-path", NULL, "The path of the data folder is too long.");
    return 0;
}

static bool fits(const char *dir) {
    return strlen(dir) + sizeof SOCKET_NAME <= sizeof((struct cluster_paths *)NULL)->socket_dir;
}

/* A socket folder outside of the data folder, as an earlier start recorded it; false when it is not ours (any more). */
static bool recorded_socket_dir(const char *record, const struct cluster_user *user, char ret[108]) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(PATH_MAX);
    struct stat info;
    if (file_read(record, text.max, &text, NULL) < 0 || !text.len || !fits(buf_str(&text)) ||
        lstat(buf_str(&text), &info) < 0)
        return false;
    if (!S_ISDIR(info.st_mode) || info.st_uid != user->uid || (info.st_mode & 077))
        return false;
    memcpy(ret, text.data, text.len + 1);
    return true;
}

static int choose_socket_dir(struct cluster_paths *paths, const struct cluster_user *user, struct error *error) {
    char inside[PATH_MAX], made[PATH_MAX];
    if (join(inside, paths->dir, "run", error) < 0 || join(paths->socket_record, paths->dir, "run.path", error) < 0)
        return -1;
    if (fits(inside)) {
        memcpy(paths->socket_dir, inside, strlen(inside) + 1);
        return cluster_user_own_dir(user, inside, error);
    }
    if (recorded_socket_dir(paths->socket_record, user, paths->socket_dir))
        return 0;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    snprintf(made, sizeof made, "%s/warptune-XXXXXX",
             !user->other && runtime && *runtime && strlen(runtime) < 64 ? runtime : "/tmp");
    if (!mkdtemp(made))
        return error_set(error, ERROR_IO, "mkdir", NULL, "Cannot make a folder %s: %s.", made, strerror(errno));
    snprintf(paths->socket_dir, sizeof paths->socket_dir, "%.107s", made);
    if (cluster_user_own_dir(user, made, error) < 0)
        return -1;
    return file_write(paths->socket_record, made, strlen(made), error);
}

int cluster_paths_init(const char *data_dir, const struct cluster_user *user, struct cluster_paths *ret,
                       struct error *error) {
    if (cluster_user_make_dirs(user, data_dir, error) < 0)
        return -1;
    if (!realpath(data_dir, ret->dir))
        return error_set(error, ERROR_IO, "bad-path", NULL, "Cannot find the folder %s: %s.", data_dir,
                         strerror(errno));
    if (join(ret->pgdata, ret->dir, "postgres", error) < 0 || join(ret->fresh, ret->dir, "postgres.new", error) < 0 ||
        join(ret->log, ret->dir, "postgres.log", error) < 0 ||
        join(ret->owner_lock, ret->dir, "owner.lock", error) < 0 ||
        join(ret->watch_lock, ret->dir, "postgres.lock", error) < 0)
        return -1;
    if (cluster_user_check_reach(user, ret->pgdata, error) < 0)
        return -1;
    return choose_socket_dir(ret, user, error);
}

/* Sends a signal (0: none) to each process that works in the folder, but only to `only` unless that is 0. How many. */
static int signal_inhabitants(const char *pgdata, pid_t only, int number) {
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        char link[64], cwd[PATH_MAX];
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid <= 0 || *end)
            continue;
        snprintf(link, sizeof link, "/proc/%ld/cwd", pid);
        ssize_t len = readlink(link, cwd, sizeof cwd - 1);
        if (len <= 0 || (size_t)len != strlen(pgdata) || memcmp(cwd, pgdata, (size_t)len) != 0)
            continue;
        count++;
        if (number && (!only || pid == only))
            kill((pid_t)pid, number);
    }
    closedir(proc);
    return count;
}

static pid_t recorded_postmaster(const char *pid_file) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(4096);
    return file_read(pid_file, text.max, &text, NULL) < 0 ? 0 : (pid_t)strtol(buf_str(&text), NULL, 10);
}

int cluster_paths_clear(const struct cluster_paths *paths, struct error *error) {
    char file[PATH_MAX];
    if (join(file, paths->pgdata, "postmaster.pid", error) < 0)
        return -1;
    pid_t postmaster = recorded_postmaster(file);
    static const struct {
        int number;
        bool all;
        double seconds;
    } steps[] = {{SIGINT, false, 30}, {SIGQUIT, true, 10}, {SIGKILL, true, 10}};
    int left = signal_inhabitants(paths->pgdata, 0, 0);
    for (size_t i = 0; i < ARRAY_COUNT(steps) && left; i++) {
        if (steps[i].all || postmaster > 0)
            signal_inhabitants(paths->pgdata, steps[i].all ? 0 : postmaster, steps[i].number);
        for (int64_t end = deadline_in_s(steps[i].seconds); left && clock_now_ns() < end;) {
            nanosleep(&(struct timespec){0, 50000000}, NULL); /* they are not our children: there is no event */
            left = signal_inhabitants(paths->pgdata, 0, 0);
        }
    }
    if (left)
        return error_set(error, ERROR_IO, "cluster-in-use", NULL,
                         "Processes of an earlier PostgreSQL still run in %s and do not end.", paths->pgdata);
    /* Nobody lives there: a process id in these files that is alive is another program's by now. */
    unlink(file);
    if (join(file, paths->socket_dir, SOCKET_NAME + 1, error) < 0)
        return -1;
    unlink(file);
    if (join(file, paths->socket_dir, ".s.PGSQL.5432.lock", error) < 0)
        return -1;
    unlink(file);
    return 0;
}

void cluster_paths_leave(const struct cluster_paths *paths) {
    if (*paths->socket_record && access(paths->socket_record, F_OK) == 0 && rmdir(paths->socket_dir) == 0)
        unlink(paths->socket_record);
}
