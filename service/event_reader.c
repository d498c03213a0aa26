/* SPDX-License-Identifier: Apache-2.0 */
#include "service/event_reader.h"

#include <stdio.h>
#include <string.h>

void event_reader_init(struct event_reader *reader, event_function *take, void *context) {
    *reader = (struct event_reader){.take = take, .context = context};
    buf_init(&reader->line, EVENT_MOST);
    buf_init(&reader->data, EVENT_MOST);
}

void event_reader_restart(struct event_reader *reader) {
    buf_clear(&reader->line);
    buf_clear(&reader->data);
    reader->name[0] = 0;
    memcpy(reader->next_id, reader->id, EVENT_ID);
    reader->has_data = reader->after_cr = false;
}

void event_reader_release(struct event_reader *reader) {
    buf_release(&reader->line);
    buf_release(&reader->data);
}

/* A blank line: the event is whole. */
static bool dispatch(struct event_reader *reader) {
    bool go_on = true;
    memcpy(reader->id, reader->next_id, EVENT_ID);
    if (reader->has_data)
        go_on = reader->take(reader->context, *reader->name ? reader->name : "message", buf_str(&reader->data));
    buf_clear(&reader->data);
    reader->name[0] = 0;
    reader->has_data = false;
    return go_on;
}

static void take_field(struct event_reader *reader, const char *line) {
    size_t name_len = strcspn(line, ":");
    const char *value = line + name_len + (line[name_len] == ':');
    value += *value == ' ';
    if (name_len == 4 && memcmp(line, "data", 4) == 0) {
        if (reader->has_data)
            buf_putc(&reader->data, '\n');
        buf_puts(&reader->data, value);
        reader->has_data = true;
    } else if (name_len == 5 && memcmp(line, "event", 5) == 0) {
        snprintf(reader->name, sizeof reader->name, "%s", value);
    } else if (name_len == 2 && memcmp(line, "id", 2) == 0 && strlen(value) < EVENT_ID) {
        snprintf(reader->next_id, EVENT_ID, "%s", value);
    }
}

static bool end_line(struct event_reader *reader) {
    bool go_on = true;
    if (reader->line.len == 0)
        go_on = dispatch(reader);
    else
        take_field(reader, buf_str(&reader->line));
    buf_clear(&reader->line);
    return go_on;
}

bool event_reader_add(struct event_reader *reader, const char *bytes, size_t len) {
    for (size_t at = 0; at < len; at++) {
        char c = bytes[at];
        bool line_feed_of_cr = c == '\n' && reader->after_cr;
        reader->after_cr = c == '\r';
        if (line_feed_of_cr)
            continue;
        if (c != '\n' && c != '\r')
            buf_putc(&reader->line, c);
        else if (!end_line(reader))
            return false;
    }
    return true;
}
