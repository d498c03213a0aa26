/* SPDX-License-Identifier: Apache-2.0 */
#include "service/own_server.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "service/announce.h"
#include "service/base/arena.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/utf8.h"
#include "service/commands.h"
#include "service/settings.h"

#define PREDECESSOR_S 90 /* for a server that finishes what it has under way */
#define END_S 600        /* for ours to do so: its own limits are shorter, unless a setting says otherwise */
#define LOOK_NS (NS_PER_S / 2)
enum { LOOK_MS = 100, MOST_SAID = 1200 };
static const char listening[] = "listening on ";

int own_server_data_dir(const char *given, struct arena *arena, const char **ret, struct error *error) {
    char *none[] = {"", NULL};
    struct settings settings;
    if (settings_load(&settings, 1, none, arena, error) < 0)
        return -1;
    *ret = given ? given : settings.data_dir;
    return 0;
}

/* Settings of the environment hold for the child, too, but for those that would keep us from reaching it. */
static int start_child(struct own_server *own, struct error *error) {
    char program[PATH_MAX];
    const char *const argv[] = {program,
                                "serve",
                                "--listen=127.0.0.1:0",
                                "--data-dir",
                                own->data_dir,
                                "--log-level=warn",
                                "--no-worker=0",
                                "--tls-cert=",
                                "--tls-key=",
                                own->devices ? "--devices" : NULL,
                                own->devices,
                                NULL};
    struct child_options options = {.argv = argv, .death_signal = SIGTERM, .stderr_fd = own->log_fd};
    if (file_self(program, sizeof program, error) < 0)
        return -1;
    own->log_fd = options.stderr_fd = memfd_create("warptune-serve-log", MFD_CLOEXEC);
    if (own->log_fd < 0)
        return error_set(error, ERROR_IO, "no-log", NULL, "There is no place for the server's log: %m.");
    return child_start(&options, &own->child, error);
}

static void forget_child(struct own_server *own) {
    child_kill(&own->child);
    own->child = (struct child)CHILD_INIT;
    if (own->log_fd > 0)
        close(own->log_fd);
    own->log_fd = 0;
    own->url[0] = 0;
}

/* Its last words: an error is the last line of what it wrote. */
static int said(const struct own_server *own, int status, struct error *error) {
    char text[MOST_SAID] = "", how[80];
    off_t end = lseek(own->log_fd, 0, SEEK_END);
    ssize_t len = pread(own->log_fd, text, sizeof text - 1, end >= MOST_SAID ? end - MOST_SAID + 1 : 0);
    while (len > 0 && text[len - 1] == '\n')
        len--;
    text[len > 0 ? len : 0] = 0;
    const char *last = strrchr(text, '\n');
    utf8_scrub(text);
    child_describe(status, how, sizeof how);
    return error_set(error, ERROR_IO, "no-server", NULL, "The server of its own %s: %s", how,
                     last      ? last + 1
                     : len > 0 ? text
                               : "it said nothing.");
}

/* A child that ended before it listened. *ret_taken: the folder is another's. */
static int not_started(struct own_server *own, bool *ret_taken, struct error *error) {
    int status = 0;
    if (child_wait(&own->child, deadline_in_s(END_S), &status, error) == 0) {
        *ret_taken = WIFEXITED(status) && WEXITSTATUS(status) == COMMAND_FOLDER_TAKEN;
        said(own, status, error);
    }
    forget_child(own);
    return -1;
}

/* The URL out of what the child has printed so far. */
static bool take_url(struct own_server *own, const struct buf *printed) {
    const char *line = strstr(buf_str(printed), listening), *end = line ? strchr(line, '\n') : NULL;
    if (!end)
        return false;
    line += strlen(listening);
    return (size_t)snprintf(own->url, sizeof own->url, "%.*s", (int)(end - line), line) < sizeof own->url;
}

static int wait_until_listening(struct own_server *own, bool *ret_taken, struct error *error) {
    struct buf printed CLEANUP(buf_release) = BUF_INIT(4096);
    while (!take_url(own, &printed)) {
        struct pollfd ready = {own->child.out, POLLIN, 0};
        char piece[256];
        if (own->stop && own->stop()) {
            own_server_close(own);
            return error_set(error, ERROR_CANCELLED, "stopped", NULL, "Stopped.");
        }
        if (poll(&ready, 1, LOOK_MS) <= 0)
            continue;
        ssize_t len = read(own->child.out, piece, sizeof piece);
        if (len <= 0)
            return not_started(own, ret_taken, error);
        buf_append(&printed, piece, (size_t)len);
    }
    return 0;
}

int own_server_open(struct own_server *own, struct error *error) {
    int64_t until = deadline_in_s(PREDECESSOR_S);
    own_server_close(own);
    own->child = (struct child)CHILD_INIT;
    own->gone = false;
    for (;;) {
        bool taken = false;
        if (announce_find(own->data_dir, own->url, sizeof own->url))
            return 0;
        if (start_child(own, error) < 0) {
            forget_child(own);
            return -1;
        }
        if (wait_until_listening(own, &taken, error) == 0)
            return 0;
        if (!taken || clock_now_ns() >= until)
            return -1;
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL); /* who has the folder starts or ends */
    }
}

bool own_server_gone(struct own_server *own) {
    char url[sizeof own->url];
    int64_t now = clock_now_ns();
    if (!own->url[0] || own->gone || now - own->looked_ns < LOOK_NS)
        return own->gone;
    own->looked_ns = now;
    if (own->child.pid > 0) {
        siginfo_t info = {0};
        own->gone = waitid(P_PID, (id_t)own->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
    } else {
        own->gone = !announce_find(own->data_dir, url, sizeof url) || strcmp(url, own->url) != 0;
    }
    return own->gone;
}

void own_server_close(struct own_server *own) {
    int status;
    struct error ignored;
    if (own->child.pid > 0) {
        kill(own->child.pid, SIGTERM);
        (void)!child_wait(&own->child, deadline_in_s(END_S), &status, &ignored);
        forget_child(own);
    }
    own->url[0] = 0;
}
