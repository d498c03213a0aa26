/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "service/base/base64.h"
#include "service/base/webhook_sign.h"

/* The specification's own example. */
Test(webhook_sign, signs_as_the_published_example) {
    struct error error;
    char signature[WEBHOOK_SIGNATURE_TEXT];
    cr_assert_eq(webhook_sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
                              "{\"test\": 2432232314}", signature, &error),
                 0);
    cr_expect_str_eq(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

Test(webhook_sign, every_part_counts) {
    static const char secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    struct error error;
    char first[WEBHOOK_SIGNATURE_TEXT], other[WEBHOOK_SIGNATURE_TEXT];
    cr_assert_eq(webhook_sign(secret, "id", 1, "body", first, &error), 0);
    cr_assert_eq(webhook_sign(secret, "ie", 1, "body", other, &error), 0);
    cr_expect_str_neq(first, other);
    cr_assert_eq(webhook_sign(secret, "id", 2, "body", other, &error), 0);
    cr_expect_str_neq(first, other);
    cr_assert_eq(webhook_sign(secret, "id", 1, "bodz", other, &error), 0);
    cr_expect_str_neq(first, other);
    cr_assert_eq(webhook_sign("whsec_NfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "id", 1, "body", other, &error), 0);
    cr_expect_str_neq(first, other);
}

Test(webhook_sign, secrets_of_24_to_64_bytes_pass) {
    struct error error;
    unsigned char bytes[70];
    memset(bytes, 0xa5, sizeof bytes);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        char text[6 + BASE64_TEXT(sizeof bytes)] = "whsec_";
        base64_encode(bytes, len, text + 6);
        cr_expect_eq(webhook_secret_check(text, &error), len >= 24 && len <= 64 ? 0 : -1, "%zu bytes", len);
    }
}

Test(webhook_sign, other_secrets_do_not_and_are_not_repeated) {
    static const char *const wrong[] = {"",
                                        "whsec_",
                                        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
                                        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS-",
                                        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==="};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct error error;
        cr_assert_eq(webhook_secret_check(wrong[i], &error), -1, "%s", wrong[i]);
        cr_expect_str_eq(error.code, "bad-webhook-secret");
        cr_expect_str_eq(error.field, "webhook_secret");
        cr_expect(!strstr(error.text, "MfKQ9"));
    }
}

Test(webhook_sign, made_secrets_pass_and_differ) {
    struct error error;
    char first[WEBHOOK_SECRET_TEXT], second[WEBHOOK_SECRET_TEXT];
    webhook_secret_make(first);
    webhook_secret_make(second);
    cr_expect_eq(webhook_secret_check(first, &error), 0);
    cr_expect_str_neq(first, second);
}

Test(base64, is_that_of_rfc_4648) {
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        char text[16];
        unsigned char bytes[8];
        size_t len = 99;
        base64_encode(pairs[i][0], strlen(pairs[i][0]), text);
        cr_expect_str_eq(text, pairs[i][1]);
        cr_assert(base64_decode(pairs[i][1], bytes, sizeof bytes, &len), "%s", pairs[i][1]);
        cr_expect_eq(len, strlen(pairs[i][0]));
        cr_expect_arr_eq(bytes, pairs[i][0], len);
    }
}

Test(base64, every_byte_comes_back) {
    unsigned char bytes[256], back[256];
    char text[BASE64_TEXT(256)];
    size_t len;
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)(i * 37);
    base64_encode(bytes, sizeof bytes, text);
    cr_assert(base64_decode(text, back, sizeof back, &len));
    cr_expect_eq(len, 256);
    cr_expect_arr_eq(bytes, back, 256);
    cr_expect(!base64_decode(text, back, 255, &len));
}

/* One text for each sequence of bytes, no blanks, no other alphabet. */
Test(base64, other_texts_are_refused) {
    static const char *const wrong[] = {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "Zg==Zg==", "Zm 9", "Zm9-", "Zg=a"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        unsigned char bytes[8];
        size_t len;
        cr_expect(!base64_decode(wrong[i], bytes, sizeof bytes, &len), "%s", wrong[i]);
    }
}
