/* SPDX-License-Identifier: Apache-2.0 */
/* job_json.h: a job as clients see it. */
#ifndef WARPTUNE_API_JOB_JSON_H
#define WARPTUNE_API_JOB_JSON_H

#include "service/base/buf.h"
#include "service/store/job_store.h"

/* One object; with its tasks when the row has them. */
void job_write(struct buf *out, const struct job_row *job);

#endif
