/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idempotency.h: what an Idempotency-Key on a POST does: the same request again gets the first answer again.
 *
 * Between router and handler. Submitting a job keeps key and answer in the job's own transaction (jobs.c); for other
 * POSTs a reservation is taken first, renewed while the request is worked on (reservations.h), so that those of a
 * server that died free themselves. Kept for 24 hours: answers by which the request is over, that is all but 5xx and
 * those that may be another when the client comes again later (408, 409, 429), and but for files, which are made anew.
 */
#ifndef WARPTUNE_API_IDEMPOTENCY_H
#define WARPTUNE_API_IDEMPOTENCY_H

#include "api/http.h"
#include "service/store/idempotency_store.h"

/* Runs the route's handler, unless the request's key has an answer. */
int idempotency_handle(struct request *request, struct response *ret, struct error *error) MUST_CHECK;
/* The part of an answer that is kept. */
void idempotency_answer_of(const struct response *response, struct idempotency_answer *ret);

#endif
