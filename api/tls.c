/* SPDX-License-Identifier: Apache-2.0 */
#include "api/tls.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/buf.h"
#include "service/base/file.h"

enum { MOST_CERTIFICATES = 16, MOST_KEY = 1 << 16, KEY_ID = 64 };

struct identity {
    gnutls_pcert_st certificates[MOST_CERTIFICATES]; /* the server's first, then its chain */
    unsigned n;
    gnutls_privkey_t key;
    struct identity *replaced; /* a handshake may still be using it */
};

static _Atomic(struct identity *) current;

int tls_check(struct error *error) {
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES &&
        MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) == MHD_YES)
        return 0;
    return error_set(error, ERROR_INVALID, "no-tls", "tls-cert",
                     "The libmicrohttpd of this system was built without TLS. Leave tls-cert out, and let a proxy in "
                     "front do it.");
}

static void free_identity(struct identity *identity) {
    for (unsigned i = 0; i < identity->n; i++)
        gnutls_pcert_deinit(&identity->certificates[i]);
    if (identity->key)
        gnutls_privkey_deinit(identity->key);
    free(identity);
}

static int bad_file(const char *setting, const char *path, int code, struct error *error) {
    return error_set(error, ERROR_INVALID, "bad-tls", setting, "%s: %.300s: %s", setting, path, gnutls_strerror(code));
}

static int read_certificates(struct identity *identity, const char *path, struct error *error) {
    unsigned n = MOST_CERTIFICATES;
    int code = gnutls_pcert_list_import_x509_file(identity->certificates, &n, path, GNUTLS_X509_FMT_PEM, NULL, NULL, 0);
    if (code < 0)
        return bad_file("tls-cert", path, code, error);
    identity->n = n;
    return 0;
}

static int read_key(struct identity *identity, const char *path, struct error *error) {
    struct buf text CLEANUP(buf_release) = BUF_INIT(MOST_KEY);
    if (file_read(path, text.max, &text, error) < 0)
        return error_prefix(error, "tls-key: ");
    gnutls_datum_t datum = {(unsigned char *)text.data, (unsigned)text.len};
    int code = gnutls_privkey_init(&identity->key);
    if (code == 0)
        code = gnutls_privkey_import_x509_raw(identity->key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (text.data)
        explicit_bzero(text.data, text.len);
    return code < 0 ? bad_file("tls-key", path, code, error) : 0;
}

/* A pair of which one half was replaced would fail at each handshake: better now. */
static int check_pair(const struct identity *identity, struct error *error) {
    unsigned char of_certificate[KEY_ID], of_key[KEY_ID];
    size_t certificate_len = sizeof of_certificate, key_len = sizeof of_key;
    gnutls_pubkey_t public;
    int code = gnutls_pubkey_init(&public);
    if (code < 0)
        return bad_file("tls-key", "its public key", code, error);
    code = gnutls_pubkey_import_privkey(public, identity->key, 0, 0);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(public, 0, of_key, &key_len);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(identity->certificates[0].pubkey, 0, of_certificate, &certificate_len);
    gnutls_pubkey_deinit(public);
    if (code == 0 && key_len == certificate_len && memcmp(of_key, of_certificate, key_len) == 0)
        return 0;
    return error_set(error, ERROR_INVALID, "bad-tls", "tls-key", "The key of tls-key is not that of the certificate.");
}

int tls_load(const char *cert_path, const char *key_path, struct error *error) {
    if (!*cert_path || !*key_path)
        return error_set(error, ERROR_INVALID, "bad-tls", *cert_path ? "tls-key" : "tls-cert",
                         "HTTPS needs both tls-cert and tls-key.");
    struct identity *identity = calloc(1, sizeof *identity);
    if (!identity)
        abort();
    if (read_certificates(identity, cert_path, error) < 0 || read_key(identity, key_path, error) < 0 ||
        check_pair(identity, error) < 0) {
        free_identity(identity);
        return -1;
    }
    identity->replaced = atomic_load(&current);
    atomic_store(&current, identity);
    return 0;
}

void tls_unload(void) {
    struct identity *identity = atomic_exchange(&current, NULL);
    while (identity) {
        struct identity *replaced = identity->replaced;
        free_identity(identity);
        identity = replaced;
    }
}

int tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int n_authorities,
                 const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **ret, unsigned *ret_count,
                 gnutls_privkey_t *ret_key) {
    (void)session, (void)authorities, (void)n_authorities, (void)algorithms, (void)n_algorithms;
    struct identity *identity = atomic_load(&current);
    if (!identity)
        return -1;
    *ret = identity->certificates;
    *ret_count = identity->n;
    *ret_key = identity->key;
    return 0;
}
