/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h: whole files, folders and memory maps. Every descriptor is opened with O_CLOEXEC. What is not there is
 * ERROR_NOT_FOUND, all else that the system refuses ERROR_IO with the path and its reason.
 */
#ifndef WARPTUNE_BASE_FILE_H
#define WARPTUNE_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "service/base/attr.h"
#include "service/base/buf.h"
#include "service/base/error.h"

/* The code of errors about a disk, or a quota, that is full: it passes when somebody makes room. */
#define DISK_FULL "disk-full"

/* Sets what errno says of a path that one cannot `verb`, and returns -1. */
int file_failed(struct error *error, const char *verb, const char *path);

/* A read-only map of a file; data is NULL for an empty one. */
struct file_map {
    const void *data;
    size_t len;
};

/* `ret` is an initialised buffer; what it held is replaced, its maximum becomes `max`. Longer: ERROR_LIMIT. */
int file_read(const char *path, size_t max, struct buf *ret, struct error *error) MUST_CHECK;
/* Through a temporary name beside it, fsync and rename: whole or not at all. A device or a pipe is written into. */
int file_write(const char *path, const void *data, size_t len, struct error *error) MUST_CHECK;
/* write() until all is written. */
int file_write_all(int fd, const void *data, size_t len, struct error *error) MUST_CHECK;
int file_map(const char *path, struct file_map *ret, struct error *error) MUST_CHECK;
void file_unmap(struct file_map *map);
/* mkdir -p, mode 0700 for those it makes. */
int file_make_dirs(const char *path, struct error *error) MUST_CHECK;
/* rm -r; what is not there is no error. Never follows a symbolic link. */
int file_remove_tree(const char *path, struct error *error) MUST_CHECK;
/* Absolute path of the running program. */
int file_self(char *ret_path, size_t size, struct error *error) MUST_CHECK;

#endif
