/* SPDX-License-Identifier: Apache-2.0 */
/* uuid.h: identifiers of rows: UUIDs of version 7 (RFC 9562), so that later ones sort after earlier ones. */
#ifndef WARPTUNE_STORE_UUID_H
#define WARPTUNE_STORE_UUID_H

#include <stdbool.h>

#define UUID_TEXT 37 /* 36 characters and a NUL */

/* Lower-case text; milliseconds of the wall clock, then 74 random bits. Thread-safe. */
void uuid_make(char ret_text[UUID_TEXT]);
/* Whether a client's text has the form, in lower case, that uuid_make gives. NULL has not. */
bool uuid_valid(const char *text);

#endif
