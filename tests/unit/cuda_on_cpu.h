/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_on_cpu.h: the kernels that a template renders for CUDA, run without a GPU and held against the evaluator.
 *
 * The source is compiled as C++ by clang, behind a few definitions that make it host code: one thread of the system is
 * one of CUDA's, __syncthreads() is a barrier of theirs, and blocks run one after another. Shared memory is filled with
 * NaNs before each block, every buffer before the first launch, and buffers are followed by canaries. Array bounds are
 * checked in the kernels. For small workloads: each barrier costs the system some switches.
 */
#ifndef WARPTUNE_TESTS_CUDA_ON_CPU_H
#define WARPTUNE_TESTS_CUDA_ON_CPU_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "gpu/measure/numbers.h"
#include "gpu/template/template.h"
#include "service/base/child.h"
#include "service/base/clock.h"
#include "service/base/file.h"
#include "service/model/eval.h"

static const char host_prelude[] =
    "struct host_dim3 { unsigned x, y, z; };\n"
    "static thread_local host_dim3 threadIdx;\n"
    "static host_dim3 blockIdx, blockDim;\n"
    "static void (*host_barrier)();\n"
    "extern \"C\" char __start_host_shared[] __attribute__((weak));\n"
    "extern \"C\" char __stop_host_shared[] __attribute__((weak));\n"
    "extern \"C\" void host_thread(unsigned x, unsigned y, unsigned z) { threadIdx = host_dim3{x, y, z}; }\n"
    "extern \"C\" void host_block(const unsigned *index, const unsigned *size, void (*barrier)()) {\n"
    "    blockIdx = host_dim3{index[0], index[1], index[2]};\n"
    "    blockDim = host_dim3{size[0], size[1], size[2]};\n"
    "    host_barrier = barrier;\n"
    "    for (char *at = __start_host_shared; at != __stop_host_shared; at++) *at = (char)0xff;\n"
    "}\n"
    "extern \"C\" float expf(float); extern \"C\" float tanhf(float); extern \"C\" float erff(float);\n"
    "static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }\n"
    "#define __global__\n"
    "#define __device__\n"
    "#define __forceinline__ inline\n"
    "#define __launch_bounds__(threads)\n"
    "#define __shared__ static __attribute__((section(\"host_shared\")))\n"
    "#define __syncthreads() host_barrier()\n";

/* A program's code on the host. */
struct host_code {
    void *library;
    void (*thread)(unsigned x, unsigned y, unsigned z);
    void (*block)(const unsigned *index, const unsigned *size, void (*barrier)(void));
};

static inline void host_load(const char *path, struct host_code *ret) {
    ret->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(ret->library, "%s", dlerror());
    ret->thread = (void (*)(unsigned, unsigned, unsigned))dlsym(ret->library, "host_thread");
    ret->block = (void (*)(const unsigned *, const unsigned *, void (*)(void)))dlsym(ret->library, "host_block");
}

