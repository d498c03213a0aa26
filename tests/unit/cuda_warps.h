/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_warps.h: runs a rendered program whose kernels work by warps (mma, wgmma, ldmatrix, asynchronous copies,
 * barriers in shared memory, clusters) on the host. In the kernels' text the section «instructions», which is all that
 * is PTX, gives way to the emulator in cuda_warps.cpp; clang compiles the rest as it is.
 */
#ifndef WARPTUNE_TESTS_CUDA_WARPS_H
#define WARPTUNE_TESTS_CUDA_WARPS_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/template/embed.h"
#include "gpu/template/template.h"
#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/file.h"

EMBED(cuda_warps_source, "tests/unit/cuda_warps.cpp");

/* What a test defines for another kernel: the instructions that the emulator has not (WARPS_MORE), the launches where
 * they do not follow from the entries' names (WARPS_LAUNCHES). */
#ifndef WARPS_MORE
#define WARPS_MORE ""
#endif

/* Launches by name; those of the program's second kernel only where there is one. */
struct warps_code {
    void *library;
};

/* The text without what stands between two marks; the second mark stays. */
static inline void warps_cut(const char *source, const char *from, const char *to, struct buf *ret) {
    const char *begin = strstr(source, from), *end = begin ? strstr(begin, to) : NULL;
    cr_assert(begin && end, "the kernel has no section \"%s\"", from);
    buf_append(ret, source, (size_t)(begin - source));
    buf_puts(ret, end);
}

/* What runs may be in clusters, where the entry is named after the template alone. */
static inline void warps_text(const struct program *program, struct buf *ret) {
    buf_printf(ret, "#define EMULATE_BF16 %d\n#define EMULATE_TF32 %d\n",
               strstr(program->source, "#define BF16 1\n") != NULL,
               strstr(program->source, "#define TF32 1\n") != NULL);
    buf_puts(ret, cuda_warps_source);
    buf_puts(ret, WARPS_MORE);
    warps_cut(program->source, "/* ---- instructions ---- */", "/* ---- tiles ---- */", ret);
#ifdef WARPS_LAUNCHES
    buf_puts(ret, WARPS_LAUNCHES);
#else
    for (int i = 0; i < program->n_prepare; i++)
        buf_printf(ret, "\nLAUNCH(%s, 1)\n", program->prepare[i].entry);
    for (int i = 0; i < program->n_run; i++)
        buf_printf(ret, "\nLAUNCH(%s, %s)\n", program->run[i].entry,
                   strchr(strchr(program->run[i].entry, '_') + 1, '_') ? "1" : "CLUSTER");
#endif
}

/* False where there is no clang. */
static inline bool warps_compile(const struct program *program, struct warps_code *ret) {
    char folder[] = "/tmp/warptune-warps-XXXXXX", path[PATH_MAX];
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 21), log CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct error error = {0};
    int status = 0;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/code.so", folder);
    const char *const argv[] = {"clang",
                                "-xc++",
                                "-std=c++17",
                                "-O1",
                                "-w",
                                "-fsanitize=signed-integer-overflow",
                                "-fsanitize-trap=all",
                                "-fPIC",
                                "-shared",
                                "-nostdinc++",
                                "-o",
                                path,
                                "-",
                                "-lm",
                                NULL};
    const struct child_options options = {.argv = argv, .stderr_fd = -1};
    warps_text(program, &text);
    int rc = child_run(&options, text.data, text.len, deadline_in_s(60), &log, &status, &error);
    if (rc == 0) {
        cr_assert_eq(status, 0, "%s", buf_str(&log));
        ret->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        cr_assert_not_null(ret->library, "%s", dlerror());
    }
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
    return rc == 0;
}

/* `memory`: the data of each kind of argument, by number. */
static inline void warps_launch(const struct warps_code *code, const struct launch *launch,
                                void *const memory[ARG_VALUE][8]) {
    uint64_t args[LAUNCH_MAX_ARGS];
    char name[128];
    snprintf(name, sizeof name, "launch_%s", launch->entry);
    void (*run)(const uint64_t *, const unsigned *, const unsigned *, unsigned) =
        (void (*)(const uint64_t *, const unsigned *, const unsigned *, unsigned))dlsym(code->library, name);
    cr_assert_not_null(run, "there is no kernel %s", launch->entry);
    for (int i = 0; i < launch->n_args; i++) {
        struct arg arg = launch->args[i];
        args[i] =
            arg.kind == ARG_VALUE ? (uint64_t)(uint32_t)arg.index : (uint64_t)(uintptr_t)memory[arg.kind][arg.index];
    }
    run(args, launch->grid, launch->block, launch->shared_bytes);
}

/* The data that the kernels may copy from only after they have awaited the kernel before. */
static inline void warps_set_late(const struct warps_code *code, const void *data, size_t bytes) {
    void (*set)(const void *, size_t) = (void (*)(const void *, size_t))dlsym(code->library, "set_late");
    cr_assert_not_null(set);
    set(data, bytes);
}

static inline void warps_run(const struct warps_code *code, const struct program *program,
                             void *const memory[ARG_VALUE][8]) {
    for (int i = 0; i < program->n_prepare; i++)
        warps_launch(code, &program->prepare[i], memory);
    for (int i = 0; i < program->n_run; i++)
        warps_launch(code, &program->run[i], memory);
}

#endif
