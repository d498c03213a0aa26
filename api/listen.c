/* SPDX-License-Identifier: Apache-2.0 */
#include "api/listen.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first address that the words stand for; released with freeaddrinfo. */
static int resolve(const char *address, struct addrinfo **ret, struct error *error) {
    const char *colon = strrchr(address, ':');
    char host[128];
    if (!colon || colon == address || (size_t)(colon - address) >= sizeof host)
        return error_set(error, ERROR_INVALID, "bad-address", "listen", "'%.100s' is not HOST:PORT.", address);
    char *port_end;
    unsigned long port = strtoul(colon + 1, &port_end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *port_end || port > 65535)
        return error_set(error, ERROR_INVALID, "bad-address", "listen",
                         "'%.100s': the port must be a number from 0 to 65535.", address);
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * bracketed, address + bracketed);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int code = getaddrinfo(host, colon + 1, &hints, ret);
    if (code != 0)
        return error_set(error, ERROR_INVALID, "bad-address", "listen", "'%.100s': %s.", address, gai_strerror(code));
    return 0;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_UNIX;
}

static int no_socket(int fd, struct error *error) {
    return error_set(error, ERROR_INVALID, "bad-socket", "LISTEN_FDS",
                     "Descriptor %d, which this program was started with, is no stream socket that listens.", fd);
}

int listen_is_loopback(const char *address, int adopted, bool *ret, struct error *error) {
    struct addrinfo *found;
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    if (adopted > 0 && getsockname(adopted, (struct sockaddr *)&bound, &len) < 0)
        return no_socket(adopted, error);
    if (adopted > 0) {
        *ret = is_loopback((struct sockaddr *)&bound);
        return 0;
    }
    if (resolve(address, &found, error) < 0)
        return -1;
    *ret = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    return 0;
}

int listen_open(const char *address, int *ret_fd, struct error *error) {
    struct addrinfo *found;
    if (resolve(address, &found, error) < 0)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, 1024) < 0) {
        error_set(error, ERROR_IO, "cannot-listen", "listen", "Cannot listen on %.100s: %m.", address);
        if (fd >= 0)
            close(fd);
        freeaddrinfo(found);
        return -1;
    }
    freeaddrinfo(found);
    *ret_fd = fd;
    return 0;
}

int listen_adopt(int fd, struct error *error) {
    int listens = 0, type = 0, flags = fcntl(fd, F_GETFL);
    socklen_t len = sizeof listens, type_len = sizeof type;
    if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 || !listens ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0 || type != SOCK_STREAM ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return no_socket(fd, error);
    return 0;
}

void listen_url(const char *scheme, int fd, char *ret, size_t size) {
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool v6 = address.ss_family == AF_INET6;
    snprintf(ret, size, "%s://%s%.100s%s:%.8s", scheme, v6 ? "[" : "", host, v6 ? "]" : "", port);
}
