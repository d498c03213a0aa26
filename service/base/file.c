/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_STEP = 256 * 1024, WRITE_STEP = 1 << 30 };

int file_failed(struct error *error, const char *verb, const char *path) {
    int reason = errno;
    char text[128];
    if (reason == ENOSPC || reason == EDQUOT)
        return error_set(error, ERROR_IO, DISK_FULL, NULL, "Cannot %s %.800s: the disk is full. Make room.", verb,
                         path);
    return error_set(error, reason == ENOENT ? ERROR_NOT_FOUND : ERROR_IO,
                     reason == ENOENT ? "file-not-found" : "file-failed", NULL, "Cannot %s %s: %s.", verb, path,
                     strerror_r(reason, text, sizeof text));
}

static int read_to_end(int fd, const char *path, struct buf *ret, struct error *error) {
    for (;;) {
        size_t room = ret->max - ret->len;
        char spare; /* at the maximum one more byte is asked for, which must not come */
        void *to = room > 0 ? buf_reserve(ret, room < READ_STEP ? room : READ_STEP) : &spare;
        if (!to)
            return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to read %s.", path);
        ssize_t n = read(fd, to, room == 0 ? 1 : room < READ_STEP ? room : READ_STEP);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return file_failed(error, "read", path);
        if (n > 0 && room == 0)
            return error_set(error, ERROR_LIMIT, "file-too-large", NULL,
                             "%s is larger than %zu bytes, the most that is allowed.", path, ret->max);
        if (n > 0)
            ret->len += (size_t)n;
    }
}

int file_read(const char *path, size_t max, struct buf *ret, struct error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_failed(error, "open", path);
    buf_clear(ret);
    ret->max = max;
    int rc = read_to_end(fd, path, ret, error);
    close(fd);
    if (rc < 0)
        buf_clear(ret);
    return rc;
}

/* Waits until a descriptor that does not block takes more. */
static int wait_writable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, -1) < 0 && errno != EINTR ? -1 : 0;
}

int file_write_all(int fd, const void *data, size_t len, struct error *error) {
    const char *at = data;
    while (len > 0) {
        ssize_t n = write(fd, at, len < WRITE_STEP ? len : WRITE_STEP);
        if (n >= 0) {
            at += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN ? wait_writable(fd) < 0 : errno != EINTR) {
            return file_failed(error, "write", "to a descriptor");
        }
    }
    return 0;
}

static int sync_folder_of(const char *path, struct error *error) {
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    int n = slash == path ? 1 : slash ? (int)(slash - path) : 1;
    snprintf(folder, sizeof folder, "%.*s", n, slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_failed(error, "open", folder);
    int rc = fsync(fd) < 0 && errno != EINVAL ? file_failed(error, "sync", folder) : 0;
    close(fd);
    return rc;
}

/* Writes, syncs and closes fd. */
static int fill_and_close(int fd, const char *path, const void *data, size_t len, struct error *error) {
    int rc = file_write_all(fd, data, len, error);
    if (rc < 0)
        error_prefix(error, "%s: ", path);
    if (rc == 0 && fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
        rc = file_failed(error, "sync", path);
    if (close(fd) < 0 && rc == 0)
        rc = file_failed(error, "close", path);
    return rc;
}

/* A device or a pipe is written into: a rename would put a file in its place. */
static int write_special(const char *path, const void *data, size_t len, struct error *error) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? file_failed(error, "open", path) : fill_and_close(fd, path, data, len, error);
}

int file_write(const char *path, const void *data, size_t len, struct error *error) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return write_special(path, data, len, error);
    char temporary[PATH_MAX];
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return file_failed(error, "name", path);
    if (snprintf(temporary, sizeof temporary, "%s.%016" PRIx64 ".tmp", path, random) >= (int)sizeof temporary)
        return errno = ENAMETOOLONG, file_failed(error, "write", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return file_failed(error, "create", temporary);
    int rc = fill_and_close(fd, temporary, data, len, error);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = file_failed(error, "replace", path);
    if (rc < 0) {
        unlink(temporary);
        return rc;
    }
    return sync_folder_of(path, error);
}

int file_map(const char *path, struct file_map *ret, struct error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file_failed(error, "open", path);
    struct stat st;
    struct file_map map = {0};
    int rc = 0;
    if (fstat(fd, &st) < 0) {
        rc = file_failed(error, "examine", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = error_set(error, ERROR_IO, "file-failed", NULL, "%s is not a regular file.", path);
    } else if (st.st_size > 0) {
        map.len = (size_t)st.st_size;
        map.data = mmap(NULL, map.len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map.data == MAP_FAILED)
            rc = file_failed(error, "map", path);
    }
    close(fd);
    if (rc == 0)
        *ret = map;
    return rc;
}

void file_unmap(struct file_map *map) {
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->len);
    *map = (struct file_map){0};
}

int file_make_dirs(const char *path, struct error *error) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return errno = ENAMETOOLONG, file_failed(error, "make", path);
    for (char *at = part + (part[0] == '/');; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char end = *at;
        *at = '\0';
        if (part[0] != '\0' && mkdir(part, 0700) < 0 && errno != EEXIST)
            return file_failed(error, "make the folder", part);
        if (end == '\0')
            break;
        *at = end;
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return file_failed(error, "examine", path);
    return S_ISDIR(st.st_mode) ? 0 : (errno = ENOTDIR, file_failed(error, "make the folder", path));
}

static int remove_at(int folder, const char *name, struct error *error);

/* Removes all that is in the folder of `fd`, which it closes. */
static int empty_folder(int fd, const char *name, struct error *error) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return file_failed(error, "list", name);
    }
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (errno = 0, entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = remove_at(dirfd(dir), entry->d_name, error);
    if (rc == 0 && errno != 0)
        rc = file_failed(error, "list", name);
    closedir(dir);
    return rc;
}

static int remove_at(int folder, const char *name, struct error *error) {
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return file_failed(error, "remove", name);
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : file_failed(error, "open", name);
    if (empty_folder(fd, name, error) < 0)
        return -1;
    if (unlinkat(folder, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return file_failed(error, "remove the folder", name);
    return 0;
}

int file_remove_tree(const char *path, struct error *error) {
    if (remove_at(AT_FDCWD, path, error) == 0)
        return 0;
    return error_prefix(error, "Removing %s: ", path);
}

int file_self(char *ret_path, size_t size, struct error *error) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return file_failed(error, "read", "/proc/self/exe");
    if ((size_t)n >= size || (size_t)n == sizeof path - 1)
        return errno = ENAMETOOLONG, file_failed(error, "read", "/proc/self/exe");
    memcpy(ret_path, path, (size_t)n);
    ret_path[n] = '\0';
    return 0;
}
