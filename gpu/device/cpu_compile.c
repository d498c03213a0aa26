/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cpu_compile.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/base/sha256.h"

enum { MOST_LOG = 1 << 20, MOST_CODE = 64 << 20, MOST_FLAGS = 32, NAME_TIMEOUT_S = 10, MOST_COMPILE_S = 3600 };

/* Trapping and errno keep loops from being vectorised; reassociation, which changes sums, stays off. */
static const char *const flags[] = {
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fopenmp-simd",
    "-fPIC",
    "-shared",
    "-w",
    "-std=gnu17",
    "-x",
    "c",
    "-",
};

/* What an architecture takes besides its -march. */
static const struct {
    const char *arch, *flag;
} arch_flags[] = {
    {"x86-64-v4", "-mprefer-vector-width=512"},
};

/* The first executable file of that name in PATH. */
static bool find_in_path(const char *name, char *ret_path, size_t size) {
    const char *at = getenv("PATH");
    for (at = at ? at : "/usr/local/bin:/usr/bin:/bin"; *at != '\0'; at += *at == ':') {
        size_t len = strcspn(at, ":");
        struct stat st;
        if (snprintf(ret_path, size, "%.*s/%s", (int)len, at, name) < (int)size && access(ret_path, X_OK) == 0 &&
            stat(ret_path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        at += len;
    }
    return false;
}

int cpu_compiler_path(char *ret_path, size_t size, struct error *error) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *chosen = getenv("WARPTUNE_CC");
    if (chosen && *chosen != '\0') {
        if (strchr(chosen, '/') ? access(chosen, X_OK) == 0 && snprintf(ret_path, size, "%s", chosen) < (int)size
                                : find_in_path(chosen, ret_path, size))
            return 0;
        return error_set(error, ERROR_DEVICE, "no-compiler", NULL,
                         "The C compiler that WARPTUNE_CC names, %.200s, is not there; correct or unset it.", chosen);
    }
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (find_in_path(names[i], ret_path, size))
            return 0;
    return error_set(error, ERROR_DEVICE, "no-compiler", NULL,
                     "No C compiler (cc, gcc, clang) is in PATH, and the CPU device needs one; install gcc, or name "
                     "one in WARPTUNE_CC.");
}

/* The word behind `before` in a line, or its last word when `before` is NULL. */
static void copy_word(const char *line, const char *before, char *ret, size_t size) {
    size_t len = strcspn(line, "\n");
    const char *at = before ? strstr(line, before) : NULL;
    if (at) {
        at += strlen(before);
    } else {
        at = line + len;
        while (at > line && at[-1] != ' ')
            at--;
    }
    snprintf(ret, size, "%.*s", (int)strcspn(at, " \n"), at);
}

int cpu_compiler_name(char *ret_name, size_t size, struct error *error) {
    char path[PATH_MAX], version[40];
    if (cpu_compiler_path(path, sizeof path, error) < 0)
        return -1;
    const char *const argv[] = {path, "--version", NULL};
    struct child_options options = {.argv = argv, .stderr_fd = -1};
    CLEANUP(buf_release) struct buf output = BUF_INIT(MOST_LOG);
    int status;
    if (child_run(&options, NULL, 0, deadline_in_s(NAME_TIMEOUT_S), &output, &status, error) < 0)
        return error_prefix(error, "Asking the C compiler for its version: ");
    bool clang = strstr(buf_str(&output), "clang version ") != NULL;
    copy_word(buf_str(&output), clang ? "clang version " : NULL, version, sizeof version);
    snprintf(ret_name, size, "%s %s", clang ? "clang" : "gcc", version);
    return 0;
}

/* Fills argv[0…] with the flags for a target; returns how many. `march` is room for one of them. */
static int add_flags(const struct target *target, char march[40], const char **argv) {
    int n = 0;
    snprintf(march, 40, "-march=%s", target->arch);
    argv[n++] = march;
    for (size_t i = 0; i < ARRAY_COUNT(arch_flags); i++)
        if (strcmp(arch_flags[i].arch, target->arch) == 0)
            argv[n++] = arch_flags[i].flag;
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++)
        argv[n++] = flags[i];
    return n;
}

