/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t len, char *ret) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        if (n > 1)
            group |= (uint32_t)bytes[i + 1] << 8;
        if (n > 2)
            group |= bytes[i + 2];
        for (size_t k = 0; k < 4; k++)
            *ret++ = '=';
        for (size_t k = 0; k <= n; k++)
            ret[k - 4] = alphabet[group >> (18 - 6 * k) & 63];
    }
    *ret = 0;
}

static int value_of(char c) {
    const char *found = c ? strchr(alphabet, c) : NULL;
    return found ? (int)(found - alphabet) : -1;
}

bool base64_decode(const char *text, unsigned char *ret, size_t size, size_t *ret_len) {
    size_t len = strlen(text), digits = len, out = 0;
    if (len % 4 != 0)
        return false;
    while (digits > 0 && len - digits < 2 && text[digits - 1] == '=')
        digits--;
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        if (out == size)
            return false;
        ret[out++] = (unsigned char)(bits >> held);
        bits &= (1u << held) - 1;
    }
    *ret_len = out;
    return bits == 0 && BASE64_TEXT(out) == len + 1;
}
