/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigpipe.h: writing to a pipe whose reader may be gone, without dying of SIGPIPE and without touching the process's
 * handlers: the signal is blocked for this thread, and one that the write raised is taken away again.
 */
#ifndef WARPTUNE_BASE_SIGPIPE_H
#define WARPTUNE_BASE_SIGPIPE_H

#include <stddef.h>
#include <sys/types.h>

/* write(), but a lost reader is only EPIPE. */
ssize_t write_no_sigpipe(int fd, const void *data, size_t len);

#endif
