/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h: the socket that a server listens on, from an address in words. */
#ifndef WARPTUNE_API_LISTEN_H
#define WARPTUNE_API_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "service/base/attr.h"
#include "service/base/error.h"

/* HOST:PORT or [HOST]:PORT; port 0 takes a free one. ERROR_INVALID for other text, ERROR_IO when it is taken. */
int listen_open(const char *address, int *ret_fd, struct error *error) MUST_CHECK;
/* Whether only this host can reach the address or, above 0, the socket `adopted` from elsewhere. */
int listen_is_loopback(const char *address, int adopted, bool *ret, struct error *error) MUST_CHECK;
/* A socket that somebody else opened: ERROR_INVALID unless it takes connections. It is made non-blocking. */
int listen_adopt(int fd, struct error *error) MUST_CHECK;
/* "http://127.0.0.1:8080", with the port that was taken. */
void listen_url(const char *scheme, int fd, char *ret, size_t size);

#endif
