/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/sigpipe.h"

enum { KILL_WAIT_S = 10, FIRST_INHERITED = 4, MOST_DESCRIPTORS = 65536 };

/* In a sandbox: more than a driver opens for the GPUs of a host, and larger than any module. */
enum { SANDBOX_DESCRIPTORS = 4096 };
#define SANDBOX_FILE_BYTES (INT64_C(16) << 30)

/* The steps between fork and exec; a child that fails in one sends its number and errno through the report pipe. */
enum step { STEP_PARENT, STEP_PIPES, STEP_FOLDER, STEP_LIMITS, STEP_SANDBOX, STEP_EXEC };
static const char *const step_names[] = {
    [STEP_PARENT] = "outlive the thread that starts it",
    [STEP_PIPES] = "set up its pipes",
    [STEP_FOLDER] = "enter its working folder",
    [STEP_LIMITS] = "set its limits",
    [STEP_SANDBOX] = "enter its sandbox",
    [STEP_EXEC] = "be executed",
};

struct report {
    int step, reason;
};

/* Read ends at [0], write ends at [1]; all close on exec. */
struct pipes {
    int in[2], out[2], report[2];
};

static int failed(struct error *error, const char *program, const char *what, int reason) {
    char text[128];
    return error_set(error, ERROR_IO, "child-failed", NULL, "%s cannot %s: %s.", program, what,
                     strerror_r(reason, text, sizeof text));
}

static void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void pipes_close(struct pipes *pipes) {
    int *all[] = {pipes->in, pipes->out, pipes->report};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        close_fd(&all[i][0]);
        close_fd(&all[i][1]);
    }
}

static int pipes_open(struct pipes *pipes) {
    *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    if (pipe2(pipes->in, O_CLOEXEC) == 0 && pipe2(pipes->out, O_CLOEXEC) == 0 && pipe2(pipes->report, O_CLOEXEC) == 0)
        return 0;
    int reason = errno;
    pipes_close(pipes);
    return reason;
}

/* The path to execute: `name` itself when it has a slash, else the first match in PATH. */
static int find_program(const char *name, char path[PATH_MAX], struct error *error) {
    const char *folders = strchr(name, '/') ? NULL : getenv("PATH");
    if (!folders) {
        folders = strchr(name, '/') ? "" : "/usr/local/bin:/usr/bin:/bin";
        if (*folders == '\0')
            return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? 0 : failed(error, name, "be found", ENAMETOOLONG);
    }
    for (const char *at = folders;; at++) {
        size_t len = strcspn(at, ":");
        int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, at, len ? "/" : "./", name);
        if (n < PATH_MAX && access(path, X_OK) == 0)
            return 0;
        at += len;
        if (*at == '\0')
            return error_set(error, ERROR_IO, "child-not-found", NULL,
                             "The program %s is not in PATH; install it or correct PATH.", name);
    }
}

/*
 * From here to exec we are in the child of a process with threads: another thread may have held any lock, so only
 * system calls are made (async-signal-safe functions), and nothing is allocated.
 */

static _Noreturn void child_fail(int report, enum step step) {
    struct report message = {(int)step, errno};
    ssize_t n = write(report, &message, sizeof message);
    _exit(n == (ssize_t)sizeof message ? 127 : 126);
}

static void reset_signals(void) {
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int i = 1; i <= SIGRTMAX; i++)
        sigaction(i, &action, NULL); /* refused for SIGKILL, SIGSTOP and those of the C library */
}

/* Standard streams at 0 to 2, the report pipe at 3, nothing else. */
static int arrange_descriptors(const struct pipes *pipes, int stderr_fd) {
    int in = fcntl(pipes->in[0], F_DUPFD, FIRST_INHERITED), out = fcntl(pipes->out[1], F_DUPFD, FIRST_INHERITED);
    int err = stderr_fd < 0 ? out : fcntl(stderr_fd, F_DUPFD, FIRST_INHERITED);
    int report = fcntl(pipes->report[1], F_DUPFD, FIRST_INHERITED);
    if (in < 0 || out < 0 || err < 0 || report < 0)
        return -1;
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 || dup3(report, 3, O_CLOEXEC) < 0)
        return -1;
    if (close_range(FIRST_INHERITED, UINT_MAX, 0) == 0)
        return 0;
    struct rlimit limit; /* a kernel or a container that does not know close_range */
    rlim_t end =
        getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < MOST_DESCRIPTORS ? limit.rlim_cur : MOST_DESCRIPTORS;
    for (int fd = FIRST_INHERITED; fd < (int)end; fd++)
        close(fd);
    return 0;
}

