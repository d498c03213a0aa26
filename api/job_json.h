/* SPDX-License-Identifier: Apache-2.0 */
/* job_json.h: a job as clients see it. */
#ifndef WARPTUNE_API_JOB_JSON_H
#define WARPTUNE_API_JOB_JSON_H

#include "service/base/buf.h"
#include "service/store/job_store.h"

/* One object; with its tasks when the row has them. */
void job_write(struct buf *out, const struct job_row *job);
/* The same in three: elapsed_s is what goes on by itself. */
void job_write_head(struct buf *out, const struct job_row *job);
void job_write_elapsed(struct buf *out, double elapsed_s);
void job_write_tail(struct buf *out, const struct job_row *job);
/* A task's errors and error_texts, into the object that is open. */
void job_write_errors(struct buf *out, const struct task_row *task);

#endif
