/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row of a table at run time: the symbol's name and where in the struct its address goes. */
struct row {
    const char *symbol;
    size_t offset;
};

#define DRIVER_ROW(name, version, parameters) {#name #version, offsetof(struct cuda_driver, name)},
#define NVRTC_ROW(name, version, parameters) {#name #version, offsetof(struct cuda_nvrtc, name)},
#define NVML_ROW(name, version, parameters) {#name #version, offsetof(struct cuda_nvml, name)},
#define CUDNN_ROW(name, version, parameters) {#name #version, offsetof(struct cuda_cudnn, name)},

static const struct row driver_rows[] = {CUDA_DRIVER_TABLE(DRIVER_ROW){NULL, 0}};
static const struct row nvrtc_rows[] = {CUDA_NVRTC_TABLE(NVRTC_ROW){NULL, 0}};
static const struct row nvml_rows[] = {CUDA_NVML_TABLE(NVML_ROW){NULL, 0}};
static const struct row cudnn_rows[] = {CUDA_CUDNN_TABLE(CUDNN_ROW){NULL, 0}};

static const char *const driver_names[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", NULL};
static const char *const nvml_names[] = {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13",
                                          "libnvrtc.so.12",
                                          "libnvrtc.so.11.2",
                                          "libnvrtc.so",
                                          "/usr/local/cuda/lib64/libnvrtc.so.13",
                                          "/usr/local/cuda/lib64/libnvrtc.so.12",
                                          "/usr/local/cuda/lib64/libnvrtc.so.11.2",
                                          "/usr/local/cuda/lib64/libnvrtc.so",
                                          NULL};
static const char *const cudnn_names[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", NULL};

/* The first library of the list that opens; what dlopen said about the first is the reason when none does. */
static void *open_library(const char *const *names, const char **ret_name, char *reason, size_t size) {
    const char *first = NULL;
    char said[256] = "";
    for (const char *const *name = names; *name; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) {
            *ret_name = *name;
            return library;
        }
        const char *now = dlerror();
        if (!first)
            snprintf(said, sizeof said, "%s", now ? now : "no reason given");
        first = first ? first : *name;
    }
    snprintf(reason, size, "%s cannot be opened: %s.", first, said);
    return NULL;
}

static int open_table(const char *const *names, const struct row *rows, void *table, const char **ret_name,
                      char *reason, size_t size) {
    const char *name = NULL;
    void *library = open_library(names, &name, reason, size);
    if (!library)
        return -1;
    int rc = 0;
    for (const struct row *row = rows; rc == 0 && row->symbol; row++) {
        void *symbol = dlsym(library, row->symbol);
        memcpy((char *)table + row->offset, &symbol, sizeof symbol);
        if (!symbol) {
            snprintf(reason, size, "%s is too old: it has no %s.", name, row->symbol);
            rc = -1;
        }
    }
    dlclose(library); /* it stays mapped (RTLD_NODELETE) */
    if (rc == 0 && ret_name)
        *ret_name = name;
    return rc;
}

int cuda_driver_open(struct cuda_driver *ret, char *reason, size_t size) {
    return open_table(driver_names, driver_rows, ret, NULL, reason, size);
}

int cuda_nvrtc_open(struct cuda_nvrtc *ret, const char **ret_path, char *reason, size_t size) {
    const char *chosen = getenv("WARPTUNE_NVRTC");
    const char *const only[] = {chosen, NULL};
    return open_table(chosen && *chosen ? only : nvrtc_names, nvrtc_rows, ret, ret_path, reason, size);
}

int cuda_nvml_open(struct cuda_nvml *ret, char *reason, size_t size) {
    return open_table(nvml_names, nvml_rows, ret, NULL, reason, size);
}

int cuda_cudnn_open(struct cuda_cudnn *ret, char *reason, size_t size) {
    const char *chosen = getenv("WARPTUNE_CUDNN");
    const char *const only[] = {chosen, NULL};
    return open_table(chosen && *chosen ? only : cudnn_names, cudnn_rows, ret, NULL, reason, size);
}

unsigned cuda_launch_kernel(const struct cuda_driver *driver, struct CUfunc_st *function, const unsigned grid[3],
                            const unsigned block[3], unsigned shared_bytes, int early, struct CUstream_st *stream,
                            void **args) {
    struct cuda_attribute attribute = {.id = CUDA_EARLY, .value = {.allowed = 1}};
    const struct cuda_launch_config config = {
        {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes, stream, &attribute, early ? 1 : 0};
    return driver->cuLaunchKernelEx((const struct CUlaunchConfig_st *)&config, function, args, NULL);
}

void cuda_explain(const struct cuda_driver *driver, unsigned status, const char *what, char *text, size_t size) {
    const char *name = NULL, *words = NULL;
    if (driver->cuGetErrorName(status, &name) != 0 || !name)
        name = "an error without a name";
    if (driver->cuGetErrorString(status, &words) != 0 || !words)
        words = "no explanation";
    snprintf(text, size, "%s: %s (%u, %s)", what, name, status, words);
}
