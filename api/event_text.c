/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event_text.h"

#include <stdio.h>
#include <string.h>

#include "api/json_write.h"
#include "service/base/json.h"
#include "service/store/job_store.h"

static struct json_object *parse(const char *text) {
    struct json_object *object;
    struct error ignored; /* what the store wrote is JSON */
    return json_parse(text, strlen(text), &object, &ignored) == 0 ? object : NULL;
}

/* A number that may be absent or null. */
static double number_of(struct json_object *object, const char *field) {
    struct json_object *value;
    return json_object_object_get_ex(object, field, &value) && value ? json_object_get_double(value) : 0;
}

static long count_of(struct json_object *object, const char *field) {
    return (long)number_of(object, field);
}

/* A line break in the data would end its line; between the tokens of JSON a space means the same. */
static void make_one_line(struct buf *out, size_t from) {
    for (size_t at = from; at < out->len; at++)
        if (out->data[at] == '\n' || out->data[at] == '\r')
            out->data[at] = ' ';
}

/* Whether trials have just ended: a task's beginning and end are progress too, but no line of AutoTVM's. */
static bool has_line(struct json_object *object) {
    struct json_object *state;
    bool running = !json_object_object_get_ex(object, "state", &state) || !state ||
                   strcmp(json_object_get_string(state), "running") == 0;
    return running && count_of(object, "trials_done") > 0;
}

/* The progress line; nothing when the event has none. */
static void write_line(struct buf *out, const char *data) {
    struct json_object *object CLEANUP(json_put_p) = parse(data);
    char line[200];
    if (!has_line(object))
        return;
    snprintf(line, sizeof line, "[Task %2ld/%2ld] Current/Best: %.2f/%.2f GFLOPS | Progress: (%ld/%ld) | %.2f s",
             count_of(object, "task") + 1, count_of(object, "tasks"), number_of(object, "current_gflops"),
             number_of(object, "best_gflops"), count_of(object, "trials_done"), count_of(object, "trials_planned"),
             number_of(object, "elapsed_s"));
    write_text(out, "line", line);
}

static void write_data(struct buf *out, const struct event_row *event) {
    size_t from = out->len;
    buf_putc(out, '{');
    if (event->job_id) {
        write_text(out, "job_id", event->job_id);
        write_int(out, "event", event->job_number);
    }
    write_members(out, event->data);
    if (strcmp(event->kind, "progress") == 0)
        write_line(out, event->data);
    buf_putc(out, '}');
    make_one_line(out, from);
}

static bool ends_job(const char *data) {
    struct json_object *object CLEANUP(json_put_p) = parse(data);
    struct error ignored;
    const char *name = "";
    enum job_state state;
    return json_read_string(object, "state", JSON_REQUIRED, 40, &name, &ignored) == 0 &&
           job_state_parse(name, &state, &ignored) == 0 && job_state_ended(state);
}

void event_write(struct buf *out, const struct event_row *event, bool *ended) {
    buf_printf(out, "id: %lld\nevent: %s\ndata: ", (long long)event->number, event->kind);
    write_data(out, event);
    buf_puts(out, "\n\n");
    if (strcmp(event->kind, "state") == 0)
        *ended = ends_job(event->data);
}

void event_write_bye(struct buf *out, const char *reason) {
    buf_puts(out, "event: bye\nretry: 2000\ndata: {");
    write_text(out, "reason", reason);
    buf_puts(out, "}\n\n");
}

void event_write_end(struct buf *out, const char *state) {
    buf_puts(out, "event: end\ndata: {");
    write_text(out, "state", state);
    buf_puts(out, "}\n\n");
}
