/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acceptor.h: a thread that takes connections from a listening socket and deals them out, one by one.
 *
 * Threads that take from one socket each for themselves take all that wait at once: whoever wakes first has eight
 * connections and its neighbours none. Dealt out they are even.
 */
#ifndef WARPTUNE_API_ACCEPTOR_H
#define WARPTUNE_API_ACCEPTOR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct acceptor;

/* Called on the acceptor's thread. */
struct acceptor_target {
    bool (*has_room)(void *data); /* whether one more may be open; until then others wait in the socket's backlog */
    void (*take)(void *data, int fd, const struct sockaddr *address, socklen_t len); /* `fd` is its own from here on */
    void *data;
};

/* `fd` does not block and stays the caller's; it must listen until the acceptor has stopped. */
int acceptor_start(int fd, const struct acceptor_target *target, struct acceptor **ret, struct error *error) MUST_CHECK;
/* Returns once nothing more is taken. NULL-safe. */
void acceptor_stop(struct acceptor *acceptor);

#endif
