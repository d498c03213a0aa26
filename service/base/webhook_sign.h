/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhook_sign.h: secrets and signatures as the Standard Webhooks specification has them: the receiver computes
 * HMAC-SHA-256 over `id.timestamp.body` with the secret's bytes and compares it with the webhook-signature header.
 */
#ifndef WARPTUNE_BASE_WEBHOOK_SIGN_H
#define WARPTUNE_BASE_WEBHOOK_SIGN_H

#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/base64.h"
#include "service/base/error.h"

enum { WEBHOOK_SECRET_LEAST = 24, WEBHOOK_SECRET_MOST = 64 }; /* bytes */

#define WEBHOOK_SECRET_TEXT (6 + BASE64_TEXT(WEBHOOK_SECRET_MOST)) /* "whsec_" and its bytes */
#define WEBHOOK_SIGNATURE_TEXT (3 + BASE64_TEXT(32))               /* "v1," and the code */

/* ERROR_INVALID "bad-webhook-secret"; the text does not repeat the secret. */
int webhook_secret_check(const char *secret, struct error *error) MUST_CHECK;
/* A new one, of random bytes. */
void webhook_secret_make(char ret_secret[WEBHOOK_SECRET_TEXT]);
/* The secret must be one that passed the check. */
int webhook_sign(const char *secret, const char *id, int64_t timestamp_s, const char *body,
                 char ret_signature[WEBHOOK_SIGNATURE_TEXT], struct error *error) MUST_CHECK;

#endif
