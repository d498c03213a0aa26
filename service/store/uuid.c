/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/uuid.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "service/base/clock.h"

void uuid_make(char ret_text[UUID_TEXT]) {
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort(); /* up to 256 bytes it gives all or the system is broken */
    uint64_t ms = (uint64_t)clock_wall_us() / 1000;
    for (int i = 0; i < 6; i++)
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    static const char hex[] = "0123456789abcdef";
    char *at = ret_text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = hex[bytes[i] >> 4];
        *at++ = hex[bytes[i] & 15];
    }
    *at = 0;
}

bool uuid_valid(const char *text) {
    if (!text || strlen(text) != UUID_TEXT - 1)
        return false;
    for (int i = 0; i < UUID_TEXT - 1; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (dash ? text[i] != '-' : !digit)
            return false;
    }
    return true;
}
