/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/pg_fixture.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <utime.h>

#include "service/base/rng.h"

#define MB (1 << 20)

/* `len` bytes that do not repeat, appended in uneven pieces; returns their hash. */
static void append_noise(struct blob_writer *writer, size_t len, uint64_t seed, char ret_sha256[SHA256_HEX]) {
    struct error error;
    struct sha256 *hash = sha256_new();
    struct rng rng;
    uint64_t piece[16384 / 8 + 3];
    rng_seed(&rng, seed);
    while (len > 0) {
        size_t part = len < sizeof piece ? len : sizeof piece;
        for (size_t i = 0; i < ARRAY_COUNT(piece); i++)
            piece[i] = rng_next(&rng);
        sha256_update(hash, piece, part);
        OK(blob_writer_append(writer, piece, part, &error));
        len -= part;
    }
    sha256_hex(hash, ret_sha256);
    sha256_free(hash);
}

static void store_noise(struct fixture *f, size_t len, uint64_t seed, char ret_sha256[SHA256_HEX]) {
    struct error error;
    char expected[SHA256_HEX];
    int64_t bytes;
    struct blob_writer *writer = blob_writer_new(f->db);
    append_noise(writer, len, seed, expected);
    OK(blob_writer_finish(writer, ret_sha256, &bytes, &error));
    cr_assert_str_eq(ret_sha256, expected);
    cr_assert_eq(bytes, (int64_t)len);
    blob_writer_free(writer);
}

static void hash_file(const char *path, char ret_sha256[SHA256_HEX]) {
    struct error error;
    struct file_map map;
    OK(file_map(path, &map, &error));
    sha256_of(map.data, map.len, ret_sha256);
    file_unmap(&map);
}

/* Rows of chunks, finished or not, and uploads. */
static int64_t rows_left(struct fixture *f) {
    return fixture_number(f->url, "SELECT (SELECT count(*) FROM blob_chunks) + (SELECT count(*) FROM blob_uploads)");
}

Test(blob, any_size_comes_back_as_it_went_in) {
    static const size_t sizes[] = {0, 1, MB - 1, MB, MB + 1, 4 * MB, 4 * MB + 1, 9 * MB + 12345};
    struct fixture f = fixture_open();
    struct error error;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char sha256[SHA256_HEX], got[SHA256_HEX], path[PATH_MAX];
        int64_t bytes;
        store_noise(&f, sizes[i], i, sha256);
        OK(blob_size(f.db, sha256, &bytes, &error));
        cr_expect_eq(bytes, (int64_t)sizes[i]);
        OK(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error));
        hash_file(path, got);
        cr_expect_str_eq(got, sha256, "%zu bytes", sizes[i]);
    }
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM blob_uploads"), 0);
    fixture_close(&f);
}

Test(blob, a_file_of_100_mb_goes_in_and_out_in_a_few_mb_of_memory) {
    struct fixture f = fixture_open();
    struct error error;
    struct rusage before, after;
    char sha256[SHA256_HEX], path[PATH_MAX], again[SHA256_HEX];
    int64_t bytes;
    store_noise(&f, 8 * MB, 1, sha256); /* what is used once and kept is in use now */
    OK(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error));
    getrusage(RUSAGE_SELF, &before);
    store_noise(&f, 100 * MB, 2, sha256);
    OK(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error));
    OK(blob_put_file(f.db, path, again, &bytes, &error));
    getrusage(RUSAGE_SELF, &after);
    cr_expect_str_eq(again, sha256);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
    cr_expect_lt(after.ru_maxrss - before.ru_maxrss, 16 << 10, "%ld kB more", after.ru_maxrss - before.ru_maxrss);
#endif
    fixture_close(&f);
}

Test(blob, the_same_bytes_twice_are_kept_once) {
    struct fixture f = fixture_open();
    char first[SHA256_HEX], second[SHA256_HEX];
    store_noise(&f, 5 * MB, 1, first);
    store_noise(&f, 5 * MB, 1, second);
    cr_expect_str_eq(first, second);
    cr_expect_eq(rows_left(&f), 5);
    fixture_close(&f);
}

static void *store_five(void *data) {
    char sha256[SHA256_HEX];
    store_noise(data, 5 * MB, 5, sha256);
    return NULL;
}

Test(blob, the_same_bytes_at_once_are_kept_once) {
    struct fixture f = fixture_open();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, store_five, &f), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(rows_left(&f), 5);
    fixture_close(&f);
}

Test(blob, an_upload_that_is_aborted_leaves_nothing) {
    struct fixture f = fixture_open();
    char sha256[SHA256_HEX];
    struct blob_writer *writer = blob_writer_new(f.db);
    append_noise(writer, 9 * MB, 1, sha256);
    cr_expect_eq(rows_left(&f), 9); /* 8 chunks and the upload */
    cr_expect_eq(fixture_number(f.url, "SELECT count(*) FROM blobs"), 0);
    blob_writer_free(writer);
    cr_expect_eq(rows_left(&f), 0);
    fixture_close(&f);
}

