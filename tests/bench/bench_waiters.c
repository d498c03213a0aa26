/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_waiters: many clients that wait, in one process: each asks once and then reads whatever comes.
 *
 * usage: bench_waiters PORT PATH N        on 127.0.0.1; says `asked N` when all have asked, then stays until its
 *                                         standard input ends, and says how many bytes came, to how many
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char *what) {
    perror(what);
    exit(1);
}

static void ask(int epoll, int port, const char *path, int number) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)number << 32};
    char text[512];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int len = snprintf(text, sizeof text, "GET %.300s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 || write(fd, text, (size_t)len) != len)
        fail("asking");
    event.data.u64 |= (uint32_t)fd;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        fail("epoll");
}

/* Reads what has come; false once standard input ends. */
static bool read_some(int epoll, bool *heard, long *bytes) {
    static char waste[64 << 10];
    struct epoll_event events[64];
    int n = epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < n; i++) {
        int fd = (int)(uint32_t)events[i].data.u64;
        ssize_t got = read(fd, waste, sizeof waste);
        if (fd == STDIN_FILENO && got <= 0)
            return false;
        if (got > 0 && fd != STDIN_FILENO) {
            *bytes += got;
            heard[events[i].data.u64 >> 32] = true;
        } else if (got == 0 || (got < 0 && errno != EINTR)) {
            close(fd);
        }
    }
    return true;
}

int main(int argc, char **argv) {
    struct rlimit limit = {100000, 100000};
    if (argc != 4)
        return 2;
    int n = (int)strtol(argv[3], NULL, 10), epoll = epoll_create1(0), reached = 0;
    bool *heard = calloc((size_t)n, sizeof *heard);
    long bytes = 0;
    struct epoll_event input = {.events = EPOLLIN, .data.u64 = STDIN_FILENO};
    setrlimit(RLIMIT_NOFILE, &limit);
    if (!heard || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &input) < 0)
        fail("epoll");
    for (int i = 0; i < n; i++)
        ask(epoll, (int)strtol(argv[1], NULL, 10), argv[2], i);
    printf("asked %d\n", n);
    fflush(stdout);
    while (read_some(epoll, heard, &bytes))
        continue;
    for (int i = 0; i < n; i++)
        reached += heard[i];
    printf("reached %d bytes %ld\n", reached, bytes);
    free(heard);
    return 0;
}
