/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fields.h: what the values of request headers say. Pure functions of the text, which a client chose: any bytes but
 * NUL.
 */
#ifndef WARPTUNE_API_FIELDS_H
#define WARPTUNE_API_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/error.h"

enum { IDEMPOTENCY_KEY_MOST = 255 };

struct field_range {
    int64_t first, len;
};

enum field_range_result { RANGE_NONE, RANGE_OK, RANGE_BAD };

/*
 * Range, for a file of so many bytes: a single `bytes=a-b`, `bytes=a-` or `bytes=-n`. RANGE_BAD: none of it is there.
 * Anything else, and NULL, counts as no range.
 */
enum field_range_result field_range(const char *value, int64_t bytes, struct field_range *ret);
/* Whether If-None-Match names the tag (quoted; weakly compared), or anything. Either may be NULL: no. */
bool field_names_tag(const char *value, const char *etag);
/* Last-Event-ID: *ret stays when it is NULL or empty. */
int field_event_id(const char *value, int64_t *ret, struct error *error) MUST_CHECK;
/* Whether it can be an Idempotency-Key. */
bool field_is_idempotency_key(const char *value);
/* Authorization: the token of the scheme Bearer, in `value`; NULL when it has another scheme, or not the form of one.
 */
const char *field_bearer(const char *value);

#endif
