/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h: child processes with limits, and framed messages over their pipes.
 *
 * A child runs in a process group of its own, so that killing it takes its own children too. It gets a pipe as
 * standard input, one as standard output, and inherits nothing else. It is killed (or told, by death_signal) when the
 * thread that started it ends (PR_SET_PDEATHSIG), so start children from threads that outlive them. A child that waits
 * for messages also ends when its standard input closes.
 */
#ifndef WARPTUNE_BASE_CHILD_H
#define WARPTUNE_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "service/base/attr.h"
#include "service/base/buf.h"
#include "service/base/error.h"
#include "service/base/sandbox.h"

/* This very program, also when its file was replaced meanwhile, as an upgrade does: parent and child are one version.
 */
#define CHILD_SELF "/proc/self/exe"

struct child_options {
    const char *const *argv; /* NULL-terminated; argv[0] is a path, or a name looked up in PATH */
    const char *dir;         /* working folder; NULL keeps the parent's */
    int64_t memory_bytes;    /* RLIMIT_AS; 0 for none (a CUDA process maps far more than it uses) */
    int64_t file_bytes;      /* RLIMIT_FSIZE; 0 for none, in a sandbox 16 GiB */
    int cpu_s;               /* RLIMIT_CPU; 0 for none */
    bool no_network;         /* a network namespace without interfaces, where the kernel lets us */
    enum sandbox sandbox;    /* any but SANDBOX_NONE also limits how many files may be open */
    int death_signal;        /* sent to it when the thread that started it ends; 0: SIGKILL */
    int stderr_fd;           /* where standard error goes; -1: into standard output; 2: the parent's */
};

struct child {
    pid_t pid; /* 0: none */
    int in;    /* write end of its standard input, or -1 */
    int out;   /* read end of its standard output, or -1 */
};

#define CHILD_INIT \
    { 0, -1, -1 }

/* ERROR_IO with the reason when the program is not there or cannot be executed; then nothing is left behind. */
int child_start(const struct child_options *options, struct child *ret, struct error *error) MUST_CHECK;
/*
 * Waits until it has ended, then kills what it left running in its group; ERROR_TIMEOUT at the deadline (it still
 * runs). *ret_status is waitpid's. The pipes stay open until child_kill.
 */
int child_wait(struct child *child, int64_t deadline, int *ret_status, struct error *error) MUST_CHECK;
/*
 * Kills the group with SIGKILL, reaps the child, closes the pipes. Safe on one that has ended, and twice. One that is
 * stuck in the kernel (a hung driver) is left behind after 10 seconds.
 */
void child_kill(struct child *child);
/* «exited with status 3», «killed by signal 11 (Segmentation fault)». */
void child_describe(int status, char *text, size_t size);

/*
 * Runs a command to its end: `input` to its standard input, its output into `ret_output`, which must have a maximum
 * (more is read and dropped; what it held stays in front). Kills it at the deadline: ERROR_TIMEOUT. A status other
 * than 0 is no error here, nor is input that the child did not read.
 */
int child_run(const struct child_options *options, const void *input, size_t input_len, int64_t deadline,
              struct buf *ret_output, int *ret_status, struct error *error) MUST_CHECK;

/*
 * Messages: 4 bytes of length (little-endian), then the bytes. A peer that went away is ERROR_IO "peer-closed" and
 * never raises SIGPIPE. After ERROR_TIMEOUT or ERROR_LIMIT the stream is out of step: give the peer up. A pipe has one
 * sender and one receiver at a time. `ret` is an initialised buffer; its maximum becomes `max`.
 */
int message_send(int fd, const void *data, size_t len, int64_t deadline, struct error *error) MUST_CHECK;
int message_receive(int fd, size_t max, int64_t deadline, struct buf *ret, struct error *error) MUST_CHECK;

#endif
