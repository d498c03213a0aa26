/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob_store.h: bytes by their SHA-256 (model files, modules), of any size, in a few MB of memory.
 *
 * The truth is in PostgreSQL, in rows of 1 MB; files in a cache folder, named by their hash, are what is sent and
 * mapped. Storing the same bytes twice, also at once, keeps them once. An upload becomes visible as a whole when it is
 * finished; one that was aborted, or whose process died, leaves nothing (the latter once blob_sweep has run).
 */
#ifndef WARPTUNE_STORE_BLOB_STORE_H
#define WARPTUNE_STORE_BLOB_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "service/base/sha256.h"
#include "service/store/db.h"

struct blob_writer; /* one upload; used by one thread at a time */

struct blob_writer *blob_writer_new(struct db *db);
int blob_writer_append(struct blob_writer *writer, const void *data, size_t len, struct error *error) MUST_CHECK;
/* Makes the blob visible. ERROR_CONFLICT "upload-expired" when nothing was appended for an hour. Then free the writer.
 */
int blob_writer_finish(struct blob_writer *writer, char ret_sha256[SHA256_HEX], int64_t *ret_bytes,
                       struct error *error) MUST_CHECK;
/* An upload that was not finished is undone. NULL-safe. */
void blob_writer_free(struct blob_writer *writer);

/* Stores a whole file. */
int blob_put_file(struct db *db, const char *path, char ret_sha256[SHA256_HEX], int64_t *ret_bytes,
                  struct error *error) MUST_CHECK;

/* ERROR_NOT_FOUND "no-such-blob" when it is not stored. */
int blob_size(struct db *db, const char *sha256, int64_t *ret_bytes, struct error *error) MUST_CHECK;

/*
 * The path of a file in `cache_dir` (made when missing) that holds the blob; fetched when the cache lacks it, and its
 * hash checked. Any number of threads and processes may do so at once. `size`: of ret_path, PATH_MAX is enough.
 */
int blob_fetch(struct db *db, const char *cache_dir, const char *sha256, char *ret_path, size_t size,
               struct error *error) MUST_CHECK;
/*
 * Moves a file, whose hash the caller knows and whose blob is stored, into the cache; `path` is gone afterwards. Saves
 * a fetch. The file must be on the cache's file system, else it is only removed.
 */
int blob_cache_adopt(const char *cache_dir, const char *sha256, const char *path, struct error *error) MUST_CHECK;
/* Removes the files longest unread (blob_fetch marks a read) until the cache holds at most max_bytes. */
int blob_cache_trim(const char *cache_dir, int64_t max_bytes, struct error *error) MUST_CHECK;

/* Deletes the blob unless a model or a job refers to it; that, or that it is not there, is no error. */
int blob_delete(struct db *db, const char *sha256, struct error *error) MUST_CHECK;
/* Removes uploads without progress for max_age_s, and blobs older than that to which nothing refers: some of them,
 * until *ret_removed is 0. */
int blob_sweep(struct db *db, double max_age_s, int64_t *ret_removed, struct error *error) MUST_CHECK;

#endif
