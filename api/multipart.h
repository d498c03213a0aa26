/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart.h: multipart/form-data as it arrives, in pieces of any size, without holding more than a boundary's length.
 *
 * Hands on the bytes of one named field; other fields are read over. Malformed input is ERROR_INVALID.
 */
#ifndef WARPTUNE_API_MULTIPART_H
#define WARPTUNE_API_MULTIPART_H

#include <stddef.h>

#include "service/base/error.h"

struct multipart;

typedef int multipart_sink(void *data, const char *bytes, size_t len, struct error *error);

/* From the request's Content-Type ("multipart/form-data; boundary=…"); bytes of field `name` go to the sink. */
int multipart_new(const char *content_type, const char *name, multipart_sink *sink, void *data, struct multipart **ret,
                  struct error *error) MUST_CHECK;
int multipart_add(struct multipart *multipart, const char *bytes, size_t len, struct error *error) MUST_CHECK;
/* ERROR_INVALID when the closing boundary did not come, or the field was never there. */
int multipart_end(struct multipart *multipart, struct error *error) MUST_CHECK;
void multipart_free(struct multipart *multipart); /* NULL-safe */

#endif
