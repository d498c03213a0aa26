/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/sha256.h"

#include <criterion/criterion.h>
#include <string.h>

/* FIPS 180-4's own examples. */
Test(sha256, known_texts_have_their_known_hashes) {
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[SHA256_HEX];
        sha256_of(cases[i].text, strlen(cases[i].text), hex);
        cr_expect_str_eq(hex, cases[i].hex);
    }
}

Test(sha256, a_million_a_in_pieces_hash_as_in_one) {
    struct sha256 *hash = sha256_new();
    char piece[1000], hex[SHA256_HEX];
    memset(piece, 'a', sizeof piece);
    for (int i = 0; i < 1000; i++) {
        sha256_update(hash, piece, 999);
        sha256_update(hash, NULL, 0);
        sha256_update(hash, piece, 1);
    }
    sha256_hex(hash, hex);
    sha256_free(hash);
    cr_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

Test(sha256, a_hash_may_be_given_up_and_free_takes_null) {
    struct sha256 *hash = sha256_new();
    sha256_update(hash, "x", 1);
    sha256_free(hash);
    sha256_free(NULL);
}
