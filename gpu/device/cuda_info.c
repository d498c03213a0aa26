/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_info.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/device/cuda_compile.h"
#include "gpu/device/cuda_watch.h"

enum { DEFAULT_CORES = 128 };

/* FP32 units of one multiprocessor, where they are not DEFAULT_CORES. */
static const struct {
    int capability; /* major × 10 + minor */
    int cores;
} core_counts[] = {{60, 64}, {70, 64}, {72, 64}, {75, 64}, {80, 64}};

int cuda_check(const struct cuda_driver *driver, unsigned status, const char *what, struct error *error) {
    char text[512];
    if (status == 0)
        return 0;
    cuda_explain(driver, status, what, text, sizeof text);
    const char *code = status == CUDA_OUT_OF_MEMORY      ? "out-of-memory"
                       : status == CUDA_OUT_OF_RESOURCES ? "out-of-resources"
                                                         : "cuda-failed";
    return error_set(error, ERROR_DEVICE, code, NULL, "%s.", text);
}

int cuda_start(struct cuda_driver *ret, struct error *error) {
    char reason[512];
    if (cuda_driver_open(ret, reason, sizeof reason) < 0)
        return error_set(error, ERROR_DEVICE, "no-driver", NULL,
                         "NVIDIA's driver is not here (%.400s) Install it to use a GPU.", reason);
    return cuda_check(ret, ret->cuInit(0), "The CUDA driver does not start", error);
}

int cuda_count(struct error *error) {
    struct cuda_driver cu;
    int n = 0;
    if (cuda_start(&cu, error) < 0 || cuda_check(&cu, cu.cuDeviceGetCount(&n), "Counting the GPUs failed", error) < 0)
        return 0;
    if (n == 0)
        error_set(error, ERROR_DEVICE, "no-gpu", NULL, "The CUDA driver finds no GPU; see CUDA_VISIBLE_DEVICES.");
    return n;
}

static int find_gpu(const struct cuda_driver *cu, int ordinal, int *ret_gpu, struct error *error) {
    int n = 0;
    if (cuda_check(cu, cu->cuDeviceGetCount(&n), "Counting the GPUs failed", error) < 0)
        return -1;
    if (ordinal < 0 || ordinal >= n)
        return error_set(error, ERROR_NOT_FOUND, "no-such-device", NULL,
                         "There is no GPU number %d; the driver finds %d, counted from 0.", ordinal, n);
    return cuda_check(cu, cu->cuDeviceGet(ret_gpu, ordinal), "Asking for a GPU failed", error);
}

