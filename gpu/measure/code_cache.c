/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/code_cache.h"

#include <stdio.h>
#include <string.h>

#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/sha256.h"

enum { MOST_CODE = 64 << 20, MOST_LOG = 1 << 20, SEAL = SHA256_HEX - 1 };

/* The key of the source under this compiler, as a path; the first two digits name a folder. */
static int find_place(const char *cache_dir, const char *id, const struct target *target, const char *source,
                      struct code_built *built, struct error *error) {
    char hex[SHA256_HEX], folder[sizeof built->path];
    struct sha256 *hash = sha256_new();
    const char *parts[] = {id, target->kind, target->arch, source};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        sha256_update(hash, parts[i], strlen(parts[i]) + 1);
    sha256_hex(hash, hex);
    sha256_free(hash);
    snprintf(folder, sizeof folder, "%s/%.2s", cache_dir, hex);
    if (snprintf(built->path, sizeof built->path, "%s/%.2s/%s", cache_dir, hex, hex + 2) >= (int)sizeof built->path)
        return error_set(error, ERROR_LIMIT, "path-too-long", NULL, "The path of the code cache, %.100s…, is too long.",
                         cache_dir);
    return file_make_dirs(folder, error);
}

/* Whether the file is there and carries the hash of what it holds. */
static bool is_whole(const char *path) {
    struct file_map map;
    struct error error;
    char hex[SHA256_HEX];
    if (file_map(path, &map, &error) < 0)
        return false;
    bool whole = map.len > SEAL;
    if (whole) {
        size_t len = map.len - SEAL;
        sha256_of(map.data, len, hex);
        whole = memcmp((const char *)map.data + len, hex, SEAL) == 0;
    }
    file_unmap(&map);
    return whole;
}

static int keep(const char *path, struct buf *code, struct error *error) {
    char hex[SHA256_HEX];
    sha256_of(code->data, code->len, hex);
    buf_append(code, hex, SEAL);
    if (buf_check(code, "compiled code", error) < 0)
        return -1;
    return file_write(path, code->data, code->len, error);
}

int code_find(const char *cache_dir, const struct target *target, const char *source, struct code_built *ret,
              struct error *error) {
    const struct device_class *class = device_class_find(target->kind);
    struct code_built built = {.hit = true};
    char id[128];
    if (!class)
        return error_set(error, ERROR_INVALID, "unknown-kind", "kind", "There is no kind of device \"%s\".",
                         target->kind);
    if (class->compiler_id(target, id, error) < 0 || find_place(cache_dir, id, target, source, &built, error) < 0)
        return -1;
    built.hit = is_whole(built.path);
    *ret = built;
    return 0;
}

int code_build(const char *cache_dir, const struct target *target, const char *source, int64_t deadline,
               struct code_built *ret, struct buf *ret_log, struct error *error) {
    struct code_built built;
    buf_clear(ret_log);
    if (code_find(cache_dir, target, source, &built, error) < 0)
        return -1;
    if (!built.hit) {
        CLEANUP(buf_release) struct buf code = BUF_INIT(MOST_CODE);
        int64_t begin = clock_now_ns();
        if (device_class_find(target->kind)->compile(target, source, deadline, &code, ret_log, error) < 0)
            return -1;
        built.seconds = (double)(clock_now_ns() - begin) / NS_PER_S;
        if (keep(built.path, &code, error) < 0)
            return -1;
    }
    *ret = built;
    return 0;
}
