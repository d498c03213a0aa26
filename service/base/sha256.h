/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h: SHA-256, in one go or as the bytes arrive (OpenSSL's EVP underneath). */
#ifndef WARPTUNE_BASE_SHA256_H
#define WARPTUNE_BASE_SHA256_H

#include <stddef.h>

#define SHA256_HEX 65 /* 64 digits and a NUL */

struct sha256; /* a running hash; used by one thread at a time */

struct sha256 *sha256_new(void);
void sha256_update(struct sha256 *hash, const void *data, size_t len);
void sha256_hex(struct sha256 *hash, char ret_hex[SHA256_HEX]); /* ends the hash: lower-case hex */
void sha256_free(struct sha256 *hash);                          /* NULL-safe */
void sha256_of(const void *data, size_t len, char ret_hex[SHA256_HEX]);

#endif
