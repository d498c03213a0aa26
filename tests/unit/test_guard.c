/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/guard.h"

struct pair {
    int ours, theirs; /* of one connection */
};

static struct pair pair_new(void) {
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    return (struct pair){fds[0], fds[1]};
}

static void pair_close(struct pair pair) {
    close(pair.ours);
    close(pair.theirs);
}

/* Whether the client sees the end of its connection within some milliseconds. */
static bool cut_off(struct pair pair, int ms) {
    struct pollfd poll_theirs = {.fd = pair.theirs, .events = POLLIN};
    return poll(&poll_theirs, 1, ms) == 1;
}

Test(guard, cuts_off_a_client_that_owes_a_head_for_too_long) {
    struct guard *guard;
    struct error error;
    struct pair pair = pair_new();
    cr_assert_eq(guard_start(0.05, &guard, &error), 0);
    struct guarded *guarded = guard_enter(guard, pair.ours);
    cr_assert(cut_off(pair, 20000));
    guard_leave(guard, guarded);
    guard_stop(guard);
    pair_close(pair);
}

Test(guard, leaves_a_request_under_way_alone_until_it_is_over) {
    struct guard *guard;
    struct error error;
    struct pair busy = pair_new(), idle = pair_new();
    cr_assert_eq(guard_start(0.05, &guard, &error), 0);
    struct guarded *first = guard_enter(guard, busy.ours);
    guard_set_busy(guard, first, true);
    struct guarded *second = guard_enter(guard, idle.ours);
    cr_assert(cut_off(idle, 20000));
    cr_assert_not(cut_off(busy, 200));
    guard_set_busy(guard, first, false);
    cr_assert(cut_off(busy, 20000));
    guard_leave(guard, second);
    guard_leave(guard, first);
    guard_stop(guard);
    pair_close(busy);
    pair_close(idle);
}