/* The soft limit, and a hard one `spare` above it; one that is already lower stays. */
static int set_limit(int what, int64_t value, int64_t spare) {
    struct rlimit now, limit = {(rlim_t)value, (rlim_t)(value + spare)};
    if (value <= 0)
        return 0;
    if (getrlimit(what, &now) < 0)
        return -1;
    limit.rlim_max = limit.rlim_max < now.rlim_max ? limit.rlim_max : now.rlim_max;
    limit.rlim_cur = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    return setrlimit(what, &limit);
}

static int set_limits(const struct child_options *options) {
    struct rlimit no_core = {0, 0};
    bool confined = options->sandbox != SANDBOX_NONE;
    int64_t file_bytes = options->file_bytes == 0 && confined ? SANDBOX_FILE_BYTES : options->file_bytes;
    if (setrlimit(RLIMIT_CORE, &no_core) < 0 || set_limit(RLIMIT_FSIZE, file_bytes, 0) < 0 ||
        set_limit(RLIMIT_NOFILE, confined ? SANDBOX_DESCRIPTORS : 0, 0) < 0)
        return -1;
    if (set_limit(RLIMIT_CPU, options->cpu_s, 1) < 0) /* SIGXCPU at the limit, SIGKILL a second later */
        return -1;
    return set_limit(RLIMIT_AS, options->memory_bytes, 0);
}

static _Noreturn void child_exec(const struct child_options *options, const struct pipes *pipes, const char *path,
                                 pid_t parent) {
    reset_signals();
    setpgid(0, 0);
    if (arrange_descriptors(pipes, options->stderr_fd) < 0)
        child_fail(pipes->report[1], STEP_PIPES);
    int report = 3;
    if (options->no_network && unshare(CLONE_NEWNET) < 0)
        (void)!unshare(CLONE_NEWUSER | CLONE_NEWNET); /* where the kernel lets us */
    if (prctl(PR_SET_PDEATHSIG, options->death_signal ? options->death_signal : SIGKILL) < 0 || getppid() != parent)
        child_fail(report, STEP_PARENT);
    if (options->dir && chdir(options->dir) < 0)
        child_fail(report, STEP_FOLDER);
    if (set_limits(options) < 0)
        child_fail(report, STEP_LIMITS);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (sandbox_enter(options->sandbox) < 0)
        child_fail(report, STEP_SANDBOX);
    execv(path, (char *const *)(uintptr_t)options->argv);
    child_fail(report, STEP_EXEC);
}

/* Forks with every signal blocked, so that no handler of the parent runs in the child. */
static pid_t fork_child(const struct child_options *options, const struct pipes *pipes, const char *path) {
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        child_exec(options, pipes, path, parent);
    int reason = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = reason;
    return pid;
}

static void reap(pid_t pid) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The end of the report pipe: nothing when exec closed it, the failure otherwise. */
static int read_report(int fd, const char *program, struct error *error) {
    struct report report;
    ssize_t n;
    do
        n = read(fd, &report, sizeof report);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof report)
        return 0;
    return failed(error, program, step_names[report.step], report.reason);
}

int child_start(const struct child_options *options, struct child *ret, struct error *error) {
    const char *program = options->argv[0];
    char path[PATH_MAX];
    if (find_program(program, path, error) < 0)
        return -1;
    struct pipes pipes;
    int reason = pipes_open(&pipes);
    if (reason != 0)
        return failed(error, program, "get its pipes", reason);
    if (options->sandbox != SANDBOX_NONE)
        sandbox_prepare();
    pid_t pid = fork_child(options, &pipes, path);
    if (pid < 0) {
        reason = errno;
        pipes_close(&pipes);
        return failed(error, program, "be forked", reason);
    }
    setpgid(pid, pid); /* the child does it too: whoever comes first */
    close_fd(&pipes.report[1]);
    int rc = read_report(pipes.report[0], program, error);
    if (rc == 0) {
        *ret = (struct child){pid, pipes.in[1], pipes.out[0]};
        pipes.in[1] = pipes.out[0] = -1;
    } else {
        reap(pid);
    }
    pipes_close(&pipes);
    return rc;
}

/* 0 when the process has ended, though it is not reaped; 1 at the deadline; -1 with errno. */
static int wait_end(pid_t pid, int64_t deadline) {
    int fd = pidfd_open(pid, 0), n;
    if (fd < 0)
        return -1;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    do
        n = poll(&p, 1, deadline_poll_ms(deadline));
    while ((n < 0 && errno == EINTR) || (n == 0 && clock_now_ns() < deadline));
    int reason = errno;
    close(fd);
    errno = reason;
    return n > 0 ? 0 : n == 0 ? 1 : -1;
}

