/* SPDX-License-Identifier: Apache-2.0 */
/* reply.c: from a handler's response to libmicrohttpd's: files with ranges, validators, common headers. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/exchange.h"

struct range {
    int64_t first, len;
};

enum range_result { RANGE_NONE, RANGE_OK, RANGE_BAD };

static bool parse_number(const char **text, int64_t *ret) {
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *ret = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* A single `bytes=a-b`, `bytes=a-` or `bytes=-n` of a file; anything else that is well-formed counts as no range. */
static enum range_result parse_range(const char *text, int64_t bytes, struct range *ret) {
    int64_t first = 0, last = bytes - 1;
    if (!text || strncmp(text, "bytes=", 6) != 0)
        return RANGE_NONE;
    text += 6;
    if (*text == '-') {
        int64_t tail;
        text++;
        if (!parse_number(&text, &tail) || *text)
            return RANGE_NONE;
        if (tail == 0)
            return RANGE_BAD;
        first = tail < bytes ? bytes - tail : 0;
    } else {
        if (!parse_number(&text, &first) || *text++ != '-')
            return RANGE_NONE;
        if (*text && (!parse_number(&text, &last) || *text || last < first))
            return RANGE_NONE;
    }
    if (first >= bytes)
        return RANGE_BAD;
    if (last >= bytes)
        last = bytes - 1;
    *ret = (struct range){first, last - first + 1};
    return RANGE_OK;
}

/* Whether If-None-Match names the tag (weakly compared), or anything. */
static bool matches_tag(const char *header, const char *etag) {
    return header && etag && (strcmp(header, "*") == 0 || strstr(header, etag) != NULL);
}

static struct MHD_Response *empty_response(void) {
    return MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
}

static struct MHD_Response *file_response(struct exchange *exchange, unsigned *status) {
    struct response *response = &exchange->response;
    struct request *request = &exchange->request;
    struct range range = {0, response->bytes};
    enum range_result found = RANGE_NONE;
    const char *if_range = request_header(request, MHD_HTTP_HEADER_IF_RANGE);
    if (!if_range || (response->etag && strcmp(if_range, response->etag) == 0))
        found = parse_range(request_header(request, MHD_HTTP_HEADER_RANGE), response->bytes, &range);
    response_header(request, response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    if (found == RANGE_BAD) {
        *status = MHD_HTTP_RANGE_NOT_SATISFIABLE;
        response_header(request, response, MHD_HTTP_HEADER_CONTENT_RANGE,
                        arena_printf(request->arena, "bytes */%" PRId64, response->bytes));
        return empty_response();
    }
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

static void add_headers(struct exchange *exchange, struct MHD_Response *made) {
    struct response *response = &exchange->response;
    if (response->content_type)
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, response->content_type);
    if (response->etag)
        MHD_add_response_header(made, MHD_HTTP_HEADER_ETAG, response->etag);
    for (int i = 0; i < response->n_headers; i++)
        MHD_add_response_header(made, response->headers[i][0], response->headers[i][1]);
    MHD_add_response_header(made, "X-Request-Id", exchange->request.id);
    MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
    if (!response->etag)
        MHD_add_response_header(made, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}

struct MHD_Response *response_make(struct exchange *exchange, unsigned *ret_status) {
    struct response *response = &exchange->response;
    struct MHD_Response *made = NULL;
    unsigned status = (unsigned)response->status;
    if (status == 200 &&
        matches_tag(request_header(&exchange->request, MHD_HTTP_HEADER_IF_NONE_MATCH), response->etag)) {
        status = MHD_HTTP_NOT_MODIFIED;
        made = empty_response();
    } else if (response->kind == RESPONSE_FILE) {
        made = file_response(exchange, &status);
    } else if (response->kind == RESPONSE_EVENTS) {
        made = event_stream_make(exchange);
    } else {
        /* The text lives in the request's arena, which outlives the response. */
        made =
            MHD_create_response_from_buffer(response->len, (void *)(uintptr_t)response->text, MHD_RESPMEM_PERSISTENT);
    }
    if (made)
        add_headers(exchange, made);
    *ret_status = status;
    return made;
}
