/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/utf8.h"

#include <stdbool.h>
#include <string.h>

/* What each group of lead bytes asks for; the second byte's range shuts out overlong forms and surrogates. */
static const struct lead {
    unsigned char first, last;     /* the lead byte */
    unsigned char length;          /* of the whole sequence */
    unsigned char second_min, max; /* of the second byte; all later ones are 80 to BF */
} leads[] = {
    {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F},
    {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};

static const struct lead *lead_find(unsigned char c) {
    for (size_t i = 0; i < sizeof leads / sizeof leads[0]; i++)
        if (c >= leads[i].first && c <= leads[i].last)
            return &leads[i];
    return NULL;
}

/* How many bytes fit the start of a sequence of `lead`, at most its length. */
static size_t matching_bytes(const struct lead *lead, const unsigned char *s, size_t len) {
    size_t n = 1;
    while (n < len && n < lead->length) {
        unsigned char min = n == 1 ? lead->second_min : 0x80, max = n == 1 ? lead->max : 0xBF;
        if (s[n] < min || s[n] > max)
            break;
        n++;
    }
    return n;
}

size_t utf8_sequence(const char *text, size_t len) {
    const unsigned char *s = (const unsigned char *)text;
    if (len == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    const struct lead *lead = lead_find(s[0]);
    return lead && matching_bytes(lead, s, len) == lead->length ? lead->length : 0;
}

void utf8_scrub(char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(text + i, len - i);
        if (n > 0) {
            i += n;
            continue;
        }
        const unsigned char *s = (const unsigned char *)text + i;
        const struct lead *lead = lead_find(s[0]);
        bool cut_off = lead && matching_bytes(lead, s, len - i) == len - i;
        text[i++] = cut_off ? '\0' : '?';
        if (cut_off)
            return;
    }
}