void cuda_uuid(const struct cuda_driver *cu, int gpu, char *ret, size_t size) {
    unsigned char b[16];
    ret[0] = '\0';
    if (cu->cuDeviceGetUuid((struct CUuuid_st *)(void *)b, gpu) != 0)
        return;
    snprintf(ret, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int attribute(const struct cuda_driver *cu, int gpu, unsigned which) {
    int value = 0;
    return cu->cuDeviceGetAttribute(&value, which, gpu) == 0 ? value : 0;
}

static int cores_of(int capability) {
    for (size_t i = 0; i < ARRAY_COUNT(core_counts); i++)
        if (core_counts[i].capability == capability)
            return core_counts[i].cores;
    return DEFAULT_CORES;
}

/* Hopper's and Blackwell's own instructions are in the "a" variants alone. */
static const char *arch_suffix(int capability) {
    return capability == 90 || capability == 100 ? "a" : "";
}

static void describe_target(const struct cuda_driver *cu, int gpu, struct device_info *info) {
    struct target *target = &info->target;
    int major = attribute(cu, gpu, CUDA_CAPABILITY_MAJOR), minor = attribute(cu, gpu, CUDA_CAPABILITY_MINOR);
    int capability = 10 * major + minor;
    snprintf(target->kind, sizeof target->kind, "cuda");
    snprintf(target->arch, sizeof target->arch, "sm_%d%s", capability, arch_suffix(capability));
    target->units = attribute(cu, gpu, CUDA_MULTIPROCESSORS);
    target->cache_bytes = attribute(cu, gpu, CUDA_L2_CACHE_SIZE);
    target->shared_bytes = attribute(cu, gpu, CUDA_SHARED_PER_BLOCK_OPTIN);
    target->max_threads = attribute(cu, gpu, CUDA_MAX_THREADS_PER_BLOCK);
    target->registers = attribute(cu, gpu, CUDA_REGISTERS_PER_MULTIPROCESSOR);
    info->peak_flops = 2.0 * target->units * cores_of(capability) * attribute(cu, gpu, CUDA_CLOCK_RATE) * 1e3;
    info->peak_bytes_per_s =
        2.0 * attribute(cu, gpu, CUDA_MEMORY_CLOCK_RATE) * 1e3 * attribute(cu, gpu, CUDA_MEMORY_BUS_WIDTH) / 8;
}

/* NVML knows the driver's own number ("580.159.04"); without it, that of the CUDA version it supports. */
static void read_driver_version(const struct cuda_driver *cu, char *ret, size_t size) {
    struct cuda_nvml nvml;
    char reason[512];
    int version = 0;
    ret[0] = '\0';
    if (cuda_nvml_open(&nvml, reason, sizeof reason) == 0 && nvml.nvmlInit() == 0) {
        if (nvml.nvmlSystemGetDriverVersion(ret, (unsigned)size) != 0)
            ret[0] = '\0';
        nvml.nvmlShutdown();
    }
    if (ret[0] == '\0' && cu->cuDriverGetVersion(&version) == 0)
        snprintf(ret, size, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

int cuda_describe(int ordinal, struct device_info *ret, struct error *error) {
    struct cuda_driver cu;
    struct device_info info = {.ordinal = ordinal};
    int gpu = 0;
    size_t memory = 0;
    if (cuda_start(&cu, error) < 0 || find_gpu(&cu, ordinal, &gpu, error) < 0 ||
        cuda_check(&cu, cu.cuDeviceGetName(info.name, sizeof info.name, gpu), "Asking a GPU's name failed", error) <
            0 ||
        cuda_check(&cu, cu.cuDeviceTotalMem(&memory, gpu), "Asking for a GPU's memory failed", error) < 0)
        return -1;
    describe_target(&cu, gpu, &info);
    cuda_uuid(&cu, gpu, info.uuid, sizeof info.uuid);
    read_driver_version(&cu, info.driver, sizeof info.driver);
    cuda_compiler_name(info.compiler, sizeof info.compiler);
    info.memory_bytes = (int64_t)memory;
    snprintf(info.key, sizeof info.key, "cuda/%s/%s/%d", info.name, info.target.arch, info.target.units);
    *ret = info;
    return 0;
}

/* Whether NVML's process numbers are those of this process too: not in a container with numbers of its own. */
static bool sees_host_pids(void) {
    static const char initial[] = "pid:[4026531836]"; /* the kernel's constant for the first namespace */
    char name[64];
    ssize_t len = readlink("/proc/self/ns/pid", name, sizeof name);
    return len == (ssize_t)sizeof initial - 1 && memcmp(name, initial, sizeof initial - 1) == 0;
}

/* Whether a process is this one or a child of it. */
static bool is_ours(unsigned pid) {
    char path[40], line[512];
    if (pid == (unsigned)getpid())
        return true;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    const char *after_name = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    int parent = 0;
    bool ours = after_name && sscanf(after_name, ") %*c %d", &parent) == 1 && parent == getpid();
    if (file)
        fclose(file);
    return ours;
}

/* Those that are neither this process nor its children; where their numbers say nothing to us, only none is known. */
static int count_strangers(const struct pid_list *list) {
    int n = 0;
    for (int i = 0; i < list->n; i++)
        n += !is_ours(list->pid[i]);
    return list->n < 0 || (n > 0 && !sees_host_pids()) ? -1 : n;
}

int cuda_state(int ordinal, struct device_state *ret, struct error *error) {
    struct cuda_driver cu;
    struct cuda_watch watch;
    char uuid[48];
    int gpu = 0;
    if (cuda_start(&cu, error) < 0 || find_gpu(&cu, ordinal, &gpu, error) < 0)
        return -1;
    cuda_uuid(&cu, gpu, uuid, sizeof uuid);
    cuda_watch_open(&watch, uuid);
    cuda_watch_read(&watch, true, ret);
    if (watch.gpu)
        ret->other_processes = count_strangers(&watch.before);
    cuda_watch_close(&watch);
    return 0;
}
