/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_compile.h"

#include <stdio.h>
#include <string.h>

#include "gpu/device/cuda_api.h"

enum { MOST_FLAGS = 8 };

/* Besides the architecture. Kernels declare themselves; what has no mark is a device function. */
static const char *const flags[] = {"--std=c++17", "-default-device", "--fmad=true"};

static int open_nvrtc(struct cuda_nvrtc *ret, struct error *error) {
    char reason[512];
    if (cuda_nvrtc_open(ret, NULL, reason, sizeof reason) == 0)
        return 0;
    return error_set(error, ERROR_DEVICE, "no-nvrtc", NULL,
                     "CUDA's run-time compiler is not here (%.400s) Install NVRTC (libnvrtc of CUDA 12 or 13), or name "
                     "the library in WARPTUNE_NVRTC.",
                     reason);
}

void cuda_compiler_name(char *ret_name, size_t size) {
    struct cuda_nvrtc nvrtc;
    char reason[512];
    int major, minor;
    ret_name[0] = '\0';
    if (cuda_nvrtc_open(&nvrtc, NULL, reason, sizeof reason) == 0 && nvrtc.nvrtcVersion(&major, &minor) == 0)
        snprintf(ret_name, size, "NVRTC %d.%d", major, minor);
}

int cuda_compiler_id(const struct target *target, char ret_id[128], struct error *error) {
    struct cuda_nvrtc nvrtc;
    int major, minor;
    if (open_nvrtc(&nvrtc, error) < 0)
        return -1;
    unsigned status = nvrtc.nvrtcVersion(&major, &minor);
    if (status != 0)
        return error_set(error, ERROR_DEVICE, "nvrtc-failed", NULL, "NVRTC does not tell its version (status %u).",
                         status);
    int n = snprintf(ret_id, 128, "NVRTC %d.%d %s", major, minor, target->arch);
    for (size_t i = 0; i < ARRAY_COUNT(flags) && n < 128; i++)
        n += snprintf(ret_id + n, 128 - (size_t)n, " %s", flags[i]);
    return 0;
}

static void read_log(const struct cuda_nvrtc *nvrtc, struct _nvrtcProgram *program, struct buf *ret_log) {
    size_t size = 0; /* with a NUL at the end */
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) != 0 || size <= 1)
        return;
    char *to = buf_reserve(ret_log, size);
    if (to && nvrtc->nvrtcGetProgramLog(program, to) == 0)
        ret_log->len += strnlen(to, size);
}

static int read_cubin(const struct cuda_nvrtc *nvrtc, struct _nvrtcProgram *program, struct buf *ret_code,
                      struct error *error) {
    size_t size = 0;
    if (nvrtc->nvrtcGetCUBINSize(program, &size) != 0 || size == 0)
        return error_set(error, ERROR_DEVICE, "nvrtc-failed", NULL, "NVRTC made no code for this architecture.");
    char *to = buf_reserve(ret_code, size);
    if (!to)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for compiled code.");
    if (nvrtc->nvrtcGetCUBIN(program, to) != 0)
        return error_set(error, ERROR_DEVICE, "nvrtc-failed", NULL, "NVRTC does not hand out the code it made.");
    ret_code->len += size;
    return 0;
}

int cuda_compile(const struct target *target, const char *source, int64_t deadline, struct buf *ret_code,
                 struct buf *ret_log, struct error *error) {
    (void)deadline; /* NVRTC cannot be interrupted */
    struct cuda_nvrtc nvrtc;
    struct _nvrtcProgram *program = NULL;
    char arch[64];
    const char *options[MOST_FLAGS] = {arch};
    int n = 1;
    buf_clear(ret_code);
    buf_clear(ret_log);
    if (open_nvrtc(&nvrtc, error) < 0)
        return -1;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", target->arch);
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++)
        options[n++] = flags[i];
    unsigned status = nvrtc.nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL);
    if (status != 0)
        return error_set(error, ERROR_DEVICE, "nvrtc-failed", NULL, "NVRTC takes no program (status %u).", status);
    status = nvrtc.nvrtcCompileProgram(program, n, options);
    read_log(&nvrtc, program, ret_log);
    int rc = status == 0 ? read_cubin(&nvrtc, program, ret_code, error)
                         : error_set(error, ERROR_DEVICE, "compile-failed", NULL,
                                     "NVRTC refuses the code (status %u): %.900s", status, buf_str(ret_log));
    nvrtc.nvrtcDestroyProgram(&program);
    return rc;
}