/* Which file the compiler is, its size and time, which an upgrade changes, and the flags: no process is started. */
int cpu_compiler_id(const struct target *target, char ret_id[128], struct error *error) {
    char path[PATH_MAX], real[PATH_MAX], march[40], hex[SHA256_HEX];
    const char *argv[MOST_FLAGS];
    struct stat st;
    if (cpu_compiler_path(path, sizeof path, error) < 0)
        return -1;
    if (!realpath(path, real) || stat(real, &st) < 0)
        return error_set(error, ERROR_DEVICE, "no-compiler", NULL, "The C compiler %.200s cannot be examined.", path);
    struct sha256 *hash = sha256_new();
    sha256_update(hash, real, strlen(real) + 1);
    int n = add_flags(target, march, argv);
    for (int i = 0; i < n; i++)
        sha256_update(hash, argv[i], strlen(argv[i]) + 1);
    sha256_hex(hash, hex);
    sha256_free(hash);
    const char *base = strrchr(real, '/');
    snprintf(ret_id, 128, "%.40s %lld %lld.%09ld %.32s", base ? base + 1 : real, (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, hex);
    return 0;
}

/* Makes the folder in which the compiler puts its result and whatever it leaves when it is killed. */
static int make_folder(char folder[PATH_MAX], struct error *error) {
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(folder, PATH_MAX, "%s/warptune-cc-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (n < PATH_MAX && mkdtemp(folder))
        return 0;
    return file_failed(error, "make a folder for the compiler's output in", tmp && *tmp ? tmp : "/tmp");
}

/*
 * The compiler's processes end with ours only if ours gets to kill them all: a limit of processor time ends the others.
 */
static int processor_s(int64_t deadline) {
    double left_s = (double)(deadline - clock_now_ns()) / NS_PER_S;
    return left_s > MOST_COMPILE_S ? MOST_COMPILE_S : left_s > 0 ? (int)left_s + 2 : 2;
}

static int compile_in(const char *folder, const struct target *target, const char *source, int64_t deadline,
                      struct buf *ret_code, struct buf *ret_log, struct error *error) {
    char compiler[PATH_MAX], tmpdir[PATH_MAX + 16], out[PATH_MAX + 16], march[40], how[80];
    const char *argv[MOST_FLAGS + 8] = {"env", "LC_ALL=C", tmpdir, compiler, "-o", out};
    if (cpu_compiler_path(compiler, sizeof compiler, error) < 0)
        return -1;
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", folder);
    snprintf(out, sizeof out, "%s/code.so", folder);
    int n = 6 + add_flags(target, march, argv + 6), status;
    argv[n] = "-lm";
    struct child_options options = {.argv = argv, .stderr_fd = -1, .cpu_s = processor_s(deadline)};
    if (child_run(&options, source, strlen(source), deadline, ret_log, &status, error) < 0)
        return error->class == ERROR_TIMEOUT ? error_set(error, ERROR_TIMEOUT, "compile-timeout", NULL,
                                                         "The C compiler did not end in time and was killed.")
                                             : -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return file_read(out, MOST_CODE, ret_code, error);
    child_describe(status, how, sizeof how);
    if (strstr(buf_str(ret_log), "No space left on device"))
        return error_set(error, ERROR_IO, DISK_FULL, NULL, "The C compiler found no room in %.400s: make some.",
                         folder);
    return error_set(error, ERROR_DEVICE, "compile-failed", NULL, "The C compiler %s: %.800s", how, buf_str(ret_log));
}

int cpu_compile(const struct target *target, const char *source, int64_t deadline, struct buf *ret_code,
                struct buf *ret_log, struct error *error) {
    char folder[PATH_MAX];
    buf_clear(ret_code);
    buf_clear(ret_log);
    if (make_folder(folder, error) < 0)
        return -1;
    int rc = compile_in(folder, target, source, deadline, ret_code, ret_log, error);
    struct error ignored; /* what cannot be removed is no reason to refuse the code */
    (void)!file_remove_tree(folder, &ignored);
    return rc;
}
