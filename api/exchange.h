/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h: one request on its way through the server, and the body that comes with it. Internal to api/.
 *
 * An exchange is owned by its connection's thread, except while it is RUNNING on an executor or asleep in the hub;
 * then the connection is suspended and nobody else touches it.
 */
#ifndef WARPTUNE_API_EXCHANGE_H
#define WARPTUNE_API_EXCHANGE_H

#include <microhttpd.h>

#include "api/cors.h"
#include "api/executor.h"
#include "api/http.h"
#include "api/hub.h"
#include "api/server.h"
#include "service/base/sha256.h"

enum phase {
    PHASE_HEADERS, /* nothing decided yet */
    PHASE_BODY,    /* reading it */
    PHASE_REFUSED, /* the body is over a limit: drained for a while, then answered */
    PHASE_HANDLE,  /* the handler runs next */
    PHASE_RUNNING, /* on an executor */
    PHASE_READY,   /* the response is there */
};

struct exchange {
    struct request request;
    struct response response;
    struct error error;
    struct server *server;
    struct MHD_Connection *connection;
    struct hub_waiter waiter;
    struct work work;
    enum phase phase;
    const char *target; /* as sent */
    const char *allow;  /* the methods that the path takes, once that has to be said */
    int64_t started_ns;
    struct buf body;     /* BODY_JSON */
    struct sha256 *hash; /* of a spooled body, as the next two */
    struct multipart *multipart;
    int spool;
    int64_t received, drained;
};

/* Hands work to the executor for quick, or slow, handlers; the connection that it is for is suspended. Never waits. */
int server_submit(struct server *server, enum route_run run, struct work *work, struct error *error) MUST_CHECK;
struct api *server_api(struct server *server);
const struct cors *server_cors(const struct server *server);
bool server_trusts_proxy(const struct server *server);

/* How often a header is there. */
int request_header_count(const struct request *request, const char *name);
/* All values of a header whose value is a list, as one; NULL when it is not there. */
const char *request_header_list(const struct request *request, const char *name);

/* Checks the headers that announce a body, against the route; makes ready to take it. */
int body_begin(struct exchange *exchange, struct error *error) MUST_CHECK;
/* The next piece of it. */
int body_add(struct exchange *exchange, const char *data, size_t len, struct error *error) MUST_CHECK;
/* All of it is there: parsed, or the spool closed. */
int body_end(struct exchange *exchange, struct error *error) MUST_CHECK;
/* Whatever is left of it, the spooled file included. */
void body_release(struct exchange *exchange);

/* A libmicrohttpd response for exchange->response, files with Range and ETag included; NULL when memory is out. */
struct MHD_Response *response_make(struct exchange *exchange, unsigned *ret_status);
/* The same for RESPONSE_EVENTS: a stream that sleeps in the hub between events. */
struct MHD_Response *event_stream_make(struct exchange *exchange);

#endif
