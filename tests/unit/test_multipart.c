/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "api/multipart.h"
#include "service/base/buf.h"

static int collect(void *data, const char *bytes, size_t len, struct error *error) {
    (void)error;
    buf_append(data, bytes, len);
    return 0;
}

/* Feeds `body` in pieces of `piece` bytes; the field's bytes land in *got. */
static int feed(const char *body, size_t len, size_t piece, struct buf *got, struct error *error) {
    struct multipart *multipart;
    if (multipart_new("multipart/form-data; charset=utf-8; boundary=\"XyZ\"", "model", collect, got, &multipart,
                      error) < 0)
        return -1;
    int status = 0;
    for (size_t at = 0; at < len && status == 0; at += piece)
        status = multipart_add(multipart, body + at, len - at < piece ? len - at : piece, error);
    if (status == 0)
        status = multipart_end(multipart, error);
    multipart_free(multipart);
    return status;
}

#define FORM(content)                                                                       \
    "--XyZ\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--XyZ\r\n"      \
    "Content-Disposition: form-data; name=\"model\"; filename=\"a.onnx\"\r\nContent-Type: " \
    "application/octet-stream\r\n\r\n" content "\r\n--XyZ--\r\n"

Test(multipart, field_arrives_whole_in_pieces_of_any_size) {
    static const char content[] = "a\r\n--Xy almost\r\n\r\n--XY\0z";
    static const char body[] = FORM("a\r\n--Xy almost\r\n\r\n--XY\0z");
    for (size_t piece = 1; piece < sizeof body; piece++) {
        struct buf got = BUF_INIT(1 << 16);
        struct error error = {0};
        cr_assert_eq(feed(body, sizeof body - 1, piece, &got, &error), 0, "piece %zu: %s", piece, error.text);
        cr_assert_eq(got.len, sizeof content - 1, "piece %zu: %zu bytes", piece, got.len);
        cr_assert_arr_eq(got.data, content, got.len);
        buf_release(&got);
    }
}

Test(multipart, cut_off_or_malformed_bodies_are_refused) {
    static const char body[] = FORM("content");
    for (size_t len = 0; len < sizeof body - 5; len++) {
        struct buf got = BUF_INIT(1 << 16);
        struct error error = {0};
        cr_assert_eq(feed(body, len, 64, &got, &error), -1, "%zu bytes were accepted", len);
        buf_release(&got);
    }
}

Test(multipart, form_without_the_field_is_refused) {
    static const char body[] = "--XyZ\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nhello\r\n--XyZ--\r\n";
    struct buf got = BUF_INIT(1 << 16);
    struct error error = {0};
    cr_assert_eq(feed(body, sizeof body - 1, 16, &got, &error), -1);
    cr_assert_str_eq(error.field, "model");
    buf_release(&got);
}

Test(multipart, boundary_must_be_there) {
    struct multipart *multipart;
    struct error error = {0};
    cr_assert_eq(multipart_new("multipart/form-data", "model", collect, NULL, &multipart, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
}

static int refuse(void *data, const char *bytes, size_t len, struct error *error) {
    (void)data, (void)bytes, (void)len;
    return error_set(error, ERROR_LIMIT, "enough", NULL, "Enough.");
}

Test(multipart, error_of_the_sink_comes_back) {
    static const char body[] = FORM("content");
    struct multipart *multipart;
    struct error error = {0};
    cr_assert_eq(multipart_new("multipart/form-data; boundary=XyZ", "model", refuse, NULL, &multipart, &error), 0);
    cr_assert_eq(multipart_add(multipart, body, sizeof body - 1, &error), -1);
    cr_assert_str_eq(error.code, "enough");
    multipart_free(multipart);
}

Test(multipart, part_without_headers_is_read_over) {
    static const char body[] = "--XyZ\r\n\r\nnameless\r\n--XyZ\r\nContent-Disposition: form-data; "
                               "name=\"model\"\r\n\r\nbytes\r\n--XyZ--";
    struct buf got = BUF_INIT(1 << 16);
    struct error error = {0};
    cr_assert_eq(feed(body, sizeof body - 1, 3, &got, &error), 0, "%s", error.text);
    cr_assert_str_eq(buf_str(&got), "bytes");
    buf_release(&got);
}

Test(multipart, endless_headers_of_a_part_are_refused) {
    struct buf body = BUF_INIT(1 << 20), got = BUF_INIT(1 << 16);
    struct error error = {0};
    buf_puts(&body, "--XyZ\r\nX-Long: ");
    for (int i = 0; i < 100000; i++)
        buf_putc(&body, 'a');
    cr_assert_eq(feed(body.data, body.len, 4096, &got, &error), -1);
    cr_assert_eq(error.class, ERROR_INVALID);
    buf_release(&body);
    buf_release(&got);
}
