/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cors.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/base/arena.h"

enum { MOST_ORIGINS = 64 };

struct cors {
    struct arena *arena;
    bool all;
    const char *origins[MOST_ORIGINS];
    int n_origins;
};

/* What follows "https://"; NULL when `origin` has no such start. */
static const char *host_of(const char *origin) {
    const char *separator = strstr(origin, "://");
    return separator && separator > origin ? separator + 3 : NULL;
}

static bool is_origin(const char *text) {
    const char *host = host_of(text);
    if (!host || !*host)
        return false;
    for (const char *c = text; c < host - 3; c++)
        if (!isalnum((unsigned char)*c) && !strchr("+-.", *c))
            return false;
    for (const char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-._:[]", *c))
            return false;
    return true;
}

static int add(struct cors *cors, const char *text, size_t len, struct error *error) {
    const char *origin = arena_strndup(cors->arena, text, len);
    if (strcmp(origin, "*") == 0) {
        cors->all = true;
        return 0;
    }
    if (!is_origin(origin))
        return error_set(error, ERROR_INVALID, "bad-origin", "cors-origins",
                         "'%.100s' is no origin: write https://HOST or http://HOST:PORT, without a path, or *.",
                         origin);
    if (cors->n_origins == MOST_ORIGINS)
        return error_set(error, ERROR_INVALID, "too-many-origins", "cors-origins", "At most %d origins may be named.",
                         MOST_ORIGINS);
    cors->origins[cors->n_origins++] = origin;
    return 0;
}

int cors_new(const char *origins, struct cors **ret, struct error *error) {
    struct cors *cors = calloc(1, sizeof *cors);
    if (!cors)
        abort();
    cors->arena = arena_new(0);
    for (const char *at = origins ? origins : ""; *(at += strspn(at, ", \t"));) {
        size_t len = strcspn(at, ", \t");
        if (add(cors, at, len, error) < 0) {
            cors_free(cors);
            return -1;
        }
        at += len;
    }
    *ret = cors;
    return 0;
}

void cors_free(struct cors *cors) {
    if (!cors)
        return;
    arena_free(cors->arena);
    free(cors);
}

const char *cors_allow(const struct cors *cors, const char *origin) {
    if (!origin || cors->all)
        return origin ? "*" : NULL;
    for (int i = 0; i < cors->n_origins; i++)
        if (strcasecmp(cors->origins[i], origin) == 0)
            return origin;
    return NULL;
}

bool cors_varies(const struct cors *cors) {
    return cors->n_origins > 0 && !cors->all;
}

bool cors_may_change(const struct cors *cors, const char *origin, const char *host) {
    if (!origin || cors_allow(cors, origin))
        return true;
    const char *own = host_of(origin);
    return own && host && strcasecmp(own, host) == 0;
}
