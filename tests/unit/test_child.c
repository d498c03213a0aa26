/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/base/clock.h"

static struct error error;

/* The options of a shell that runs `script`; one at a time. */
static struct child_options shell(const char *script) {
    static const char *argv[4] = {"/bin/sh", "-c"};
    argv[2] = script;
    return (struct child_options){.argv = argv, .stderr_fd = -1};
}

/* Runs a script to its end and gives its output, at most `max` bytes. */
static int run(struct child_options options, const char *input, struct buf *output) {
    int status;
    cr_assert_eq(child_run(&options, input, strlen(input), deadline_in_s(60), output, &status, &error), 0, "%s",
                 error.text);
    return status;
}

Test(child, output_and_status_come_back) {
    struct buf output = BUF_INIT(1000);
    int status = run(shell("cat; echo err >&2; exit 3"), "in ", &output);
    cr_assert_str_eq(buf_str(&output), "in err\n");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    buf_release(&output);
}

Test(child, more_than_a_pipe_holds_goes_both_ways) {
    size_t len = 1000000;
    char *input = malloc(len + 1);
    memset(input, 'x', len);
    input[len] = '\0';
    struct buf output = BUF_INIT(2 * len);
    run(shell("cat"), input, &output);
    cr_assert_eq(output.len, len);
    cr_assert_eq(memcmp(output.data, input, len), 0);
    buf_release(&output);
    free(input);
}

Test(child, output_past_the_maximum_is_read_and_dropped) {
    struct buf output = BUF_INIT(10);
    int status = run(shell("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; "
                           "i=$((i+1)); done"),
                     "", &output);
    cr_assert_eq(status, 0);
    cr_assert_str_eq(buf_str(&output), "0123456789");
    cr_assert(output.overflowed);
    buf_release(&output);
}

Test(child, input_that_nobody_reads_kills_nobody) {
    char *input = calloc(1, 1000001);
    memset(input, 'x', 1000000);
    struct buf output = BUF_INIT(100);
    cr_assert_eq(run(shell("exec <&-; echo done"), input, &output), 0);
    cr_assert_str_eq(buf_str(&output), "done\n");
    buf_release(&output);
    free(input);
}

