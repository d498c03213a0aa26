/* SPDX-License-Identifier: Apache-2.0 */
#include "api/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* The last entry of a list that the proxy in front has added to; NULL without a proxy, or when it says nothing. */
static const char *said_by_proxy(const struct exchange *exchange, const char *header) {
    if (!server_trusts_proxy(exchange->server))
        return NULL;
    const char *list = request_header_list(&exchange->request, header);
    if (!list)
        return NULL;
    const char *comma = strrchr(list, ','), *last = comma ? comma + 1 : list;
    last += strspn(last, " \t");
    size_t len = strlen(last);
    while (len && (last[len - 1] == ' ' || last[len - 1] == '\t'))
        len--;
    return len ? arena_strndup(exchange->request.arena, last, len) : NULL;
}

static bool is_address(const char *text) {
    unsigned char ignored[16];
    return inet_pton(AF_INET, text, ignored) == 1 || inet_pton(AF_INET6, text, ignored) == 1;
}

void peer_address(const struct exchange *exchange, char ret[PEER_ADDRESS]) {
    const char *said = said_by_proxy(exchange, "X-Forwarded-For");
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    ret[0] = 0;
    if (said && is_address(said))
        snprintf(ret, PEER_ADDRESS, "%s", said);
    else if (address && address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, ret, PEER_ADDRESS);
    else if (address && address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, ret, PEER_ADDRESS);
}

const char *peer_host(const struct exchange *exchange) {
    const char *said = said_by_proxy(exchange, "X-Forwarded-Host");
    return said ? said : request_header(&exchange->request, MHD_HTTP_HEADER_HOST);
}
