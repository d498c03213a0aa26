/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/http.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/json.h"

const char *request_query(const struct request *request, const char *name) {
    for (int i = 0; i < request->n_queries; i++)
        if (strcmp(request->queries[i].name, name) == 0)
            return request->queries[i].value;
    return NULL;
}

int request_query_int(const struct request *request, const char *name, int64_t min, int64_t max, int64_t fallback,
                      int64_t *ret, struct error *error) {
    const char *text = request_query(request, name);
    *ret = fallback;
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    bool has_digits = text[0] == '-' || (text[0] >= '0' && text[0] <= '9'); /* strtoll takes spaces and '+', too */
    if (!has_digits || end == text || *end || errno || number < min || number > max)
        return error_set(error, ERROR_INVALID, "bad-query", name,
                         "'%s' is '%.40s', but must be a whole number from %lld to %lld.", name, text, (long long)min,
                         (long long)max);
    *ret = number;
    return 0;
}

void response_text(struct request *request, struct response *ret, int status, const char *content_type,
                   const char *text, size_t len) {
    (void)request;
    ret->kind = RESPONSE_TEXT;
    ret->status = status;
    ret->content_type = content_type;
    ret->text = text;
    ret->len = len;
}

static void release_buf(void *data) {
    buf_release(data);
}

struct buf *request_buf(struct request *request, size_t max) {
    struct buf *buf = arena_alloc(request->arena, sizeof *buf);
    buf_init(buf, max);
    arena_defer(request->arena, release_buf, buf);
    return buf;
}

int response_written(struct request *request, struct response *ret, int status, struct buf *json, struct error *error) {
    if (buf_check(json, "the answer", error) < 0) {
        error->class = ERROR_INTERNAL; /* the request was right: it is we who cannot say so much at once */
        return -1;
    }
    response_text(request, ret, status, "application/json", buf_str(json), json->len);
    return 0;
}

void response_json(struct request *request, struct response *ret, int status, struct json_object *value) {
    size_t len;
    const char *text = json_text(value, &len);
    response_text(request, ret, status, "application/json", arena_strndup(request->arena, text, len), len);
    json_object_put(value);
}

void response_header(struct request *request, struct response *ret, const char *name, const char *value) {
    if (ret->n_headers == RESPONSE_MAX_HEADERS)
        return;
    ret->headers[ret->n_headers][0] = name;
    ret->headers[ret->n_headers++][1] = arena_strdup(request->arena, value);
}

int problem_status(const struct error *error) {
    static const int by_class[] = {
        [ERROR_INVALID] = 400, [ERROR_NOT_FOUND] = 404, [ERROR_CONFLICT] = 409, [ERROR_LIMIT] = 413,
        [ERROR_AUTH] = 403,    [ERROR_BUSY] = 503,      [ERROR_TIMEOUT] = 504,  [ERROR_CANCELLED] = 503,
        [ERROR_IO] = 500,      [ERROR_DB] = 503,        [ERROR_DEVICE] = 500,   [ERROR_INTERNAL] = 500,
    };
    static const struct {
        const char *code;
        int status;
    } by_code[] = {{"token-missing", 401},         {"token-invalid", 401},          {"quota-open-jobs", 429},
                   {"quota-gpu-seconds", 429},     {"method-not-allowed", 405},     {"unsupported-media-type", 415},
                   {"length-required", 411},       {"not-acceptable", 406},         {"too-many-jobs", 429},
                   {"range-not-satisfiable", 416}, {"request-timeout", 408},        {"job-failed", 424},
                   {"job-cancelled", 424},         {"idempotency-key-reused", 422}, {DISK_FULL, 507}};
    for (size_t i = 0; i < ARRAY_COUNT(by_code); i++)
        if (strcmp(by_code[i].code, error->code) == 0)
            return by_code[i].status;
    if (error->class == ERROR_NONE || (size_t)error->class >= ARRAY_COUNT(by_class))
        return 500;
    return by_class[error->class];
}

/* "unsupported-operator" as "Unsupported operator". */
static const char *title_of(struct arena *arena, const char *code) {
    char *title = arena_strdup(arena, *code ? code : "error");
    for (char *c = title; *c; c++)
        if (*c == '-')
            *c = ' ';
    if (title[0] >= 'a' && title[0] <= 'z')
        title[0] = (char)(title[0] - 'a' + 'A');
    return title;
}

/* In how many seconds the same request may be answered otherwise. */
static const char *retry_after(struct arena *arena, const char *code) {
    if (strcmp(code, "quota-gpu-seconds") == 0) /* at midnight, UTC */
        return arena_printf(arena, "%lld", (long long)(86400 - clock_wall_us() / 1000000 % 86400));
    return strcmp(code, "quota-open-jobs") == 0 ? "30" : "1";
}

void response_problem(struct request *request, struct response *ret, const struct error *error) {
    int status = problem_status(error);
    struct json_object *problem = json_object_new_object();
    json_add_string(problem, "type",
                    arena_printf(request->arena, "urn:warptune:problem:%s", *error->code ? error->code : "error"));
    json_add_string(problem, "title", title_of(request->arena, error->code));
    json_add_int(problem, "status", status);
    json_add_string(problem, "detail", error->text);
    bool lacks_scope = strcmp(error->code, "scope-missing") == 0;
    if (*error->field)
        json_add_string(problem, lacks_scope ? "scope" : "field", error->field);
    json_add_string(problem, "request_id", request->id);
    response_json(request, ret, status, problem);
    ret->content_type = "application/problem+json";
    if (status == 503 || status == 429 || strcmp(error->code, "idempotency-in-progress") == 0)
        response_header(request, ret, "Retry-After", retry_after(request->arena, error->code));
    if (status == 401)
        response_header(request, ret, "WWW-Authenticate",
                        strcmp(error->code, "token-missing") == 0
                            ? "Bearer realm=\"warptune\""
                            : "Bearer realm=\"warptune\", error=\"invalid_token\"");
    if (lacks_scope)
        response_header(request, ret, "WWW-Authenticate",
                        arena_printf(request->arena,
                                     "Bearer realm=\"warptune\", error=\"insufficient_scope\", scope=\"%s\"",
                                     error->field));
}
