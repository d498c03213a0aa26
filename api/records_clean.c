/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records_clean.c: a log in, the lines of it that are worth keeping out, byte for byte as they came.
 *
 * The counts are in headers, so that the body is a log and nothing else, and what `curl -o clean.log` writes can be
 * read by AutoTVM as it is; `curl -D -` shows them:
 *
 *   Warptune-Records: lines=265, kept=180, failed=2, stale=3, duplicates=78, bad=2
 *   Warptune-Bad-Lines: 17, 99          (the first hundred; absent when there are none)
 */
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "gpu/template/autotvm_log.h"
#include "gpu/template/template.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { MOST_SECONDS = 600 };

static int read_keep(const struct request *request, bool *ret_best, struct error *error) {
    const char *keep = request_query(request, "keep");
    if (keep && strcmp(keep, "best") != 0 && strcmp(keep, "all") != 0)
        return error_set(error, ERROR_INVALID, "bad-query", "keep",
                         "'keep' is '%.40s', but must be best (of each task) or all.", keep);
    *ret_best = !keep || strcmp(keep, "best") == 0;
    return 0;
}

static int put(void *data, const char *line, size_t len, struct error *error) {
    struct text_file *file = data;
    buf_append(&file->text, line, len);
    buf_putc(&file->text, '\n');
    return text_file_flush(file, error);
}

static void add_counts(struct request *request, struct response *ret, const struct autotvm_cleaned *cleaned) {
    const struct autotvm_notes *bad = &cleaned->log.bad;
    response_header(
        request, ret, "Warptune-Records",
        arena_printf(request->arena, "lines=%lld, kept=%lld, failed=%lld, stale=%lld, duplicates=%lld, bad=%lld",
                     (long long)cleaned->log.lines, (long long)cleaned->kept, (long long)cleaned->failed,
                     (long long)cleaned->stale.count, (long long)cleaned->duplicates, (long long)bad->count));
    struct buf *lines = request_buf(request, 4096);
    for (int i = 0; i < bad->n_first; i++)
        buf_printf(lines, "%s%lld", i ? ", " : "", (long long)bad->first[i].line);
    if (bad->n_first)
        response_header(request, ret, "Warptune-Bad-Lines", buf_str(lines));
}

int records_clean(struct request *request, struct response *ret, struct error *error) {
    struct text_file file CLEANUP(text_file_release) = {.fd = -1};
    struct autotvm_clean_options options = {.templates = template_builtin, .deadline = deadline_in_s(MOST_SECONDS)};
    struct autotvm_cleaned cleaned;
    struct file_map map;
    if (read_keep(request, &options.keep_best, error) < 0 || text_file_open(request, &file, error) < 0 ||
        file_map(request->upload.path, &map, error) < 0)
        return -1;
    int status = autotvm_log_clean(map.data, map.len, &options, put, &file, request->arena, &cleaned, error);
    file_unmap(&map);
    if (status < 0 || response_text_file(ret, &file, "application/x-ndjson", error) < 0)
        return -1;
    add_counts(request, ret, &cleaned);
    return 0;
}
