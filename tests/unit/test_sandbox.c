/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real child tries what is refused. This program is its own child: `test_sandbox child try NAME` makes one system
 * call and prints how it ended.
 */
#include "service/base/sandbox.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/device/cpu_compile.h"
#include "gpu/device/device.h"
#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "tests/unit/own_child.h"

/* ---- the child ---- */

/* One system call with up to four arguments. `strict` and `driver`: the errno in each sandbox; 0: it succeeds. */
static const struct attempt {
    const char *name;
    long call;
    unsigned long arguments[4];
    int strict, driver;
} attempts[] = {
    {"socket to a host", SYS_socket, {AF_INET, SOCK_STREAM, 0}, EPERM, EPERM},
    {"socket to a host by IPv6", SYS_socket, {AF_INET6, SOCK_DGRAM, 0}, EPERM, EPERM},
    {"raw socket", SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EPERM, EPERM},
    /* the kernel takes the lower half of the number */
    {"disguised socket", SYS_socket, {0x100000000UL | AF_INET, SOCK_STREAM, 0}, EPERM, EPERM},
    {"socket of this host", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, EPERM, 0},
    {"socket to the kernel", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, EPERM, 0},
    {"io_uring", SYS_io_uring_setup, {8, 0}, EPERM, EPERM},
    {"other memory", SYS_process_vm_readv, {1, 0, 0, 0}, EPERM, EPERM},
    {"mount", SYS_mount, {0, 0, 0, 0}, EPERM, EPERM},
    {"own namespaces", SYS_unshare, {CLONE_NEWUSER | CLONE_NEWNS}, EPERM, EPERM},
    {"clone with a namespace", SYS_clone, {CLONE_NEWUSER | SIGCHLD, 0}, EPERM, EPERM},
    {"clone3", SYS_clone3, {0, 0}, ENOSYS, ENOSYS},
    {"bpf", SYS_bpf, {0, 0, 0}, EPERM, EPERM},
    {"keys", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, (unsigned long)KEY_SPEC_SESSION_KEYRING, 0}, EPERM, EPERM},
    {"userfaultfd", SYS_userfaultfd, {0x1000 /* no flag that there is */}, EPERM, EPERM},
    {"kexec", SYS_kexec_load, {0, 0, 0, 0}, EPERM, EPERM},
    {"modules", SYS_init_module, {0, 0, 0}, EPERM, EPERM},
    {"reboot", SYS_reboot, {0, 0, 0, 0}, EPERM, EPERM},
    {"clocks", SYS_clock_settime, {0, 0}, EPERM, EPERM},
    {"typing into a terminal", SYS_ioctl, {0, TIOCSTI, 0}, EPERM, EPERM},
#ifndef __SANITIZE_ADDRESS__
    {"ptrace", SYS_ptrace, {PTRACE_TRACEME, 0, 0, 0}, EPERM, EPERM},
#endif
};

static int try_attempt(const struct attempt *attempt) {
    const unsigned long *a = attempt->arguments;
    long rc = syscall(attempt->call, a[0], a[1], a[2], a[3]);
    printf("%d\n", rc < 0 ? errno : 0);
    return 0;
}

static void *thread(void *data) {
    *(bool *)data = true;
    return NULL;
}

/* What compilers and drivers need. */
static int work(void) {
    bool ran = false;
    pthread_t id;
    char code[] = "void kernel(void *const *args, long begin, long end) { }";
    CLEANUP(buf_release) struct buf object = BUF_INIT(1 << 20), log = BUF_INIT(1 << 20);
    struct device_info info;
    struct error error;
    if (pthread_create(&id, NULL, thread, &ran) != 0 || pthread_join(id, NULL) != 0 || !ran)
        puts("no thread");
    if (device_cpu.describe(0, &info, &error) < 0 ||
        cpu_compile(&info.target, code, deadline_in_s(60), &object, &log, &error) < 0)
        puts(error.text);
    else
        puts("works");
    return 0;
}

static int write_much(void) {
    char path[] = "/tmp/warptune-much-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    return fd >= 0 && ftruncate(fd, 2 << 20) == 0;
}

static int child(const char *what) {
    if (strcmp(what, "work") == 0)
        return work();
    if (strcmp(what, "much") == 0)
        return write_much();
    return try_attempt(&attempts[strtol(what, NULL, 10)]);
}

OWN_CHILD(child)

/* ---- the tests ---- */

static void run(const char *const *argv, enum sandbox sandbox, struct buf *output, int *ret_status) {
    struct child_options options = {.argv = argv, .stderr_fd = -1, .sandbox = sandbox, .file_bytes = 1 << 20};
    struct error error;
    own_child_allow();
    buf_clear(output);
    cr_assert_eq(child_run(&options, NULL, 0, deadline_in_s(60), output, ret_status, &error), 0, "%s", error.text);
}

static void run_self(const char *what, enum sandbox sandbox, struct buf *output, int *ret_status) {
    char self[PATH_MAX];
    cr_assert_eq(file_self(self, sizeof self, NULL), 0);
    const char *const argv[] = {self, "child", what, NULL};
    run(argv, sandbox, output, ret_status);
}

/* A file's text as a shell in the sandbox sees it. */
static void run_shell(const char *script, enum sandbox sandbox, struct buf *output) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    int status;
    run(argv, sandbox, output, &status);
    cr_assert_eq(status, 0, "%s", buf_str(output));
}

