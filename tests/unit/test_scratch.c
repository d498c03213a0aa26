/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/base/file.h"

static char parent[] = "/tmp/warptune-scratch-XXXXXX";
static struct error error;

static void begin(void) {
    cr_assert(mkdtemp(parent));
}

static void end(void) {
    cr_assert_eq(file_remove_tree(parent, &error), 0);
}

TestSuite(scratch, .init = begin, .fini = end);

static const char *in_parent(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", parent, name);
    return path;
}

static struct scratch make(void) {
    struct scratch scratch;
    cr_assert_eq(scratch_make(parent, "work", &scratch, &error), 0, "%s", error.text);
    return scratch;
}

/* A process that makes a folder with a file in it and is killed. */
static void leave_one(char path[PATH_MAX]) {
    int out[2], status;
    cr_assert_eq(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct scratch scratch;
        char file[PATH_MAX + 8];
        if (scratch_make(parent, "work", &scratch, NULL) == 0) {
            snprintf(file, sizeof file, "%s/file", scratch.path);
            if (file_write(file, "x", 1, NULL) == 0 && write(out[1], scratch.path, PATH_MAX) == PATH_MAX)
                raise(SIGKILL);
        }
        _exit(1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
    cr_assert_eq(read(out[0], path, PATH_MAX), PATH_MAX);
    close(out[0]);
    close(out[1]);
}

Test(scratch, is_a_new_folder_and_goes_with_what_is_in_it) {
    struct scratch one = make(), two = make();
    char file[PATH_MAX + 8];
    cr_assert_str_neq(one.path, two.path);
    snprintf(file, sizeof file, "%s/file", one.path);
    cr_assert_eq(file_write(file, "x", 1, &error), 0);
    char path[PATH_MAX];
    memcpy(path, one.path, sizeof path);
    scratch_remove(&one);
    scratch_remove(&one);
    cr_assert_eq(access(path, F_OK), -1);
    cr_assert_eq(access(two.path, F_OK), 0);
    scratch_remove(&two);
}

Test(scratch, what_a_killed_process_left_goes_with_the_next) {
    char left[PATH_MAX];
    leave_one(left);
    cr_assert_eq(access(left, F_OK), 0);
    struct scratch next = make();
    cr_assert_eq(access(left, F_OK), -1);
    scratch_remove(&next);
}

Test(scratch, a_sweep_spares_what_is_in_use_and_what_is_not_its_own) {
    struct scratch used = make();
    const char *const others[] = {"ab", "blob-abcdefg", "0190-1234-123456789abc"};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        cr_assert_eq(mkdir(in_parent(others[i]), 0700), 0);
    cr_assert_eq(file_write(in_parent("file-abcdef"), "x", 1, &error), 0);
    cr_assert_eq(symlink(used.path, in_parent("link-abcdef")), 0);
    scratch_sweep(parent);
    cr_assert_eq(access(used.path, F_OK), 0);
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        cr_assert_eq(access(in_parent(others[i]), F_OK), 0, "%s", others[i]);
    cr_assert_eq(access(in_parent("file-abcdef"), F_OK), 0);
    cr_assert_eq(access(in_parent("link-abcdef"), F_OK), 0);
    scratch_remove(&used);
}

Test(scratch, a_parent_that_is_not_there_is_an_error) {
    struct scratch scratch;
    scratch_sweep(in_parent("none"));
    cr_assert_eq(scratch_make(in_parent("none"), "work", &scratch, &error), -1);
    cr_assert_eq(error.class, ERROR_NOT_FOUND);
}
