/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scratch.h: folders for what is at work, which do not stay when the process is killed.
 *
 * Such a folder is locked as long as its process lives; whoever makes the next one beside it removes those that nobody
 * locks. Any number of processes share the parent folder.
 */
#ifndef WARPTUNE_BASE_SCRATCH_H
#define WARPTUNE_BASE_SCRATCH_H

#include <limits.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct scratch {
    char path[PATH_MAX]; /* empty: none */
    int fd;
};

/* Removes those folders in the parent, which need not be there, that nobody locks any more. */
void scratch_sweep(const char *parent);
/* A new folder PARENT/PREFIX-xxxxxx; the parent is there. Sweeps before. */
int scratch_make(const char *parent, const char *prefix, struct scratch *ret, struct error *error) MUST_CHECK;
/* With all that is in it. Safe on one that was zeroed and never made, and twice. */
void scratch_remove(struct scratch *scratch);

#endif
