/* SPDX-License-Identifier: Apache-2.0 */
/* event_text.h: events as lines of a text/event-stream. */
#ifndef WARPTUNE_API_EVENT_TEXT_H
#define WARPTUNE_API_EVENT_TEXT_H

#include <stdbool.h>

#include "service/base/buf.h"
#include "service/store/event_store.h"

/*
 * id, event, data and a blank line. The data of `progress` gets a field more, `line`: AutoTVM's progress line; that of
 * a project's event begins with `job_id` and `event`, its number there. A `state` event sets *ended to whether the job
 * is in a state that ends it.
 */
void event_write(struct buf *out, const struct event_row *event, bool *ended);
/* The last event of a stream: {"state": …}. It has no id: there is nothing to resume after it. */
void event_write_end(struct buf *out, const char *state);
/* The stream ends, the job goes on: the client is to come again. {"reason": …}, an error's code. */
void event_write_bye(struct buf *out, const char *reason);

#endif
