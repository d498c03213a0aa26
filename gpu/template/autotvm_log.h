/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_log.h: whole tuning logs: a record a line, among lines that are cut off, garbled or not of this world.
 *
 * A bad line is counted and named and never keeps the others from being read. Blank lines are passed over.
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_LOG_H
#define WARPTUNE_TEMPLATE_AUTOTVM_LOG_H

#include "gpu/template/autotvm_record.h"

struct template;

enum { AUTOTVM_MAX_NOTES = 100 };

/* Lines and what is wrong with each; all are counted, the first of them named. */
struct autotvm_notes {
    int64_t count;
    struct {
        int64_t line; /* from 1, blank ones included */
        const char *reason;
    } first[AUTOTVM_MAX_NOTES];
    int n_first;
};
/* The reason is the error's text, copied into the arena. */
void autotvm_note(struct autotvm_notes *notes, int64_t line, const struct error *reason, struct arena *arena);

struct autotvm_log {
    int64_t lines; /* that are not blank */
    struct autotvm_notes bad;
};

struct autotvm_line {
    int64_t number;
    const char *text; /* within the log, without its end */
    size_t len;
};

/* Returns -1 only when reading is to stop. The record lasts as long as the call. */
typedef int autotvm_sink(void *data, const struct autotvm_line *line, const struct autotvm_record *record,
                         struct error *error);

/* Hands every good record to the sink. -1 when the sink said so; the counts are set then as well. */
int autotvm_log_each(const char *text, size_t len, autotvm_sink *sink, void *data, struct arena *arena,
                     struct autotvm_log *ret, struct error *error) MUST_CHECK;

struct autotvm_clean_options {
    const struct template *const *templates; /* NULL-terminated */
    /* Of each (target, task, arguments) only the fastest, the first one of equals. */
    bool keep_best;
    int64_t deadline; /* past it: ERROR_TIMEOUT */
};

/* lines = kept + failed + duplicates + stale + bad */
struct autotvm_cleaned {
    struct autotvm_log log;
    int64_t kept, failed, duplicates;
    struct autotvm_notes stale; /* of no use here any more; autotvm_map says why */
};

/* Takes a line, without its end. */
typedef int autotvm_put(void *data, const char *line, size_t len, struct error *error);

/*
 * Hands the lines that are worth keeping to `put`, in their order, as they are. Needs about 100 bytes for each distinct
 * task; ERROR_LIMIT when there are more than half a million. -1 also when `put` said so.
 */
int autotvm_log_clean(const char *text, size_t len, const struct autotvm_clean_options *options, autotvm_put *put,
                      void *data, struct arena *arena, struct autotvm_cleaned *ret, struct error *error) MUST_CHECK;

#endif