Test(blob, an_upload_whose_process_died_is_swept_away) {
    struct fixture f = fixture_open();
    struct error error;
    char sha256[SHA256_HEX];
    int64_t removed, bytes;
    struct blob_writer *writer = blob_writer_new(f.db);
    append_noise(writer, 9 * MB, 1, sha256);
    OK(blob_sweep(f.db, 3600, &removed, &error));
    cr_expect_eq(removed, 0);
    fixture_sql(f.url, "UPDATE blob_uploads SET touched_at = now() - interval '2 hours'");
    OK(blob_sweep(f.db, 3600, &removed, &error));
    cr_expect_eq(removed, 1);
    cr_expect_eq(rows_left(&f), 0);
    FAILS(blob_writer_finish(writer, sha256, &bytes, &error), "upload-expired");
    blob_writer_free(writer);
    fixture_close(&f);
}

Test(blob, one_that_nothing_refers_to_is_swept_when_old) {
    struct fixture f = fixture_open();
    struct error error;
    int64_t removed, bytes;
    char sha256[SHA256_HEX];
    struct model_row *model = fixture_model(&f, "used");
    fixture_blob(&f, "unused", sha256);
    OK(blob_sweep(f.db, 3600, &removed, &error));
    cr_expect_eq(removed, 0);
    fixture_sql(f.url, "UPDATE blobs SET created_at = now() - interval '2 hours'");
    OK(blob_sweep(f.db, 3600, &removed, &error));
    cr_expect_eq(removed, 1);
    FAILS(blob_size(f.db, sha256, &bytes, &error), "no-such-blob");
    OK(blob_size(f.db, model->sha256, &bytes, &error));
    fixture_close(&f);
}

Test(blob, one_that_a_model_refers_to_stays) {
    struct fixture f = fixture_open();
    struct error error;
    int64_t bytes;
    struct model_row *model = fixture_model(&f, "network");
    OK(blob_delete(f.db, model->sha256, &error));
    OK(blob_size(f.db, model->sha256, &bytes, &error));
    fixture_close(&f);
}

Test(blob, one_that_is_deleted_takes_its_chunks_with_it) {
    struct fixture f = fixture_open();
    struct error error;
    char sha256[SHA256_HEX], path[PATH_MAX];
    store_noise(&f, 3 * MB, 1, sha256);
    OK(blob_delete(f.db, sha256, &error));
    cr_expect_eq(rows_left(&f), 0);
    FAILS(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error), "no-such-blob");
    OK(blob_delete(f.db, sha256, &error));
    fixture_close(&f);
}

Test(blob, a_damaged_one_is_never_given_out) {
    struct fixture f = fixture_open();
    struct error error;
    char sha256[SHA256_HEX], path[PATH_MAX];
    store_noise(&f, 3 * MB, 1, sha256);
    fixture_sql(f.url,
                "UPDATE blob_chunks SET data = set_byte(data, 7, (get_byte(data, 7) + 1) % 256) WHERE number = 1");
    FAILS(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error), "blob-damaged");
    fixture_sql(f.url, "DELETE FROM blob_chunks WHERE number = 1");
    FAILS(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error), "no-such-blob");
    OK(file_remove_tree(f.dir, &error)); /* nothing but whole files would be left in it */
    cr_expect_eq(mkdir(f.dir, 0700), 0);
    fixture_close(&f);
}

Test(blob, what_is_no_hash_is_no_path_into_the_file_system) {
    struct fixture f = fixture_open();
    struct error error;
    char path[PATH_MAX];
    FAILS(blob_fetch(f.db, f.dir, "../../../../../../../../../../../../../../../../../../etc/passwd", path, sizeof path,
                     &error),
          "no-such-blob");
    FAILS(blob_cache_adopt(f.dir, "..", "/etc/passwd", &error), "no-such-blob");
    fixture_close(&f);
}

Test(blob, a_cached_file_is_served_without_the_database) {
    struct fixture f = fixture_open();
    struct error error;
    char sha256[SHA256_HEX], path[PATH_MAX], spooled[PATH_MAX];
    snprintf(spooled, sizeof spooled, "%s/spool", f.dir);
    OK(file_write(spooled, "hello", 5, &error));
    sha256_of("hello", 5, sha256);
    OK(blob_cache_adopt(f.dir, sha256, spooled, &error));
    OK(blob_fetch(f.db, f.dir, sha256, path, sizeof path, &error));
    cr_expect_neq(access(spooled, F_OK), 0);
    fixture_close(&f);
}

Test(blob, a_full_cache_loses_what_was_not_read_for_longest) {
    struct fixture f = fixture_open();
    struct error error;
    char old[SHA256_HEX], read_again[SHA256_HEX], new[SHA256_HEX], path[PATH_MAX], cache[128];
    snprintf(cache, sizeof cache, "%s/cache", f.dir);
    OK(blob_cache_trim(cache, 0, &error)); /* none yet */
    store_noise(&f, MB, 1, read_again);
    store_noise(&f, MB, 2, old);
    store_noise(&f, MB, 3, new);
    const char *order[] = {read_again, old, new};
    for (int i = 0; i < 3; i++) {
        OK(blob_fetch(f.db, cache, order[i], path, sizeof path, &error));
        cr_assert_eq(utime(path, &(struct utimbuf){1000 + i, 1000 + i}), 0);
    }
    OK(blob_fetch(f.db, cache, read_again, path, sizeof path, &error));
    OK(blob_cache_trim(cache, 2 * MB, &error));
    snprintf(path, sizeof path, "%s/%s", cache, old);
    cr_expect_neq(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%s", cache, read_again);
    cr_expect_eq(access(path, F_OK), 0);
    fixture_close(&f);
}
