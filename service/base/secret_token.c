/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/secret_token.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char start[] = "wt_";

enum { BASE = 62, START = 3, RANDOM = 30, SUM = 6, FAIR = 256 / BASE * BASE /* bytes below it are fair dice */ };

/* A digit for each random byte that is fair. */
static void make_random(char *ret) {
    for (int n = 0; n < RANDOM;) {
        uint8_t bytes[64];
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            abort(); /* up to 256 bytes it gives all or the system is broken */
        for (size_t i = 0; i < sizeof bytes && n < RANDOM; i++)
            if (bytes[i] < FAIR)
                ret[n++] = digits[bytes[i] % BASE];
        explicit_bzero(bytes, sizeof bytes);
    }
}

/* The CRC of zip and gzip: 30 bytes need no table. */
static uint32_t crc32_of(const char *text, int len) {
    uint32_t crc = UINT32_MAX;
    for (int i = 0; i < len; i++) {
        crc ^= (uint8_t)text[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void write_sum(const char *random, char *ret) {
    uint32_t sum = crc32_of(random, RANDOM);
    for (int i = SUM - 1; i >= 0; i--, sum /= BASE)
        ret[i] = digits[sum % BASE];
}

void secret_token_make(char ret_token[SECRET_TOKEN_TEXT]) {
    memcpy(ret_token, start, START);
    make_random(ret_token + START);
    write_sum(ret_token + START, ret_token + START + RANDOM);
    ret_token[SECRET_TOKEN_TEXT - 1] = 0;
}

bool secret_token_valid(const char *text) {
    char sum[SUM];
    if (!text || strlen(text) != SECRET_TOKEN_TEXT - 1 || memcmp(text, start, START) != 0 ||
        strspn(text + START, digits) != RANDOM + SUM)
        return false;
    write_sum(text + START, sum);
    return memcmp(sum, text + START + RANDOM, SUM) == 0;
}

void secret_token_shown(const char *token, char ret_text[SECRET_TOKEN_SHOWN]) {
    snprintf(ret_text, SECRET_TOKEN_SHOWN, "%s", token);
}
