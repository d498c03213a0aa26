/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_fibres.h: runs a rendered CUDA program on the host, so that a kernel's arithmetic is tested where no GPU is.
 *
 * The kernels' text is compiled as C, CUDA's words made to vanish. Each CUDA thread is a context of its own; they take
 * turns, the first to the last, and change at __syncthreads(): a barrier that is missing shows as a wrong result, one
 * that not all threads reach ends the process. Kernels may use what a CTA has in common and fmaf(), no warp's
 * functions.
 */
#ifndef WARPTUNE_TESTS_CUDA_FIBRES_H
#define WARPTUNE_TESTS_CUDA_FIBRES_H

#include <criterion/criterion.h>
#include <string.h>

#include "gpu/device/device.h"
#include "service/base/arena.h"
#include "service/base/clock.h"

static const char cuda_fibres_before[] =
    "#include <stdint.h>\n"
    "#include <stdlib.h>\n"
    "#include <ucontext.h>\n"
    "#define __global__\n"
    "#define __device__\n"
    "#define __forceinline__ inline\n"
    "#define __launch_bounds__(...)\n"
    "#define __shared__ static _Thread_local\n"
    "#define fmaf __builtin_fmaf\n"
    "struct emulated_place { unsigned x, y, z; };\n"
    "_Thread_local struct emulated_place threadIdx, blockIdx;\n"
    "_Thread_local ucontext_t emulated_scheduler, emulated_threads[1024];\n"
    "_Thread_local char emulated_done[1024];\n"
    "_Thread_local int emulated_now;\n"
    "_Thread_local void *const *emulated_args;\n"
    "_Thread_local void (*emulated_kernel)(void);\n"
    "void __syncthreads(void) { swapcontext(&emulated_threads[emulated_now], &emulated_scheduler); }\n";

/* A CTA: rounds of turns until all threads are done, which they must be in the same round. */
static const char cuda_fibres_after[] =
    "static void emulated_begin(void) {\n"
    "    emulated_kernel();\n"
    "    emulated_done[emulated_now] = 1;\n"
    "    __syncthreads();\n"
    "}\n"
    "static void emulated_block(char *stacks, const unsigned block[3]) {\n"
    "    const int threads = block[0] * block[1] * block[2];\n"
    "    int done = 0;\n"
    "    for (int i = 0; i < threads; i++) {\n"
    "        emulated_done[i] = 0;\n"
    "        getcontext(&emulated_threads[i]);\n"
    "        emulated_threads[i].uc_stack.ss_sp = stacks + i * 65536L;\n"
    "        emulated_threads[i].uc_stack.ss_size = 65536;\n"
    "        makecontext(&emulated_threads[i], emulated_begin, 0);\n"
    "    }\n"
    "    while (done == 0) {\n"
    "        for (int i = 0; i < threads; i++) {\n"
    "            emulated_now = i;\n"
    "            threadIdx.x = i % block[0], threadIdx.y = i / block[0] % block[1], threadIdx.z = i / block[0] / "
    "block[1];\n"
    "            swapcontext(&emulated_scheduler, &emulated_threads[i]);\n"
    "            done += emulated_done[i];\n"
    "        }\n"
    "        if (done != 0 && done != threads)\n"
    "            abort();\n"
    "    }\n"
    "}\n"
    "static void emulated_grid(void (*kernel)(void), void *const *args, const unsigned grid[3],\n"
    "                          const unsigned block[3], int64_t begin, int64_t end) {\n"
    "    char *stacks = malloc(block[0] * block[1] * block[2] * 65536L);\n"
    "    emulated_kernel = kernel, emulated_args = args;\n"
    "    for (int64_t i = begin; i < end; i++) {\n"
    "        blockIdx.x = i % grid[0], blockIdx.y = i / grid[0] % grid[1], blockIdx.z = i / grid[0] / grid[1];\n"
    "        emulated_block(stacks, block);\n"
    "    }\n"
    "    free(stacks);\n"
    "}\n";

