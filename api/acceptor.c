/* SPDX-License-Identifier: Apache-2.0 */
#include "api/acceptor.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 20 /* for room, or for a descriptor, when there was none */

struct acceptor {
    int fd, stop; /* the socket; an eventfd that ends the thread */
    struct acceptor_target target;
    pthread_t thread;
};

/* Takes what waits; false when there was something that could not be taken now. */
static bool take_all(struct acceptor *acceptor) {
    for (;;) {
        struct sockaddr_storage address;
        socklen_t len = sizeof address;
        if (!acceptor->target.has_room(acceptor->target.data))
            return false;
        int fd = accept4(acceptor->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            acceptor->target.take(acceptor->target.data, fd, (struct sockaddr *)&address, len);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return false;
        else if (errno != EINTR && errno != ECONNABORTED)
            return true;
    }
}

static void *acceptor_main(void *data) {
    struct acceptor *acceptor = data;
    struct pollfd watched[] = {{acceptor->stop, POLLIN, 0}, {acceptor->fd, POLLIN, 0}};
    bool all = true;
    for (;;) {
        int ready = poll(watched, all ? 2 : 1, all ? -1 : LOOK_AGAIN_MS);
        if (ready > 0 && watched[0].revents)
            return NULL;
        all = take_all(acceptor);
    }
}

int acceptor_start(int fd, const struct acceptor_target *target, struct acceptor **ret, struct error *error) {
    struct acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (!acceptor)
        abort();
    acceptor->fd = fd;
    acceptor->target = *target;
    acceptor->stop = eventfd(0, EFD_CLOEXEC);
    int code = acceptor->stop < 0 ? errno : pthread_create(&acceptor->thread, NULL, acceptor_main, acceptor);
    if (code != 0) {
        if (acceptor->stop >= 0)
            close(acceptor->stop);
        free(acceptor);
        return error_set(error, ERROR_INTERNAL, "no-threads", NULL, "No thread could be made to take connections: %s.",
                         strerror(code));
    }
    *ret = acceptor;
    return 0;
}

void acceptor_stop(struct acceptor *acceptor) {
    if (!acceptor)
        return;
    eventfd_write(acceptor->stop, 1);
    pthread_join(acceptor->thread, NULL);
    close(acceptor->stop);
    free(acceptor);
}
