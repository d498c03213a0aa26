/* SPDX-License-Identifier: Apache-2.0 */
#include "service/target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/arena.h"

/* 0: there is nothing by that name. */
static mode_t kind_of(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? about.st_mode & S_IFMT : 0;
}

static const char *folder_of(struct arena *arena, const char *file) {
    const char *slash = strrchr(file, '/');
    if (!slash)
        return ".";
    return slash == file ? "/" : arena_strndup(arena, file, (size_t)(slash - file));
}

static int cannot_make(const char *option, const char *file, const char *folder, struct error *error) {
    int reason = errno;
    if (reason == ENOENT && kind_of(folder) != S_IFDIR) /* /proc has it, too */
        return error_set(error, ERROR_NOT_FOUND, "no-folder", NULL,
                         "%s %.400s: there is no folder %.400s. Make it, or name another file.", option, file, folder);
    if (reason == ENOTDIR)
        return error_set(error, ERROR_IO, "no-folder", NULL, "%s %.400s: %.400s is no folder. Name another file.",
                         option, file, folder);
    return error_set(error, ERROR_IO, "cannot-write", NULL,
                     "%s %.400s: no file can be made in the folder %.300s: %s. Mend that, or name another file.",
                     option, file, folder, strerror(reason));
}

int target_file_check(const char *option, const char *file, struct error *error) {
    struct arena *arena CLEANUP(arena_free_p) = arena_new(0);
    if (!*file)
        return error_set(error, ERROR_IO, "no-file", NULL, "%s has an empty name. Name a file.", option);
    mode_t kind = kind_of(file);
    if (kind == S_IFDIR)
        return error_set(error, ERROR_IO, "is-folder", NULL, "%s %.800s: that is a folder. Name a file in it.", option,
                         file);
    if (kind && kind != S_IFREG) /* what is downloaded would take its place */
        return error_set(error, ERROR_IO, "no-regular-file", NULL,
                         "%s %.800s: that is a device or a pipe. Name a regular file.", option, file);
    const char *part = arena_printf(arena, "%s.part-%d", file, (int)getpid());
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot_make(option, file, folder_of(arena, file), error);
    close(fd);
    unlink(part);
    return 0;
}
