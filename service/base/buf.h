/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf.h: a growable byte buffer that must be given a maximum.
 *
 * Appending never fails at once: past the maximum the buffer drops what is added and remembers that it did; the
 * caller asks once at the end with buf_check. Of the bytes that cross the maximum buf_append keeps those that fit
 * (buf_printf none); from then on nothing is added until buf_clear, so that what is kept is a start without holes.
 * Memory that is out counts as the maximum. The bytes are always followed by a NUL, so buf->data is a C string.
 */
#ifndef WARPTUNE_BASE_BUF_H
#define WARPTUNE_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct buf {
    char *data; /* NULL until the first append; use buf_str for a C string */
    size_t len, cap, max;
    bool overflowed;
};

#define BUF_INIT(maximum) \
    { NULL, 0, 0, (maximum), false }

void buf_init(struct buf *buf, size_t max);
void buf_append(struct buf *buf, const void *data, size_t len);
void buf_puts(struct buf *buf, const char *text);
void buf_putc(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(struct buf *buf, const char *format, va_list args);
/* Makes room for `len` more bytes, zeroed, and returns where to write them, or NULL past the maximum (and nothing of
 * it is kept); then buf->len += n. */
void *buf_reserve(struct buf *buf, size_t len);
const char *buf_str(const struct buf *buf); /* "" when empty; valid until the next change */
void buf_clear(struct buf *buf);            /* empties and forgets the overflow, keeps the memory */
void buf_release(struct buf *buf);          /* frees the memory; the buffer may be used again */
/* ERROR_LIMIT naming `what` when something was dropped. */
int buf_check(const struct buf *buf, const char *what, struct error *error) MUST_CHECK;

#endif