Test(child, a_run_past_its_deadline_is_killed) {
    struct child_options options = shell("echo first; sleep 1000 & sleep 1000");
    struct buf output = BUF_INIT(100);
    int status;
    cr_assert_eq(child_run(&options, NULL, 0, deadline_in_s(0.3), &output, &status, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    buf_release(&output);
}

Test(child, a_grandchild_that_keeps_the_pipe_open_does_not_hold_up_the_run) {
    struct buf output = BUF_INIT(100);
    cr_assert_eq(run(shell("sleep 1000 & echo done"), "", &output), 0);
    cr_assert_str_eq(buf_str(&output), "done\n");
    buf_release(&output);
}

Test(child, a_program_that_is_not_there_is_an_io_error) {
    struct child child = CHILD_INIT;
    const char *const missing[] = {"/nowhere/at/all", NULL}, *const unknown[] = {"no-such-program-here", NULL},
                      *const data[] = {"/etc/passwd", NULL};
    const char *const *all[] = {missing, unknown, data};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        cr_assert_eq(child_start(&(struct child_options){.argv = all[i], .stderr_fd = -1}, &child, &error), -1);
        cr_assert_eq(error.class, ERROR_IO);
        cr_assert(strstr(error.text, all[i][0]));
        cr_assert_eq(child.pid, 0);
    }
    cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
    cr_assert_eq(errno, ECHILD, "nothing is left to reap");
}

Test(child, a_working_folder_that_is_not_there_is_an_io_error) {
    struct child child = CHILD_INIT;
    struct child_options options = shell("pwd");
    options.dir = "/nowhere";
    cr_assert_eq(child_start(&options, &child, &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    cr_assert(strstr(error.text, "working folder"));
}

Test(child, works_in_its_folder_and_is_found_in_path) {
    const char *const argv[] = {"pwd", NULL};
    struct child_options options = {.argv = argv, .dir = "/", .stderr_fd = 2};
    struct buf output = BUF_INIT(100);
    cr_assert_eq(run(options, "", &output), 0);
    cr_assert_str_eq(buf_str(&output), "/\n");
    buf_release(&output);
}

Test(child, inherits_no_other_descriptor) {
    int open_fd = open("/dev/null", O_RDONLY), high = fcntl(open_fd, F_DUPFD, 200);
    cr_assert(open_fd >= 0 && high >= 200);
    struct buf output = BUF_INIT(1000);
    run(shell("for f in /proc/$$/fd/*; do [ -e $f ] && echo ${f##*/}; done; :"), "", &output);
    cr_assert_str_eq(buf_str(&output), "0\n1\n2\n");
    buf_release(&output);
    close(open_fd);
    close(high);
}

Test(child, standard_error_may_go_elsewhere) {
    int fds[2];
    char text[10] = {0};
    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    struct child_options options = shell("echo out; echo err >&2");
    options.stderr_fd = fds[1];
    struct buf output = BUF_INIT(100);
    cr_assert_eq(run(options, "", &output), 0);
    cr_assert_str_eq(buf_str(&output), "out\n");
    cr_assert_eq(read(fds[0], text, sizeof text - 1), 4);
    cr_assert_str_eq(text, "err\n");
    buf_release(&output);
    close(fds[0]);
    close(fds[1]);
}

Test(child, signals_are_at_their_defaults) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    struct buf output = BUF_INIT(1000);
    run(shell("sed -n 's/^Sig[BI][lg][kn]:\\t//p' /proc/self/status"), "", &output);
    unsigned long long blocked, ignored;
    cr_assert_eq(sscanf(buf_str(&output), "%llx %llx", &blocked, &ignored), 2, "%s", buf_str(&output));
    cr_assert_eq(blocked, 0);
    /* 32 and 33 are the C library's own, which nobody may set */
    cr_assert_eq(ignored & ~(3ULL << 31), 0, "%s", buf_str(&output));
    buf_release(&output);
}

Test(child, limits_hold) {
    struct child_options options = shell("ulimit -v; ulimit -t; ulimit -f; ulimit -c");
    options.memory_bytes = 512 << 20;
    options.cpu_s = 20;
    options.file_bytes = 1 << 20;
    struct buf output = BUF_INIT(1000);
    run(options, "", &output);
    cr_assert_str_eq(buf_str(&output), "524288\n20\n2048\n0\n");
    buf_release(&output);
}

Test(child, processor_time_is_limited) {
    struct child_options options = shell("while :; do :; done");
    options.cpu_s = 1;
    struct buf output = BUF_INIT(1000);
    int status = run(options, "", &output);
    char text[100];
    child_describe(status, text, sizeof text);
    cr_assert(WIFSIGNALED(status), "%s", text);
    buf_release(&output);
}

Test(child, without_network_it_still_runs) {
    struct child_options options = shell("echo here");
    options.no_network = true;
    struct buf output = BUF_INIT(100);
    cr_assert_eq(run(options, "", &output), 0);
    cr_assert_str_eq(buf_str(&output), "here\n");
    buf_release(&output);
}

Test(child, as_root_no_network_leaves_no_interface_up) {
    if (geteuid() != 0)
        cr_skip("only root can be sure of a network namespace");
    struct child_options options = shell("cat /proc/net/route | wc -l; readlink /proc/self/ns/net");
    struct buf with = BUF_INIT(1000), without = BUF_INIT(1000);
    run(options, "", &with);
    options.no_network = true;
    run(options, "", &without);
    if (strcmp(buf_str(&with), buf_str(&without)) == 0)
        cr_skip("this kernel or container allows no network namespace");
    cr_assert_leq(strtol(buf_str(&without), NULL, 10), 1, "no more than the table's head: %s", buf_str(&without));
    buf_release(&with);
    buf_release(&without);
}

Test(child, wait_times_out_and_then_succeeds) {
    struct child child = CHILD_INIT;
    struct child_options options = shell("read line; exit 5");
    int status = 0;
    cr_assert_eq(child_start(&options, &child, &error), 0);
    cr_assert_eq(child_wait(&child, deadline_in_s(0.05), &status, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    cr_assert_neq(child.pid, 0);
    close(child.in);
    child.in = -1;
    cr_assert_eq(child_wait(&child, deadline_in_s(60), &status, &error), 0);
    cr_assert_eq(WEXITSTATUS(status), 5);
    cr_assert_eq(child.pid, 0);
    cr_assert_eq(child_wait(&child, DEADLINE_NEVER, &status, &error), -1);
    child_kill(&child);
}

Test(child, kill_takes_the_group_and_may_come_twice) {
    struct child child = CHILD_INIT;
    struct child_options options = shell("sleep 1000 & echo $!; wait");
    char text[32] = {0};
    cr_assert_eq(child_start(&options, &child, &error), 0);
    cr_assert_gt(read(child.out, text, sizeof text - 1), 0);
    int out = dup(child.out);
    child_kill(&child);
    cr_assert(child.pid == 0 && child.in == -1 && child.out == -1);
    cr_assert_eq(read(out, text, 1), 0, "the grandchild's end of the pipe is closed too");
    child_kill(&child);
    close(out);
}

static void *start_and_end(void *data) {
    struct child_options options = shell("read line; echo never");
    cr_assert_eq(child_start(&options, data, &error), 0);
    return NULL;
}

Test(child, dies_with_the_thread_that_started_it) {
    struct child child = CHILD_INIT;
    pthread_t thread;
    int status = 0;
    cr_assert_eq(pthread_create(&thread, NULL, start_and_end, &child), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(child_wait(&child, deadline_in_s(60), &status, &error), 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    child_kill(&child);
}

static void *start_one_that_listens(void *data) {
    struct child *child = data;
    struct child_options options = shell("trap 'exit 7' TERM; echo; read line; exit 8");
    char byte;
    options.death_signal = SIGTERM;
    cr_assert_eq(child_start(&options, child, &error), 0);
    cr_assert_eq(read(child->out, &byte, 1), 1);
    return NULL;
}

Test(child, may_be_told_that_its_thread_ended) {
    struct child child = CHILD_INIT;
    pthread_t thread;
    int status = 0;
    cr_assert_eq(pthread_create(&thread, NULL, start_one_that_listens, &child), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(child_wait(&child, deadline_in_s(60), &status, &error), 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child_kill(&child);
}

static void *start_many(void *data) {
    intptr_t good = 0;
    for (int i = 0; i < 20; i++) {
        static const char *const argv[] = {"/bin/echo", "hello", NULL};
        struct child_options options = {.argv = argv, .stderr_fd = -1};
        struct buf output = BUF_INIT(100);
        int status = -1;
        char *noise = malloc(1000); /* keeps the allocator's lock busy while others fork */
        int rc = child_run(&options, NULL, 0, deadline_in_s(60), &output, &status, NULL);
        good += rc == 0 && status == 0 && strcmp(buf_str(&output), "hello\n") == 0;
        free(noise);
        buf_release(&output);
    }
    (void)data;
    return (void *)good;
}

Test(child, many_threads_may_start_children_at_once) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, start_many, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(threads[i], &good);
        cr_assert_eq((intptr_t)good, 20);
    }
}

Test(child, describe_says_how_it_ended) {
    struct buf output = BUF_INIT(100);
    char text[100];
    child_describe(run(shell("exit 3"), "", &output), text, sizeof text);
    cr_assert_str_eq(text, "exited with status 3");
    child_describe(run(shell("kill -SEGV $$"), "", &output), text, sizeof text);
    cr_assert_str_eq(text, "killed by signal 11 (Segmentation fault)");
    buf_release(&output);
}

/* Messages. */

struct link {
    int in, out;
};

static struct link link_open(void) {
    int fds[2];
    cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
    return (struct link){fds[1], fds[0]};
}

Test(message, comes_out_as_it_went_in) {
    struct link link = link_open();
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(message_send(link.in, "a\0b", 3, DEADLINE_NEVER, &error), 0);
    cr_assert_eq(message_send(link.in, NULL, 0, DEADLINE_NEVER, &error), 0);
    cr_assert_eq(message_receive(link.out, 10, DEADLINE_NEVER, &buf, &error), 0);
    cr_assert_eq(buf.len, 3);
    cr_assert_arr_eq(buf.data, "a\0b", 3);
    cr_assert_eq(message_receive(link.out, 10, DEADLINE_NEVER, &buf, &error), 0);
    cr_assert_eq(buf.len, 0);
    buf_release(&buf);
}

Test(message, its_length_is_little_endian) {
    struct link link = link_open();
    char text[4096], raw[8];
    memset(text, 'x', sizeof text);
    cr_assert_eq(message_send(link.in, text, 0x0102, DEADLINE_NEVER, &error), 0);
    cr_assert_eq(read(link.out, raw, sizeof raw), sizeof raw);
    cr_assert_arr_eq(raw, "\x02\x01\0\0xxxx", 8);
}

static void *send_large(void *data) {
    size_t len = 3000001;
    char *text = malloc(len);
    memset(text, 'y', len);
    intptr_t rc = message_send(*(int *)data, text, len, deadline_in_s(60), NULL);
    free(text);
    return (void *)rc;
}

Test(message, may_be_larger_than_a_pipe) {
    struct link link = link_open();
    struct buf buf = BUF_INIT(0);
    pthread_t thread;
    void *rc;
    cr_assert_eq(pthread_create(&thread, NULL, send_large, &link.in), 0);
    cr_assert_eq(message_receive(link.out, 4000000, deadline_in_s(60), &buf, &error), 0);
    pthread_join(thread, &rc);
    cr_assert_eq(rc, NULL);
    cr_assert_eq(buf.len, 3000001);
    cr_assert_eq(buf.data[3000000], 'y');
    buf_release(&buf);
}

Test(message, past_the_maximum_is_refused_before_memory_is_taken) {
    struct link link = link_open();
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(write(link.in, "\xFF\xFF\xFF\xFF", 4), 4);
    cr_assert_eq(message_receive(link.out, 100, DEADLINE_NEVER, &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_LIMIT);
    cr_assert_null(buf.data);
}

Test(message, neither_sending_nor_receiving_outlives_its_deadline) {
    struct link link = link_open();
    struct buf buf = BUF_INIT(0);
    char *text = calloc(1, 1000000);
    cr_assert_eq(message_receive(link.out, 100, deadline_in_s(0.02), &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    cr_assert_eq(write(link.in, "\x05\0\0\0ab", 6), 6);
    cr_assert_eq(message_receive(link.out, 100, deadline_in_s(0.02), &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    cr_assert_eq(buf.len, 0);
    cr_assert_eq(message_send(link.in, text, 1000000, deadline_in_s(0.02), &error), -1);
    cr_assert_eq(error.class, ERROR_TIMEOUT);
    free(text);
    buf_release(&buf);
}

Test(message, a_lost_peer_is_an_error_not_a_signal) {
    struct link link = link_open(), other = link_open();
    struct buf buf = BUF_INIT(0);
    signal(SIGPIPE, SIG_DFL);
    close(link.out);
    cr_assert_eq(message_send(link.in, "x", 1, DEADLINE_NEVER, &error), -1);
    cr_assert_str_eq(error.code, "peer-closed");
    sigset_t pending;
    sigpending(&pending);
    cr_assert_not(sigismember(&pending, SIGPIPE));
    cr_assert_eq(write(other.in, "\x05\0\0\0ab", 6), 6);
    close(other.in);
    cr_assert_eq(message_receive(other.out, 100, DEADLINE_NEVER, &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    cr_assert_str_eq(error.code, "peer-closed");
    buf_release(&buf);
}

Test(message, talks_with_a_child) {
    struct child child = CHILD_INIT;
    struct child_options options = shell("exec cat");
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(child_start(&options, &child, &error), 0);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(message_send(child.in, &i, sizeof i, deadline_in_s(60), &error), 0);
        cr_assert_eq(message_receive(child.out, 100, deadline_in_s(60), &buf, &error), 0);
        cr_assert_arr_eq(buf.data, &i, sizeof i);
    }
    child_kill(&child);
    buf_release(&buf);
}
