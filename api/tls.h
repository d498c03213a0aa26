/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.h: the certificate that HTTPS connections are answered with, and its key.
 *
 * libmicrohttpd asks for it at each handshake, through a function that has no data of ours: so a process has one at a
 * time, which may be replaced while it serves. Thread-safe.
 */
#ifndef WARPTUNE_API_TLS_H
#define WARPTUNE_API_TLS_H

#include <gnutls/abstract.h>

#include "service/base/error.h"

/* ERROR_INVALID when libmicrohttpd was built without what this needs. */
int tls_check(struct error *error) MUST_CHECK;
/* Reads both files (PEM), and uses them from the next handshake on; on an error what was read before stays in use. */
int tls_load(const char *cert_path, const char *key_path, struct error *error) MUST_CHECK;
/* Forgets all that was read; no handshake may be under way. */
void tls_unload(void);

gnutls_certificate_retrieve_function2 tls_retrieve;

/* For MHD_OPTION_HTTPS_PRIORITIES: TLS 1.2 and 1.3. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

#endif
