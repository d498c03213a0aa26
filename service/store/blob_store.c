/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/blob_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/base/file.h"
#include "service/store/pg.h"
#include "service/store/uuid.h"

enum {
    CHUNK_BYTES = 1 << 20,         /* of one row */
    PIECE_BYTES = 4 * CHUNK_BYTES, /* sent in one transaction */
};

static const struct statement touch_upload = {
    "blob_touch_upload",
    "INSERT INTO blob_uploads (content) VALUES ($1) ON CONFLICT (content) DO UPDATE SET touched_at = now()"};
/* What an earlier try of the same piece may have left. */
static const struct statement delete_from = {"blob_delete_from",
                                             "DELETE FROM blob_chunks WHERE content = $1 AND number >= $2"};
static const struct statement end_upload = {"blob_end_upload", "DELETE FROM blob_uploads WHERE content = $1"};
static const struct statement insert_blob = {
    "blob_insert", "INSERT INTO blobs (sha256, content, bytes) VALUES ($1, $2, $3) "
                   "ON CONFLICT (sha256) DO UPDATE SET created_at = now() RETURNING content = $2"};
static const struct statement is_mine = {"blob_is_mine", "SELECT 1 FROM blobs WHERE sha256 = $1 AND content = $2"};
static const struct statement delete_blob = {
    "blob_delete", "DELETE FROM blobs b WHERE sha256 = $1"
                   " AND NOT EXISTS (SELECT FROM models m WHERE m.sha256 = b.sha256)"
                   " AND NOT EXISTS (SELECT FROM jobs j WHERE j.module_so = b.sha256)"
                   " AND NOT EXISTS (SELECT FROM jobs j WHERE j.module_tar = b.sha256) RETURNING content"};
static const struct statement sweep_uploads = {
    "blob_sweep_uploads",
    "WITH gone AS (DELETE FROM blob_uploads WHERE touched_at < now() - $1 * interval '1 second' "
    "RETURNING content), chunks AS (DELETE FROM blob_chunks c USING gone WHERE c.content = gone.content) "
    "SELECT count(*) FROM gone"};
static const struct statement find_stale = {
    "blob_find_stale", "SELECT sha256 FROM blobs b WHERE created_at < now() - $1 * interval '1 second'"
                       " AND NOT EXISTS (SELECT FROM models m WHERE m.sha256 = b.sha256)"
                       " AND NOT EXISTS (SELECT FROM jobs j WHERE j.module_so = b.sha256)"
                       " AND NOT EXISTS (SELECT FROM jobs j WHERE j.module_tar = b.sha256) LIMIT 20"};

struct blob_writer {
    struct db *db;
    char content[UUID_TEXT];
    struct sha256 *hash;
    char *piece;
    size_t fill;
    int next; /* number of the piece's first chunk */
    int64_t bytes;
    bool begun; /* something is stored */
    bool finished;
};

struct blob_writer *blob_writer_new(struct db *db) {
    struct blob_writer *writer = calloc(1, sizeof *writer);
    if (!writer || !(writer->piece = malloc(PIECE_BYTES)))
        abort();
    writer->db = db;
    writer->hash = sha256_new();
    uuid_make(writer->content);
    return writer;
}

/* --- COPY in binary form --- */

static void put_be(char *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (char)(value >> (8 * (bytes - 1 - i)));
}

static void put_uuid(char to[16], const char *text) {
    for (int i = 0; i < 16; text += 2) {
        if (*text == '-')
            text++;
        int high = text[0] <= '9' ? text[0] - '0' : text[0] - 'a' + 10;
        int low = text[1] <= '9' ? text[1] - '0' : text[1] - 'a' + 10;
        to[i++] = (char)(high << 4 | low);
    }
}

/* One row: three fields, each after its length. */
static bool copy_chunk(PGconn *conn, const struct blob_writer *writer, int number, const char *data, size_t len) {
    char head[34];
    put_be(head, 3, 2);
    put_be(head + 2, 16, 4);
    put_uuid(head + 6, writer->content);
    put_be(head + 22, 4, 4);
    put_be(head + 26, (uint32_t)number, 4);
    put_be(head + 30, (uint32_t)len, 4);
    return PQputCopyData(conn, head, sizeof head) == 1 && PQputCopyData(conn, data, (int)len) == 1;
}

