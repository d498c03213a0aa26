/* SPDX-License-Identifier: Apache-2.0 */
/* Framed messages over a child's pipes; the promise is in child.h. */
#include "service/base/child.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/sigpipe.h"

enum { RECEIVE_STEP = 1 << 20 }; /* room is made as bytes come, not as the length promises */

static int failed(struct error *error, const char *what, int reason) {
    char text[128];
    if (reason == EPIPE || reason == ECONNRESET || reason == 0)
        return error_set(error, ERROR_IO, "peer-closed", NULL, "The process at the other end went away.");
    return error_set(error, ERROR_IO, "message-failed", NULL, "Cannot %s a message: %s.", what,
                     strerror_r(reason, text, sizeof text));
}

/* Waits until fd is ready, has hung up or failed. */
static int wait_ready(int fd, short events, int64_t deadline, const char *what, struct error *error) {
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, deadline_poll_ms(deadline));
        if (n > 0)
            return 0;
        if (n == 0 && (deadline == DEADLINE_NEVER || clock_now_ns() < deadline))
            continue; /* poll counts in int milliseconds */
        if (n == 0)
            return error_set(error, ERROR_TIMEOUT, "message-timeout", NULL, "The time to %s a message ran out.", what);
        if (errno != EINTR)
            return failed(error, what, errno);
    }
}

/* A pipe that is ready takes PIPE_BUF bytes without blocking, so that the deadline holds for any pipe. */
static int send_bytes(int fd, const char *data, size_t len, int64_t deadline, struct error *error) {
    while (len > 0) {
        if (wait_ready(fd, POLLOUT, deadline, "send", error) < 0)
            return -1;
        ssize_t n = write_no_sigpipe(fd, data, len < PIPE_BUF ? len : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return failed(error, "send", errno);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int receive_bytes(int fd, char *data, size_t len, int64_t deadline, struct error *error) {
    while (len > 0) {
        if (wait_ready(fd, POLLIN, deadline, "receive", error) < 0)
            return -1;
        ssize_t n = read(fd, data, len);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return failed(error, "receive", n == 0 ? 0 : errno);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int message_send(int fd, const void *data, size_t len, int64_t deadline, struct error *error) {
    if (len > UINT32_MAX)
        return error_set(error, ERROR_LIMIT, "message-too-large", NULL, "A message may be at most 4 GB long.");
    char first[PIPE_BUF]; /* the length and what fits beside it go out together */
    size_t beside = len < sizeof first - 4 ? len : sizeof first - 4;
    for (int i = 0; i < 4; i++)
        first[i] = (char)(len >> 8 * i);
    if (beside > 0)
        memcpy(first + 4, data, beside);
    if (send_bytes(fd, first, 4 + beside, deadline, error) < 0)
        return -1;
    return beside == len ? 0 : send_bytes(fd, (const char *)data + beside, len - beside, deadline, error);
}

static int receive_body(int fd, size_t len, int64_t deadline, struct buf *ret, struct error *error) {
    while (ret->len < len) {
        size_t rest = len - ret->len, step = rest < RECEIVE_STEP ? rest : RECEIVE_STEP;
        char *to = buf_reserve(ret, step);
        if (!to)
            return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for a message.");
        if (receive_bytes(fd, to, step, deadline, error) < 0)
            return -1;
        ret->len += step;
    }
    return 0;
}

int message_receive(int fd, size_t max, int64_t deadline, struct buf *ret, struct error *error) {
    unsigned char header[4];
    buf_clear(ret);
    ret->max = max;
    if (receive_bytes(fd, (char *)header, sizeof header, deadline, error) < 0)
        return -1;
    size_t len = header[0] | header[1] << 8 | header[2] << 16 | (size_t)header[3] << 24;
    if (len > max)
        return error_set(error, ERROR_LIMIT, "message-too-large", NULL,
                         "A message of %zu bytes is larger than the %zu that are allowed.", len, max);
    if (receive_body(fd, len, deadline, ret, error) == 0)
        return 0;
    buf_clear(ret);
    return -1;
}
