/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/sha256.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/evp.h>

struct sha256 {
    EVP_MD_CTX *context;
};

/* OpenSSL fails here only when memory is out or the library is broken: neither can be passed on as a hash. */
static void must(int ok) {
    if (ok)
        return;
    fputs("SHA-256: OpenSSL failed; is memory out?\n", stderr);
    abort();
}

struct sha256 *sha256_new(void) {
    struct sha256 *hash = calloc(1, sizeof *hash);
    must(hash && (hash->context = EVP_MD_CTX_new()) && EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL));
    return hash;
}

void sha256_update(struct sha256 *hash, const void *data, size_t len) {
    must(len == 0 || EVP_DigestUpdate(hash->context, data, len));
}

static void to_hex(const unsigned char digest[32], char ret_hex[SHA256_HEX]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[SHA256_HEX - 1] = '\0';
}

void sha256_hex(struct sha256 *hash, char ret_hex[SHA256_HEX]) {
    unsigned char digest[32];
    must(EVP_DigestFinal_ex(hash->context, digest, NULL));
    to_hex(digest, ret_hex);
}

void sha256_free(struct sha256 *hash) {
    if (!hash)
        return;
    EVP_MD_CTX_free(hash->context);
    free(hash);
}

void sha256_of(const void *data, size_t len, char ret_hex[SHA256_HEX]) {
    struct sha256 *hash = sha256_new();
    sha256_update(hash, data, len);
    sha256_hex(hash, ret_hex);
    sha256_free(hash);
}
