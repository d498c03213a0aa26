/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_INSTRUCTIONS = 2048, FAMILIES = 64 /* more than the kernel has */ };

/* A system call's number is in a register of 64 bits, its int arguments in the lower half: the kernel ignores the rest.
 */
#define INT_BITS 0xffffffffu

/* Names that this kernel's headers or this processor do not have are passed over. */
static const char *const refused[] = {
#ifndef __SANITIZE_ADDRESS__ /* its search for leaks traces its own process */
    "ptrace",
#endif
    /* other processes, and the kernel's view of all */
    "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "perf_event_open", "syslog",
    /* what opens files or sockets past this filter, or helps to break the kernel */
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "open_by_handle_at", "fanotify_init", "bpf",
    /* keys */
    "add_key", "keyctl", "request_key",
    /* file systems and namespaces */
    "mount", "umount", "umount2", "mount_setattr", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "pivot_root", "chroot", "unshare", "setns", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct",
    /* the machine */
    "init_module", "finit_module", "create_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "iopl", "ioperm",
    "vhangup"};

/* Written once, by make_filters; len 0: no filter. */
static struct filter {
    unsigned short len;
    struct sock_filter code[MOST_INSTRUCTIONS];
} filters[SANDBOX_STRICT + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Refuses a call whose argument, of the bits in `mask`, is `value`. */
static int refuse_if(scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask, uint64_t value) {
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1,
                            SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
}

static int refuse_sockets(scmp_filter_ctx filter, enum sandbox sandbox) {
    int rc = 0;
    for (unsigned family = 0; rc == 0 && family < FAMILIES; family++)
        if (sandbox == SANDBOX_STRICT || (family != AF_UNIX && family != AF_NETLINK))
            rc = refuse_if(filter, SCMP_SYS(socket), 0, INT_BITS, family);
    return rc;
}

/*
 * New namespaces. clone3 has its flags in memory, where no filter looks, so that it must seem not to be there: the C
 * library then uses clone.
 */
static int refuse_namespaces(scmp_filter_ctx filter) {
    static const unsigned flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; rc == 0 && i < ARRAY_COUNT(flags); i++)
        rc = refuse_if(filter, SCMP_SYS(clone), 0, flags[i], flags[i]);
    return rc;
}

static int add_rules(scmp_filter_ctx filter, enum sandbox sandbox) {
    int rc = refuse_sockets(filter, sandbox);
    if (rc == 0)
        rc = refuse_namespaces(filter);
    if (rc == 0) /* typing into a terminal */
        rc = refuse_if(filter, SCMP_SYS(ioctl), 1, INT_BITS, TIOCSTI);
    for (size_t i = 0; rc == 0 && i < ARRAY_COUNT(refused); i++) {
        int call = seccomp_syscall_resolve_name(refused[i]);
        if (call != __NR_SCMP_ERROR)
            rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
    }
    return rc;
}

/* The library hands its program out through a descriptor only. */
static void export_filter(scmp_filter_ctx filter, struct filter *ret) {
    int fd = memfd_create("filter", MFD_CLOEXEC);
    if (fd < 0)
        return;
    off_t bytes = seccomp_export_bpf(filter, fd) == 0 ? lseek(fd, 0, SEEK_END) : 0;
    if (bytes > 0 && (size_t)bytes <= sizeof ret->code && pread(fd, ret->code, (size_t)bytes, 0) == bytes)
        ret->len = (unsigned short)((size_t)bytes / sizeof ret->code[0]);
    close(fd);
}

static void make_filters(void) {
    /* The kernel's answer to no filter at all tells whether it would take one. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == 0 || errno != EFAULT)
        return;
    for (enum sandbox sandbox = SANDBOX_DRIVER; sandbox <= SANDBOX_STRICT; sandbox++) {
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
        if (filter && add_rules(filter, sandbox) == 0)
            export_filter(filter, &filters[sandbox]);
        seccomp_release(filter);
    }
}

void sandbox_prepare(void) {
    pthread_once(&once, make_filters);
}

/* Files may lie in folders of other users. */
static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    bool any = false;
    if (syscall(SYS_capget, &header, sets) < 0)
        return -1;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        any |= sets[i].permitted != 0 || sets[i].inheritable != 0;
        sets[i].permitted &= i == CAP_TO_INDEX(CAP_DAC_OVERRIDE) ? CAP_TO_MASK(CAP_DAC_OVERRIDE) : 0;
        sets[i].effective &= sets[i].permitted;
        sets[i].inheritable = 0;
    }
    return any ? (int)syscall(SYS_capset, &header, sets) : 0;
}

/*
 * Older kernels take a filter as a wish for slower, safer speculation, which would show in every time that a child
 * measures: SPEC_ALLOW says that it is none. Still older ones do not know the flag.
 */
static int set_filter(struct filter *filter) {
    struct sock_fprog program = {filter->len, filter->code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) == 0)
        return 0;
    return errno == EINVAL ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) : -1;
}

int sandbox_enter(enum sandbox sandbox) {
    if (sandbox == SANDBOX_NONE)
        return 0;
    struct filter *filter = &filters[sandbox];
    if (drop_capabilities() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return filter->len == 0 ? 0 : set_filter(filter);
}

bool sandbox_filters(void) {
    sandbox_prepare();
    return filters[SANDBOX_DRIVER].len > 0 && filters[SANDBOX_STRICT].len > 0;
}

bool sandbox_has_networks(void) {
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

int64_t sandbox_memory(int64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    (void)bytes;
    return 0;
#else
    return bytes;
#endif
}

int64_t sandbox_half_memory(void) {
    return sandbox_memory((int64_t)sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE));
}
