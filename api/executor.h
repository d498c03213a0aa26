/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executor.h: threads that do what a connection's thread may not wait for: they take work in the order it came.
 *
 * Thread-safe. No lock of the executor is held while work runs.
 */
#ifndef WARPTUNE_API_EXECUTOR_H
#define WARPTUNE_API_EXECUTOR_H

#include "service/base/error.h"

struct executor;

/* Embedded in what is to be done; the executor does not touch it once run was called. */
struct work {
    void (*run)(struct work *work);
};

int executor_new(int threads, struct executor **ret, struct error *error) MUST_CHECK;
/* Never waits. ERROR_BUSY when too much waits already, or once it is closed. */
int executor_submit(struct executor *executor, struct work *work, struct error *error) MUST_CHECK;
/* Does what was submitted, then ends its threads. NULL-safe, and safe twice. */
void executor_close(struct executor *executor);
void executor_free(struct executor *executor); /* closes it; NULL-safe */

#endif
