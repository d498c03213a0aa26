/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h: which network addresses are out in the world. A server that connects where its clients tell it to must not
 * reach what only it can reach: itself, its private network, the cloud's metadata service.
 */
#ifndef WARPTUNE_BASE_ADDRESS_H
#define WARPTUNE_BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * Whether it is a global unicast address of IPv4 or IPv6. Private, loopback, link-local, shared, multicast, reserved,
 * documentation and unspecified ones are not; IPv6 addresses that carry one of IPv4 count as that one.
 */
bool address_is_public(const struct sockaddr *address);
/* An address in numbers ("10.0.0.1", "::1", "[::1]"); false for a name. */
bool address_parse(const char *text, struct sockaddr_storage *ret);

#endif
