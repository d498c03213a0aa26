/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_http.c: any text as what a client may write into the head of a request: its target, and the headers that are
 * read here and not by libmicrohttpd. The first byte of an input chooses which.
 *
 * Beyond not crashing: what is taken has the form that the headers of these functions promise, and what is refused says
 * why.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table of routes names the handlers, which are not wanted here: their addresses are null. */
#include "api/http.h"
#pragma clang attribute push(__attribute__((weak)), apply_to = function)
#include "api/handlers.h"
#pragma clang attribute pop

/* The fuzzers are built from the lower folders' sources; of api/ these files are wanted. */
#include "api/fields.c"
#include "api/negotiate.c"
#include "api/response.c"
#include "api/router.c"
#include "api/routes.c"
#include "api/trace.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

/* ---- the target ---- */

static void check_param(const char *param) {
    demand(*param && !strchr(param, '/') && strcmp(param, ".") != 0 && strcmp(param, "..") != 0,
           "a captured segment is one segment");
}

static void check_taken(const struct request *request) {
    const char *at = request->route->pattern;
    demand(request->route->method != NULL, "a route of the table");
    for (int n = 0; (at = strchr(at, '{')); at++, n++) {
        demand(n < REQUEST_MAX_PARAMS && request->params[n] != NULL, "each place in braces is captured");
        check_param(request->params[n]);
    }
    for (int i = 0; i < request->n_queries; i++) {
        demand(knows_query(request->route, request->queries[i].name), "queries are known");
        demand(is_utf8(request->queries[i].value), "queries are UTF-8");
        demand(request_query(request, request->queries[i].name) == request->queries[i].value, "and given once");
    }
}

static void check_refused(const struct error *error, const char *allow) {
    demand(error->code[0] && error->text[0], "a refusal says why");
    demand((allow != NULL) == (strcmp(error->code, "method-not-allowed") == 0), "Allow comes with that refusal alone");
}

/* A number is taken by its whole text or not at all. */
static void check_number(const struct request *request) {
    int64_t number;
    struct error error;
    const char *text = request_query(request, "after");
    if (!text || request_query_int(request, "after", 0, INT64_C(1) << 53, 0, &number, &error) < 0)
        return;
    demand(number >= 0 && number <= INT64_C(1) << 53, "a number is within its bounds");
    demand(strspn(text, "0123456789-") == strlen(text), "and has digits only");
}

static void fuzz_target(const char *method, const char *target) {
    struct arena *arena = arena_new(0);
    struct request request = {.arena = arena, .method = method};
    struct error error = {0};
    const char *allow = NULL;
    if (route_request(&request, target, &allow, &error) == 0) {
        check_taken(&request);
        check_number(&request);
    } else {
        check_refused(&error, allow);
    }
    demand(request.path != NULL, "there is always a path to show");
    arena_free(arena);
}

/* Whatever bytes a segment has: escaped, they come out as they were, or it is none that may be captured. */
static void fuzz_escapes(const char *text) {
    struct arena *arena = arena_new(0);
    struct buf target CLEANUP(buf_release) = BUF_INIT(1 << 24);
    struct request request = {.arena = arena, .method = "GET"};
    struct error error;
    const char *allow = NULL;
    buf_puts(&target, "/v1/jobs/");
    for (const char *c = text; *c; c++)
        buf_printf(&target, *c & 1 ? "%%%02x" : "%%%02X", (unsigned char)*c);
    bool may = *text && !strchr(text, '/') && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
    demand((route_request(&request, buf_str(&target), &allow, &error) == 0) == may, "it is taken when it may be");
    if (may)
        demand(strcmp(request.params[0], text) == 0, "and comes out as it was");
    arena_free(arena);
}

/* ---- headers ---- */

static void fuzz_accept(const char *value) {
    static const char makes[] = "application/json text/html";
    double json = negotiate_quality(value, makes, 16), html = negotiate_quality(value, makes + 17, 9);
    demand(json >= 0 && json <= 1 && html >= 0 && html <= 1, "a quality is from 0 to 1");
    demand(negotiate_accepts(value, makes) == (json > 0 || html > 0), "one that is wanted is enough");
    demand(negotiate_accepts(value, ""), "nothing at all is always right");
}

static void fuzz_trace(const char *value) {
    char id[TRACE_ID];
    if (!trace_read(value, id))
        return;
    demand(strspn(id, "0123456789abcdef") == TRACE_ID - 1 && id[TRACE_ID - 1] == 0, "a trace has 32 digits");
    demand(strspn(id, "0") < TRACE_ID - 1, "not all of them zero");
    demand(memcmp(id, value + 3, TRACE_ID - 1) == 0, "those of the header");
}

static void fuzz_range(const char *value) {
    static const int64_t sizes[] = {0, 1, 1000, INT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct field_range range;
        if (field_range(value, sizes[i], &range) == RANGE_OK)
            demand(range.first >= 0 && range.len > 0 && range.first <= sizes[i] - range.len,
                   "a range lies in the file");
    }
}

static void fuzz_tag(const char *value) {
    static const char tag[] = "\"0123\"";
    demand(field_names_tag(value, tag) == (strcmp(value, "*") == 0 || strstr(value, tag) != NULL), "tags are compared");
    demand(!field_names_tag(value, NULL), "no tag is none that is named");
}

static void fuzz_event_id(const char *value) {
    int64_t id = -1;
    struct error error = {0};
    size_t digits = strspn(value, "0123456789");
    bool may = !value[digits] && digits <= MOST_EVENT_DIGITS;
    demand((field_event_id(value, &id, &error) == 0) == may, "digits are taken, nothing else");
    demand(may ? (*value != 0) == (id >= 0) : error.text[0] != 0, "as a number; a refusal says why");
}

static void fuzz_key(const char *value) {
    bool may = *value && strlen(value) <= IDEMPOTENCY_KEY_MOST;
    for (const unsigned char *c = (const unsigned char *)value; *c; c++)
        may = may && *c >= ' ' && *c <= '~';
    demand(field_is_idempotency_key(value) == may, "printable characters, not too many");
}

static void fuzz_bearer(const char *value) {
    const char *token = field_bearer(value);
    if (!token)
        return;
    demand(token > value && token <= value + strlen(value) && secret_token_valid(token), "a token of the value's");
    demand(strncmp(token, "wt_", 3) == 0, "of our own form");
}

static void fuzz_get(const char *text) {
    fuzz_target("GET", text);
}

static void fuzz_post(const char *text) {
    fuzz_target("POST", text);
}

/* Everything that is not in the table is refused, OPTIONS included. */
static void fuzz_method(const char *text) {
    const char *space = strchr(text, ' ');
    struct arena *arena = arena_new(0);
    if (space)
        fuzz_target(arena_strndup(arena, text, (size_t)(space - text)), space + 1);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const parts[])(const char *text) = {fuzz_get,      fuzz_post,  fuzz_method, fuzz_escapes,
                                                      fuzz_accept,   fuzz_trace, fuzz_range,  fuzz_tag,
                                                      fuzz_event_id, fuzz_key,   fuzz_bearer};
    if (size == 0)
        return 0;
    struct arena *arena = arena_new(0);
    parts[(data[0] - (unsigned)'a') % ARRAY_COUNT(parts)](arena_strndup(arena, (const char *)data + 1, size - 1));
    arena_free(arena);
    return 0;
}