static int copy_piece(struct pg *pg, const struct blob_writer *writer, struct error *error) {
    static const char signature[19] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
    static const char trailer[2] = {'\377', '\377'};
    PGconn *conn = pg_raw(pg);
    PGresult *started CLEANUP(pg_clear_p) =
        PQexec(conn, "COPY blob_chunks (content, number, data) FROM STDIN (FORMAT binary)");
    if (PQresultStatus(started) != PGRES_COPY_IN)
        return pg_fail(pg, started, error);
    bool sent = PQputCopyData(conn, signature, sizeof signature) == 1;
    for (size_t at = 0; sent && at < writer->fill; at += CHUNK_BYTES) {
        size_t len = writer->fill - at < CHUNK_BYTES ? writer->fill - at : CHUNK_BYTES;
        sent = copy_chunk(conn, writer, writer->next + (int)(at / CHUNK_BYTES), writer->piece + at, len);
    }
    sent = sent && PQputCopyData(conn, trailer, sizeof trailer) == 1 && PQputCopyEnd(conn, NULL) == 1;
    PGresult *ended CLEANUP(pg_clear_p) = sent ? PQgetResult(conn) : NULL;
    if (PQresultStatus(ended) != PGRES_COMMAND_OK)
        return pg_fail(pg, ended, error);
    PQclear(PQgetResult(conn)); /* the NULL that ends it */
    return 0;
}

static int store_piece(struct pg *pg, void *data, struct error *error) {
    struct blob_writer *writer = data;
    struct params upload = {0}, from = {0};
    params_text(&upload, writer->content);
    params_text(&from, writer->content);
    params_int(&from, writer->next);
    if (pg_run(pg, &touch_upload, &upload, NULL, error) < 0 || pg_run(pg, &delete_from, &from, NULL, error) < 0)
        return -1;
    return writer->fill ? copy_piece(pg, writer, error) : 0;
}

/* The pieces need not reach the disk one by one: the commit that finishes the blob flushes all before it. */
static int store_piece_lazily(struct pg *pg, void *data, struct error *error) {
    return pg_script(pg, "SET LOCAL synchronous_commit = off", error) < 0 ? -1 : store_piece(pg, data, error);
}

int blob_writer_append(struct blob_writer *writer, const void *data, size_t len, struct error *error) {
    const char *from = data;
    sha256_update(writer->hash, data, len);
    writer->bytes += (int64_t)len;
    while (len > 0) {
        size_t part = PIECE_BYTES - writer->fill < len ? PIECE_BYTES - writer->fill : len;
        memcpy(writer->piece + writer->fill, from, part);
        writer->fill += part;
        from += part;
        len -= part;
        if (writer->fill < PIECE_BYTES)
            break;
        writer->begun = true;
        if (db_transaction(writer->db, store_piece_lazily, writer, error) < 0)
            return -1;
        writer->next += PIECE_BYTES / CHUNK_BYTES;
        writer->fill = 0;
    }
    return 0;
}

struct finish {
    struct blob_writer *writer;
    const char *sha256;
};

/* 1: an earlier try has done it, only its answer was lost. */
static int finished_before(struct pg *pg, const struct finish *finish, struct error *error) {
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, finish->sha256);
    params_text(&params, finish->writer->content);
    return pg_run(pg, &is_mine, &params, &result, error) < 0 ? -1 : PQntuples(result);
}

static int finish_upload(struct pg *pg, void *data, struct error *error) {
    struct finish *finish = data;
    struct blob_writer *writer = finish->writer;
    int before = finished_before(pg, finish, error);
    if (before != 0)
        return before < 0 ? -1 : 0;
    struct params upload = {0}, blob = {0}, from = {0};
    params_text(&upload, writer->content);
    PGresult *ended CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &end_upload, &upload, &ended, error) < 0)
        return -1;
    if (writer->begun && pg_affected(ended) == 0)
        return error_set(error, ERROR_CONFLICT, "upload-expired", NULL,
                         "The upload made no progress for long and was removed. Send the file again.");
    params_text(&blob, finish->sha256);
    params_text(&blob, writer->content);
    params_int(&blob, writer->bytes);
    PGresult *inserted CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &insert_blob, &blob, &inserted, error) < 0)
        return -1;
    if (row_bool(&(struct row){inserted, 0, 0}))
        return writer->fill ? copy_piece(pg, writer, error) : 0;
    params_text(&from, writer->content); /* the same bytes are stored already */
    params_int(&from, 0);
    return pg_run(pg, &delete_from, &from, NULL, error);
}

