/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_write.h: JSON text straight into a buffer, for the answers that are asked for most. Commas come by themselves.
 *
 * `name` is the member's name, NULL in an array or at the top. Texts must be valid UTF-8. Whoever writes keeps brackets
 * paired; buf_check at the end tells whether all of it fitted.
 */
#ifndef WARPTUNE_API_JSON_WRITE_H
#define WARPTUNE_API_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/buf.h"

void write_object(struct buf *out, const char *name); /* "{", ended by write_end */
void write_array(struct buf *out, const char *name);
void write_end(struct buf *out, char bracket); /* '}' or ']' */

void write_text(struct buf *out, const char *name, const char *text); /* NULL: null */
void write_int(struct buf *out, const char *name, int64_t value);
void write_int_if(struct buf *out, const char *name, int64_t value, bool known); /* not known: null */
/* With three decimals; null when not finite. For times in µs and the like. */
void write_fixed(struct buf *out, const char *name, double value);
/* As many digits as it takes to read the same number back; null when not finite. */
void write_double(struct buf *out, const char *name, double value);
void write_bool(struct buf *out, const char *name, bool value);
void write_time(struct buf *out, const char *name, int64_t wall_us); /* RFC 3339; 0: null */
/* JSON text as it is; NULL: null. */
void write_raw(struct buf *out, const char *name, const char *json);
/* The members of an object's text, without its braces, into the object that is open. */
void write_members(struct buf *out, const char *json_object);

#endif
