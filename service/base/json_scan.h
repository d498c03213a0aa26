/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h: says whether a text is JSON as we take it; json_parse asks it before json-c sees a byte.
 *
 * RFC 8259 to the letter, and past it: arrays and objects at most JSON_MAX_DEPTH deep, no key twice in an object
 * (compared after unescaping), valid UTF-8, no \u0000, no lone surrogates, integers within ±2^53, other numbers
 * finite, no number longer than JSON_MAX_NUMBER characters. Nothing is read past `len`, nothing kept.
 */
#ifndef WARPTUNE_BASE_JSON_SCAN_H
#define WARPTUNE_BASE_JSON_SCAN_H

#include <stddef.h>

#include "service/base/attr.h"
#include "service/base/error.h"

enum { JSON_MAX_DEPTH = 32, JSON_MAX_NUMBER = 128 };

/* ERROR_INVALID with the line and column, and for a key that comes twice its name as the field. */
int json_scan(const char *text, size_t len, struct error *error) MUST_CHECK;

#endif
