/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a device: its primary context and one stream, on which all work takes place in the order of asking. */
#include <stdlib.h>

#include "gpu/device/cuda_compile.h"
#include "gpu/device/cuda_device.h"
#include "gpu/device/cuda_info.h"
#include "gpu/device/cuda_plan.h"

static void cuda_close(struct device *device) {
    if (!device)
        return;
    const struct cuda_driver *cu = &device->cu;
    cuda_graph_drop(device);
    while (device->codes) {
        struct device_code *code = device->codes;
        device->codes = code->next;
        cuda_plan_tidy(device, code);
        cu->cuModuleUnload(code->module);
        free(code);
    }
    cuda_plan_close(device);
    while (device->blocks) {
        struct cuda_block *block = device->blocks;
        device->blocks = block->next;
        cu->cuMemFree(block->address);
        free(block);
    }
    for (size_t i = 0; i < ARRAY_COUNT(device->event); i++)
        if (device->event[i])
            cu->cuEventDestroy(device->event[i]);
    if (device->stream)
        cu->cuStreamDestroy(device->stream);
    if (device->context)
        cu->cuDevicePrimaryCtxRelease(device->gpu);
    cuda_watch_close(&device->watch);
    free(device);
}

static int open_context(struct device *device, int ordinal, struct error *error) {
    struct cuda_driver *cu = &device->cu;
    char uuid[48];
    if (cuda_start(cu, error) < 0 ||
        cuda_check(cu, cu->cuDeviceGet(&device->gpu, ordinal), "Asking for a GPU failed", error) < 0)
        return -1;
    cuda_uuid(cu, device->gpu, uuid, sizeof uuid);
    cuda_watch_open(&device->watch, uuid);
    if (cuda_check(cu, cu->cuDevicePrimaryCtxRetain(&device->context, device->gpu), "Opening a GPU failed", error) <
            0 ||
        cuda_check(cu, cu->cuCtxSetCurrent(device->context), "Taking a GPU's context failed", error) < 0 ||
        cuda_check(cu, cu->cuStreamCreate(&device->stream, CUDA_STREAM_NON_BLOCKING), "Making a stream failed", error) <
            0)
        return -1;
    for (size_t i = 0; i < ARRAY_COUNT(device->event); i++)
        if (cuda_check(cu, cu->cuEventCreate(&device->event[i], 0), "Making an event failed", error) < 0)
            return -1;
    return 0;
}

static int cuda_open(int ordinal, struct device **ret, struct error *error) {
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to open a GPU.");
    if (open_context(device, ordinal, error) < 0) {
        cuda_close(device);
        return -1;
    }
    *ret = device;
    return 0;
}

static int cuda_load(struct device *device, const void *bytes, size_t len, struct device_code **ret,
                     struct error *error) {
    (void)len; /* a cubin knows its own */
    struct device_code *code = calloc(1, sizeof *code);
    if (!code)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to load code.");
    if (cuda_check(&device->cu, device->cu.cuModuleLoadData(&code->module, bytes), "Loading code failed", error) < 0) {
        free(code);
        return -1;
    }
    code->next = device->codes;
    device->codes = code;
    *ret = code;
    return 0;
}

static void cuda_unload(struct device *device, struct device_code *code) {
    for (struct device_code **at = &device->codes; *at; at = &(*at)->next) {
        if (*at != code)
            continue;
        *at = code->next;
        cuda_graph_drop(device);
        cuda_plan_tidy(device, code);
        device->cu.cuModuleUnload(code->module);
        free(code);
        return;
    }
}

static int cuda_alloc(struct device *device, size_t bytes, uint64_t *ret, struct error *error) {
    unsigned long long address = 0;
    struct cuda_block *block = calloc(1, sizeof *block);
    if (!block)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL,
                         "There is not enough memory to note an allocation.");
    if (cuda_check(&device->cu, device->cu.cuMemAlloc(&address, bytes ? bytes : 1), "Taking GPU memory failed", error) <
        0) {
        free(block);
        return error_prefix(error, "%zu bytes: ", bytes);
    }
    *block = (struct cuda_block){device->blocks, address};
    device->blocks = block;
    *ret = address;
    return 0;
}

static void cuda_free(struct device *device, uint64_t address) {
    for (struct cuda_block **at = &device->blocks; *at; at = &(*at)->next) {
        struct cuda_block *block = *at;
        if (block->address != address)
            continue;
        *at = block->next;
        device->cu.cuMemFree(address);
        free(block);
        return;
    }
}

static int cuda_host_alloc(struct device *device, size_t bytes, void **ret, struct error *error) {
    return cuda_check(&device->cu, device->cu.cuMemHostAlloc(ret, bytes ? bytes : 1, 0), "Taking pinned memory failed",
                      error);
}

static void cuda_host_free(struct device *device, void *data) {
    if (data)
        device->cu.cuMemFreeHost(data);
}

static void cuda_watch(struct device *device, bool fresh, struct device_state *ret) {
    cuda_watch_read(&device->watch, fresh, ret);
}

static int finish(struct device *device, unsigned status, const char *what, struct error *error) {
    if (cuda_check(&device->cu, status, what, error) < 0)
        return -1;
    return cuda_check(&device->cu, device->cu.cuStreamSynchronize(device->stream), what, error);
}

static int cuda_write(struct device *device, uint64_t to, const void *from, size_t bytes, struct error *error) {
    if (bytes == 0)
        return 0;
    return finish(device, device->cu.cuMemcpyHtoDAsync(to, from, bytes, device->stream), "Copying to the GPU failed",
                  error);
}

static int cuda_read(struct device *device, void *to, uint64_t from, size_t bytes, struct error *error) {
    if (bytes == 0)
        return 0;
    return finish(device, device->cu.cuMemcpyDtoHAsync(to, from, bytes, device->stream), "Copying from the GPU failed",
                  error);
}

static int cuda_fill(struct device *device, uint64_t to, uint32_t pattern, size_t words, struct error *error) {
    if (words == 0)
        return 0;
    return cuda_check(&device->cu, device->cu.cuMemsetD32Async(to, pattern, words, device->stream),
                      "Filling GPU memory failed", error);
}

const struct device_class device_cuda = {
    .kind = "cuda",
    .count = cuda_count,
    .describe = cuda_describe,
    .state = cuda_state,
    .watch = cuda_watch,
    .open = cuda_open,
    .close = cuda_close,
    .compile = cuda_compile,
    .compiler_id = cuda_compiler_id,
    .load = cuda_load,
    .unload = cuda_unload,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .write = cuda_write,
    .read = cuda_read,
    .fill = cuda_fill,
    .run = cuda_run,
    .time = cuda_time,
};
