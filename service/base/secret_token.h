/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret_token.h: the form of an API token: "wt_", 30 random letters and digits, and 6 that are a checksum of these.
 *
 * The checksum (CRC-32 of the 30 characters, as a number in base 62 with the digits 0-9A-Za-z) lets a scanner tell a
 * leaked token from other text without asking a server. The 30 characters have 178 random bits.
 */
#ifndef WARPTUNE_BASE_SECRET_TOKEN_H
#define WARPTUNE_BASE_SECRET_TOKEN_H

#include <stdbool.h>

#define SECRET_TOKEN_TEXT 40 /* 39 characters and a NUL */
#define SECRET_TOKEN_SHOWN 8 /* "wt_" and four more, by which people know it, and a NUL */

void secret_token_make(char ret_token[SECRET_TOKEN_TEXT]);
/* Whether a text has the form and the checksum is right. NULL has not. */
bool secret_token_valid(const char *text);
/* How the token begins: no secret. */
void secret_token_shown(const char *token, char ret_text[SECRET_TOKEN_SHOWN]);

#endif
