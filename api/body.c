/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/exchange.h"
#include "api/multipart.h"
#include "service/base/file.h"
#include "service/base/json.h"

/* What an upload leaves free at least, and how often that is looked at while it comes. */
#define ROOM_LEFT ((uint64_t)64 << 20)
#define LOOK_EVERY ((int64_t)4 << 20)

/* The media type without its parameters equals `type`. */
static bool is_type(const char *content_type, const char *type) {
    size_t len = strcspn(content_type, "; ");
    return strlen(type) == len && strncasecmp(content_type, type, len) == 0;
}

static int unsupported(struct error *error, const char *field, const char *text) {
    return error_set(error, ERROR_INVALID, "unsupported-media-type", field, "%s", text);
}

/* JSON is UTF-8: a `charset` that says otherwise is refused rather than not looked at. */
static bool is_json(const char *content_type) {
    if (!is_type(content_type, "application/json"))
        return false;
    const char *charset = strcasestr(content_type, "charset=");
    if (!charset)
        return true;
    charset += strlen("charset=");
    charset += *charset == '"';
    return strncasecmp(charset, "utf-8", 5) == 0 && strspn(charset + 5, "\"; \t") == strlen(charset + 5);
}

/* What is spooled to a file: the form's field that may hold it, its media types, what to say otherwise. */
static const struct spooled {
    const char *field, *types[7], *wanted, *empty;
} spooled[] = {
    [BODY_UPLOAD] = {"model",
                     {"application/octet-stream", "application/onnx", "application/x-onnx", "application/x-protobuf",
                      "application/x-www-form-urlencoded"},
                     "A model is sent as application/octet-stream, or as field `model` of multipart/form-data.",
                     "The body is empty; send the model's bytes."},
    [BODY_RECORDS] = {"records",
                      {"application/x-ndjson", "application/jsonl", "application/octet-stream", "text/plain",
                       "application/x-www-form-urlencoded"},
                      "A log of records is sent as application/x-ndjson, or as field `records` of multipart/form-data.",
                      "The body is empty; send a log with one record a line."},
};

/* NULL when the route's body is none that is spooled. */
static const struct spooled *spooled_of(const struct exchange *exchange) {
    enum body_kind kind = exchange->request.route->body;
    return (size_t)kind < ARRAY_COUNT(spooled) && spooled[kind].field ? &spooled[kind] : NULL;
}

static int64_t body_limit(const struct exchange *exchange) {
    const struct api *api = exchange->request.api;
    return spooled_of(exchange) ? api->max_upload_bytes : api->max_json_bytes;
}

static int too_large(const struct exchange *exchange, struct error *error) {
    return error_set(error, ERROR_LIMIT, "body-too-large", NULL, "The body may have at most %lld bytes.",
                     (long long)body_limit(exchange));
}

