/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sys/un.h>

#include "service/base/address.h"
#include "service/base/attr.h"

static bool is_public(const char *text) {
    struct sockaddr_storage address;
    cr_assert(address_parse(text, &address), "%s", text);
    return address_is_public((const struct sockaddr *)&address);
}

/* Each block of the registry at both ends. */
Test(address, special_ones_are_not_public) {
    static const char *const special[] = {
        "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
        "127.255.255.255", "169.254.0.0", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.2.1",
        "192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.9",
        "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
        /* IPv6 */
        "::", "::1", "[::1]", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fdff:ffff::1", "ff02::1", "100::1",
        "2001::1", "2001:db8::1", "3fff::1", "64:ff9b:1::1", "4000::1", "8000::1",
        /* IPv4 in IPv6 */
        "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
        "64:ff9b::192.168.0.1", "2002:7f00:1::", "2002:a00:1::"};
    for (size_t i = 0; i < ARRAY_COUNT(special); i++)
        cr_expect(!is_public(special[i]), "%s", special[i]);
}

/* And the neighbours of those blocks. */
Test(address, others_are) {
    static const char *const open[] = {
        "1.0.0.0",       "9.255.255.255",   "11.0.0.0",    "100.63.255.255", "100.128.0.0",    "126.255.255.255",
        "128.0.0.0",     "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",     "192.0.1.0",
        "192.0.3.0",     "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",     "203.0.112.255",
        "203.0.114.0",   "223.255.255.255", "8.8.8.8",     "2000::1",        "2001:200::1",    "2001:4860:4860::8888",
        "2001:db7::1",   "2606:4700::1",    "3ffe::1",     "3fff:1000::1",   "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
        "2002:808:808::"};
    for (size_t i = 0; i < ARRAY_COUNT(open); i++)
        cr_expect(is_public(open[i]), "%s", open[i]);
}

Test(address, names_and_other_families_are_none) {
    static const char *const names[] = {"",     "localhost", "example.com", "1.2.3", "1.2.3.4.5",
                                        "[::1", "::1]",      "[]",          "%"};
    struct sockaddr_storage address;
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        cr_expect(!address_parse(names[i], &address), "%s", names[i]);
    cr_expect(!address_is_public((const struct sockaddr *)&local));
}
