/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.h: from the raw request target to a row of the route table.
 *
 * Works on the bytes as sent, segment by segment, so that an encoded slash or NUL never becomes part of a path: each
 * segment is percent-decoded by itself, and one that then holds '/', NUL, "." or ".." matches nothing.
 */
#ifndef WARPTUNE_API_ROUTER_H
#define WARPTUNE_API_ROUTER_H

#include "api/http.h"

/*
 * Fills request->route, params, queries and path from `target` ("/v1/jobs/x?wait=5") and request->method.
 * ERROR_NOT_FOUND; ERROR_INVALID for a malformed target or unknown query parameter; when only the method is wrong,
 * ERROR_CONFLICT with code "method-not-allowed" and *ret_allow listing the methods.
 */
int route_request(struct request *request, const char *target, const char **ret_allow, struct error *error) MUST_CHECK;

#endif