/* Content-Length as a number; -1 when there is none. Two framings of one body, or a strange one, are refused. */
static int announced_length(struct exchange *exchange, int64_t *ret, struct error *error) {
    const char *length = request_header(&exchange->request, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *encoding = request_header(&exchange->request, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (request_header_count(&exchange->request, MHD_HTTP_HEADER_CONTENT_LENGTH) > 1 ||
        request_header_count(&exchange->request, MHD_HTTP_HEADER_TRANSFER_ENCODING) > 1)
        return error_set(error, ERROR_INVALID, "bad-framing", NULL, "The body's length is announced twice.");
    if (length && encoding)
        return error_set(error, ERROR_INVALID, "bad-framing", NULL,
                         "Content-Length and Transfer-Encoding exclude each other.");
    if (encoding && strcasecmp(encoding, "chunked") != 0)
        return error_set(error, ERROR_INVALID, "bad-framing", NULL, "Transfer-Encoding may only be chunked.");
    *ret = encoding ? INT64_MAX : -1;
    if (!length)
        return 0;
    char *end;
    errno = 0;
    long long number = strtoll(length, &end, 10);
    if (length[0] < '0' || length[0] > '9' || *end || errno)
        return error_set(error, ERROR_INVALID, "bad-framing", NULL, "Content-Length is not a number.");
    *ret = number;
    return 0;
}

/*
 * Whether the disk takes so much more and leaves what everything else needs to go on: PostgreSQL ends when it finds no
 * room for its log. A disk that does not tell has room.
 */
static int check_room(const struct exchange *exchange, int64_t bytes, struct error *error) {
    const char *dir = exchange->request.api->data_dir;
    struct statvfs disk;
    if (statvfs(dir, &disk) < 0 || disk.f_bavail * disk.f_frsize >= (uint64_t)bytes + ROOM_LEFT)
        return 0;
    return error_set(
        error, ERROR_IO, DISK_FULL, NULL,
        "The server's disk has not enough room for this upload: %lld MB more are needed. Make room in %.400s.",
        (long long)((uint64_t)bytes + ROOM_LEFT - disk.f_bavail * disk.f_frsize) / 1000000 + 1, dir);
}

/* What an upload of so many bytes takes beside its file: rows, and the log of their writing. */
static int64_t database_bytes(const struct exchange *exchange, int64_t bytes) {
    return exchange->request.api->own_database ? 2 * bytes : 0;
}

static int open_spool(struct exchange *exchange, struct error *error) {
    struct request *request = &exchange->request;
    const char *dir = arena_printf(request->arena, "%s/uploads", request->api->data_dir);
    if (file_make_dirs(dir, error) < 0)
        return -1;
    char *path = arena_printf(request->arena, "%s/XXXXXX", dir);
    exchange->spool = mkostemp(path, O_CLOEXEC);
    if (exchange->spool < 0)
        return file_failed(error, "make a file for the upload in", dir);
    request->upload.path = path;
    exchange->hash = sha256_new();
    return 0;
}

static int spool(void *data, const char *bytes, size_t len, struct error *error) {
    struct exchange *exchange = data;
    int64_t before = exchange->request.upload.bytes, after = before + (int64_t)len;
    if (before / LOOK_EVERY != after / LOOK_EVERY && check_room(exchange, database_bytes(exchange, after), error) < 0)
        return -1;
    exchange->request.upload.bytes = after;
    sha256_update(exchange->hash, bytes, len);
    return file_write_all(exchange->spool, bytes, len, error);
}

/* curl --data-binary says application/x-www-form-urlencoded unless told otherwise: the bytes are taken as they are. */
static int begin_upload(struct exchange *exchange, struct error *error) {
    const struct spooled *kind = spooled_of(exchange);
    const char *type = request_header(&exchange->request, MHD_HTTP_HEADER_CONTENT_TYPE);
    bool known = !type;
    for (int i = 0; type && kind->types[i]; i++)
        known |= is_type(type, kind->types[i]);
    if (!known && !is_type(type, "multipart/form-data"))
        return unsupported(error, "Content-Type", kind->wanted);
    if (!known && multipart_new(type, kind->field, spool, exchange, &exchange->multipart, error) < 0)
        return -1;
    return open_spool(exchange, error);
}

/* The headers that say what the body is. */
static int check_type(const struct request *request, struct error *error) {
    const char *encoding = request_header(request, MHD_HTTP_HEADER_CONTENT_ENCODING);
    if (encoding && strcasecmp(encoding, "identity") != 0)
        return unsupported(error, MHD_HTTP_HEADER_CONTENT_ENCODING, "A body is taken as it is, not compressed.");
    if (request_header_count(request, MHD_HTTP_HEADER_CONTENT_TYPE) > 1)
        return error_set(error, ERROR_INVALID, "bad-header", MHD_HTTP_HEADER_CONTENT_TYPE,
                         "Content-Type is given more than once.");
    const char *type = request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (request->route->body == BODY_JSON && (!type || !is_json(type)))
        return unsupported(error, MHD_HTTP_HEADER_CONTENT_TYPE, "The body must be application/json, in UTF-8.");
    return 0;
}

int body_begin(struct exchange *exchange, struct error *error) {
    int64_t length = -1;
    const struct route *route = exchange->request.route;
    if (announced_length(exchange, &length, error) < 0)
        return -1;
    if (route->body == BODY_NONE) {
        if (length > 0)
            return error_set(error, ERROR_INVALID, "unexpected-body", NULL, "This request takes no body.");
        return 0;
    }
    if (length < 0)
        return error_set(error, ERROR_INVALID, "length-required", MHD_HTTP_HEADER_CONTENT_LENGTH,
                         "This request needs a body: announce it by Content-Length, or send it chunked.");
    if (length != INT64_MAX && length > body_limit(exchange))
        return too_large(exchange, error);
    if (check_type(&exchange->request, error) < 0)
        return -1;
    if (spooled_of(exchange)) {
        int64_t known = length == INT64_MAX ? 0 : length;
        return check_room(exchange, known + database_bytes(exchange, known), error) < 0 ? -1
                                                                                        : begin_upload(exchange, error);
    }
    buf_init(&exchange->body, (size_t)body_limit(exchange));
    return 0;
}

int body_add(struct exchange *exchange, const char *data, size_t len, struct error *error) {
    exchange->received += (int64_t)len;
    if (exchange->request.route->body == BODY_NONE)
        return error_set(error, ERROR_INVALID, "unexpected-body", NULL, "This request takes no body.");
    if (exchange->received > body_limit(exchange))
        return too_large(exchange, error);
    if (exchange->multipart)
        return multipart_add(exchange->multipart, data, len, error);
    if (spooled_of(exchange))
        return spool(exchange, data, len, error);
    buf_append(&exchange->body, data, len);
    return 0;
}

static int end_upload(struct exchange *exchange, struct error *error) {
    struct request *request = &exchange->request;
    if (exchange->multipart && multipart_end(exchange->multipart, error) < 0)
        return -1;
    if (request->upload.bytes == 0)
        return error_set(error, ERROR_INVALID, "empty-body", NULL, "%s", spooled_of(exchange)->empty);
    char hex[SHA256_HEX];
    sha256_hex(exchange->hash, hex);
    request->upload.sha256 = arena_strdup(request->arena, hex);
    int fd = exchange->spool;
    exchange->spool = -1;
    if (close(fd) < 0)
        return file_failed(error, "write", "the upload");
    return 0;
}

int body_end(struct exchange *exchange, struct error *error) {
    switch (exchange->request.route->body) {
    case BODY_NONE:
        return 0;
    case BODY_UPLOAD:
    case BODY_RECORDS:
        return end_upload(exchange, error);
    case BODY_JSON:
        break;
    }
    if (exchange->body.len == 0)
        return error_set(error, ERROR_INVALID, "empty-body", NULL, "The body is empty; send a JSON object.");
    if (json_parse(exchange->body.data, exchange->body.len, &exchange->request.json, error) < 0)
        return -1;
    if (!json_object_is_type(exchange->request.json, json_type_object))
        return error_set(error, ERROR_INVALID, "not-an-object", NULL, "The body must be a JSON object.");
    return 0;
}

void body_release(struct exchange *exchange) {
    if (exchange->spool >= 0)
        close(exchange->spool);
    if (exchange->request.upload.path)
        unlink(exchange->request.upload.path);
    multipart_free(exchange->multipart);
    sha256_free(exchange->hash);
    buf_release(&exchange->body);
    json_object_put(exchange->request.json);
}
