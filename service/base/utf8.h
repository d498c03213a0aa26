/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h: which bytes are UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing past U+10FFFF.
 */
#ifndef WARPTUNE_BASE_UTF8_H
#define WARPTUNE_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the sequence that `text` starts with, 1 to 4; 0 when it is not valid or is cut off by `len`. */
size_t utf8_sequence(const char *text, size_t len);
/* Makes a C string valid in place: a sequence cut off at the end goes away, any other bad byte becomes '?'. */
void utf8_scrub(char *text);

#endif
