/* SPDX-License-Identifier: Apache-2.0 */
/* negotiate.h: whether a client takes what a route makes: the Accept header against media types. */
#ifndef WARPTUNE_API_NEGOTIATE_H
#define WARPTUNE_API_NEGOTIATE_H

#include <stdbool.h>

/*
 * Whether one of the media types `makes` (separated by spaces, without parameters) is acceptable by an Accept header:
 * of the ranges that match a type the most specific one decides, and q=0 refuses. No header, and one without any range,
 * accept everything. Parameters other than q are not looked at.
 */
bool negotiate_accepts(const char *accept, const char *makes);

#endif
