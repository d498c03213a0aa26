/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/store/pg.h"

enum { RECONNECT_MS = 500 };

struct listener {
    char *url, *channel;
    PGconn *conn; /* NULL while the server is away */
    int interrupt_fd;
};

static int listen_on(struct listener *listener, struct error *error) {
    if (pg_connect(listener->url, "warptune listener", 60, &listener->conn, error) < 0)
        return -1;
    char *name = PQescapeIdentifier(listener->conn, listener->channel, strlen(listener->channel));
    char command[128];
    snprintf(command, sizeof command, "LISTEN %.100s", name ? name : "");
    PQfreemem(name);
    PGresult *result = PQexec(listener->conn, command);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (done)
        return 0;
    error_set(error, ERROR_DB, "database-away", NULL, "PostgreSQL: %.300s", PQerrorMessage(listener->conn));
    PQfinish(listener->conn);
    listener->conn = NULL;
    return -1;
}

int listener_open(const char *url, const char *channel, struct listener **ret, struct error *error) {
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener || !(listener->url = strdup(url)) || !(listener->channel = strdup(channel)))
        abort();
    listener->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->interrupt_fd < 0 || listen_on(listener, error) < 0) {
        if (listener->interrupt_fd < 0)
            error_set(error, ERROR_IO, "eventfd", NULL, "Cannot make an event descriptor: %s.", strerror(errno));
        listener_close(listener);
        return -1;
    }
    *ret = listener;
    return 0;
}

/* Waits for the connection's socket (or the time, when there is none) and the interrupt. 1: interrupted. */
static int wait_any(struct listener *listener, int64_t deadline) {
    struct pollfd polls[2] = {{listener->interrupt_fd, POLLIN, 0},
                              {listener->conn ? PQsocket(listener->conn) : -1, POLLIN, 0}};
    int ms = deadline_poll_ms(deadline);
    if (!listener->conn && (ms < 0 || ms > RECONNECT_MS))
        ms = RECONNECT_MS;
    poll(polls, 2, ms);
    return polls[0].revents != 0;
}

/* Takes a notification that is there; false when none is. */
static bool take(struct listener *listener, char ret_payload[LISTENER_PAYLOAD]) {
    PGnotify *notification = PQnotifies(listener->conn);
    if (!notification)
        return false;
    snprintf(ret_payload, LISTENER_PAYLOAD, "%s", notification->extra);
    PQfreemem(notification);
    return true;
}

int listener_wait(struct listener *listener, int64_t deadline, char ret_payload[LISTENER_PAYLOAD],
                  struct error *error) {
    for (;;) {
        if (listener->conn && take(listener, ret_payload))
            return 0;
        if (wait_any(listener, deadline))
            return error_set(error, ERROR_CANCELLED, "interrupted", NULL, "Listening was interrupted.");
        if (listener->conn) {
            if (!PQconsumeInput(listener->conn)) {
                PQfinish(listener->conn);
                listener->conn = NULL;
            } else if (take(listener, ret_payload)) {
                return 0;
            }
        }
        if (!listener->conn && listen_on(listener, error) == 0) {
            *ret_payload = 0;
            return 0;
        }
        if (clock_now_ns() >= deadline)
            return error_set(error, ERROR_TIMEOUT, "timeout", NULL, "No notification came.");
    }
}

void listener_interrupt(struct listener *listener) {
    uint64_t one = 1;
    ssize_t written = write(listener->interrupt_fd, &one, sizeof one);
    (void)written; /* only a counter that is full refuses: it is set then */
}

void listener_close(struct listener *listener) {
    if (!listener)
        return;
    PQfinish(listener->conn);
    if (listener->interrupt_fd >= 0)
        close(listener->interrupt_fd);
    free(listener->url);
    free(listener->channel);
    free(listener);
}
