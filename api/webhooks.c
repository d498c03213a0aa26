/* SPDX-License-Identifier: Apache-2.0 */
/* webhooks.c: what a job's webhook was told, and telling it again. */
#include "api/webhooks.h"

#include <errno.h>
#include <stdlib.h>

#include "api/handlers.h"
#include "api/json_write.h"
#include "api/pages.h"
#include "api/server.h"
#include "service/base/address.h"
#include "service/base/web_url.h"
#include "service/store/webhook_store.h"

enum { MOST_LIST = 256 << 20, MOST_DELIVERY = 1 << 20 };

int webhook_check_url(const struct request *request, const char *url, struct error *error) {
    static const char field[] = "webhook_url";
    char host[WEB_URL_HOST];
    struct sockaddr_storage address;
    if (web_url_check(url, field, host, error) < 0)
        return -1;
    if (request->api->webhook_allow_private || !address_parse(host, &address) ||
        address_is_public((const struct sockaddr *)&address))
        return 0;
    return error_set(error, ERROR_INVALID, "private-address", field,
                     "'%s' names %.80s, which is not a public address. Whoever runs the server can allow such ones "
                     "(--webhook-allow-private).",
                     field, host);
}

static void write_delivery(struct buf *out, const struct delivery_row *delivery) {
    write_object(out, NULL);
    write_text(out, "id", delivery->id);
    write_int(out, "event", delivery->event);
    write_text(out, "state", delivery->state);
    write_int(out, "attempts", delivery->attempts);
    write_int_if(out, "last_status", delivery->last_status, delivery->last_status);
    write_text(out, "last_error", delivery->last_error);
    write_time(out, "last_attempt_at", delivery->last_us);
    write_time(out, "next_attempt_at", delivery->next_us);
    write_time(out, "created_at", delivery->created_us);
    write_time(out, "finished_at", delivery->finished_us);
    write_raw(out, "payload", delivery->payload);
    write_end(out, '}');
}

static int read_cursor(const char *cursor, int64_t *ret, struct error *error) {
    char *end;
    errno = 0;
    long long number = cursor ? strtoll(cursor, &end, 10) : 0;
    if (cursor && (end == cursor || *end || errno || number < 1))
        return error_set(error, ERROR_INVALID, "bad-cursor", "cursor", "The cursor is not one that a page gave.");
    *ret = number;
    return 0;
}

int delivery_page(struct request *request, struct response *ret, struct error *error) {
    struct webhook_row webhook;
    struct delivery_row *deliveries;
    const char *cursor;
    int64_t before = 0;
    int limit, n;
    bool more;
    if (page_read(request, &cursor, &limit, error) < 0 || read_cursor(cursor, &before, error) < 0 ||
        webhook_list(request->api->db, request->params[0], before, limit, request->arena, &deliveries, &n, &more,
                     error) < 0 ||
        webhook_get(request->api->db, request->params[0], request->arena, &webhook, error) < 0) /* never older */
        return -1;
    struct buf *json = request_buf(request, MOST_LIST);
    write_object(json, NULL);
    write_text(json, "url", webhook.url);
    write_time(json, "disabled_at", webhook.disabled_us);
    write_array(json, "deliveries");
    for (int i = 0; i < n; i++)
        write_delivery(json, &deliveries[i]);
    const char *next = more ? arena_printf(request->arena, "%lld", (long long)deliveries[n - 1].event) : NULL;
    return response_page(request, ret, json, next, error);
}

int delivery_send_again(struct request *request, struct response *ret, struct error *error) {
    struct delivery_row delivery;
    if (webhook_redeliver(request->api->db, request->params[0], request->params[1], request->arena, &delivery, error) <
        0)
        return -1;
    struct buf *json = request_buf(request, MOST_DELIVERY);
    write_delivery(json, &delivery);
    return response_written(request, ret, 202, json, error);
}