/* False where there is no clang. */
static inline bool host_compile(const char *source, struct host_code *ret) {
    char folder[] = "/tmp/warptune-host-XXXXXX", path[PATH_MAX];
    struct buf text CLEANUP(buf_release) = BUF_INIT(1 << 21), log CLEANUP(buf_release) = BUF_INIT(1 << 16);
    struct error error = {0};
    int status = 0;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/code.so", folder);
    const char *const argv[] = {"clang",
                                "-xc++",
                                "-std=c++17",
                                "-O0",
                                "-fsanitize=bounds,signed-integer-overflow,integer-divide-by-zero",
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
    buf_puts(&text, host_prelude);
    buf_puts(&text, source);
    int rc = child_run(&options, text.data, text.len, deadline_in_s(60), &log, &status, &error);
    if (rc == 0) {
        cr_assert_eq(status, 0, "%s", buf_str(&log));
        host_load(path, ret);
    }
    cr_assert_eq(file_remove_tree(folder, &error), 0, "%s", error.text);
    return rc == 0;
}

/* ---- one launch ---- */

/* The launch in progress: one at a time in a process. */
static struct {
    pthread_barrier_t barrier;
    const struct launch *launch;
    const struct host_code *code;
    void (*kernel)(void);
    void *args[8];
} host;

static inline void host_wait(void) {
    pthread_barrier_wait(&host.barrier);
}

static inline void host_call(void) {
    void **a = host.args;
    switch (host.launch->n_args) {
    case 2:
        ((void (*)(void *, void *))host.kernel)(a[0], a[1]);
        return;
    case 3:
        ((void (*)(void *, void *, void *))host.kernel)(a[0], a[1], a[2]);
        return;
    case 4:
        ((void (*)(void *, void *, void *, void *))host.kernel)(a[0], a[1], a[2], a[3]);
        return;
    default:
        ((void (*)(void *, void *, void *, void *, void *))host.kernel)(a[0], a[1], a[2], a[3], a[4]);
        return;
    }
}

/* One of CUDA's threads, through all blocks of the grid. */
static inline void *host_thread_main(void *number) {
    const unsigned *grid = host.launch->grid, *block = host.launch->block, i = (unsigned)(uintptr_t)number;
    host.code->thread(i % block[0], i / block[0] % block[1], i / block[0] / block[1]);
    for (unsigned b = 0; b < grid[0] * grid[1] * grid[2]; b++) {
        const unsigned index[] = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        host_wait();
        if (i == 0)
            host.code->block(index, block, host_wait);
        host_wait();
        host_call();
    }
    return NULL;
}

static inline void host_launch(const struct host_code *code, const struct launch *launch) {
    unsigned n = launch->block[0] * launch->block[1] * launch->block[2];
    pthread_t threads[1024];
    cr_assert(n > 0 && n <= 1024 && launch->n_args >= 2 && launch->n_args <= 5);
    host.launch = launch;
    host.code = code;
    host.kernel = (void (*)(void))dlsym(code->library, launch->entry);
    cr_assert_not_null(host.kernel, "there is no kernel %s", launch->entry);
    pthread_barrier_init(&host.barrier, NULL, n);
    for (unsigned i = 0; i < n; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, host_thread_main, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&host.barrier);
}

/* ---- one execution ---- */

enum { HOST_CANARY = 256, HOST_MOST_BUFFERS = 8 };

/* Buffers by kind of argument and number. */
struct host_memory {
    void *data[ARG_VALUE][HOST_MOST_BUFFERS];
    size_t bytes[ARG_VALUE][HOST_MOST_BUFFERS];
};

static inline void host_alloc(struct host_memory *memory, enum arg_kind kind, int i, size_t bytes,
                              struct arena *arena) {
    cr_assert_lt(i, HOST_MOST_BUFFERS);
    memory->data[kind][i] = arena_alloc(arena, bytes + HOST_CANARY);
    memory->bytes[kind][i] = bytes;
    memset(memory->data[kind][i], 0xff, bytes + HOST_CANARY);
}

static inline void host_check_canaries(const struct host_memory *memory, const char *what) {
    for (int kind = 0; kind < ARG_VALUE; kind++) {
        for (int i = 0; i < HOST_MOST_BUFFERS && memory->data[kind][i]; i++) {
            const unsigned char *end = (unsigned char *)memory->data[kind][i] + memory->bytes[kind][i];
            for (int byte = 0; byte < HOST_CANARY; byte++)
                cr_assert_eq(end[byte], 0xff, "%s writes beyond buffer %d of kind %d", what, i, kind);
        }
    }
}

static inline void host_run(const struct host_code *code, const struct launch *launches, int n,
                            const struct host_memory *memory) {
    for (int i = 0; i < n; i++) {
        for (int a = 0; a < launches[i].n_args; a++)
            host.args[a] = memory->data[launches[i].args[a].kind][launches[i].args[a].index];
        host_launch(code, &launches[i]);
        host_check_canaries(memory, launches[i].entry);
    }
}

/* What the evaluator makes of the inputs. */
static inline const void *host_expected(const struct workload *workload, const struct host_memory *memory,
                                        struct arena *arena) {
    struct graph *graph = graph_new(arena);
    struct node *node = graph_add_node(graph, workload->op, "node", workload->n_in, 1);
    struct value result;
    struct error error = {0};
    node->attr = workload->attr;
    node->epilogue = workload->epilogue;
    for (int i = 0; i < workload->n_in; i++) {
        node->in[i] = graph_add_value(graph, "in", workload->in[i].dtype, &workload->in[i].shape);
        graph->values[node->in[i]].data = memory->data[ARG_IN][i];
    }
    node->out[0] = graph_add_value(graph, "out", workload->out[0].dtype, &workload->out[0].shape);
    cr_assert_eq(eval_node(graph, node, arena, &result, &error), 0, "%s", error.text);
    return result.data;
}

static inline void host_execute(const struct host_code *code, const struct program *program,
                                const struct workload *workload, enum numbers kind, const char *what) {
    struct arena *arena = arena_new(0);
    struct host_memory memory = {0};
    char text[512];
    for (int i = 0; i < workload->n_in; i++) {
        host_alloc(&memory, ARG_IN, i, operand_bytes(&workload->in[i]), arena);
        numbers_fill(workload, i, kind, memory.data[ARG_IN][i]);
    }
    host_alloc(&memory, ARG_OUT, 0, operand_bytes(&workload->out[0]), arena);
    for (int i = 0; i < program->n_scratch; i++)
        host_alloc(&memory, ARG_SCRATCH, i, program->scratch_bytes[i], arena);
    for (int i = 0; i < program->n_prepared; i++)
        host_alloc(&memory, ARG_PREPARED, i, program->prepared_bytes[i], arena);
    host_run(code, program->prepare, program->n_prepare, &memory);
    host_run(code, program->run, program->n_run, &memory);
    bool agree = numbers_agree(&workload->out[0], kind, memory.data[ARG_OUT][0],
                               host_expected(workload, &memory, arena), text, sizeof text);
    cr_assert(agree, "%s, numbers of kind %d: %s", what, (int)kind, text);
    arena_free(arena);
}

/* Renders a configuration, runs it on both kinds of numbers that the product verifies with, and compares as it does. */
static inline void host_check(const struct template *template, const struct workload *workload,
                              const struct target *target, const struct space *space, int64_t index) {
    struct arena *arena = arena_new(0);
    struct program *program;
    struct host_code code;
    struct error error = {0};
    char what[512];
    struct buf key CLEANUP(buf_release) = BUF_INIT(1 << 16);
    workload_key(workload, &key);
    snprintf(what, sizeof what, "configuration %lld of %s", (long long)index, buf_str(&key));
    cr_assert_eq(template->render(workload, target, space, index, arena, &program, &error), 0, "%s: %s", what,
                 error.text);
    if (!host_compile(program->source, &code))
        cr_skip_test("clang is not here to compile with");
    for (int kind = 0; kind < NUMBERS_KINDS; kind++)
        host_execute(&code, program, workload, (enum numbers)kind, what);
    dlclose(code.library);
    arena_free(arena);
}

#endif