int blob_writer_finish(struct blob_writer *writer, char ret_sha256[SHA256_HEX], int64_t *ret_bytes,
                       struct error *error) {
    char sha256[SHA256_HEX];
    sha256_hex(writer->hash, sha256);
    if (db_transaction(writer->db, finish_upload, &(struct finish){writer, sha256}, error) < 0)
        return -1;
    writer->finished = true;
    memcpy(ret_sha256, sha256, sizeof sha256);
    *ret_bytes = writer->bytes;
    return 0;
}

static int undo_upload(struct pg *pg, void *data, struct error *error) {
    struct blob_writer *writer = data;
    struct params upload = {0}, from = {0};
    params_text(&upload, writer->content);
    params_text(&from, writer->content);
    params_int(&from, 0);
    return pg_run(pg, &delete_from, &from, NULL, error) < 0 ? -1 : pg_run(pg, &end_upload, &upload, NULL, error);
}

void blob_writer_free(struct blob_writer *writer) {
    if (!writer)
        return;
    struct error ignored; /* what is left is swept later */
    if (writer->begun && !writer->finished && db_transaction(writer->db, undo_upload, writer, &ignored) < 0)
        ignored.class = ERROR_NONE;
    sha256_free(writer->hash);
    free(writer->piece);
    free(writer);
}

static int append_file(struct blob_writer *writer, int fd, const char *path, struct error *error) {
    char *part = malloc(CHUNK_BYTES);
    if (!part)
        abort();
    ssize_t len;
    int status = 0;
    while (status == 0 && (len = read(fd, part, CHUNK_BYTES)) != 0) {
        if (len > 0)
            status = blob_writer_append(writer, part, (size_t)len, error);
        else if (errno != EINTR)
            status = error_set(error, ERROR_IO, "read", NULL, "Cannot read %.200s: %s.", path, strerror(errno));
    }
    free(part);
    return status;
}

int blob_put_file(struct db *db, const char *path, char ret_sha256[SHA256_HEX], int64_t *ret_bytes,
                  struct error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, ERROR_IO, "open", NULL, "Cannot open %.200s: %s.", path, strerror(errno));
    struct blob_writer *writer = blob_writer_new(db);
    int status = append_file(writer, fd, path, error);
    if (status == 0)
        status = blob_writer_finish(writer, ret_sha256, ret_bytes, error);
    blob_writer_free(writer);
    close(fd);
    return status;
}

/* --- Deleting --- */

static int delete_one(struct pg *pg, void *data, struct error *error) {
    const char *sha256 = data;
    struct params params = {0}, from = {0};
    params_text(&params, sha256);
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    if (pg_run(pg, &delete_blob, &params, &result, error) < 0) {
        if (strcmp(pg_sqlstate(pg), "23503") == 0) /* somebody refers to it since a moment ago */
            return error_set(error, ERROR_CONFLICT, "blob-in-use", NULL, "The blob is in use.");
        return -1;
    }
    if (PQntuples(result) == 0)
        return 0;
    params_text(&from, PQgetvalue(result, 0, 0));
    params_int(&from, 0);
    return pg_run(pg, &delete_from, &from, NULL, error);
}

int blob_delete(struct db *db, const char *sha256, struct error *error) {
    struct error failure;
    if (db_transaction(db, delete_one, (void *)(uintptr_t)sha256, &failure) == 0 ||
        strcmp(failure.code, "blob-in-use") == 0)
        return 0;
    if (error)
        *error = failure;
    return -1;
}

int blob_sweep(struct db *db, double max_age_s, int64_t *ret_removed, struct error *error) {
    struct params params = {0};
    params_double(&params, max_age_s);
    PGresult *uploads CLEANUP(pg_clear_p) = NULL, *blobs CLEANUP(pg_clear_p) = NULL;
    if (db_run(db, &sweep_uploads, &params, &uploads, error) < 0 || db_run(db, &find_stale, &params, &blobs, error) < 0)
        return -1;
    for (int i = 0; i < PQntuples(blobs); i++)
        if (blob_delete(db, PQgetvalue(blobs, i, 0), error) < 0)
            return -1;
    *ret_removed = row_int(&(struct row){uploads, 0, 0}) + PQntuples(blobs);
    return 0;
}
