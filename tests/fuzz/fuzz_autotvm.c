/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any log: each line is refused, or is a record that is read again as it was written; what maps to a configuration here
 * is that configuration; what cleaning keeps, it keeps again.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/template/autotvm_log.h"
#include "gpu/template/autotvm_map.h"
#include "service/base/clock.h"
#include "service/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds)
        abort();
}

/* Written, read and written again gives the same text, but where the numbers' own spelling made the line longer. */
static void check_text(const struct autotvm_record *record) {
    struct buf first CLEANUP(buf_release) = BUF_INIT(1 << 20), second CLEANUP(buf_release) = BUF_INIT(1 << 20);
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct autotvm_record again;
    struct error error;
    autotvm_record_write(record, &first);
    must(!first.overflowed);
    if (first.len > AUTOTVM_MAX_LINE)
        return;
    must(autotvm_record_parse(first.data, first.len - 1, arena, &again, &error) == 0);
    autotvm_record_write(&again, &second);
    must(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
}

static int check_record(void *mapper, const struct autotvm_line *line, const struct autotvm_record *record,
                        struct error *error) {
    struct autotvm_fit fit;
    struct error reason;
    (void)error;
    must(line->number > 0 && autotvm_record_cost(record) > 0);
    check_text(record);
    if (autotvm_map(mapper, record, &fit, &reason) < 0) {
        must(reason.class == ERROR_INVALID && *reason.text);
        return 0;
    }
    struct json_object *entity CLEANUP(json_put_p) = space_entity(fit.space, fit.index);
    int64_t index = -1;
    must(space_index_of_entity(fit.space, entity, &index, &reason) == 0 && index == record->index);
    struct json_object *args CLEANUP(json_put_p) = autotvm_args(fit.workload, record->task);
    must(args != NULL);
    return 0;
}

static int put(void *data, const char *line, size_t len, struct error *error) {
    (void)error;
    buf_append(data, line, len);
    buf_putc(data, '\n');
    return 0;
}

static void check_clean(const char *text, size_t size) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct autotvm_clean_options options = {template_builtin, true, DEADLINE_NEVER};
    struct buf once CLEANUP(buf_release) = BUF_INIT(size + 1), twice CLEANUP(buf_release) = BUF_INIT(size + 1);
    struct autotvm_cleaned cleaned;
    struct error error;
    must(autotvm_log_clean(text, size, &options, put, &once, arena, &cleaned, &error) == 0);
    must(cleaned.log.lines ==
         cleaned.kept + cleaned.failed + cleaned.duplicates + cleaned.stale.count + cleaned.log.bad.count);
    int64_t kept = cleaned.kept;
    must(autotvm_log_clean(once.data, once.len, &options, put, &twice, arena, &cleaned, &error) == 0);
    must(cleaned.kept == kept && cleaned.log.lines == kept && once.len == twice.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    struct autotvm_mapper *mapper = autotvm_mapper_new(template_builtin);
    struct autotvm_log log;
    struct error error;
    must(autotvm_log_each((const char *)data, size, check_record, mapper, arena, &log, &error) == 0);
    must(log.bad.count <= log.lines && log.bad.n_first <= AUTOTVM_MAX_NOTES);
    autotvm_mapper_free(mapper);
    check_clean((const char *)data, size);
    return 0;
}
