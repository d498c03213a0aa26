/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c: the events of a job, or of all jobs of a project, as they come, over one response without an end known
 * beforehand.
 *
 * A stream takes turns: libmicrohttpd's thread sends what is there (`read_stream`); when all is sent it suspends the
 * connection and hands the stream to the quick executor, which looks for more (`look`) and resumes the connection, or
 * else lets it sleep in the hub, whose thread hands it to the executor again. Whoever has it owns it: no lock. A
 * suspended connection does not show that its client left, so a comment is sent when there was nothing for a while.
 */
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/event_feed.h"
#include "api/event_text.h"
#include "api/exchange.h"
#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/store/job_store.h"

enum { MOST_OWN = 4096 };
#define KEEP_ALIVE_S 15
#define SETTLE_S 0.25 /* a busy job's events are sent together, so often */

struct stream {
    struct work work;
    struct hub_waiter waiter;
    struct server *server;
    struct MHD_Connection *connection;
    struct credential credential; /* that it was opened with */
    char followed[UUID_TEXT];     /* the job, or the project */
    bool whole_project;           /* then there is no end */
    int64_t after;                /* the last event that was written */
    bool ended;                   /* the job has, as far as was read */
    bool closing;                 /* nothing follows what is in `text` */
    struct buf text;              /* its own: signs of life, the end */
    struct event_batch *batch;    /* sent before `text`; NULL: none */
    size_t sent;                  /* of both */
    int64_t next_keep_alive;
};

static void resume(struct stream *stream) {
    MHD_resume_connection(stream->connection);
}

static void hand_over(struct stream *stream) {
    struct error error;
    if (server_submit(stream->server, RUN_QUICK, &stream->work, &error) == 0)
        return;
    stream->closing = true; /* the client comes again, with the last event's number */
    resume(stream);
}

static void wake_stream(struct hub_waiter *waiter) {
    hand_over((struct stream *)((char *)waiter - offsetof(struct stream, waiter)));
}

/* How the job ended, now that all its events are written. */
static int write_end_event(struct stream *stream, struct error *error) {
    struct job_version job;
    if (job_version_get(server_api(stream->server)->db, stream->followed, &job, error) < 0)
        return -1;
    if (job_state_ended(job.state)) {
        event_write_end(&stream->text, job_state_name(job.state));
        stream->closing = true;
    } else {
        stream->ended = false; /* it was taken up again */
    }
    return 0;
}

/* Takes what is new; nothing is no error. */
static int take_news(struct stream *stream, uint64_t seen, struct error *error) {
    struct event_batch *batch;
    size_t len;
    if (event_feed_take(server_api(stream->server)->event_feed, stream->followed, stream->whole_project, stream->after,
                        seen, &batch, error) < 0)
        return -1;
    event_batch_text(batch, &len);
    if (len == 0) {
        event_batch_release(batch);
        return stream->ended ? write_end_event(stream, error) : 0;
    }
    stream->batch = batch;
    stream->after = event_batch_last(batch);
    stream->ended = !stream->whole_project && event_batch_ended(batch, stream->ended);
    return 0;
}

/* Nothing is new: sleeps until something is, or a sign of life is due. */
static void sleep_stream(struct stream *stream, uint64_t seen) {
    struct error error;
    if (clock_now_ns() >= stream->next_keep_alive) {
        buf_puts(&stream->text, ": keep-alive\n\n");
        resume(stream);
        return;
    }
    stream->waiter.earliest = deadline_in_s(SETTLE_S);
    if (hub_wait(server_api(stream->server)->hub, &stream->waiter, stream->followed, seen, stream->next_keep_alive,
                 &error) < 0) {
        event_write_bye(&stream->text, error.code);
        stream->closing = true;
        resume(stream);
    }
}

/* On the executor. */
static void look(struct work *work) {
    struct stream *stream = (struct stream *)((char *)work - offsetof(struct stream, work));
    struct error error;
    uint64_t seen = hub_generation(server_api(stream->server)->hub, stream->followed);
    struct identity who;
    if (auth_identify(server_api(stream->server)->auth, &stream->credential, &who, &error) < 0 ||
        take_news(stream, seen, &error) < 0) {
        log_error(LOG_WARN, "a stream of events ends", &error);
        stream->closing = true;
        resume(stream);
    } else if (stream->batch || stream->text.len || stream->closing) {
        resume(stream);
    } else {
        sleep_stream(stream, seen);
    }
}

/* What is to be sent next; NULL: all is. */
static const char *next_part(const struct stream *stream, size_t *ret_len) {
    size_t len = 0;
    const char *text = stream->batch ? event_batch_text(stream->batch, &len) : NULL;
    size_t at = stream->sent;
    if (at >= len) {
        at -= len;
        text = stream->text.data;
        len = stream->text.len;
    }
    *ret_len = len - at;
    return *ret_len ? text + at : NULL;
}

static void forget_sent(struct stream *stream) {
    event_batch_release(stream->batch);
    stream->batch = NULL;
    buf_clear(&stream->text);
    stream->sent = 0;
    stream->next_keep_alive = deadline_in_s(KEEP_ALIVE_S);
}

/* libmicrohttpd wants bytes; without any it is told none, and the connection sleeps. */
static ssize_t read_stream(void *data, uint64_t position, char *out, size_t size) {
    struct stream *stream = data;
    (void)position;
    size_t left;
    const char *part = next_part(stream, &left);
    if (part) {
        size_t n = left < size ? left : size;
        memcpy(out, part, n);
        stream->sent += n;
        return (ssize_t)n;
    }
    if (stream->closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (stream->sent)
        forget_sent(stream);
    MHD_suspend_connection(stream->connection);
    hand_over(stream);
    return 0;
}

static void free_stream(void *data) {
    struct stream *stream = data;
    event_batch_release(stream->batch);
    buf_release(&stream->text);
    free(stream);
}

struct MHD_Response *event_stream_make(struct exchange *exchange) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->work.run = look;
    stream->waiter.wake = wake_stream;
    stream->server = exchange->server;
    stream->connection = exchange->connection;
    stream->credential = exchange->request.credential;
    const struct response *response = &exchange->response;
    stream->whole_project = response->project_id;
    memcpy(stream->followed, response->project_id ? response->project_id : response->job_id, UUID_TEXT);
    stream->after = response->after;
    stream->ended = response->ended;
    stream->next_keep_alive = deadline_in_s(KEEP_ALIVE_S);
    buf_init(&stream->text, MOST_OWN);
    buf_puts(&stream->text, "retry: 1000\n"); /* how soon a client that was cut off comes again, in ms */
    if (stream->whole_project)                /* from where, although it has seen no event yet */
        buf_printf(&stream->text, "id: %lld\n", (long long)stream->after);
    buf_puts(&stream->text, "\n");
    struct MHD_Response *made =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 << 10, read_stream, stream, free_stream);
    if (!made)
        free_stream(stream);
    return made;
}
