/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/blob_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "service/base/file.h"
#include "service/store/pg.h"
#include "service/store/uuid.h"

#define TEMPORARY "fetching-" /* a file that is being written */

enum { ABANDONED_S = 3600 }; /* age of such a file whose writer has died */

static const struct statement find_blob = {"blob_find", "SELECT content, bytes FROM blobs WHERE sha256 = $1"};
static const struct statement read_chunk = {
    "blob_read_chunk", "SELECT data FROM blob_chunks WHERE content = $1 AND number = $2", .binary = true};

static bool is_sha256(const char *text) {
    return text && strlen(text) == SHA256_HEX - 1 && strspn(text, "0123456789abcdef") == SHA256_HEX - 1;
}

static int no_such_blob(const char *sha256, struct error *error) {
    return error_set(error, ERROR_NOT_FOUND, "no-such-blob", NULL, "No file with the SHA-256 %.64s is stored.",
                     sha256 ? sha256 : "");
}

/* *ret_content, when wanted, is the caller's UUID text. */
static int find(struct db *db, const char *sha256, char *ret_content, int64_t *ret_bytes, struct error *error) {
    if (!is_sha256(sha256))
        return no_such_blob(sha256, error);
    PGresult *result CLEANUP(pg_clear_p) = NULL;
    struct params params = {0};
    params_text(&params, sha256);
    if (db_run(db, &find_blob, &params, &result, error) < 0)
        return -1;
    if (PQntuples(result) == 0)
        return no_such_blob(sha256, error);
    struct row row = {result, 0, 0};
    row_copy(&row, ret_content, UUID_TEXT);
    *ret_bytes = row_int(&row);
    return 0;
}

int blob_size(struct db *db, const char *sha256, int64_t *ret_bytes, struct error *error) {
    char content[UUID_TEXT];
    return find(db, sha256, content, ret_bytes, error);
}

struct fetch {
    const char *content;
    int64_t bytes, done;
    int next; /* chunk */
    int fd;
    struct sha256 *hash;
};

/* All chunks, each read by itself: a try after a lost connection goes on where the one before ended. */
static int fetch_chunks(struct pg *pg, void *data, struct error *error) {
    struct fetch *fetch = data;
    pg_discard(pg); /* its buffers have grown to the size of a chunk */
    while (fetch->done < fetch->bytes) {
        PGresult *result CLEANUP(pg_clear_p) = NULL;
        struct params params = {0};
        params_text(&params, fetch->content);
        params_int(&params, fetch->next);
        if (pg_run(pg, &read_chunk, &params, &result, error) < 0)
            return -1;
        if (PQntuples(result) == 0)
            return error_set(error, ERROR_NOT_FOUND, "no-such-blob", NULL, "The stored file was deleted meanwhile.");
        size_t len = (size_t)PQgetlength(result, 0, 0);
        if (file_write_all(fetch->fd, PQgetvalue(result, 0, 0), len, error) < 0)
            return -1;
        sha256_update(fetch->hash, PQgetvalue(result, 0, 0), len);
        fetch->done += (int64_t)len;
        fetch->next++;
    }
    return 0;
}

/* Into an open file. */
static int fetch_into(struct db *db, const char *sha256, int fd, struct error *error) {
    char content[UUID_TEXT], got[SHA256_HEX];
    struct fetch fetch = {.content = content, .fd = fd};
    if (find(db, sha256, content, &fetch.bytes, error) < 0)
        return -1;
    fetch.hash = sha256_new();
    int status = db_with(db, fetch_chunks, &fetch, error);
    if (status == 0) {
        sha256_hex(fetch.hash, got);
        if (strcmp(got, sha256) != 0)
            status = error_set(error, ERROR_DB, "blob-damaged", NULL,
                               "The stored file %s is damaged: its SHA-256 is %s.", sha256, got);
        else if (fdatasync(fd) < 0)
            status = error_set(error, ERROR_IO, "fsync", NULL, "Cannot write the cache: %s.", strerror(errno));
    }
    sha256_free(fetch.hash);
    return status;
}

