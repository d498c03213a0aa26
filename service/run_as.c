/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run_as.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/base/file.h"

enum { MOST_ENTRY = 16 << 10 };

static int find(const char *user, struct passwd *ret, char text[MOST_ENTRY], struct error *error) {
    struct passwd *found = NULL;
    if (getpwnam_r(user, ret, text, MOST_ENTRY, &found) != 0 || !found)
        return error_set(error, ERROR_INVALID, "no-such-user", "user",
                         "There is no user '%.60s' here. Make it (useradd --system %.60s), or name another.", user,
                         user);
    if (ret->pw_uid == 0)
        return error_set(error, ERROR_INVALID, "user-is-root", "user", "'%.60s' is root itself: name another user.",
                         user);
    return 0;
}

/* Made for the user when it is not there; else it must belong to it already: we give nobody's files away. */
static int check_folder(const char *path, const struct passwd *user, struct error *error) {
    struct stat folder;
    if (stat(path, &folder) < 0) {
        if (file_make_dirs(path, error) < 0)
            return -1;
        if (chown(path, user->pw_uid, user->pw_gid) < 0 || stat(path, &folder) < 0)
            return file_failed(error, "give away the data folder", path);
    }
    if (folder.st_uid == user->pw_uid)
        return 0;
    return error_set(error, ERROR_IO, "data-dir-owner", "data-dir",
                     "The data folder %.300s belongs to the user with the number %u, not to %s, as whom the server is "
                     "to run. Stop what uses it, then: chown -R %s %.300s",
                     path, (unsigned)folder.st_uid, user->pw_name, user->pw_name, path);
}

/* All of real, effective and saved ids: none is left to return to, which is then tried. */
static int become(const struct passwd *user, struct error *error) {
    if (initgroups(user->pw_name, user->pw_gid) < 0 || setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
        return error_set(error, ERROR_IO, "cannot-change-user", "user", "This process cannot become %s: %s.",
                         user->pw_name, strerror(errno));
    if (setuid(0) == 0 || setgid(0) == 0 || geteuid() != user->pw_uid || getegid() != user->pw_gid)
        return error_set(error, ERROR_INTERNAL, "user-not-left", "user",
                         "This process became %s, but could become root again.", user->pw_name);
    return 0;
}

int run_as(const char *user, const char *data_dir, struct error *error) {
    struct passwd entry;
    char text[MOST_ENTRY];
    if (find(user, &entry, text, error) < 0)
        return -1;
    if (geteuid() == entry.pw_uid)
        return 0;
    if (geteuid() != 0)
        return error_set(error, ERROR_INVALID, "not-root", "user", "Only root can become the user '%.60s'.", user);
    int death_signal = 0; /* what to hear when our parent ends: forgotten with the user */
    prctl(PR_GET_PDEATHSIG, &death_signal);
    if (check_folder(data_dir, &entry, error) < 0 || become(&entry, error) < 0)
        return -1;
    prctl(PR_SET_PDEATHSIG, death_signal);
    /* Caches and settings of drivers and libraries: not root's. */
    setenv("HOME", entry.pw_dir, 1);
    setenv("USER", entry.pw_name, 1);
    setenv("LOGNAME", entry.pw_name, 1);
    if (access(data_dir, R_OK | W_OK | X_OK) < 0)
        return error_set(error, ERROR_IO, "data-dir-closed", "data-dir",
                         "The user %s cannot reach the data folder %.300s: %s. Open the folders above it (chmod o+x).",
                         entry.pw_name, data_dir, strerror(errno));
    return 0;
}
