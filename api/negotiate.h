/* SPDX-License-Identifier: Apache-2.0 */
/* negotiate.h: whether a client takes what a route makes: the Accept header against media types. */
#ifndef WARPTUNE_API_NEGOTIATE_H
#define WARPTUNE_API_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * How much an Accept header wants a media type (of `type_len` bytes, without parameters), from 0, not at all, to 1: of
 * the ranges that match the type the most specific one's q decides. No header, and one without any range, wants
 * everything. Parameters other than q are not looked at.
 */
double negotiate_quality(const char *accept, const char *type, size_t type_len);
/* Whether it wants one of the media types `makes`, which are separated by spaces; none at all is always right. */
bool negotiate_accepts(const char *accept, const char *makes);

#endif
