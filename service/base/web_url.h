/* SPDX-License-Identifier: Apache-2.0 */
/* web_url.h: URLs that a client gives us to call, read by the library that will call them. */
#ifndef WARPTUNE_BASE_WEB_URL_H
#define WARPTUNE_BASE_WEB_URL_H

#include "service/base/attr.h"
#include "service/base/error.h"

enum { WEB_URL_MOST = 2048, WEB_URL_HOST = 256 };

/*
 * An http or https URL with a host and without a user or password, at most WEB_URL_MOST printable ASCII characters;
 * ret_host: the name, or the address in its usual form. ERROR_INVALID "bad-url" with `field` as its field.
 */
int web_url_check(const char *url, const char *field, char ret_host[WEB_URL_HOST], struct error *error) MUST_CHECK;

#endif
