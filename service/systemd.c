/* SPDX-License-Identifier: Apache-2.0 */
#include "service/systemd.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

/* What the environment said; written by systemd_init alone. */
static struct {
    struct sockaddr_un address; /* family 0: nobody wants to know */
    socklen_t address_len;
    int sockets;
    double watchdog_s;
} told;

/* A number that is meant for this process: `owner` names the variable with the process's id. */
static long long number_for_us(const char *name, const char *owner) {
    const char *text = getenv(name), *pid = getenv(owner);
    return text && (!pid || strtoll(pid, NULL, 10) == getpid()) ? strtoll(text, NULL, 10) : 0;
}

/* A path, or a name in the abstract space after an @. */
static void take_address(const char *name) {
    size_t len = name ? strlen(name) : 0;
    if (len < 2 || len >= sizeof told.address.sun_path || (name[0] != '/' && name[0] != '@'))
        return;
    told.address.sun_family = AF_UNIX;
    memcpy(told.address.sun_path, name, len);
    if (name[0] == '@')
        told.address.sun_path[0] = 0;
    told.address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
}

void systemd_init(void) {
    static const char *const variables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                            "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
    take_address(getenv("NOTIFY_SOCKET"));
    told.watchdog_s = (double)number_for_us("WATCHDOG_USEC", "WATCHDOG_PID") / 1e6 / 2;
    told.sockets = getenv("LISTEN_PID") ? (int)number_for_us("LISTEN_FDS", "LISTEN_PID") : 0;
    for (size_t i = 0; i < ARRAY_COUNT(variables); i++)
        unsetenv(variables[i]);
    for (int i = 0; i < told.sockets; i++)
        fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
}

int systemd_listen_fd(int *ret_fd, struct error *error) {
    if (told.sockets > 1)
        return error_set(error, ERROR_INVALID, "bad-socket", "LISTEN_FDS",
                         "The socket unit opens %d sockets; this program listens on one.", told.sockets);
    *ret_fd = told.sockets == 1 ? FIRST_FD : 0;
    return 0;
}

void systemd_notify(const char *format, ...) {
    char text[512];
    va_list args;
    if (!told.address.sun_family)
        return;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (len > 0 && (size_t)len < sizeof text)
        (void)!sendto(fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&told.address,
                      told.address_len);
    close(fd);
}

double systemd_watchdog_s(void) {
    return told.watchdog_s;
}
