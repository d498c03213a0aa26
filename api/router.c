/* SPDX-License-Identifier: Apache-2.0 */
#include "api/router.h"

#include <string.h>

#include "service/base/utf8.h"

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes `len` bytes into the arena; NULL for a bad escape or an encoded NUL. */
static char *decode(struct arena *arena, const char *text, size_t len, bool plus_is_space) {
    char *out = arena_alloc(arena, len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_digit(text[i + 1]) : -1, low = i + 2 < len ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return NULL;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[n++] = c;
    }
    return out;
}

/* Moves past one segment of a path and gives it, without its slash. */
static const char *next_segment(const char **path, size_t *ret_len) {
    const char *start = *path + 1;
    *ret_len = strcspn(start, "/");
    *path = start + *ret_len;
    return start;
}

/* Whether the path matches the pattern; captured segments go to request->params. */
static bool match(struct request *request, const char *pattern, const char *path) {
    int n_params = 0;
    while (*pattern == '/' && *path == '/') {
        size_t pattern_len, path_len;
        const char *want = next_segment(&pattern, &pattern_len), *have = next_segment(&path, &path_len);
        if (want[0] == '{') {
            char *value = decode(request->arena, have, path_len, false);
            if (!value || !*value || strchr(value, '/') || strcmp(value, ".") == 0 || strcmp(value, "..") == 0)
                return false;
            request->params[n_params++] = value;
        } else if (pattern_len != path_len || memcmp(want, have, path_len) != 0) {
            return false;
        }
    }
    return !*pattern && !*path;
}

/* HEAD is answered by the handler of GET, OPTIONS by the server. */
static bool method_matches(const char *route_method, const char *method) {
    return strcmp(route_method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route_method, "GET") == 0);
}

static bool knows_query(const struct route *route, const char *name) {
    size_t len = strlen(name);
    for (const char *at = route->queries; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, len) == 0 && (at[len] == ' ' || at[len] == 0))
            return true;
    return false;
}

static bool is_utf8(const char *text) {
    size_t len = strlen(text), n;
    for (; len; text += n, len -= n) {
        n = utf8_sequence(text, len);
        if (n == 0)
            return false;
    }
    return true;
}

static int parse_queries(struct request *request, const char *text, struct error *error) {
    while (*text) {
        size_t len = strcspn(text, "&"), name_len = strcspn(text, "=&");
        const char *value = text + name_len + (text[name_len] == '=');
        size_t value_len = (size_t)(text + len - value);
        if (request->n_queries == REQUEST_MAX_QUERIES)
            return error_set(error, ERROR_INVALID, "too-many-queries", NULL, "At most %d query parameters are read.",
                             REQUEST_MAX_QUERIES);
        char *name = decode(request->arena, text, name_len, true),
             *decoded = decode(request->arena, value, value_len, true);
        if (!name || !decoded || !is_utf8(name) || !is_utf8(decoded))
            return error_set(error, ERROR_INVALID, "bad-query", NULL,
                             "The query string has a bad percent escape, or is not UTF-8.");
        if (!knows_query(request->route, name))
            return error_set(error, ERROR_INVALID, "unknown-query", name,
                             "There is no query parameter '%.60s' here. Known: %s.", name,
                             request->route->queries ? request->route->queries : "none");
        if (request_query(request, name))
            return error_set(error, ERROR_INVALID, "repeated-query", name, "'%.60s' is given twice.", name);
        request->queries[request->n_queries].name = name;
        request->queries[request->n_queries++].value = decoded;
        text += len + (text[len] == '&');
    }
    return 0;
}

int route_request(struct request *request, const char *target, const char **ret_allow, struct error *error) {
    size_t path_len = strcspn(target, "?");
    const char *path = arena_strndup(request->arena, target, path_len);
    const char *shown = decode(request->arena, path, path_len, false);
    const char *allow = NULL;
    request->path = shown ? shown : path;
    if (!shown || path[0] != '/')
        return error_set(error, ERROR_INVALID, "bad-path", NULL, "The path is malformed.");
    for (const struct route *route = routes; route->method; route++) {
        if (!match(request, route->pattern, path))
            continue;
        if (method_matches(route->method, request->method)) {
            request->route = route;
            return target[path_len] ? parse_queries(request, target + path_len + 1, error) : 0;
        }
        bool get = strcmp(route->method, "GET") == 0;
        allow = arena_printf(request->arena, "%s%s%s%s", allow ? allow : "", allow ? ", " : "", route->method,
                             get ? ", HEAD" : "");
    }
    if (allow)
        allow = arena_printf(request->arena, "%s, OPTIONS", allow);
    *ret_allow = allow;
    if (allow)
        return error_set(error, ERROR_CONFLICT, "method-not-allowed", NULL, "%.200s does not take %.20s; it takes %s.",
                         request->path, request->method, allow);
    return error_set(error, ERROR_NOT_FOUND, "no-such-route", NULL, "There is nothing at %.200s.", request->path);
}
