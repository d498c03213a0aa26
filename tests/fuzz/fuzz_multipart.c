/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_multipart.c: any bytes as a multipart body, in pieces whose sizes the input chooses.
 *
 * Beyond not crashing: the pieces make no difference. Whole or byte by byte, the body is taken or refused alike, and
 * when it is taken the field has the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>

/* The fuzzers are built from the lower folders' sources; of api/ only this file is wanted. */
#include "api/multipart.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int collect(void *data, const char *bytes, size_t len, struct error *error) {
    (void)error;
    buf_append(data, bytes, len);
    return 0;
}

static void demand(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static int read_in_pieces(const char *body, size_t len, size_t piece, struct buf *ret) {
    struct multipart *multipart;
    struct error error;
    int status = 0;
    demand(multipart_new("multipart/form-data; boundary=b", "m", collect, ret, &multipart, &error) == 0, "a boundary");
    for (size_t at = 0; at < len && status == 0; at += piece)
        status = multipart_add(multipart, body + at, len - at < piece ? len - at : piece, &error);
    if (status == 0)
        status = multipart_end(multipart, &error);
    if (status < 0)
        demand(error.class == ERROR_INVALID && error.text[0], "a refusal says why");
    multipart_free(multipart);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    const char *body = (const char *)data + 1;
    size_t len = size - 1, piece = 1 + data[0] % 64;
    struct buf whole = BUF_INIT(1 << 20), parts = BUF_INIT(1 << 20);
    int status = read_in_pieces(body, len, len, &whole);
    demand(read_in_pieces(body, len, piece, &parts) == status, "pieces are taken or refused as the whole is");
    if (status == 0)
        demand(whole.len == parts.len && (whole.len == 0 || memcmp(whole.data, parts.data, whole.len) == 0),
               "and give the same bytes");
    buf_release(&whole);
    buf_release(&parts);
    return 0;
}
