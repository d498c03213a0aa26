/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/secret_token.h"

#include <criterion/criterion.h>
#include <string.h>

/* Its checksum was computed with Python's zlib.crc32. */
#define KNOWN "wt_0123456789ABCDEFGHIJKLMNOPQRST4PMbyp"

Test(secret_token, a_known_one_is_valid_and_each_changed_character_is_noticed) {
    char token[] = KNOWN;
    cr_assert_eq(strlen(token), SECRET_TOKEN_TEXT - 1);
    cr_expect(secret_token_valid(token));
    for (size_t i = 0; i < strlen(token); i++) {
        char was = token[i];
        token[i] = was == 'x' ? 'y' : 'x';
        cr_expect_not(secret_token_valid(token), "character %zu", i);
        token[i] = was;
    }
}

Test(secret_token, other_texts_are_none) {
    const char *const texts[] = {"",
                                 "wt_",
                                 "wt_0123456789ABCDEFGHIJKLMNOPQRST",
                                 KNOWN "0",
                                 "ghp" KNOWN,
                                 "WT_0123456789ABCDEFGHIJKLMNOPQRST000000",
                                 "wt_0123456789ABCDEFGHIJKLMNOPQR-T000000"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect_not(secret_token_valid(texts[i]), "%s", texts[i]);
    cr_expect_not(secret_token_valid(NULL));
}

Test(secret_token, those_made_are_valid_and_differ) {
    char tokens[200][SECRET_TOKEN_TEXT], shown[SECRET_TOKEN_SHOWN];
    for (int i = 0; i < 200; i++) {
        secret_token_make(tokens[i]);
        cr_expect(secret_token_valid(tokens[i]), "%s", tokens[i]);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(tokens[i], tokens[k]);
    }
    secret_token_shown(tokens[0], shown);
    cr_expect_eq(strlen(shown), SECRET_TOKEN_SHOWN - 1);
    cr_expect_eq(strncmp(tokens[0], shown, strlen(shown)), 0);
}

Test(secret_token, every_digit_comes_up_about_as_often) {
    int counts[128] = {0};
    char token[SECRET_TOKEN_TEXT];
    for (int i = 0; i < 2000; i++) {
        secret_token_make(token);
        for (int k = 3; k < 33; k++)
            counts[(unsigned char)token[k]]++;
    }
    /* 968 expected, with a deviation of 31. */
    for (const char *c = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"; *c; c++)
        cr_expect(counts[(unsigned char)*c] > 750 && counts[(unsigned char)*c] < 1190, "%c: %d", *c,
                  counts[(unsigned char)*c]);
}
