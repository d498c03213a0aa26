/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/cluster_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* All of the watcher's life is between fork and exec of a process that may have threads: only plain system calls. */

enum {
    FAST_S = 30,          /* how long a fast shutdown may take (SIGINT) */
    IMMEDIATE_S = 10,     /* and then an immediate one (SIGQUIT) */
    MAX_FAILURES = 6,     /* in a row, of a postmaster that ends soon after its start */
    SHORT_LIFE_S = 10,    /* what «soon» is */
    FIRST_DELAY_MS = 100, /* before a restart; doubles */
};

struct watcher {
    const struct cluster_user *user;
    const char *const *argv;
    int owner_fd, log_fd, signal_fd;
    pid_t postmaster;
};

static time_t seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Waits until the postmaster has ended (true), or the owner let go or the time is up (false). */
static bool wait_ended(struct watcher *watcher, int timeout_ms, bool heed_owner) {
    for (;;) {
        pid_t ended = waitpid(watcher->postmaster, NULL, WNOHANG);
        if (ended == watcher->postmaster || (ended < 0 && errno == ECHILD))
            return true;
        struct pollfd polls[2] = {{watcher->signal_fd, POLLIN, 0}, {heed_owner ? watcher->owner_fd : -1, POLLIN, 0}};
        int n = poll(polls, 2, timeout_ms);
        if (n == 0 || polls[1].revents)
            return false;
        struct signalfd_siginfo info;
        if (polls[0].revents && read(watcher->signal_fd, &info, sizeof info) < 0)
            return false;
    }
}

static void shut_down(struct watcher *watcher) {
    kill(watcher->postmaster, SIGINT);
    if (wait_ended(watcher, FAST_S * 1000, false))
        return;
    kill(watcher->postmaster, SIGQUIT);
    if (wait_ended(watcher, IMMEDIATE_S * 1000, false))
        return;
    kill(watcher->postmaster, SIGKILL);
    wait_ended(watcher, IMMEDIATE_S * 1000, false);
}

static int watch(struct watcher *watcher) {
    int failures = 0;
    for (;;) {
        time_t started = seconds_now();
        /* SIGINT: fast shutdown, should this process be killed. */
        watcher->postmaster = cluster_user_spawn(watcher->user, watcher->argv, watcher->log_fd, SIGINT);
        if (watcher->postmaster < 0)
            return 1;
        if (!wait_ended(watcher, -1, true)) {
            shut_down(watcher);
            return 0;
        }
        failures = seconds_now() - started < SHORT_LIFE_S ? failures + 1 : 0;
        if (failures >= MAX_FAILURES)
            return 1;
        struct pollfd owner = {watcher->owner_fd, POLLIN, 0};
        if (poll(&owner, 1, FIRST_DELAY_MS << failures) > 0)
            return 0;
    }
}

/* Keeps only the descriptors it needs: the owner's own sockets and files must close when the owner does. */
static void close_others(int a, int b, int c) {
    int keep[3] = {a, b, c};
    for (int i = 0; i < 3; i++) /* sorts three */
        for (int j = i + 1; j < 3; j++)
            if (keep[j] < keep[i]) {
                int swap = keep[i];
                keep[i] = keep[j];
                keep[j] = swap;
            }
    unsigned from = 0;
    for (int i = 0; i < 3; i++) {
        if (keep[i] > 0)
            cluster_user_close(from, (unsigned)keep[i] - 1);
        from = (unsigned)keep[i] + 1;
    }
    cluster_user_close(from, ~0U);
}

static void watcher_main(struct watcher *watcher, int lock_fd) {
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2};
    setsid();
    if (chdir("/") < 0)
        _exit(1);
    prctl(PR_SET_NAME, "warptune-pgwatch");
    for (size_t i = 0; i < ARRAY_COUNT(ignored); i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    close_others(watcher->owner_fd, lock_fd, watcher->log_fd);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_SETMASK, &children, NULL);
    watcher->signal_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    _exit(watcher->signal_fd < 0 ? 1 : watch(watcher));
}

int cluster_watch_start(const struct cluster_user *user, const char *const *argv, int lock_fd, int log_fd,
                        struct cluster_watch *ret, struct error *error) {
    int owner[2];
    if (pipe2(owner, O_CLOEXEC) < 0)
        return error_set(error, ERROR_IO, "pipe", NULL, "Cannot make a pipe: %s.", strerror(errno));
    struct watcher watcher = {user, argv, owner[0], log_fd, -1, 0};
    pid_t pid = fork();
    if (pid == 0)
        watcher_main(&watcher, lock_fd);
    int reason = errno;
    close(owner[0]);
    if (pid < 0) {
        close(owner[1]);
        return error_set(error, ERROR_IO, "fork", NULL, "Cannot start a child process: %s.", strerror(reason));
    }
    *ret = (struct cluster_watch){pid, owner[1]};
    return 0;
}

bool cluster_watch_alive(struct cluster_watch *watch) {
    if (watch->pid > 0 && waitpid(watch->pid, NULL, WNOHANG) != 0)
        watch->pid = 0;
    return watch->pid > 0;
}

void cluster_watch_stop(struct cluster_watch *watch) {
    if (watch->owner_fd >= 0)
        close(watch->owner_fd);
    watch->owner_fd = -1;
    if (watch->pid > 0) /* bounded by the watcher's own limits */
        while (waitpid(watch->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    watch->pid = 0;
}
