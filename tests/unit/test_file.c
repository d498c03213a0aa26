/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static struct error error;

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/test_file.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
}

TestSuite(file, .init = make_folder, .fini = remove_folder);

/* A path in the test's folder; valid until the next but three. */
static const char *in(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_text(const char *name, const char *text) {
    cr_assert_eq(file_write(in(name), text, strlen(text), &error), 0, "%s", error.text);
}

static bool exists(const char *name) {
    struct stat st;
    return lstat(in(name), &st) == 0;
}

Test(file, reads_what_was_written) {
    struct buf buf = BUF_INIT(0);
    char data[] = "a\0b";
    cr_assert_eq(file_write(in("x"), data, sizeof data, &error), 0);
    cr_assert_eq(file_read(in("x"), 100, &buf, &error), 0);
    cr_assert_eq(buf.len, sizeof data);
    cr_assert_arr_eq(buf.data, data, sizeof data);
    write_text("x", "other");
    cr_assert_eq(file_read(in("x"), 100, &buf, &error), 0);
    cr_assert_str_eq(buf_str(&buf), "other");
    buf_release(&buf);
}

Test(file, reads_up_to_the_maximum_and_not_past_it) {
    struct buf buf = BUF_INIT(0);
    write_text("x", "12345");
    cr_assert_eq(file_read(in("x"), 5, &buf, &error), 0);
    cr_assert_eq(file_read(in("x"), 4, &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_LIMIT);
    cr_assert_eq(buf.len, 0);
    write_text("x", "");
    cr_assert_eq(file_read(in("x"), 0, &buf, &error), 0);
    buf_release(&buf);
}

Test(file, reads_a_large_file_whole) {
    size_t len = 1000001;
    char *data = malloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 7);
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(file_write(in("x"), data, len, &error), 0);
    cr_assert_eq(file_read(in("x"), 1 << 20, &buf, &error), 0);
    cr_assert_eq(buf.len, len);
    cr_assert_eq(memcmp(buf.data, data, len), 0);
    buf_release(&buf);
    free(data);
}

Test(file, reads_files_of_the_kernel_that_have_no_size) {
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(file_read("/proc/self/status", 1 << 20, &buf, &error), 0);
    cr_assert_gt(buf.len, 0);
    buf_release(&buf);
}

Test(file, what_is_not_there_is_not_found) {
    struct buf buf = BUF_INIT(0);
    struct file_map map;
    cr_assert_eq(file_read(in("none"), 100, &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_NOT_FOUND);
    cr_assert(strstr(error.text, "none"));
    cr_assert_eq(file_map(in("none"), &map, &error), -1);
    cr_assert_eq(error.class, ERROR_NOT_FOUND);
    cr_assert_eq(file_read(folder, 100, &buf, &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    buf_release(&buf);
}

Test(file, a_failed_write_leaves_nothing_behind) {
    cr_assert_eq(file_write(in("none/x"), "a", 1, &error), -1);
    cr_assert_eq(file_make_dirs(in("d"), &error), 0);
    cr_assert_eq(file_write(in("d"), "a", 1, &error), -1, "a folder is not replaced");
    cr_assert_eq(rmdir(in("d")), 0);
    cr_assert_eq(rmdir(folder), 0, "no temporary file is left");
}

Test(file, a_write_replaces_a_link_not_what_it_points_to) {
    write_text("target", "old");
    cr_assert_eq(symlink("target", in("link")), 0);
    write_text("link", "new");
    struct buf buf = BUF_INIT(0);
    cr_assert_eq(file_read(in("target"), 100, &buf, &error), 0);
    cr_assert_str_eq(buf_str(&buf), "old");
    buf_release(&buf);
}

Test(file, a_device_is_written_into) {
    cr_assert_eq(file_write("/dev/null", "abc", 3, &error), 0);
    struct stat st;
    cr_assert_eq(stat("/dev/null", &st), 0);
    cr_assert(S_ISCHR(st.st_mode));
}

Test(file, maps_content_and_emptiness) {
    struct file_map map;
    write_text("x", "mapped");
    cr_assert_eq(file_map(in("x"), &map, &error), 0);
    cr_assert_eq(map.len, 6);
    cr_assert_arr_eq(map.data, "mapped", 6);
    file_unmap(&map);
    file_unmap(&map);
    write_text("x", "");
    cr_assert_eq(file_map(in("x"), &map, &error), 0);
    cr_assert_null(map.data);
    cr_assert_eq(file_map(folder, &map, &error), -1);
}

Test(file, makes_folders_on_the_way) {
    cr_assert_eq(file_make_dirs(in("a/b//c/"), &error), 0, "%s", error.text);
    cr_assert_eq(file_make_dirs(in("a/b/c"), &error), 0);
    struct stat st;
    cr_assert_eq(stat(in("a/b/c"), &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0700);
    write_text("a/f", "");
    cr_assert_eq(file_make_dirs(in("a/f"), &error), -1);
    cr_assert_eq(file_make_dirs(in("a/f/g"), &error), -1);
    cr_assert_eq(file_make_dirs("/", &error), 0);
}

Test(file, removes_a_tree_but_not_what_links_point_to) {
    cr_assert_eq(file_make_dirs(in("keep"), &error), 0);
    write_text("keep/f", "x");
    cr_assert_eq(file_make_dirs(in("t/a/b"), &error), 0);
    write_text("t/a/b/f", "x");
    cr_assert_eq(symlink("../../keep", in("t/a/link")), 0);
    cr_assert_eq(symlink("nowhere", in("t/dangling")), 0);
    cr_assert_eq(file_remove_tree(in("t"), &error), 0, "%s", error.text);
    cr_assert_not(exists("t"));
    cr_assert(exists("keep/f"));
}

Test(file, removing_a_link_a_file_or_nothing_is_fine) {
    write_text("f", "x");
    cr_assert_eq(symlink("f", in("l")), 0);
    cr_assert_eq(file_remove_tree(in("l"), &error), 0);
    cr_assert(exists("f"));
    cr_assert_eq(file_remove_tree(in("f"), &error), 0);
    cr_assert_eq(file_remove_tree(in("f"), &error), 0);
    cr_assert_not(exists("f"));
}

Test(file, write_all_waits_for_a_pipe_that_does_not_block) {
    int fds[2];
    char chunk[1000] = {1};
    cr_assert_eq(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_eq(file_write_all(fds[1], chunk, sizeof chunk, &error), 0);
    cr_assert_eq(read(fds[0], chunk, sizeof chunk), sizeof chunk);
    cr_assert_eq(file_write_all(-1, chunk, 1, &error), -1);
    cr_assert_eq(error.class, ERROR_IO);
    close(fds[0]);
    close(fds[1]);
}

Test(file, a_full_disk_has_a_code_of_its_own) {
    cr_assert_eq(file_write("/dev/full", "x", 1, &error), -1);
    cr_assert_str_eq(error.code, DISK_FULL);
    cr_assert_eq(error.class, ERROR_IO);
}

Test(file, self_is_the_running_program) {
    char path[4096], tiny[3];
    cr_assert_eq(file_self(path, sizeof path, &error), 0);
    cr_assert_eq(path[0], '/');
    cr_assert(strstr(path, "test_file"));
    cr_assert_eq(file_self(tiny, sizeof tiny, &error), -1);
}
