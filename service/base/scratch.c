/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/file.h"

/* What mkdtemp fills in; and how often a folder may be swept away between its making and its lock. */
#define ENDING "-XXXXXX"
enum { ENDING_LEN = sizeof ENDING - 1, MOST_TRIES = 10 };

enum lock { LOCK_TAKEN, LOCK_NOT_OURS, LOCK_UNKNOWN /* a file system without locks: nothing there is abandoned */ };

/* Opens and locks the folder, unless another process does, or it is none, or gone. */
static enum lock lock(const char *path, int *ret_fd) {
    int fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
    struct stat there, ours;
    enum lock lock = LOCK_NOT_OURS;
    if (fd >= 0 && stat(path, &there) == 0 && fstat(fd, &ours) == 0 && there.st_ino == ours.st_ino)
        lock = flock(fd, LOCK_EX | LOCK_NB) == 0 ? LOCK_TAKEN : errno == EWOULDBLOCK ? LOCK_NOT_OURS : LOCK_UNKNOWN;
    if (lock == LOCK_TAKEN && access(path, F_OK) < 0) /* between opening and locking somebody removed it */
        lock = LOCK_NOT_OURS;
    if (lock != LOCK_NOT_OURS)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return lock;
}

/* Whether the name ends as those that mkdtemp makes. */
static bool is_ours(const char *name) {
    size_t len = strlen(name);
    return len > ENDING_LEN && name[len - ENDING_LEN] == '-' && !strchr(name + len - ENDING_LEN + 1, '-');
}

/* What cannot be removed now is no reason to make none. */
void scratch_sweep(const char *parent) {
    DIR *dir = opendir(parent);
    struct dirent *entry;
    char path[PATH_MAX];
    struct error ignored;
    while (dir && (entry = readdir(dir))) {
        if (!is_ours(entry->d_name) || snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= PATH_MAX)
            continue;
        int fd;
        enum lock taken = lock(path, &fd);
        if (taken == LOCK_TAKEN)
            (void)!file_remove_tree(path, &ignored);
        if (taken != LOCK_NOT_OURS)
            close(fd);
    }
    if (dir)
        closedir(dir);
}

int scratch_make(const char *parent, const char *prefix, struct scratch *ret, struct error *error) {
    struct scratch scratch = {.fd = -1};
    scratch_sweep(parent);
    for (int i = 0; i < MOST_TRIES && scratch.fd < 0; i++) {
        if (snprintf(scratch.path, sizeof scratch.path, "%s/%s" ENDING, parent, prefix) >= PATH_MAX ||
            !mkdtemp(scratch.path))
            break;
        (void)lock(scratch.path, &scratch.fd); /* or another's sweep was quicker */
    }
    if (scratch.fd < 0)
        return file_failed(error, "make a folder in", parent);
    *ret = scratch;
    return 0;
}

void scratch_remove(struct scratch *scratch) {
    struct error ignored; /* a folder that stays is no reason to fail: the next one's maker removes it */
    if (scratch->path[0] == '\0')
        return;
    (void)!file_remove_tree(scratch->path, &ignored);
    close(scratch->fd);
    scratch->path[0] = '\0';
}