/* Reaps a child that has ended. Its group goes first, while the dead leader still holds the group's number. */
static int finish(struct child *child, int *ret_status) {
    kill(-child->pid, SIGKILL);
    pid_t pid;
    do
        pid = waitpid(child->pid, ret_status, 0);
    while (pid < 0 && errno == EINTR);
    child->pid = 0;
    return pid < 0 ? -1 : 0;
}

int child_wait(struct child *child, int64_t deadline, int *ret_status, struct error *error) {
    if (child->pid == 0)
        return error_set(error, ERROR_INTERNAL, "no-child", NULL, "There is no child process to wait for.");
    int status, rc = wait_end(child->pid, deadline);
    if (rc > 0)
        return error_set(error, ERROR_TIMEOUT, "child-timeout", NULL, "The child process still runs at its deadline.");
    if (rc < 0 || finish(child, &status) < 0)
        return failed(error, "The parent", "wait for its child", errno);
    *ret_status = status;
    return 0;
}

void child_kill(struct child *child) {
    if (child->pid != 0) {
        int status;
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL);
        if (wait_end(child->pid, deadline_in_s(KILL_WAIT_S)) == 0)
            finish(child, &status);
        child->pid = 0; /* one that is stuck in the kernel is left to die when it can */
    }
    close_fd(&child->in);
    close_fd(&child->out);
}

void child_describe(int status, char *text, size_t size) {
    if (WIFEXITED(status)) {
        snprintf(text, size, "exited with status %d", WEXITSTATUS(status));
        return;
    }
    const char *name = WIFSIGNALED(status) ? sigdescr_np(WTERMSIG(status)) : NULL;
    if (WIFSIGNALED(status))
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status), name ? name : "unnamed");
    else
        snprintf(text, size, "ended with status 0x%x", (unsigned)status);
}

/* Gives the child what its pipe takes; closes the pipe after the last byte, or when the child does not read on. */
static void feed(struct child *child, const char **input, size_t *len) {
    ssize_t n = write_no_sigpipe(child->in, *input, *len < PIPE_BUF ? *len : PIPE_BUF);
    if (n > 0) {
        *input += n;
        *len -= (size_t)n;
    }
    if (*len == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        close_fd(&child->in);
}

static void drain(struct child *child, struct buf *output) {
    char data[PIPE_BUF * 4];
    ssize_t n = read(child->out, data, sizeof data);
    if (n > 0)
        buf_append(output, data, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        close_fd(&child->out);
}

/* Moves bytes until the child has ended and its pipe is empty; -1 with errno, 1 at the deadline. */
static int converse(struct child *child, int pidfd, const char *input, size_t len, int64_t deadline,
                    struct buf *output) {
    for (bool ended = false;;) {
        struct pollfd p[] = {{child->in, POLLOUT, 0}, {child->out, POLLIN, 0}, {ended ? -1 : pidfd, POLLIN, 0}};
        int n = poll(p, ARRAY_COUNT(p), ended ? 0 : deadline_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return -1;
        if (n <= 0) {
            if (n == 0 && ended)
                return 0;
            if (clock_now_ns() >= deadline)
                return 1;
            continue;
        }
        if (p[0].revents)
            feed(child, &input, &len);
        if (p[1].revents)
            drain(child, output);
        ended |= p[2].revents != 0;
        if (ended && child->out < 0)
            return 0;
        if (clock_now_ns() >= deadline)
            return 1;
    }
}

int child_run(const struct child_options *options, const void *input, size_t input_len, int64_t deadline,
              struct buf *ret_output, int *ret_status, struct error *error) {
    struct child child = CHILD_INIT;
    if (child_start(options, &child, error) < 0)
        return -1;
    if (input_len == 0)
        close_fd(&child.in);
    int pidfd = pidfd_open(child.pid, 0), status;
    int rc = pidfd < 0 ? -1 : converse(&child, pidfd, input, input_len, deadline, ret_output);
    if (rc < 0)
        failed(error, options->argv[0], "be watched", errno);
    else if (rc > 0)
        error_set(error, ERROR_TIMEOUT, "child-timeout", NULL, "%s did not end in time and was killed.",
                  options->argv[0]);
    else if (finish(&child, &status) < 0)
        rc = failed(error, options->argv[0], "be waited for", errno);
    else
        *ret_status = status;
    close_fd(&pidfd);
    child_kill(&child);
    return rc == 0 ? 0 : -1;
}
