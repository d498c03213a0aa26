/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_reader.h: reads a text/event-stream as it arrives, in pieces of any size: the client's half of
 * api/event_text.h.
 *
 * Lines end with LF, CR LF or CR. Comments and unknown fields are passed over. An event without data is none, but its
 * id counts. Lines and data are at most EVENT_MOST bytes; what is longer is cut off.
 */
#ifndef WARPTUNE_EVENT_READER_H
#define WARPTUNE_EVENT_READER_H

#include <stdbool.h>

#include "service/base/buf.h"

enum { EVENT_MOST = 1 << 20, EVENT_NAME = 32, EVENT_ID = 32 };

/* `data` lasts until the function returns. False: enough. */
typedef bool event_function(void *context, const char *name, const char *data);

struct event_reader {
    event_function *take;
    void *context;
    struct buf line, data;
    char name[EVENT_NAME];
    char id[EVENT_ID];      /* of the last whole event that had one: to come again with */
    char next_id[EVENT_ID]; /* of the one that is being read */
    bool has_data, after_cr;
};

void event_reader_init(struct event_reader *reader, event_function *take, void *context);
/* False once the function said that it is enough. */
bool event_reader_add(struct event_reader *reader, const char *bytes, size_t len) MUST_CHECK;
/* The connection ended: what has not come whole is forgotten, the id stays. */
void event_reader_restart(struct event_reader *reader);
void event_reader_release(struct event_reader *reader);

#endif
