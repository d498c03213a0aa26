/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h: threads that share the work items of one CPU kernel after another, with little delay between them.
 *
 * Stands alone (libc and pthread only): the module runtime contains it too. Workers spin for some microseconds for the
 * next kernel, then sleep on a futex. One caller at a time.
 */
#ifndef WARPTUNE_DEVICE_POOL_H
#define WARPTUNE_DEVICE_POOL_H

#include <stdint.h>

struct pool;

typedef void pool_kernel(void *const *args, int64_t begin, int64_t end);

/* `threads` counts the caller; 0: one for each processor this process may use. NULL when threads cannot be made. */
struct pool *pool_new(int threads);
int pool_threads(const struct pool *pool);
/* Does items [0, items), each exactly once, in contiguous runs; returns when all are done. */
void pool_run(struct pool *pool, pool_kernel *kernel, void *const *args, int64_t items);
void pool_free(struct pool *pool);

#endif
