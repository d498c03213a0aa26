/* SPDX-License-Identifier: Apache-2.0 */
#include "api/negotiate.h"

#include <string.h>
#include <strings.h>

/* One element of a header's list, without the white space around it. */
struct range {
    const char *text;
    size_t len;
};

static bool next_range(const char **at, struct range *ret) {
    *at += strspn(*at, ", \t");
    ret->text = *at;
    ret->len = strcspn(*at, ",");
    *at += ret->len;
    while (ret->len && strchr(" \t", ret->text[ret->len - 1]))
        ret->len--;
    return ret->len > 0;
}

/* The number that `text` begins with, as weights are written: 0, 0.5, 1.000; 1 for what is none. */
static double read_weight(const char *text, const char *end) {
    double weight = 0, digit = 1;
    if (text == end || *text < '0' || *text > '1')
        return 1;
    for (; text < end && ((*text >= '0' && *text <= '9') || *text == '.'); text++)
        if (*text != '.') {
            weight += digit * (*text - '0');
            digit /= 10;
        }
    return weight < 1 ? weight : 1;
}

/* Of its parameter q. */
static double weight_of(const struct range *range) {
    const char *end = range->text + range->len;
    for (const char *at = range->text; at < end; at++) {
        if (*at != ';')
            continue;
        do
            at++;
        while (at < end && strchr(" \t", *at));
        if (end - at >= 3 && strncasecmp(at, "q=", 2) == 0)
            return read_weight(at + 2, end);
    }
    return 1;
}

/* How closely a range fits the type: 0 not at all, 1 all types, 2 the type's first half, 3 itself. */
static int closeness(const struct range *range, const char *type, size_t type_len) {
    size_t len = 0, half = strcspn(type, "/") + 1;
    while (len < range->len && !strchr("; \t", range->text[len]))
        len++;
    if (len == 3 && memcmp(range->text, "*/*", 3) == 0)
        return 1;
    if (len == half + 1 && strncasecmp(range->text, type, half) == 0 && range->text[half] == '*')
        return 2;
    return len == type_len && strncasecmp(range->text, type, len) == 0 ? 3 : 0;
}

double negotiate_quality(const char *accept, const char *type, size_t type_len) {
    struct range range;
    int closest = 0;
    double quality = 0;
    if (!accept || !accept[strspn(accept, ", \t")])
        return 1;
    while (next_range(&accept, &range)) {
        int close = closeness(&range, type, type_len);
        if (close > closest) {
            closest = close;
            quality = weight_of(&range);
        }
    }
    return quality;
}

bool negotiate_accepts(const char *accept, const char *makes) {
    if (!*makes)
        return true;
    for (const char *type = makes; *type; type += strspn(type, " ")) {
        size_t len = strcspn(type, " ");
        if (negotiate_quality(accept, type, len) > 0)
            return true;
        type += len;
    }
    return false;
}
