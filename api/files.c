/* SPDX-License-Identifier: Apache-2.0 */
#include "api/files.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/server.h"
#include "service/base/file.h"
#include "service/store/blob_store.h"

static int answer_with(struct response *ret, int fd, const char *content_type, struct error *error) {
    struct stat st;
    if (fstat(fd, &st) < 0) {
        error_set(error, ERROR_IO, "cannot-read", NULL, "Cannot read a file of the answer: %m.");
        close(fd);
        return -1;
    }
    ret->kind = RESPONSE_FILE;
    ret->status = 200;
    ret->content_type = content_type;
    ret->fd = fd;
    ret->bytes = st.st_size;
    return 0;
}

static const char *disposition(struct arena *arena, const char *file_name) {
    char *safe = arena_strdup(arena, file_name);
    for (char *c = safe; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    return arena_printf(arena, "attachment; filename=\"%s\"", safe);
}

int response_blob(struct request *request, struct response *ret, const char *sha256, const char *content_type,
                  const char *file_name, struct error *error) {
    char path[PATH_MAX];
    const char *cache = arena_printf(request->arena, "%s/blobs", request->api->data_dir);
    if (blob_fetch(request->api->db, cache, sha256, path, sizeof path, error) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, ERROR_IO, "cannot-read", NULL, "Cannot open %.400s: %m.", path);
    if (answer_with(ret, fd, content_type, error) < 0)
        return -1;
    ret->etag = arena_printf(request->arena, "\"%s\"", sha256);
    response_header(request, ret, "Content-Disposition", disposition(request->arena, file_name));
    return 0;
}

enum { FLUSH_AT = 256 << 10 };

int text_file_open(struct request *request, struct text_file *ret, struct error *error) {
    const char *dir = arena_printf(request->arena, "%s/uploads", request->api->data_dir);
    char *path = arena_printf(request->arena, "%s/XXXXXX", dir);
    if (file_make_dirs(dir, error) < 0)
        return -1;
    ret->fd = mkostemp(path, O_CLOEXEC);
    if (ret->fd < 0)
        return file_failed(error, "make a file for the answer in", dir);
    unlink(path);
    buf_init(&ret->text, 64 << 20);
    return 0;
}

static int write_out(struct text_file *file, struct error *error) {
    if (buf_check(&file->text, "a line of the answer", error) < 0 ||
        file_write_all(file->fd, buf_str(&file->text), file->text.len, error) < 0)
        return -1;
    buf_clear(&file->text);
    return 0;
}

int text_file_flush(struct text_file *file, struct error *error) {
    return file->text.len < FLUSH_AT && !file->text.overflowed ? 0 : write_out(file, error);
}

int response_text_file(struct response *ret, struct text_file *file, const char *content_type, struct error *error) {
    if (write_out(file, error) < 0)
        return -1;
    int fd = file->fd;
    file->fd = -1;
    return answer_with(ret, fd, content_type, error);
}

void text_file_release(struct text_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    buf_release(&file->text);
}
