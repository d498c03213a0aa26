/* SPDX-License-Identifier: Apache-2.0 */
#include "api/transfer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service/base/address.h"
#include "service/base/clock.h"
#include "service/base/utf8.h"
#include "service/base/webhook_sign.h"

enum { LIMIT_S = 15, MOST_READ = 64 << 10 /* of an answer, which nobody looks at */ };

struct transfer {
    struct webhook_lease lease;
    CURL *handle;
    struct curl_slist *headers;
    bool allow_private;
    size_t received;
    bool refused;   /* an address of the receiver's was not public */
    char text[512]; /* what went wrong, for people */
    char curl_error[CURL_ERROR_SIZE];
};

/* ---- called by libcurl ---- */

static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *address) {
    struct transfer *transfer = data;
    (void)purpose;
    if (!transfer->allow_private && !address_is_public(&address->addr)) {
        transfer->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* The body of an answer is read over; one without end is cut off. */
static size_t take_body(char *bytes, size_t size, size_t count, void *data) {
    struct transfer *transfer = data;
    (void)bytes;
    transfer->received += size * count;
    return transfer->received > MOST_READ ? 0 : size * count;
}

/* ---- making one ---- */

static void add_header(struct transfer *transfer, const char *name, const char *value) {
    char line[256];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);
    if (!longer)
        abort();
    transfer->headers = longer;
}

static int add_headers(struct transfer *transfer, const struct webhook_delivery *delivery, struct error *error) {
    char signature[WEBHOOK_SIGNATURE_TEXT], timestamp[24];
    int64_t now_s = clock_wall_us() / 1000000;
    if (webhook_sign(delivery->secret, delivery->lease.id, now_s, delivery->payload, signature, error) < 0)
        return -1;
    snprintf(timestamp, sizeof timestamp, "%lld", (long long)now_s);
    add_header(transfer, "Content-Type", "application/json");
    add_header(transfer, "webhook-id", delivery->lease.id);
    add_header(transfer, "webhook-timestamp", timestamp);
    add_header(transfer, "webhook-signature", signature);
    add_header(transfer, "Expect", ""); /* no waiting for a 100 */
    return 0;
}

/* No proxy: it would connect for us where we may not. */
static int set_up(struct transfer *transfer, const struct webhook_delivery *delivery, struct error *error) {
    CURL *handle = transfer->handle;
    CURLcode code = CURLE_OK;
#define SET(option, value) code = code == CURLE_OK ? curl_easy_setopt(handle, option, value) : code
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_URL, delivery->url);
    SET(CURLOPT_POSTFIELDSIZE, (long)strlen(delivery->payload));
    SET(CURLOPT_COPYPOSTFIELDS, delivery->payload);
    SET(CURLOPT_HTTPHEADER, transfer->headers);
    SET(CURLOPT_USERAGENT, "warptune/" WARPTUNE_VERSION);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TIMEOUT, (long)LIMIT_S);
    SET(CURLOPT_QUICK_EXIT, 1L); /* a name server that does not answer holds up nobody past the limit */
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->curl_error);
#undef SET
    if (code != CURLE_OK)
        return error_set(error, ERROR_INTERNAL, "no-transfer", NULL, "libcurl refused a delivery: %s.",
                         curl_easy_strerror(code));
    return 0;
}

int transfer_new(const struct webhook_delivery *delivery, bool allow_private, struct transfer **ret,
                 struct error *error) {
    struct transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer || !(transfer->handle = curl_easy_init()))
        abort();
    transfer->lease = delivery->lease;
    transfer->allow_private = allow_private;
    if (add_headers(transfer, delivery, error) < 0 || set_up(transfer, delivery, error) < 0) {
        transfer_free(transfer);
        return -1;
    }
    *ret = transfer;
    return 0;
}

CURL *transfer_handle(const struct transfer *transfer) {
    return transfer->handle;
}

const struct webhook_lease *transfer_lease(const struct transfer *transfer) {
    return &transfer->lease;
}

/* ---- its end ---- */

static void describe(struct transfer *transfer, CURLcode code, int status) {
    if (transfer->refused && status == 0)
        snprintf(transfer->text, sizeof transfer->text, "the receiver's address is not public");
    else if (status / 100 == 3)
        snprintf(transfer->text, sizeof transfer->text, "redirects are not followed");
    else if (status == 0)
        snprintf(transfer->text, sizeof transfer->text, "%s",
                 *transfer->curl_error ? transfer->curl_error : curl_easy_strerror(code));
    utf8_scrub(transfer->text);
}

/* Once its status has come the answer counts, whatever becomes of its body. */
const struct webhook_lease *transfer_result(struct transfer *transfer, CURLcode code, struct webhook_attempt *ret) {
    long status = 0;
    curl_easy_getinfo(transfer->handle, CURLINFO_RESPONSE_CODE, &status);
    describe(transfer, code, (int)status);
    *ret = (struct webhook_attempt){.status = (int)status, .error = *transfer->text ? transfer->text : NULL};
    return &transfer->lease;
}

void transfer_free(struct transfer *transfer) {
    if (!transfer)
        return;
    curl_easy_cleanup(transfer->handle);
    curl_slist_free_all(transfer->headers);
    free(transfer);
}
