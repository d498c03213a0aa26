/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_paths.h: the files and folders of a private cluster, and what an earlier life left in them. Internal. */
#ifndef WARPTUNE_STORE_CLUSTER_PATHS_H
#define WARPTUNE_STORE_CLUSTER_PATHS_H

#include <limits.h>

#include "service/store/cluster_user.h"

struct cluster_paths {
    char dir[PATH_MAX];           /* the data folder, absolute */
    char pgdata[PATH_MAX];        /* DIR/postgres */
    char fresh[PATH_MAX];         /* DIR/postgres.new: initdb at work; renamed when it is done */
    char log[PATH_MAX];           /* DIR/postgres.log */
    char owner_lock[PATH_MAX];    /* held by the process that owns the cluster */
    char watch_lock[PATH_MAX];    /* held by the watcher */
    char socket_record[PATH_MAX]; /* DIR/run.path: where the socket is when not in DIR/run */
    char socket_dir[108];         /* short enough for a socket's address */
};

/* Makes the data folder and the socket's folder. */
int cluster_paths_init(const char *data_dir, const struct cluster_user *user, struct cluster_paths *ret,
                       struct error *error) MUST_CHECK;
/* Stops whatever of an earlier life still runs in the cluster, and removes the lock files it left. */
int cluster_paths_clear(const struct cluster_paths *paths, struct error *error) MUST_CHECK;

/* Removes a socket's folder that lies outside of the data folder, once nothing runs. */
void cluster_paths_leave(const struct cluster_paths *paths);

#endif
