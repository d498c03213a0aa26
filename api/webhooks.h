/* SPDX-License-Identifier: Apache-2.0 */
/* webhooks.h: what of a job's webhook is decided when it is submitted. Internal to api/. */
#ifndef WARPTUNE_API_WEBHOOKS_H
#define WARPTUNE_API_WEBHOOKS_H

#include "api/http.h"

/*
 * Refuses a URL that names a private address, unless the server allows those: ERROR_INVALID "private-address". Names
 * are looked up only when something is sent, and their addresses checked then (deliverer.h).
 */
int webhook_check_url(const struct request *request, const char *url, struct error *error) MUST_CHECK;

#endif
