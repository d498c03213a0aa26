/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

void buf_init(struct buf *buf, size_t max) {
    *buf = (struct buf)BUF_INIT(max);
}

/* Makes the capacity at least len + more + 1; false, and overflowed, past the maximum or when memory is out. */
static bool grow(struct buf *buf, size_t more) {
    if (buf->overflowed || buf->max < buf->len || more > buf->max - buf->len || more >= SIZE_MAX - buf->len) {
        buf->overflowed = true;
        return false;
    }
    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return true;
    size_t cap = buf->cap > buf->max / 2 ? buf->max + 1 : buf->cap * 2;
    cap = cap < FIRST_CAPACITY ? FIRST_CAPACITY : cap;
    cap = cap < need ? need : cap;
    char *data = realloc(buf->data, cap);
    if (!data) {
        buf->overflowed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

void buf_append(struct buf *buf, const void *data, size_t len) {
    if (buf->overflowed || len == 0)
        return;
    size_t room = buf->max > buf->len ? buf->max - buf->len : 0, fits = len < room ? len : room;
    if (fits > 0 && grow(buf, fits)) {
        memcpy(buf->data + buf->len, data, fits);
        buf->len += fits;
        buf->data[buf->len] = '\0';
    }
    if (fits < len)
        buf->overflowed = true;
}

void buf_puts(struct buf *buf, const char *text) {
    buf_append(buf, text, strlen(text));
}

void buf_putc(struct buf *buf, char c) {
    buf_append(buf, &c, 1);
}

void buf_vprintf(struct buf *buf, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len > 0 && grow(buf, (size_t)len)) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void buf_printf(struct buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buf_vprintf(buf, format, args);
    va_end(args);
}

void *buf_reserve(struct buf *buf, size_t len) {
    if (!grow(buf, len))
        return NULL;
    return memset(buf->data + buf->len, 0, len + 1);
}

const char *buf_str(const struct buf *buf) {
    return buf->data ? buf->data : "";
}

void buf_clear(struct buf *buf) {
    buf->len = 0;
    buf->overflowed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

void buf_release(struct buf *buf) {
    free(buf->data);
    buf_init(buf, buf->max);
}

int buf_check(const struct buf *buf, const char *what, struct error *error) {
    if (!buf->overflowed)
        return 0;
    return error_set(error, ERROR_LIMIT, "too-large", NULL, "%s is larger than %zu bytes, the most that is allowed.",
                     what, buf->max);
}
