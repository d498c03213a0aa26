/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "service/base/clock.h"

enum { MOST_MESSAGE = 16 << 20, END_WAIT_S = 2, FIRST_PRIVATE = 3 };
/* How long the transfer of a message may take once it began, and a child from its start to its first word. */
#define TRANSFER_S 10
#define START_S 30
/* The most that a child writes into one file, and that a builder or one of its compilers maps: several times what the
 * largest kernel takes. */
#define FILE_BYTES (INT64_C(1) << 30)
#define BUILDER_BYTES (INT64_C(8) << 30)
/* Processor time for one request, on each core: longer than any deadline. It ends a child whose parent cannot. */
#define REQUEST_CPU_S 3600

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

struct peer_options peer_builder_options(const char *program, int stderr_fd) {
    return (struct peer_options){.program = program,
                                 .role = "build",
                                 .stderr_fd = stderr_fd,
                                 .no_network = true,
                                 .sandbox = SANDBOX_STRICT,
                                 .memory_bytes = sandbox_memory(BUILDER_BYTES)};
}

static int start(struct peer *peer, const struct peer_options *options, struct error *error) {
    const char *const argv[] = {options->program, "child", options->role, NULL};
    struct child_options child = {.argv = argv,
                                  .stderr_fd = options->stderr_fd,
                                  .no_network = options->no_network,
                                  .sandbox = options->sandbox,
                                  .memory_bytes = options->memory_bytes,
                                  .file_bytes = options->sandbox == SANDBOX_NONE ? 0 : FILE_BYTES};
    return child_start(&child, &peer->child, error);
}

bool peer_runs(const struct peer *peer) {
    return peer->child.pid != 0;
}

int peer_ask(struct peer *peer, const struct peer_options *options, struct json_object *request, int answers,
             double timeout_s, struct error *error) {
    bool fresh = !peer_runs(peer), idle = peer->owed == 0;
    int rc = fresh ? start(peer, options, error) : 0;
    if (rc == 0)
        rc = send_object(peer->child.in, request, error);
    json_object_put(request);
    if (rc < 0 && !idle)
        return 1; /* what it still owes will tell how it ended */
    if (rc < 0) {
        peer_end(peer);
        return fresh ? error_prefix(error, "Starting a child to %s: ", options->role) : 1;
    }
    peer->starting |= fresh;
    peer->owed += answers;
    peer->timeout_s = timeout_s;
    if (idle)
        peer->deadline = deadline_in_s(peer->starting ? START_S : timeout_s);
    return 0;
}

void peer_allow(struct peer *peer, double timeout_s) {
    peer->timeout_s = timeout_s;
    peer->deadline = deadline_in_s(timeout_s);
}

static bool has_input(int fd) {
    struct pollfd look = {fd, POLLIN, 0};
    return poll(&look, 1, 0) > 0;
}

/* The peer does not answer as it should: waits for its end and says how that was. */
static enum peer_event see_its_end(struct peer *peer, char *text, size_t size) {
    struct error error;
    char how[128];
    int status;
    snprintf(text, size, "stopped talking sense");
    if (child_wait(&peer->child, deadline_in_s(END_WAIT_S), &status, &error) == 0) {
        child_describe(status, how, sizeof how);
        snprintf(text, size, "%s%s", strncmp(how, "killed", 6) == 0 ? "was " : "", how);
    }
    peer_end(peer);
    return PEER_DIED;
}

enum peer_event peer_look(struct peer *peer, bool readable, struct json_object **ret, char *text, size_t size) {
    struct error error;
    /* Whoever polled may have been busy since: nothing that has come is late. */
    if (!readable && clock_now_ns() >= peer->deadline && !has_input(peer->child.out)) {
        peer_end(peer);
        return PEER_LATE;
    }
    if (!readable && clock_now_ns() < peer->deadline)
        return PEER_NOTHING;
    if (receive_object(peer->child.out, deadline_in_s(TRANSFER_S), ret, &error) < 0)
        return see_its_end(peer, text, size);
    peer->deadline = deadline_in_s(peer->timeout_s);
    if (!peer->starting) {
        peer->owed--;
        return PEER_ANSWER;
    }
    peer->starting = false; /* that was its first word */
    json_object_put(*ret);
    *ret = NULL;
    return PEER_NOTHING;
}

void peer_end(struct peer *peer) {
    child_kill(&peer->child);
    peer->starting = false;
    peer->owed = 0;
}

/* ---- the child's end ---- */

struct peer_client {
    int out;
    bool failed, retired;
};

void peer_answer(struct peer_client *client, struct json_object *answer) {
    struct error error;
    client->failed = client->failed || send_object(client->out, answer, &error) < 0;
    json_object_put(answer);
}

void peer_retire(struct peer_client *client) {
    client->retired = true;
}

/* From now on; the limit counts from the process's start. */
static void limit_processor_time(void) {
    struct rusage used;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &used) < 0 || getrlimit(RLIMIT_CPU, &limit) < 0)
        return;
    limit.rlim_cur =
        (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec + REQUEST_CPU_S * sysconf(_SC_NPROCESSORS_ONLN));
    if (limit.rlim_cur < limit.rlim_max)
        setrlimit(RLIMIT_CPU, &limit);
}

int peer_serve(void (*serve)(void *data, struct json_object *request, struct peer_client *client), void *data) {
    struct json_object *request;
    struct error error;
    struct peer_client client = {.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FIRST_PRIVATE)};
    if (client.out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 1;
    peer_answer(&client, json_object_new_object());
    while (!client.failed && !client.retired && receive_object(STDIN_FILENO, DEADLINE_NEVER, &request, &error) == 0) {
        limit_processor_time();
        serve(data, request, &client);
        json_object_put(request);
    }
    return client.failed;
}
