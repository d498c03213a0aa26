/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.h: where the server of a data folder listens, for others on this host: DIR/server.url, which the server
 * keeps locked for as long as it serves. One that was killed leaves the file, but not the lock.
 */
#ifndef WARPTUNE_ANNOUNCE_H
#define WARPTUNE_ANNOUNCE_H

#include <stdbool.h>
#include <stddef.h>

#include "service/base/attr.h"
#include "service/base/error.h"

/* *ret_fd holds the lock: closing it takes the announcement back. */
int announce_server(const char *data_dir, const char *url, int *ret_fd, struct error *error) MUST_CHECK;
/* The URL of the server that runs on the folder; false when none does that we may know of. */
bool announce_find(const char *data_dir, char *ret_url, size_t size);

#endif
