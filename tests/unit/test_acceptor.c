/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api/acceptor.h"
#include "api/listen.h"

/* Takes connections, and says so through a pipe, a byte each. */
struct taker {
    atomic_int room;
    int said[2];
};

static bool has_room(void *data) {
    struct taker *taker = data;
    return atomic_load(&taker->room) > 0;
}

static void take(void *data, int fd, const struct sockaddr *address, socklen_t len) {
    struct taker *taker = data;
    cr_expect_eq(address->sa_family, AF_INET);
    cr_expect_eq(len, sizeof(struct sockaddr_in));
    atomic_fetch_sub(&taker->room, 1);
    close(fd);
    cr_expect_eq(write(taker->said[1], "", 1), 1);
}

static bool took_one(struct taker *taker, int within_ms) {
    struct pollfd said = {taker->said[0], POLLIN, 0};
    char byte;
    return poll(&said, 1, within_ms) == 1 && read(taker->said[0], &byte, 1) == 1;
}

static int come(int listening) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &len), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

Test(acceptor, takes_who_comes_while_there_is_room) {
    struct taker taker = {.room = 2};
    struct acceptor_target target = {has_room, take, &taker};
    struct acceptor *acceptor;
    struct error error;
    int listening, clients[3];
    cr_assert_eq(pipe(taker.said), 0);
    cr_assert_eq(listen_open("127.0.0.1:0", &listening, &error), 0);
    cr_assert_eq(acceptor_start(listening, &target, &acceptor, &error), 0);
    for (int i = 0; i < 3; i++)
        clients[i] = come(listening);
    cr_expect(took_one(&taker, 30000));
    cr_expect(took_one(&taker, 30000));
    cr_expect_not(took_one(&taker, 100), "the third waits");
    atomic_store(&taker.room, 1);
    cr_expect(took_one(&taker, 30000), "until there is room");
    acceptor_stop(acceptor);
    atomic_store(&taker.room, 1);
    int late = come(listening); /* the kernel's queue takes it; nobody else does */
    cr_expect_not(took_one(&taker, 100));
    close(late);
    for (int i = 0; i < 3; i++)
        close(clients[i]);
    close(listening);
}
