/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_watch.h: the process between us and a private postmaster. Internal to cluster*.c.
 *
 * It restarts a postmaster that dies and shuts it down once its owner lets go of the pipe, which the kernel does for an
 * owner that was killed. Should the watcher itself be killed, the kernel tells the postmaster to shut down.
 */
#ifndef WARPTUNE_STORE_CLUSTER_WATCH_H
#define WARPTUNE_STORE_CLUSTER_WATCH_H

#include "service/store/cluster_user.h"

struct cluster_watch {
    pid_t pid;    /* of the watcher */
    int owner_fd; /* our end of the pipe: close it to stop */
};

/* lock_fd stays open in the watcher as long as it lives; log_fd is the postmaster's output. Both remain the caller's.
 */
int cluster_watch_start(const struct cluster_user *user, const char *const *argv, int lock_fd, int log_fd,
                        struct cluster_watch *ret, struct error *error) MUST_CHECK;
/* Whether it still runs; it gives up when the postmaster cannot stay up. */
bool cluster_watch_alive(struct cluster_watch *watch);
/* Lets go, and waits until the postmaster has ended. */
void cluster_watch_stop(struct cluster_watch *watch);

#endif
