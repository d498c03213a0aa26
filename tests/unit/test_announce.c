/* SPDX-License-Identifier: Apache-2.0 */
/* A server's announcement: found while it is held, by any process; not after its end, a kill included; the last counts.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/announce.h"
#include "service/base/file.h"

static char dir[] = "/tmp/warptune-announce-XXXXXX";

static void make_dir(void) {
    cr_assert_not_null(mkdtemp(dir));
}

static void drop_dir(void) {
    struct error error;
    cr_expect_eq(file_remove_tree(dir, &error), 0);
}

TestSuite(announce, .init = make_dir, .fini = drop_dir);

static int announce(const char *url) {
    struct error error;
    int fd = -1;
    cr_assert_eq(announce_server(dir, url, &fd, &error), 0, "%s", error.text);
    return fd;
}

Test(announce, holds_while_held) {
    char url[64];
    cr_expect_not(announce_find(dir, url, sizeof url));
    int fd = announce("http://127.0.0.1:1");
    cr_assert(announce_find(dir, url, sizeof url));
    cr_expect_str_eq(url, "http://127.0.0.1:1");
    close(fd);
    cr_expect_not(announce_find(dir, url, sizeof url));
}

Test(announce, the_last_counts) {
    char url[64];
    int first = announce("http://127.0.0.1:1"), second = announce("http://127.0.0.1:22");
    close(first);
    cr_assert(announce_find(dir, url, sizeof url));
    cr_expect_str_eq(url, "http://127.0.0.1:22");
    close(second);
}

Test(announce, ends_with_the_process) {
    char url[64], byte;
    int ready[2], status;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        announce("http://127.0.0.1:3");
        (void)!write(ready[1], "", 1);
        pause();
        _exit(0);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_expect(announce_find(dir, url, sizeof url));
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    cr_expect_not(announce_find(dir, url, sizeof url));
}

Test(announce, a_folder_that_is_not_there) {
    char url[64];
    struct error error;
    int fd;
    cr_expect_eq(announce_server("/nowhere/at/all", "http://x", &fd, &error), -1);
    cr_expect_eq(error.class, ERROR_NOT_FOUND);
    cr_expect_not(announce_find("/nowhere/at/all", url, sizeof url));
}
