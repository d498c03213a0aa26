/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: from a handler's response to libmicrohttpd's: files with ranges, validators, common headers. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/exchange.h"
#include "api/fields.h"

static struct MHD_Response *empty_response(void) {
    return MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
}

static struct MHD_Response *text_response(const struct response *response) {
    /* The text lives in the request's arena, which outlives the response. */
    return MHD_create_response_from_buffer(response->len, (void *)(uintptr_t)response->text, MHD_RESPMEM_PERSISTENT);
}

/* The file's own headers do not go with the problem, and its descriptor is closed with the request. */
static struct MHD_Response *bad_range(struct exchange *exchange, unsigned *status) {
    struct response *response = &exchange->response;
    struct request *request = &exchange->request;
    struct error error;
    error_set(&error, ERROR_INVALID, "range-not-satisfiable", MHD_HTTP_HEADER_RANGE, "There are only %lld bytes.",
              (long long)response->bytes);
    response->etag = NULL;
    response->n_headers = 0;
    response_problem(request, response, &error);
    response_header(request, response, MHD_HTTP_HEADER_CONTENT_RANGE,
                    arena_printf(request->arena, "bytes */%" PRId64, response->bytes));
    *status = (unsigned)response->status;
    return text_response(response);
}

static enum field_range_result asked_range(const struct exchange *exchange, struct field_range *ret) {
    const struct response *response = &exchange->response;
    const struct request *request = &exchange->request;
    const char *if_range = request_header(request, MHD_HTTP_HEADER_IF_RANGE);
    if (strcmp(request->method, MHD_HTTP_METHOD_GET) != 0 || response->status != 200 ||
        (if_range && (!response->etag || strcmp(if_range, response->etag) != 0)))
        return RANGE_NONE;
    return field_range(request_header(request, MHD_HTTP_HEADER_RANGE), response->bytes, ret);
}

static struct MHD_Response *file_response(struct exchange *exchange, unsigned *status) {
    struct response *response = &exchange->response;
    struct request *request = &exchange->request;
    struct field_range range = {0, response->bytes};
    enum field_range_result found = asked_range(exchange, &range);
    if (found == RANGE_BAD)
        return bad_range(exchange, status);
    response_header(request, response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    if (found == RANGE_OK) {
        *status = MHD_HTTP_PARTIAL_CONTENT;
        response_header(request, response, MHD_HTTP_HEADER_CONTENT_RANGE,
                        arena_printf(request->arena, "bytes %" PRId64 "-%" PRId64 "/%" PRId64, range.first,
                                     range.first + range.len - 1, response->bytes));
    }
    struct MHD_Response *made =
        MHD_create_response_from_fd_at_offset64((uint64_t)range.len, response->fd, (uint64_t)range.first);
    if (made)
        response->fd = -1; /* libmicrohttpd closes it */
    return made;
}

/* A page uses this server's scripts and styles, and talks to it alone; nobody frames it. A handler may set another. */
static const char page_policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                                  "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

static bool has_header(const struct response *response, const char *name) {
    for (int i = 0; i < response->n_headers; i++)
        if (strcasecmp(response->headers[i][0], name) == 0)
            return true;
    return false;
}

static void add_security(const struct response *response, struct MHD_Response *made) {
    MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(made, "Referrer-Policy", "no-referrer");
    /* What has a tag may be kept, but is asked for again before it is used: who may read it can change. */
    MHD_add_response_header(made, MHD_HTTP_HEADER_CACHE_CONTROL, response->etag ? "private, no-cache" : "no-store");
    if (response->content_type && strncmp(response->content_type, "text/html", 9) == 0 &&
        !has_header(response, "Content-Security-Policy"))
        MHD_add_response_header(made, "Content-Security-Policy", page_policy);
}

/* What lets pages of other origins read the answer, and on OPTIONS what they may ask for. */
static void add_cors(const struct exchange *exchange, struct MHD_Response *made) {
    const struct cors *cors = server_cors(exchange->server);
    const struct request *request = &exchange->request;
    const char *allowed = cors_allow(cors, request_header(request, MHD_HTTP_HEADER_ORIGIN));
    if (cors_varies(cors))
        MHD_add_response_header(made, MHD_HTTP_HEADER_VARY, "Origin");
    if (!allowed)
        return;
    MHD_add_response_header(made, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    MHD_add_response_header(made, "Access-Control-Expose-Headers", CORS_RESPONSE_HEADERS);
    if (!exchange->allow || !request_header(request, "Access-Control-Request-Method"))
        return;
    MHD_add_response_header(made, "Access-Control-Allow-Methods", exchange->allow);
    MHD_add_response_header(made, "Access-Control-Allow-Headers", CORS_REQUEST_HEADERS);
    MHD_add_response_header(made, "Access-Control-Max-Age", CORS_MAX_AGE_S);
}

/* libmicrohttpd ends the chunks that it has not sent then, which the next answer on the connection would begin with. */
static bool is_head_of_stream(const struct exchange *exchange) {
    return exchange->response.kind == RESPONSE_EVENTS && strcmp(exchange->request.method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* The connection is closed while draining, so that the client's next request finds another server. */
static void add_headers(struct exchange *exchange, struct MHD_Response *made) {
    struct response *response = &exchange->response;
    if (response->content_type)
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response->content_type);
    if (response->etag)
        MHD_add_response_header(made, MHD_HTTP_HEADER_ETAG, response->etag);
    for (int i = 0; i < response->n_headers; i++)
        MHD_add_response_header(made, response->headers[i][0], response->headers[i][1]);
    MHD_add_response_header(made, "X-Request-Id", exchange->request.id);
    if (hub_draining(server_api(exchange->server)->hub) || is_head_of_stream(exchange))
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONNECTION, "close");
    add_security(response, made);
    add_cors(exchange, made);
}

struct MHD_Response *response_make(struct exchange *exchange, unsigned *ret_status) {
    struct response *response = &exchange->response;
    struct MHD_Response *made = NULL;
    unsigned status = (unsigned)response->status;
    if (status == 200 &&
        field_names_tag(request_header(&exchange->request, MHD_HTTP_HEADER_IF_NONE_MATCH), response->etag)) {
        status = MHD_HTTP_NOT_MODIFIED;
        made = empty_response();
    } else if (response->kind == RESPONSE_FILE) {
        made = file_response(exchange, &status);
    } else if (response->kind == RESPONSE_EVENTS) {
        made = event_stream_make(exchange);
    } else {
        made = text_response(response);
    }
    if (made)
        add_headers(exchange, made);
    *ret_status = status;
    return made;
}
