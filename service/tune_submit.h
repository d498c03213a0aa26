/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_submit.h: a network uploaded and its job submitted, as `warptune tune` was asked to. Of the same wishes on a
 * server of ours a job that was begun before is gone on with, rather than done twice.
 */
#ifndef WARPTUNE_TUNE_SUBMIT_H
#define WARPTUNE_TUNE_SUBMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/arena.h"
#include "service/base/attr.h"
#include "service/base/error.h"
#include "service/client.h"

/* What is NULL or 0 is the server's choice. */
struct tune_wishes {
    const char *model; /* file */
    const char *name;  /* of the model; NULL: the file's, without its ending */
    const char *device, *precision, *layout, *tuner;
    int64_t batch, trials, budget_s;
};

/* *ret_job is the job's id, in the arena; *ret_begun, which is for `own` servers, whether there was one already. */
int tune_submit(struct client *client, const struct tune_wishes *wishes, bool own, struct arena *arena,
                const char **ret_job, bool *ret_begun, struct error *error) MUST_CHECK;

#endif