static void all_attempts(enum sandbox sandbox) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(1000);
    if (!sandbox_filters())
        cr_skip("this kernel filters no system calls");
    for (size_t i = 0; i < ARRAY_COUNT(attempts); i++) {
        char number[16];
        int status, expected = sandbox == SANDBOX_STRICT ? attempts[i].strict : attempts[i].driver;
        snprintf(number, sizeof number, "%zu", i);
        run_self(number, sandbox, &output, &status);
        cr_expect_eq(strtol(buf_str(&output), NULL, 10), expected, "%s: errno %s, expected %d (status %x)",
                     attempts[i].name, buf_str(&output), expected, (unsigned)status);
    }
}

Test(sandbox, a_strict_one_refuses_the_dangerous_and_all_sockets) {
    all_attempts(SANDBOX_STRICT);
}

Test(sandbox, a_drivers_one_leaves_the_sockets_within_this_host) {
    all_attempts(SANDBOX_DRIVER);
}

Test(sandbox, without_one_nothing_is_refused) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(1000);
    int status;
    run_self("0", SANDBOX_NONE, &output, &status);
    cr_assert_str_eq(buf_str(&output), "0\n", "a socket can be had");
    run_shell("sed -n 's/^NoNewPrivs:[^0-9]*//p' /proc/self/status", SANDBOX_NONE, &output);
    cr_assert_str_eq(buf_str(&output), "0\n");
}

Test(sandbox, threads_and_compilers_work_in_it) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(4000);
    int status;
    run_self("work", SANDBOX_STRICT, &output, &status);
    cr_assert_str_eq(buf_str(&output), "works\n");
}

Test(sandbox, a_file_that_grows_too_large_ends_the_child) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(4000);
    int status;
    run_self("much", SANDBOX_STRICT, &output, &status);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "status %x", (unsigned)status);
}

Test(sandbox, limits_hold_in_what_it_starts) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(1000);
    run_shell("sh -c 'ulimit -c; ulimit -f'; [ $(ulimit -n) -le 4096 ] && ulimit -Hc", SANDBOX_DRIVER, &output);
    cr_assert_str_eq(buf_str(&output), "0\n2048\n0\n");
}

Test(sandbox, no_privilege_is_left_nor_gained) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(1000);
    run_shell("sed -n 's/^NoNewPrivs:[^0-9]*//p' /proc/self/status", SANDBOX_DRIVER, &output);
    cr_assert_str_eq(buf_str(&output), "1\n");
    /* all but CAP_DAC_OVERRIDE, number 1 */
    run_shell("sed -n 's/^Cap\\(Prm\\|Eff\\|Inh\\|Amb\\):[^0-9a-f]*//p' /proc/self/status", SANDBOX_STRICT, &output);
    for (const char *at = buf_str(&output); *at != '\0'; at += strcspn(at, "\n") + 1)
        cr_assert_eq(strtoull(at, NULL, 16) & ~2ULL, 0, "%s", buf_str(&output));
}

/* The kernel's word on how this process speculates is the same with the filter and without: it must not slow kernels.
 */
Test(sandbox, the_filter_slows_nothing_down) {
    CLEANUP(buf_release) struct buf with = BUF_INIT(1000), without = BUF_INIT(1000);
    const char *script = "grep '^Speculation' /proc/self/status || :";
    run_shell(script, SANDBOX_NONE, &without);
    run_shell(script, SANDBOX_STRICT, &with);
    cr_assert_str_eq(buf_str(&with), buf_str(&without));
}

Test(sandbox, the_filter_holds_in_what_it_starts) {
    CLEANUP(buf_release) struct buf output = BUF_INIT(1000);
    if (!sandbox_filters())
        cr_skip("this kernel filters no system calls");
    run_shell("sh -c 'sed -n \"s/^Seccomp:[^0-9]*//p\" /proc/self/status'", SANDBOX_STRICT, &output);
    cr_assert_str_eq(buf_str(&output), "2\n");
}

static struct child orphan = CHILD_INIT;

static void *start_and_end(void *data) {
    struct error error;
    if (child_start(data, &orphan, &error) < 0)
        puts(error.text);
    return NULL;
}

Test(sandbox, a_child_in_it_ends_with_its_parent) {
    const char *const argv[] = {"/bin/sh", "-c", "exec sleep 1000", NULL};
    struct child_options options = {.argv = argv, .stderr_fd = -1, .sandbox = SANDBOX_STRICT, .no_network = true};
    struct error error;
    pthread_t id;
    int status = 0;
    cr_assert_eq(pthread_create(&id, NULL, start_and_end, &options), 0);
    cr_assert_eq(pthread_join(id, NULL), 0);
    cr_assert_eq(child_wait(&orphan, deadline_in_s(60), &status, &error), 0, "%s", error.text);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    child_kill(&orphan);
}

Test(sandbox, memory_limits_stay_out_of_the_address_sanitizers_way) {
#ifdef __SANITIZE_ADDRESS__
    cr_assert_eq(sandbox_memory(1000), 0);
    cr_assert_eq(sandbox_half_memory(), 0);
#else
    cr_assert_eq(sandbox_memory(1000), 1000);
    cr_assert_gt(sandbox_half_memory(), 1 << 20);
#endif
}
