/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/systemd.h"

static void set_number(const char *name, long long number) {
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    setenv(name, text, 1);
}

/* A datagram socket under a name in the file system, as systemd's own is. */
static int open_notify(char path[108]) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(path, 108, "/tmp/warptune-notify-%d", (int)getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", path, 1);
    return fd;
}

Test(systemd, messages_go_to_the_socket_and_the_environment_is_clean) {
    char path[108], got[64] = "";
    int fd = open_notify(path);
    setenv("WATCHDOG_USEC", "10000000", 1);
    set_number("WATCHDOG_PID", getpid());
    systemd_init();
    systemd_notify("READY=1\nSTATUS=%s", "here");
    cr_assert_gt(recv(fd, got, sizeof got - 1, MSG_DONTWAIT), 0);
    cr_expect_str_eq(got, "READY=1\nSTATUS=here");
    cr_expect_float_eq(systemd_watchdog_s(), 5, 1e-9);
    cr_expect_null(getenv("NOTIFY_SOCKET"));
    cr_expect_null(getenv("WATCHDOG_USEC"));
    close(fd);
    systemd_notify("nobody listens"); /* is no error */
    unlink(path);
}

Test(systemd, what_is_meant_for_another_process_is_not_taken) {
    struct error error = {0};
    int fd = -1;
    setenv("WATCHDOG_USEC", "10000000", 1);
    set_number("WATCHDOG_PID", getpid() + 1);
    setenv("LISTEN_FDS", "1", 1);
    set_number("LISTEN_PID", getpid() + 1);
    systemd_init();
    cr_expect_eq(systemd_watchdog_s(), 0);
    cr_assert_eq(systemd_listen_fd(&fd, &error), 0);
    cr_expect_eq(fd, 0);
    cr_expect_null(getenv("LISTEN_FDS"));
    systemd_notify("READY=1");
}

Test(systemd, one_socket_is_taken_and_two_are_refused) {
    struct error error = {0};
    int fd = -1;
    set_number("LISTEN_PID", getpid());
    setenv("LISTEN_FDS", "1", 1);
    systemd_init();
    cr_assert_eq(systemd_listen_fd(&fd, &error), 0);
    cr_expect_eq(fd, 3);
    set_number("LISTEN_PID", getpid());
    setenv("LISTEN_FDS", "2", 1);
    systemd_init();
    cr_assert_eq(systemd_listen_fd(&fd, &error), -1);
    cr_expect_str_eq(error.code, "bad-socket");
}
