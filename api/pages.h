/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h: lists that come in pages: `cursor` and `limit` in, `next` and a Link header out. */
#ifndef WARPTUNE_API_PAGES_H
#define WARPTUNE_API_PAGES_H

#include "api/http.h"

enum { PAGE_DEFAULT = 50, PAGE_MOST = 500 };

/* The query parameters; *ret_cursor NULL: from the start, as for an empty one. */
int page_read(const struct request *request, const char **ret_cursor, int *ret_limit, struct error *error) MUST_CHECK;
/*
 * Ends the list that `json` is in the middle of ({"models":[…): the bracket, `next` (NULL: the last page) and the
 * object's brace; with a Link to the next page, which has all other query parameters as they were.
 */
int response_page(struct request *request, struct response *ret, struct buf *json, const char *next,
                  struct error *error) MUST_CHECK;

#endif
