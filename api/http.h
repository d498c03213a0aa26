/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h: what a handler sees of HTTP: a request, and the response that it fills in.
 *
 * A handler is a function of a request; it never touches a socket. It returns 0 with `response` filled, or -1 with an
 * error, which becomes a problem document. A handler that has to wait for a job's next change returns a WAIT response:
 * the connection sleeps without a thread, and the handler runs again from its top when the job changes or the time is
 * up. Everything a request needs for itself lives in its arena.
 */
#ifndef WARPTUNE_API_HTTP_H
#define WARPTUNE_API_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "service/base/arena.h"
#include "service/base/buf.h"
#include "service/base/error.h"
#include "service/store/token_store.h"

struct api;
struct idempotency_key;
struct json_object;
struct request;
struct response;

typedef int route_handler(struct request *request, struct response *ret, struct error *error);

enum body_kind {
    BODY_NONE,    /* a body is refused */
    BODY_JSON,    /* collected, parsed strictly: request->json */
    BODY_UPLOAD,  /* a model; spooled to a file, hashed on the way: request->upload */
    BODY_RECORDS, /* a tuning log; spooled as well */
};

/* Where a handler runs, which is how long it may take. */
enum route_run {
    RUN_HERE,  /* on the thread of its connection: waits for nothing */
    RUN_QUICK, /* a few short queries: there as well, unless too many such threads wait for the database already */
    RUN_SLOW,  /* child processes, whole files: on a few threads set apart */
};

struct route {
    const char *method;
    const char *pattern; /* "/v1/jobs/{id}/events"; a segment in braces captures */
    route_handler *handle;
    enum body_kind body;
    enum route_run run;
    const char *queries; /* names of the query parameters it knows, separated by spaces; others are refused */
    const char *summary;
    const char *makes; /* media types of its answers, separated by spaces; NULL: application/json; "": no body */
    enum scope scope;  /* SCOPE_NONE: what auth.h says */
};

/* All routes; the last row has no method. */
extern const struct route routes[];

/* What a client shows of itself. */
struct credential {
    char sha256[SHA256_HEX]; /* of its token; empty: none */
};

#define REQUEST_MAX_PARAMS 3
#define REQUEST_MAX_QUERIES 16

struct request_upload {
    const char *path;   /* the spooled file; removed with the request unless path is set to NULL */
    const char *sha256; /* of its bytes, in hex */
    int64_t bytes;
};

struct request {
    struct api *api;
    struct arena *arena;
    const struct route *route;
    const char *id;                         /* names the request in logs and problem documents */
    struct identity who;                    /* who asks; SCOPE_NONE where no token is needed */
    struct credential credential;           /* that they showed */
    const char *project_id;                 /* theirs: what the handler may show and change; NULL: `default` */
    const char *method;                     /* as sent: HEAD runs the GET handler */
    const char *path;                       /* decoded, for messages */
    const char *params[REQUEST_MAX_PARAMS]; /* captured segments, decoded */
    struct {
        const char *name, *value;
    } queries[REQUEST_MAX_QUERIES];
    int n_queries;
    struct json_object *json;     /* BODY_JSON */
    struct request_upload upload; /* BODY_UPLOAD, BODY_RECORDS */
    int64_t wait_until;           /* deadline that the handler chose the first time it waited; 0 before that */
    void *connection;             /* the server's; NULL in tests */
    /* That the handler is to keep with its answer, where it does so itself; NULL: none. */
    const struct idempotency_key *idempotency;
};

/* A query parameter, or NULL. */
const char *request_query(const struct request *request, const char *name);
/* The same as a number in [min, max]; `fallback` when absent. */
int request_query_int(const struct request *request, const char *name, int64_t min, int64_t max, int64_t fallback,
                      int64_t *ret, struct error *error) MUST_CHECK;
/* A header, or NULL. Names compare without case. */
const char *request_header(const struct request *request, const char *name);

enum response_kind { RESPONSE_TEXT, RESPONSE_FILE, RESPONSE_EVENTS, RESPONSE_WAIT };

#define RESPONSE_MAX_HEADERS 8

struct response {
    enum response_kind kind;
    int status;
    const char *content_type;
    const char *headers[RESPONSE_MAX_HEADERS][2];
    int n_headers;
    /* RESPONSE_TEXT: bytes in the request's arena */
    const char *text;
    size_t len;
    /* RESPONSE_FILE: an open file, closed by the server; Range and If-None-Match are answered from it */
    int fd;
    int64_t bytes;
    const char *etag; /* quoted; optional, for RESPONSE_TEXT too */
    /* RESPONSE_EVENTS and RESPONSE_WAIT */
    const char *job_id;
    const char *project_id; /* EVENTS: of all its jobs; job_id is NULL then */
    int64_t after;          /* EVENTS: the last event that the client has */
    bool ended;             /* EVENTS: the job has ended already */
    uint64_t seen;          /* WAIT: hub_generation before the handler looked */
};

/* A buffer that goes with the request. */
struct buf *request_buf(struct request *request, size_t max);

/* `value` is released. */
void response_json(struct request *request, struct response *ret, int status, struct json_object *value);
/* JSON that was written into a request_buf; ERROR_INTERNAL when it did not fit. */
int response_written(struct request *request, struct response *ret, int status, struct buf *json,
                     struct error *error) MUST_CHECK;
void response_text(struct request *request, struct response *ret, int status, const char *content_type,
                   const char *text, size_t len);
void response_header(struct request *request, struct response *ret, const char *name, const char *value);

/* The class of an error as a status code. */
int problem_status(const struct error *error);
/* An application/problem+json document for it. */
void response_problem(struct request *request, struct response *ret, const struct error *error);

#endif
