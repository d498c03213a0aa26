/* SPDX-License-Identifier: Apache-2.0 */
/*
 * systemd.h: what a service and systemd tell each other: sd_notify's datagrams, the watchdog, sockets that it opened.
 *
 * Without systemd the environment says nothing, and all of this does nothing. The variables are taken out of it, so
 * that child processes do not take them for theirs: call systemd_init first, before there are threads or children.
 */
#ifndef WARPTUNE_SYSTEMD_H
#define WARPTUNE_SYSTEMD_H

#include "service/base/attr.h"
#include "service/base/error.h"

void systemd_init(void);
/* The socket to listen on, from LISTEN_FDS; 0: none was given. ERROR_INVALID when there are several. */
int systemd_listen_fd(int *ret_fd, struct error *error) MUST_CHECK;
/* "READY=1", "STATUS=…"; lines are separated by \n. What systemd does not take is lost. */
void systemd_notify(const char *format, ...) PRINTF_LIKE(1, 2);
/* How often WATCHDOG=1 is to be sent at least, in seconds; 0: nobody watches. */
double systemd_watchdog_s(void);

#endif
