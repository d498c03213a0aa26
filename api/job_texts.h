/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_texts.h: jobs as they were written last, for those who look again at one that has not changed.
 *
 * A job's text goes with the version of the job that it says; whoever takes it has asked the database for the version
 * first, each time, so that it is right with any number of servers. What changes by itself, elapsed_s, is left out of
 * the text and put in as it is taken. Whether the client may see the job is not asked here. Thread-safe; the memory is
 * bounded by the number of texts and their length, and a newcomer takes the place of what was there.
 */
#ifndef WARPTUNE_API_JOB_TEXTS_H
#define WARPTUNE_API_JOB_TEXTS_H

#include <stdbool.h>

#include "service/base/buf.h"
#include "service/store/job_store.h"

enum { JOB_TEXTS = 512, MOST_JOB_TEXT = 64 << 10 };

struct job_texts;

struct job_texts *job_texts_new(void);
/* NULL-safe. */
void job_texts_free(struct job_texts *texts);

/* Whether there is a text of the job, of whatever version. */
bool job_texts_has(struct job_texts *texts, const char *id);
/* Writes the text of that version of the job; false when it is not there. */
bool job_texts_take(struct job_texts *texts, const char *id, const struct job_version *version, struct buf *out);
/* Writes the job, and keeps what it wrote. */
void job_texts_write(struct job_texts *texts, const struct job_row *job, struct buf *out);

#endif
