/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h: bytes as text and back: RFC 4648's standard alphabet, with padding. */
#ifndef WARPTUNE_BASE_BASE64_H
#define WARPTUNE_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* What `len` bytes take as text, with the NUL. */
#define BASE64_TEXT(len) (((len) + 2) / 3 * 4 + 1)

/* `ret` has room for BASE64_TEXT(len). */
void base64_encode(const void *data, size_t len, char *ret);
/* The one text that base64_encode gives for some bytes, at most `size` of them; false for any other. */
bool base64_decode(const char *text, unsigned char *ret, size_t size, size_t *ret_len);

#endif
