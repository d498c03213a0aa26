/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h: who sent a request, and to which host.
 *
 * A proxy in front says both in X-Forwarded-For and X-Forwarded-Host, of which the last entry is its own; any client
 * can send the same, so they count only where the setting trust-proxy says that there is a proxy. Internal to api/.
 */
#ifndef WARPTUNE_API_PEER_H
#define WARPTUNE_API_PEER_H

#include "api/exchange.h"

#define PEER_ADDRESS 46 /* an IPv6 address in text */

/* The client's address; empty when it has none. */
void peer_address(const struct exchange *exchange, char ret[PEER_ADDRESS]);
/* The host, perhaps with a port, as the client named it; NULL when it did not. */
const char *peer_host(const struct exchange *exchange);

#endif
