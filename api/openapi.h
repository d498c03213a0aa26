/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openapi.h: the OpenAPI 3.1 document of the interface: api/openapi/ holds it in pieces, embedded in the program and
 * put together once when the server starts.
 *
 * The pieces are fragments of the document, merged member by member; a route is one block under `paths`. What the table
 * of routes says is not written twice: an operation's summary, and the statuses that every route of its kind can answer
 * (400, 403, 404, 406, 411, 413, 415, 500, 503), come from there.
 */
#ifndef WARPTUNE_API_OPENAPI_H
#define WARPTUNE_API_OPENAPI_H

#include "service/base/arena.h"
#include "service/base/error.h"

struct json_object;

struct openapi_piece {
    const char *name, *text;
};

/* Made from the folder by embed.sh; the last has no name. */
extern const struct openapi_piece openapi_pieces[];

/* The whole document; the caller releases it. ERROR_INTERNAL when the pieces contradict each other. */
int openapi_make(struct json_object **ret, struct error *error) MUST_CHECK;

/* What GET /openapi.json answers with. */
struct openapi {
    char *text;
    size_t len;
    char etag[80];
};

int openapi_new(struct openapi **ret, struct error *error) MUST_CHECK;
void openapi_free(struct openapi *openapi); /* NULL-safe */

#endif
