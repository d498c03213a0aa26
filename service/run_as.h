/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_as.h: becoming another user for good, once what only root may do is done.
 *
 * The data folder must be that user's; one that is not there yet is made so. Of the groups the user gets all of its
 * own, for devices are often open to a group only.
 */
#ifndef WARPTUNE_RUN_AS_H
#define WARPTUNE_RUN_AS_H

#include "service/base/attr.h"
#include "service/base/error.h"

/*
 * As root, with no other thread yet. ERROR_INVALID when there is no such user, it is root, or this process is neither
 * root nor that user; ERROR_IO when the folder is another's or cannot be reached. After an error the process is to end:
 * it may be half-way.
 */
int run_as(const char *user, const char *data_dir, struct error *error) MUST_CHECK;

#endif
