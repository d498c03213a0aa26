/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/webhook_sign.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "service/base/buf.h"

enum { MADE_BYTES = 32, MOST_SIGNED = 16 << 20 };

static const char prefix[] = "whsec_";

struct secret {
    unsigned char bytes[WEBHOOK_SECRET_MOST];
    size_t len;
};

static int read_secret(const char *text, struct secret *ret, struct error *error) {
    size_t skip = sizeof prefix - 1;
    if (strncmp(text, prefix, skip) == 0 && base64_decode(text + skip, ret->bytes, sizeof ret->bytes, &ret->len) &&
        ret->len >= WEBHOOK_SECRET_LEAST)
        return 0;
    return error_set(error, ERROR_INVALID, "bad-webhook-secret", "webhook_secret",
                     "A webhook's secret is '%s' and the base64 text of %d to %d bytes.", prefix, WEBHOOK_SECRET_LEAST,
                     WEBHOOK_SECRET_MOST);
}

int webhook_secret_check(const char *secret, struct error *error) {
    return read_secret(secret, &(struct secret){.len = 0}, error);
}

void webhook_secret_make(char ret_secret[WEBHOOK_SECRET_TEXT]) {
    unsigned char bytes[MADE_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort(); /* up to 256 bytes it gives all or the system is broken */
    memcpy(ret_secret, prefix, sizeof prefix - 1);
    base64_encode(bytes, sizeof bytes, ret_secret + sizeof prefix - 1);
}

int webhook_sign(const char *secret, const char *id, int64_t timestamp_s, const char *body,
                 char ret_signature[WEBHOOK_SIGNATURE_TEXT], struct error *error) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(MOST_SIGNED);
    struct secret key;
    unsigned char code[EVP_MAX_MD_SIZE];
    unsigned code_len = 0;
    buf_printf(&text, "%s.%lld.", id, (long long)timestamp_s);
    buf_puts(&text, body);
    if (read_secret(secret, &key, error) < 0 || buf_check(&text, "a webhook's body", error) < 0)
        return -1;
    if (!HMAC(EVP_sha256(), key.bytes, (int)key.len, (const unsigned char *)text.data, text.len, code, &code_len))
        return error_set(error, ERROR_INTERNAL, "no-signature", NULL, "OpenSSL could not compute an HMAC.");
    memcpy(ret_signature, "v1,", 3);
    base64_encode(code, code_len, ret_signature + 3);
    return 0;
}
