/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/cluster_user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A server that ran as another user made it; PostgreSQL runs for nobody but the owner. */
static bool choose_owner(const char *data_dir, struct cluster_user *ret) {
    char path[PATH_MAX];
    struct stat info;
    if (snprintf(path, sizeof path, "%s/postgres", data_dir) >= PATH_MAX || stat(path, &info) < 0 || info.st_uid == 0)
        return false;
    ret->uid = info.st_uid;
    ret->gid = info.st_gid;
    snprintf(ret->name, sizeof ret->name, "uid %u", (unsigned)ret->uid);
    return true;
}

int cluster_user_choose(const char *data_dir, struct cluster_user *ret, struct error *error) {
    *ret = (struct cluster_user){.other = geteuid() == 0, .uid = geteuid(), .gid = getegid()};
    if (!ret->other) {
        snprintf(ret->name, sizeof ret->name, "uid %u", (unsigned)ret->uid);
        return 0;
    }
    if (choose_owner(data_dir, ret))
        return 0;
    static const char *const names[] = {"postgres", "nobody"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct passwd entry, *found = NULL;
        char text[4096];
        if (getpwnam_r(names[i], &entry, text, sizeof text, &found) != 0 || !found || entry.pw_uid == 0)
            continue;
        ret->uid = entry.pw_uid;
        ret->gid = entry.pw_gid;
        snprintf(ret->name, sizeof ret->name, "%s", names[i]);
        return 0;
    }
    return error_set(error, ERROR_NOT_FOUND, "no-database-user", NULL,
                     "PostgreSQL refuses to run as root, and there is neither a user 'postgres' nor 'nobody' to run it "
                     "as. Create one, start this program as another user, or set WARPTUNE_DATABASE_URL.");
}

int cluster_user_make_dirs(const struct cluster_user *user, const char *path, struct error *error) {
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return error_set(error, ERROR_INVALID, "bad-path", NULL, "'%.80s' is no usable path for a folder.", path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, user->other ? 0711 : 0700) < 0 && errno != EEXIST)
            return error_set(error, ERROR_IO, "mkdir", NULL, "Cannot make the folder %s: %s.", part, strerror(errno));
    }
    struct stat info;
    if (stat(path, &info) < 0 || !S_ISDIR(info.st_mode))
        return error_set(error, ERROR_IO, "mkdir", NULL, "%s is not a folder.", path);
    /* The data folder itself is ours to open; those above it are not. */
    if (user->other && info.st_uid == 0 && !(info.st_mode & S_IXOTH) &&
        chmod(path, (info.st_mode & 07777) | S_IXOTH) < 0)
        return error_set(error, ERROR_IO, "chmod", NULL, "Cannot open the folder %s to the user %s: %s.", path,
                         user->name, strerror(errno));
    return 0;
}

int cluster_user_own_dir(const struct cluster_user *user, const char *path, struct error *error) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set(error, ERROR_IO, "mkdir", NULL, "Cannot make the folder %s: %s.", path, strerror(errno));
    int fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    bool done = fd >= 0 && (!user->other || fchown(fd, user->uid, user->gid) == 0) && fchmod(fd, 0700) == 0;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (!done)
        return error_set(error, ERROR_IO, "chown", NULL, "Cannot give the folder %s to the user %s: %s.", path,
                         user->name, strerror(reason));
    return 0;
}

/* In a forked child: the raw calls, which change this one thread and need no lock of libc. */
static bool become(const struct cluster_user *user) {
    if (!user->other)
        return true;
    return syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, user->gid, user->gid, user->gid) == 0 &&
           syscall(SYS_setresuid, user->uid, user->uid, user->uid) == 0;
}

/* In a forked child: the length of the first part of the path that cannot be passed, 0 when all can. */
static size_t blocked_at(const char *path) {
    char part[PATH_MAX];
    for (size_t i = 1; path[i] && i < sizeof part; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (access(part, X_OK) < 0)
            return i;
    }
    return 0;
}

int cluster_user_check_reach(const struct cluster_user *user, const char *path, struct error *error) {
    if (!user->other)
        return 0;
    int answer[2];
    if (pipe2(answer, O_CLOEXEC) < 0)
        return error_set(error, ERROR_IO, "pipe", NULL, "Cannot make a pipe: %s.", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        size_t at = become(user) ? blocked_at(path) : 1;
        _exit(write(answer[1], &at, sizeof at) == (ssize_t)sizeof at ? 0 : 1);
    }
    size_t at = 0;
    close(answer[1]);
    bool told = pid > 0 && read(answer[0], &at, sizeof at) == (ssize_t)sizeof at;
    close(answer[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    if (!told)
        return error_set(error, ERROR_IO, "fork", NULL, "Cannot start a child process.");
    if (at == 0)
        return 0;
    return error_set(
        error, ERROR_IO, "folder-closed", NULL,
        "%s: PostgreSQL refuses to run as root, so it runs as the user %s, who may not pass through the folder "
        "%.*s. Open it (chmod o+x %.*s), choose another data folder, or set WARPTUNE_DATABASE_URL.",
        path, user->name, (int)at, path, (int)at, path);
}

void cluster_user_close(unsigned first, unsigned last) {
    if (first > last || syscall(SYS_close_range, first, last, 0U) == 0)
        return;
    long limit = sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd <= last && (long)fd < limit; fd++)
        close((int)fd);
}

pid_t cluster_user_spawn(const struct cluster_user *user, const char *const *argv, int output_fd, int death_signal) {
    static const char *const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=/", NULL};
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null_fd = open("/dev/null", O_RDWR);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(output_fd, 1) < 0 || dup2(output_fd, 2) < 0)
        _exit(126);
    cluster_user_close(3, ~0U);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(077);
    /* The death signal is asked for after the user has changed, which clears it. */
    if (!become(user) || (death_signal && prctl(PR_SET_PDEATHSIG, death_signal) < 0) || getppid() != parent)
        _exit(126);
    execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
    _exit(127);
}