static int cache_path(const char *cache_dir, const char *sha256, char *ret, size_t size, struct error *error) {
    if ((size_t)snprintf(ret, size, "%s/%s", cache_dir, sha256) >= size)
        return error_set(error, ERROR_INVALID, "bad-path", NULL, "The path of the cache folder is too long.");
    return 0;
}

int blob_fetch(struct db *db, const char *cache_dir, const char *sha256, char *ret_path, size_t size,
               struct error *error) {
    char path[PATH_MAX], temporary[PATH_MAX];
    if (!is_sha256(sha256))
        return no_such_blob(sha256, error);
    if (cache_path(cache_dir, sha256, path, sizeof path, error) < 0 ||
        cache_path(cache_dir, TEMPORARY "XXXXXX", temporary, sizeof temporary, error) < 0)
        return -1;
    if (strlen(path) >= size)
        return error_set(error, ERROR_INVALID, "bad-path", NULL, "The path of the cache folder is too long.");
    if (utimensat(AT_FDCWD, path, NULL, 0) < 0) { /* marks the read; it is not there */
        if (file_make_dirs(cache_dir, error) < 0)
            return -1;
        int fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
            return error_set(error, ERROR_IO, "open", NULL, "Cannot make a file in %.200s: %s.", cache_dir,
                             strerror(errno));
        int status = fetch_into(db, sha256, fd, error);
        close(fd);
        if (status == 0 && rename(temporary, path) < 0)
            status = error_set(error, ERROR_IO, "rename", NULL, "Cannot make %.200s: %s.", path, strerror(errno));
        if (status < 0) {
            unlink(temporary);
            return -1;
        }
    }
    memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}

int blob_cache_adopt(const char *cache_dir, const char *sha256, const char *path, struct error *error) {
    char cached[PATH_MAX];
    if (!is_sha256(sha256))
        return no_such_blob(sha256, error);
    if (file_make_dirs(cache_dir, error) < 0 || cache_path(cache_dir, sha256, cached, sizeof cached, error) < 0)
        return -1;
    if (rename(path, cached) < 0 && (errno != EXDEV || unlink(path) < 0))
        return error_set(error, ERROR_IO, "rename", NULL, "Cannot move %.200s into the cache: %s.", path,
                         strerror(errno));
    return 0;
}

/* --- Trimming --- */

struct cached {
    char name[SHA256_HEX];
    int64_t bytes, read_s;
};

static int by_age(const void *a, const void *b) {
    const struct cached *x = a, *y = b;
    return x->read_s < y->read_s ? -1 : x->read_s > y->read_s;
}

/* The cached blobs of a folder; files whose writer has died are removed on the way. */
static struct cached *list_cache(DIR *dir, int *ret_count) {
    struct cached *list = NULL;
    int count = 0, room = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
            continue;
        if (strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)) == 0 && info.st_mtime < time(NULL) - ABANDONED_S)
            unlinkat(dirfd(dir), entry->d_name, 0);
        if (!is_sha256(entry->d_name))
            continue;
        if (count == room) {
            room = room ? 2 * room : 64;
            list = realloc(list, (size_t)room * sizeof *list);
            if (!list)
                abort();
        }
        struct cached *cached = &list[count++];
        memcpy(cached->name, entry->d_name, SHA256_HEX);
        cached->bytes = info.st_size;
        cached->read_s = info.st_mtime;
    }
    *ret_count = count;
    return list;
}

int blob_cache_trim(const char *cache_dir, int64_t max_bytes, struct error *error) {
    DIR *dir = opendir(cache_dir);
    if (!dir && errno == ENOENT)
        return 0;
    if (!dir)
        return error_set(error, ERROR_IO, "open", NULL, "Cannot read the folder %.200s: %s.", cache_dir,
                         strerror(errno));
    int count;
    int64_t total = 0;
    struct cached *list = list_cache(dir, &count);
    for (int i = 0; i < count; i++)
        total += list[i].bytes;
    if (count)
        qsort(list, (size_t)count, sizeof *list, by_age);
    for (int i = 0; i < count && total > max_bytes; i++)
        if (unlinkat(dirfd(dir), list[i].name, 0) == 0)
            total -= list[i].bytes;
    free(list);
    closedir(dir);
    return 0;
}
