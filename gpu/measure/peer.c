/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/base/clock.h"

enum { MOST_MESSAGE = 16 << 20, END_WAIT_S = 2, FIRST_PRIVATE = 3 };
/* How long the transfer of a message may take once it began. */
#define TRANSFER_S 10

static int send_object(int fd, struct json_object *object, struct error *error) {
    size_t len;
    const char *text = json_text(object, &len);
    return message_send(fd, text, len, deadline_in_s(TRANSFER_S), error);
}

static int receive_object(int fd, int64_t deadline, struct json_object **ret, struct error *error) {
    CLEANUP(buf_release) struct buf message = BUF_INIT(MOST_MESSAGE);
    if (message_receive(fd, MOST_MESSAGE, deadline, &message, error) < 0)
        return -1;
    return json_parse(buf_str(&message), message.len, ret, error);
}

/* ---- the parent's end ---- */

static int start(struct peer *peer, const struct peer_options *options, struct error *error) {
    const char *const argv[] = {options->program, "child", options->role, NULL};
    struct child_options child = {.argv = argv, .stderr_fd = options->stderr_fd};
    return child_start(&child, &peer->child, error);
}

bool peer_runs(const struct peer *peer) {
    return peer->child.pid != 0;
}

int peer_ask(struct peer *peer, const struct peer_options *options, struct json_object *request, double timeout_s,
             struct error *error) {
    bool fresh = !peer_runs(peer);
    int rc = fresh ? start(peer, options, error) : 0;
    if (rc == 0)
        rc = send_object(peer->child.in, request, error);
    json_object_put(request);
    if (rc == 0) {
        peer->busy = true;
        peer->deadline = deadline_in_s(timeout_s);
        return 0;
    }
    peer_end(peer);
    return fresh ? error_prefix(error, "Starting a child to %s: ", options->role) : 1;
}

enum peer_event peer_look(struct peer *peer, bool readable, struct json_object **ret, char *text, size_t size) {
    struct error error;
    int status;
    if (readable && receive_object(peer->child.out, deadline_in_s(TRANSFER_S), ret, &error) == 0) {
        peer->busy = false;
        return PEER_ANSWER;
    }
    if (readable) {
        snprintf(text, size, "stopped talking sense");
        if (child_wait(&peer->child, deadline_in_s(END_WAIT_S), &status, &error) == 0) {
            char how[128];
            child_describe(status, how, sizeof how);
            snprintf(text, size, "%s%s", strncmp(how, "killed", 6) == 0 ? "was " : "", how);
        }
        peer_end(peer);
        return PEER_DIED;
    }
    if (clock_now_ns() < peer->deadline)
        return PEER_NOTHING;
    peer_end(peer);
    return PEER_LATE;
}

void peer_end(struct peer *peer) {
    child_kill(&peer->child);
    peer->busy = false;
}

/* ---- the child's end ---- */

int peer_serve(struct json_object *(*answer)(void *data, struct json_object *request, bool *ret_last), void *data) {
    struct json_object *request;
    struct error error;
    bool last = false;
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST_PRIVATE);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 1;
    while (!last && receive_object(STDIN_FILENO, DEADLINE_NEVER, &request, &error) == 0) {
        struct json_object *reply = answer(data, request, &last);
        int rc = send_object(out, reply, &error);
        json_object_put(reply);
        json_object_put(request);
        if (rc < 0)
            return 1;
    }
    return 0;
}
