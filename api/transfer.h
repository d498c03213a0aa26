/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h: one attempt to deliver to a webhook, as a libcurl handle, and what came of it. Internal to the deliverer.
 */
#ifndef WARPTUNE_API_TRANSFER_H
#define WARPTUNE_API_TRANSFER_H

#include <stdbool.h>

#include <curl/curl.h>

#include "service/store/webhook_store.h"

struct transfer;

/* Signed as of now; `allow_private`: any address will do. Nothing of the delivery is borrowed. */
int transfer_new(const struct webhook_delivery *delivery, bool allow_private, struct transfer **ret,
                 struct error *error) MUST_CHECK;
CURL *transfer_handle(const struct transfer *transfer);
const struct webhook_lease *transfer_lease(const struct transfer *transfer);
/* How it ended, by libcurl's result; ret's text lives as long as the transfer. Gives its lease. */
const struct webhook_lease *transfer_result(struct transfer *transfer, CURLcode code, struct webhook_attempt *ret);
void transfer_free(struct transfer *transfer); /* taken out of its multi handle before; NULL-safe */

#endif
