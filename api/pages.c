/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pages.h"

#include <ctype.h>
#include <string.h>

#include "api/json_write.h"

int page_read(const struct request *request, const char **ret_cursor, int *ret_limit, struct error *error) {
    int64_t limit;
    if (request_query_int(request, "limit", 1, PAGE_MOST, PAGE_DEFAULT, &limit, error) < 0)
        return -1;
    const char *cursor = request_query(request, "cursor");
    *ret_cursor = cursor && *cursor ? cursor : NULL;
    *ret_limit = (int)limit;
    return 0;
}

static void put_encoded(struct buf *out, const char *text) {
    for (const char *c = text; *c; c++) {
        if (isalnum((unsigned char)*c) || strchr("-._~", *c))
            buf_putc(out, *c);
        else
            buf_printf(out, "%%%02X", (unsigned char)*c);
    }
}

static const char *link_to(struct request *request, const char *next) {
    struct buf *link = request_buf(request, 64 << 10);
    buf_printf(link, "<%s?cursor=", request->path);
    put_encoded(link, next);
    for (int i = 0; i < request->n_queries; i++) {
        if (strcmp(request->queries[i].name, "cursor") == 0)
            continue;
        buf_printf(link, "&%s=", request->queries[i].name);
        put_encoded(link, request->queries[i].value);
    }
    buf_puts(link, ">; rel=\"next\"");
    return buf_str(link);
}

int response_page(struct request *request, struct response *ret, struct buf *json, const char *next,
                  struct error *error) {
    write_end(json, ']');
    write_text(json, "next", next);
    write_end(json, '}');
    if (response_written(request, ret, 200, json, error) < 0)
        return -1;
    if (next)
        response_header(request, ret, "Link", link_to(request, next));
    return 0;
}
