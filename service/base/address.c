/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "service/base/attr.h"

/* IANA's special-purpose registry: what is not reached over the open Internet. */
static const struct {
    uint32_t prefix;
    int bits;
} special_v4[] = {
    {0x00000000, 8},  /* 0.0.0.0/8: this network, and the unspecified address */
    {0x0a000000, 8},  /* 10.0.0.0/8: private */
    {0x64400000, 10}, /* 100.64.0.0/10: shared by carriers */
    {0x7f000000, 8},  /* 127.0.0.0/8: loopback */
    {0xa9fe0000, 16}, /* 169.254.0.0/16: link-local, metadata services */
    {0xac100000, 12}, /* 172.16.0.0/12: private */
    {0xc0000000, 24}, /* 192.0.0.0/24: protocol assignments */
    {0xc0000200, 24}, /* 192.0.2.0/24: documentation, as the other two */
    {0xc0586300, 24}, /* 192.88.99.0/24: 6to4 relays, withdrawn */
    {0xc0a80000, 16}, /* 192.168.0.0/16: private */
    {0xc6120000, 15}, /* 198.18.0.0/15: benchmarks */
    {0xc6336400, 24}, /* 198.51.100.0/24 */
    {0xcb007100, 24}, /* 203.0.113.0/24 */
    {0xe0000000, 4},  /* 224.0.0.0/4: multicast */
    {0xf0000000, 4},  /* 240.0.0.0/4: reserved, and broadcast */
};

static bool public_v4(uint32_t address) {
    for (size_t i = 0; i < ARRAY_COUNT(special_v4); i++)
        if ((address ^ special_v4[i].prefix) >> (32 - special_v4[i].bits) == 0)
            return false;
    return true;
}

struct prefix {
    uint8_t bytes[12];
    int bits;
};

/* Whose IPv4 address follows the prefix. */
static const struct prefix carries_v4[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, /* ::ffff:0:0/96: mapped */
    {{0x00, 0x64, 0xff, 0x9b}, 96},                   /* 64:ff9b::/96: NAT64 */
    {{0x20, 0x02}, 16},                               /* 2002::/16: 6to4 */
};
/* In 2000::/3, the only block of global unicast addresses, those that are not. */
static const struct prefix special_v6[] = {
    {{0x20, 0x01, 0x00}, 23},       /* 2001::/23: Teredo, ORCHID, benchmarks */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* 2001:db8::/32: documentation */
    {{0x3f, 0xff}, 20},             /* 3fff::/20: documentation */
};

static bool in_prefix(const uint8_t *address, const struct prefix *prefix) {
    int whole = prefix->bits / 8, rest = prefix->bits % 8;
    if (memcmp(address, prefix->bytes, (size_t)whole) != 0)
        return false;
    return rest == 0 || (address[whole] ^ prefix->bytes[whole]) >> (8 - rest) == 0;
}

static bool public_v6(const uint8_t *address) {
    for (size_t i = 0; i < ARRAY_COUNT(carries_v4); i++) {
        if (!in_prefix(address, &carries_v4[i]))
            continue;
        const uint8_t *inner = address + carries_v4[i].bits / 8;
        return public_v4((uint32_t)inner[0] << 24 | (uint32_t)inner[1] << 16 | (uint32_t)inner[2] << 8 | inner[3]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(special_v6); i++)
        if (in_prefix(address, &special_v6[i]))
            return false;
    return address[0] >> 5 == 1; /* 2000::/3 */
}

bool address_is_public(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return public_v4(ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family == AF_INET6)
        return public_v6(((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    return false;
}

bool address_parse(const char *text, struct sockaddr_storage *ret) {
    char bare[INET6_ADDRSTRLEN + 2];
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    size_t len = strlen(text);
    bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
    int copied = snprintf(bare, sizeof bare, "%.*s", (int)(bracketed ? len - 2 : len), text + bracketed);
    if (copied < 0 || (size_t)copied >= sizeof bare)
        return false;
    bare[strcspn(bare, "%")] = 0; /* a zone */
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, bare, &v4->sin_addr) == 1)
        ret->ss_family = AF_INET;
    else if (inet_pton(AF_INET6, bare, &v6->sin6_addr) == 1)
        ret->ss_family = AF_INET6;
    return ret->ss_family != 0;
}
