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
#include "api/event_text.h"
#include "api/exchange.h"
#include "api/feed.h"
#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/store/event_store.h"
#include "service/store/job_store.h"

enum { BATCH = 256, MOST_BATCH = 16 << 20 };
#define KEEP_ALIVE_S 15
#define SETTLE_S 0.25 /* a busy job's events are sent together, so often */

struct stream {
    struct work work;
    struct hub_waiter waiter;
    struct server *server;
    struct MHD_Connection *connection;
    struct credential credential; /* that it was opened with */
    char followed[UUID_TEXT];     /* the job, or the project */
    bool whole_project;           /* it has no end of its own, and its text is in `shared` */
    int64_t after;                /* the last event that was written */
    bool ended;                   /* the job has, as far as was read */
    bool closing;                 /* nothing follows what is to be sent */
    struct buf text;              /* what is to be sent */
    struct feed_text *shared;     /* the same, of a project; then `text` is empty */
    size_t sent;                  /* of it */
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
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct job_row *job;
    if (job_get(server_api(stream->server)->db, stream->followed, arena, &job, error) < 0)
        return -1;
    if (job_state_ended(job->state)) {
        event_write_end(&stream->text, job_state_name(job->state));
        stream->closing = true;
    } else {
        stream->ended = false; /* it was taken up again */
    }
    return 0;
}

static int write_news_of_job(struct stream *stream, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct event_row *events;
    int n;
    if (event_list(server_api(stream->server)->db, stream->followed, NULL, stream->after, BATCH, arena, &events, &n,
                   error) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        event_write(&stream->text, &events[i], &stream->ended);
        stream->after = events[i].number;
    }
    return n == 0 && stream->ended ? write_end_event(stream, error) : buf_check(&stream->text, "events", error);
}

/* Writes what is new; nothing is no error. */
static int write_news(struct stream *stream, uint64_t seen, struct error *error) {
    if (!stream->whole_project)
        return write_news_of_job(stream, error);
    if (feed_read(server_api(stream->server)->feed, stream->followed, stream->after, seen, &stream->shared, error) < 0)
        return -1;
    if (stream->shared)
        stream->after = stream->shared->to;
    return 0;
}

static const struct buf *outgoing(const struct stream *stream) {
    return stream->shared ? &stream->shared->text : &stream->text;
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
        write_news(stream, seen, &error) < 0) {
        log_error(LOG_WARN, "a stream of events ends", &error);
        stream->closing = true;
        resume(stream);
    } else if (outgoing(stream)->len || stream->closing) {
        resume(stream);
    } else {
        sleep_stream(stream, seen);
    }
}

/* libmicrohttpd wants bytes; without any it is told none, and the connection sleeps. */
static ssize_t read_stream(void *data, uint64_t position, char *out, size_t size) {
    struct stream *stream = data;
    (void)position;
    const struct buf *text = outgoing(stream);
    size_t left = text->len - stream->sent;
    if (left) {
        size_t n = left < size ? left : size;
        memcpy(out, text->data + stream->sent, n);
        stream->sent += n;
        return (ssize_t)n;
    }
    if (stream->closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (stream->sent) {
        buf_clear(&stream->text);
        feed_text_release(stream->shared);
        stream->shared = NULL;
        stream->sent = 0;
        stream->next_keep_alive = deadline_in_s(KEEP_ALIVE_S);
    }
    MHD_suspend_connection(stream->connection);
    hand_over(stream);
    return 0;
}

static void free_stream(void *data) {
    struct stream *stream = data;
    buf_release(&stream->text);
    feed_text_release(stream->shared);
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
    buf_init(&stream->text, MOST_BATCH);
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
