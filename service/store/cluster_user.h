/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_user.h: the user that a private cluster runs as, and programs started as that user. Internal to cluster*.c.
 */
#ifndef WARPTUNE_STORE_CLUSTER_USER_H
#define WARPTUNE_STORE_CLUSTER_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct cluster_user {
    bool other; /* we are root: another one than ourselves */
    uid_t uid;
    gid_t gid;
    char name[64];
};

/* Ourselves, or as root the owner of the cluster in the data folder; where there is none, `postgres`, else `nobody`. */
int cluster_user_choose(const char *data_dir, struct cluster_user *ret, struct error *error) MUST_CHECK;
/* mkdir -p; folders that it makes can be passed through by the user. */
int cluster_user_make_dirs(const struct cluster_user *user, const char *path, struct error *error) MUST_CHECK;
/* One folder, mode 0700, that belongs to the user; it may exist. */
int cluster_user_own_dir(const struct cluster_user *user, const char *path, struct error *error) MUST_CHECK;
/* ERROR_IO naming the first folder on the (absolute) path that the user may not pass through. */
int cluster_user_check_reach(const struct cluster_user *user, const char *path, struct error *error) MUST_CHECK;

/*
 * Starts argv[0] (a path) as the user, in a small environment, output to `output_fd`, all signals at their defaults;
 * it gets `death_signal` (0: none) when the calling thread ends. -1 with errno. Safe in a child between fork and exec.
 */
pid_t cluster_user_spawn(const struct cluster_user *user, const char *const *argv, int output_fd, int death_signal);

/* close_range(2), also where the kernel has none. Safe between fork and exec. */
void cluster_user_close(unsigned first, unsigned last);

#endif
