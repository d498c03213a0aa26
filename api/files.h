/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: answers that come from files: stored blobs, and text too long for memory, written to a file first. */
#ifndef WARPTUNE_API_FILES_H
#define WARPTUNE_API_FILES_H

#include "api/http.h"

/*
 * A blob as the answer, with its hash as ETag and `file_name` (made safe) for whoever saves it. Fetches it from the
 * database when the cache lacks it, so only for slow routes.
 */
int response_blob(struct request *request, struct response *ret, const char *sha256, const char *content_type,
                  const char *file_name, struct error *error) MUST_CHECK;

/* A text in the making: append to `text`, and call text_file_flush after each piece. */
struct text_file {
    struct buf text; /* what is not yet written */
    int fd;          /* of a file without a name */
};

int text_file_open(struct request *request, struct text_file *ret, struct error *error) MUST_CHECK;
int text_file_flush(struct text_file *file, struct error *error) MUST_CHECK;
/* The whole text as the answer. */
int response_text_file(struct response *ret, struct text_file *file, const char *content_type,
                       struct error *error) MUST_CHECK;
void text_file_release(struct text_file *file); /* for CLEANUP: what no answer took is dropped */

#endif
