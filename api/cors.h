/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cors.h: pages of which other origins may read the answers, and send requests that change something.
 *
 * Without origins no page of another origin may do either. Whoever is no browser sends no Origin and is not concerned.
 */
#ifndef WARPTUNE_API_CORS_H
#define WARPTUNE_API_CORS_H

#include <stdbool.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct cors;

/* What a page may send, and what it may see, beyond the headers that are always allowed. */
#define CORS_REQUEST_HEADERS \
    "Accept, Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Last-Event-ID, Range, traceparent"
#define CORS_RESPONSE_HEADERS                                                                                      \
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Idempotency-Replayed, Link, Location, Retry-After, " \
    "Warptune-Bad-Lines, Warptune-Records, X-Request-Id"
#define CORS_MAX_AGE_S "7200" /* how long a browser may remember a preflight's answer */

/*
 * `origins`: "https://dashboard.example, http://localhost:3000", or "*" for all; NULL or empty for none. ERROR_INVALID
 * for anything that is no origin: a scheme, a host, perhaps a port, and nothing after it.
 */
int cors_new(const char *origins, struct cors **ret, struct error *error) MUST_CHECK;
void cors_free(struct cors *cors); /* NULL-safe */

/* The value of Access-Control-Allow-Origin for this Origin; NULL: it may not read the answer. */
const char *cors_allow(const struct cors *cors, const char *origin);
/* Whether answers depend on Origin, which caches must be told. */
bool cors_varies(const struct cors *cors);
/*
 * Whether a request that changes something may come from a page of this origin: one that is allowed, or the server's
 * own, by its Host. A browser sends some such requests without asking first.
 */
bool cors_may_change(const struct cors *cors, const char *origin, const char *host);

#endif
