/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_log.h"

#include <string.h>

void autotvm_note(struct autotvm_notes *notes, int64_t line, const struct error *reason, struct arena *arena) {
    notes->count++;
    if (notes->n_first == AUTOTVM_MAX_NOTES)
        return;
    notes->first[notes->n_first].line = line;
    notes->first[notes->n_first++].reason = arena_strdup(arena, reason->text);
}

static bool is_blank(const struct autotvm_line *line) {
    for (size_t i = 0; i < line->len; i++)
        if (!strchr(" \t\r", line->text[i]) || !line->text[i])
            return false;
    return true;
}

/* `cut`: it is the last line and has no end, so it may have been written in part only. */
static int read_line(const struct autotvm_line *line, bool cut, autotvm_sink *sink, void *data, struct arena *notes,
                     struct autotvm_log *log, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct autotvm_record record;
    struct error reason;
    if (autotvm_record_parse(line->text, line->len, arena, &record, &reason) == 0)
        return sink(data, line, &record, error);
    if (cut && strcmp(reason.code, "invalid-json") == 0)
        error_prefix(&reason, "The last line is cut off. ");
    autotvm_note(&log->bad, line->number, &reason, notes);
    return 0;
}

int autotvm_log_each(const char *text, size_t len, autotvm_sink *sink, void *data, struct arena *arena,
                     struct autotvm_log *ret, struct error *error) {
    struct autotvm_line line = {0};
    *ret = (struct autotvm_log){0};
    for (size_t at = 0; at < len; at += line.len + 1) {
        const char *end = memchr(text + at, '\n', len - at);
        line.number++;
        line.text = text + at;
        line.len = end ? (size_t)(end - line.text) : len - at;
        if (is_blank(&line))
            continue;
        ret->lines++;
        if (read_line(&line, !end, sink, data, arena, ret, error) < 0)
            return -1;
    }
    return 0;
}
