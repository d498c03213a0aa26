/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h: a bounded first-in-first-out queue of pointers, by which threads hand work to each other.
 *
 * Any number of threads may push and pop at once. The queue never looks at what the pointers point to; who pops one
 * owns it. Its lock is held only inside these functions and no other lock is taken under it.
 */
#ifndef WARPTUNE_BASE_QUEUE_H
#define WARPTUNE_BASE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/error.h"

struct queue;

/* `capacity`: the most pointers that wait at once; at least 1. */
struct queue *queue_new(size_t capacity);
/* Waits while the queue is full. ERROR_TIMEOUT at the deadline (see clock.h), ERROR_CANCELLED once it is closed. */
int queue_push(struct queue *queue, void *item, int64_t deadline, struct error *error) MUST_CHECK;
/* Waits while it is empty. ERROR_TIMEOUT at the deadline, ERROR_CANCELLED once it is closed and what was in it taken.
 */
int queue_pop(struct queue *queue, int64_t deadline, void **ret_item, struct error *error) MUST_CHECK;
/* Nothing goes in any more; everybody who waits is woken. What is inside can still be popped. */
void queue_close(struct queue *queue);
/* No thread may be using it; pop what is left first, it is not freed. NULL-safe. */
void queue_free(struct queue *queue);

#endif