/* launch_0, launch_1, …: each as the CPU device calls it, an item a block. */
static void cuda_fibres_launch(struct buf *source, const struct launch *launch, int number) {
    const unsigned *g = launch->grid, *b = launch->block;
    buf_printf(source, "static void emulated_call_%d(void) { %s(", number, launch->entry);
    for (int i = 0; i < launch->n_args; i++)
        buf_printf(source, "%semulated_args[%d]", i ? ", " : "", i);
    buf_printf(source,
               "); }\nvoid launch_%d(void *const *args, int64_t begin, int64_t end) {\n"
               "    static const unsigned grid[] = {%u, %u, %u}, block[] = {%u, %u, %u};\n"
               "    emulated_grid(emulated_call_%d, args, grid, block, begin, end);\n}\n",
               number, g[0], g[1], g[2], b[0], b[1], b[2], number);
}

static char *cuda_fibres_source(const struct program *program, struct arena *arena) {
    static const char linkage[] = "extern \"C\"";
    struct buf source = BUF_INIT(1 << 24);
    buf_puts(&source, cuda_fibres_before);
    buf_puts(&source, program->source);
    buf_puts(&source, cuda_fibres_after);
    for (int i = 0; i < program->n_prepare; i++)
        cuda_fibres_launch(&source, &program->prepare[i], i);
    for (int i = 0; i < program->n_run; i++)
        cuda_fibres_launch(&source, &program->run[i], program->n_prepare + i);
    char *text = arena_strdup(arena, buf_str(&source));
    for (char *at = text; (at = strstr(at, linkage)) != NULL;)
        memset(at, ' ', strlen(linkage));
    buf_release(&source);
    return text;
}

/* Runs the program's launches, those that prepare first. `in` and `out`: the operands. */
static void cuda_fibres_run(const struct program *program, float *const *in, float *out, struct arena *arena) {
    struct buf code = BUF_INIT(1 << 26), log = BUF_INIT(1 << 20);
    struct device *device = NULL;
    struct device_code *loaded = NULL;
    struct device_info info;
    struct error error = {0};
    void *scratch[8] = {0}, *prepared[8] = {0};
    for (int i = 0; i < program->n_scratch; i++)
        scratch[i] = arena_alloc(arena, program->scratch_bytes[i]);
    for (int i = 0; i < program->n_prepared; i++)
        prepared[i] = arena_alloc(arena, program->prepared_bytes[i]);
    cr_assert_eq(device_cpu.describe(0, &info, &error), 0, "%s", error.text);
    cr_assert_eq(device_cpu.open(0, &device, &error), 0, "%s", error.text);
    cr_assert_eq(
        device_cpu.compile(&info.target, cuda_fibres_source(program, arena), deadline_in_s(60), &code, &log, &error), 0,
        "%s", error.text);
    cr_assert_eq(device_cpu.load(device, code.data, code.len, &loaded, &error), 0, "%s", error.text);
    for (int i = 0; i < program->n_prepare + program->n_run; i++) {
        struct launch launch = i < program->n_prepare ? program->prepare[i] : program->run[i - program->n_prepare];
        struct device_call call = {.launch = &launch, .code = loaded};
        launch.entry = arena_printf(arena, "launch_%d", i);
        launch.items = (int64_t)launch.grid[0] * launch.grid[1] * launch.grid[2];
        for (int j = 0; j < launch.n_args; j++) {
            struct arg arg = launch.args[j];
            cr_assert_neq(arg.kind, ARG_VALUE);
            call.args[j] = (uint64_t)(uintptr_t)(arg.kind == ARG_IN        ? in[arg.index]
                                                 : arg.kind == ARG_OUT     ? (void *)out
                                                 : arg.kind == ARG_SCRATCH ? scratch[arg.index]
                                                                           : prepared[arg.index]);
        }
        cr_assert_eq(device_cpu.run(device, &call, 1, 1, NULL, &error), 0, "%s", error.text);
    }
    device_cpu.close(device);
    buf_release(&code);
    buf_release(&log);
}

#endif
