/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/child_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/utf8.h"

enum { MOST_MESSAGE = 256 << 20, STOP_EVERY_MS = 500, END_WAIT_S = 2, FIRST_PRIVATE = 3 };

static int send_object(int fd, struct json_object *object, int64_t deadline, struct error *error) {
    size_t len;
    const char *text = json_text(object, &len);
    return message_send(fd, text, len, deadline, error);
}

static int receive_object(int fd, int64_t deadline, struct json_object **ret, struct error *error) {
    CLEANUP(buf_release) struct buf message = BUF_INIT(MOST_MESSAGE);
    if (message_receive(fd, MOST_MESSAGE, deadline, &message, error) < 0)
        return -1;
    return json_parse(buf_str(&message), message.len, ret, error);
}

/* ---- errors as JSON ---- */

static struct json_object *error_to_json(const struct error *error) {
    struct json_object *object = json_object_new_object();
    struct error clean = *error;
    utf8_scrub(clean.text);
    utf8_scrub(clean.field);
    json_add_int(object, "class", clean.class);
    json_add_string(object, "code", clean.code);
    json_add_string(object, "field", clean.field);
    json_add_string(object, "text", clean.text);
    return object;
}

static int error_from_json(struct json_object *object, struct error *error) {
    int64_t class;
    const char *code, *field, *text;
    if (json_read_int(object, "class", JSON_REQUIRED, ERROR_INVALID, ERROR_INTERNAL, &class, error) < 0 ||
        json_read_string(object, "code", JSON_REQUIRED, sizeof error->code, &code, error) < 0 ||
        json_read_string(object, "field", JSON_REQUIRED, sizeof error->field, &field, error) < 0 ||
        json_read_string(object, "text", JSON_REQUIRED, sizeof error->text, &text, error) < 0)
        return -1;
    return error_set(error, (enum error_class) class, code, field, "%s", text);
}

/* ---- the parent's end ---- */

/* Waits until the child has something to say, or has ended. */
static int wait_readable(const struct child_call *call, int fd, int64_t deadline, struct error *error) {
    for (;;) {
        int left = deadline_poll_ms(deadline);
        if (call->stop && (left < 0 || left > STOP_EVERY_MS))
            left = STOP_EVERY_MS;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return error_set(error, ERROR_IO, "child-failed", NULL, "The child for %s cannot be watched: %m.",
                             call->role);
        if (call->stop && call->stop(call->data))
            return error_set(error, ERROR_CANCELLED, "cancelled", NULL, "It was stopped.");
        if (clock_now_ns() >= deadline)
            return error_set(error, ERROR_TIMEOUT, "child-timeout", NULL,
                             "The child for %s did not end in time and was killed.", call->role);
    }
}

static int read_answer(struct json_object *message, struct json_object **ret_answer, struct error *error) {
    struct json_object *object = NULL;
    if (json_read_object(message, "error", JSON_OPTIONAL, &object, error) < 0)
        return -1;
    if (object)
        return error_from_json(object, error);
    if (json_read_object(message, "answer", JSON_REQUIRED, &object, error) < 0)
        return -1;
    *ret_answer = json_object_get(object);
    return 0;
}

/* A child that stopped talking: says how it ended. */
static int died(const struct child_call *call, struct child *child, int *ret_status, struct error *error) {
    char how[128];
    int status;
    if (child_wait(child, deadline_in_s(END_WAIT_S), &status, error) < 0)
        return error_prefix(error, "The child for %s stopped talking: ", call->role);
    child_describe(status, how, sizeof how);
    *ret_status = status;
    return error_set(error, ERROR_IO, "child-died", NULL, "The child for %s ended without an answer: %s.", call->role,
                     how);
}

static int converse(const struct child_call *call, struct child *child, struct json_object *request, int64_t deadline,
                    struct json_object **ret_answer, int *ret_status, struct error *error) {
    struct json_object *message CLEANUP(json_put_p) = NULL;
    struct error sending = {0};
    int sent = send_object(child->in, request, deadline, &sending);
    if (wait_readable(call, child->out, deadline, error) < 0)
        return -1;
    if (sent < 0 || receive_object(child->out, deadline, &message, error) < 0)
        return died(call, child, ret_status, error);
    return read_answer(message, ret_answer, error);
}

int child_call(const struct child_call *call, struct json_object *request, int64_t deadline,
               struct json_object **ret_answer, int *ret_status, struct error *error) {
    const char *const argv[] = {call->program ? call->program : CHILD_SELF, "child", call->role, NULL};
    struct child_options options = {.argv = argv,
                                    .memory_bytes = call->memory_bytes,
                                    .cpu_s = call->cpu_s,
                                    .no_network = call->no_network,
                                    .sandbox = call->sandbox,
                                    .stderr_fd = STDERR_FILENO};
    struct child child = CHILD_INIT;
    if (child_start(&options, &child, error) < 0)
        return -1;
    int rc = converse(call, &child, request, deadline, ret_answer, ret_status, error);
    child_kill(&child);
    return rc;
}

/* ---- the child's end ---- */

int child_answer(int (*answer)(void *data, struct json_object *request, struct json_object *reply, struct error *error),
                 void *data) {
    struct json_object *request CLEANUP(json_put_p) = NULL;
    struct json_object *message CLEANUP(json_put_p) = json_object_new_object();
    struct json_object *reply = json_object_new_object();
    struct error error = {0};
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST_PRIVATE);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 1;
    if (receive_object(STDIN_FILENO, DEADLINE_NEVER, &request, &error) == 0 &&
        answer(data, request, reply, &error) == 0) {
        json_add(message, "answer", reply);
    } else {
        json_object_put(reply);
        json_add(message, "error", error_to_json(&error));
    }
    return send_object(out, message, DEADLINE_NEVER, &error) < 0 ? 1 : 0;
}
