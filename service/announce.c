/* SPDX-License-Identifier: Apache-2.0 */
#include "service/announce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "service/base/arena.h"
#include "service/base/file.h"

/* Written and locked under another name first: whoever finds a locked file reads the URL of who holds it. */
int announce_server(const char *data_dir, const char *url, int *ret_fd, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    const char *path = arena_printf(arena, "%s/server.url", data_dir);
    const char *fresh = arena_printf(arena, "%s.%d", path, (int)getpid());
    int fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return file_failed(error, "write", fresh);
    if (file_write_all(fd, url, strlen(url), error) == 0) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && rename(fresh, path) == 0) {
            *ret_fd = fd;
            return 0;
        }
        file_failed(error, "announce the server in", path);
    }
    unlink(fresh);
    close(fd);
    return -1;
}

bool announce_find(const char *data_dir, char *ret_url, size_t size) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    int fd = open(arena_printf(arena, "%s/server.url", data_dir), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool serves = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    ssize_t len = serves ? read(fd, ret_url, size - 1) : 0;
    ret_url[len > 0 ? len : 0] = 0;
    close(fd);
    return len > 0;
}
