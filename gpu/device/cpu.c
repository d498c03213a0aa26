/* SPDX-License-Identifier: Apache-2.0 */
/* The host's processor as a device: shared objects, loaded from memory, whose work items a thread pool shares. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/device/cpu_compile.h"
#include "gpu/device/cpu_info.h"
#include "gpu/device/device.h"
#include "gpu/device/pool.h"
#include "service/base/clock.h"
#include "service/base/file.h"

enum { ALIGNMENT = 256 };

/* The memory file stays open while its code is loaded: dlopen takes an equal path for the same library. */
struct device_code {
    struct device_code *next;
    void *handle;
    int fd;
};

struct block {
    struct block *next;
    void *data;
};

struct device {
    struct pool *pool;
    struct device_code *codes;
    struct block *blocks;
};

static int cpu_count(struct error *error) {
    char path[PATH_MAX];
    return cpu_compiler_path(path, sizeof path, error) == 0 ? 1 : 0;
}

static int cpu_open(int ordinal, struct device **ret, struct error *error) {
    if (ordinal != 0)
        return error_set(error, ERROR_NOT_FOUND, "no-such-device", NULL,
                         "There is one CPU device, number 0, and no %d.", ordinal);
    struct device *device = calloc(1, sizeof *device);
    if (device)
        device->pool = pool_new(0);
    if (!device || !device->pool) {
        free(device);
        return error_set(error, ERROR_LIMIT, "no-threads", NULL,
                         "The CPU device cannot start its threads; the process is at a limit of memory or threads.");
    }
    *ret = device;
    return 0;
}

static void code_free(struct device_code *code) {
    if (code->handle)
        dlclose(code->handle);
    if (code->fd >= 0)
        close(code->fd);
    free(code);
}

static void cpu_close(struct device *device) {
    if (!device)
        return;
    pool_free(device->pool);
    while (device->codes) {
        struct device_code *code = device->codes;
        device->codes = code->next;
        code_free(code);
    }
    while (device->blocks) {
        struct block *block = device->blocks;
        device->blocks = block->next;
        free(block->data);
        free(block);
    }
    free(device);
}

static int cpu_load(struct device *device, const void *bytes, size_t len, struct device_code **ret,
                    struct error *error) {
    char path[40];
    struct device_code *code = calloc(1, sizeof *code);
    if (!code)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to load code.");
    code->fd = memfd_create("warptune", MFD_CLOEXEC);
    if (code->fd < 0 || file_write_all(code->fd, bytes, len, error) < 0) {
        code_free(code);
        return error_set(error, ERROR_IO, "load-failed", NULL, "The code cannot be put into memory: %m.");
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", code->fd);
    code->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!code->handle) {
        const char *reason = dlerror();
        error_set(error, ERROR_DEVICE, "load-failed", NULL, "The compiled code cannot be loaded: %.500s.",
                  reason ? reason : "no reason given");
        code_free(code);
        return -1;
    }
    code->next = device->codes;
    device->codes = code;
    *ret = code;
    return 0;
}

static void cpu_unload(struct device *device, struct device_code *code) {
    for (struct device_code **at = &device->codes; *at; at = &(*at)->next) {
        if (*at != code)
            continue;
        *at = code->next;
        code_free(code);
        return;
    }
}

static int cpu_alloc(struct device *device, size_t bytes, uint64_t *ret, struct error *error) {
    struct block *block = calloc(1, sizeof *block);
    if (!block || posix_memalign(&block->data, ALIGNMENT, bytes ? bytes : 1) != 0) {
        free(block);
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "The host has no %zu bytes of memory left.", bytes);
    }
    block->next = device->blocks;
    device->blocks = block;
    *ret = (uintptr_t)block->data;
    return 0;
}

static void cpu_free(struct device *device, uint64_t address) {
    for (struct block **at = &device->blocks; *at; at = &(*at)->next) {
        struct block *block = *at;
        if ((uintptr_t)block->data != address)
            continue;
        *at = block->next;
        free(block->data);
        free(block);
        return;
    }
}

static int cpu_host_alloc(struct device *device, size_t bytes, void **ret, struct error *error) {
    (void)device;
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "The host has no %zu bytes of memory left.", bytes);
    *ret = data;
    return 0;
}

static void cpu_host_free(struct device *device, void *data) {
    (void)device;
    free(data);
}

static void cpu_watch(struct device *device, bool fresh, struct device_state *ret) {
    (void)device, (void)fresh;
    struct error ignored;
    if (cpu_state(0, ret, &ignored) < 0)
        *ret = device_state_unknown;
}

static int cpu_write(struct device *device, uint64_t to, const void *from, size_t bytes, struct error *error) {
    (void)device, (void)error;
    if (bytes > 0)
        memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

static int cpu_read(struct device *device, void *to, uint64_t from, size_t bytes, struct error *error) {
    (void)device, (void)error;
    if (bytes > 0)
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

static int cpu_fill(struct device *device, uint64_t to, uint32_t pattern, size_t words, struct error *error) {
    (void)device, (void)error;
    uint32_t *word = (uint32_t *)(uintptr_t)to;
    for (size_t i = 0; i < words; i++)
        word[i] = pattern;
    return 0;
}

/* A call with its function found and its addresses as pointers. */
struct bound_call {
    pool_kernel *kernel;
    int64_t items;
    void *args[LAUNCH_MAX_ARGS];
};

static int bind_call(const struct device_call *call, struct bound_call *ret, struct error *error) {
    void *symbol = dlsym(call->code->handle, call->launch->entry);
    if (!symbol)
        return error_set(error, ERROR_DEVICE, "no-entry", NULL, "The compiled code has no function %.100s.",
                         call->launch->entry);
    memcpy(&ret->kernel, &symbol, sizeof symbol); /* ISO C has no cast from an object's to a function's pointer */
    ret->items = call->launch->items;
    for (int i = 0; i < call->launch->n_args; i++)
        ret->args[i] = (void *)(uintptr_t)call->args[i];
    return 0;
}

/* The calls bound, to be freed; NULL with the error when one cannot be. */
static struct bound_call *bind_calls(const struct device_call *calls, int n, struct error *error) {
    struct bound_call *bound = calloc((size_t)n + 1, sizeof *bound);
    if (!bound)
        error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for %d calls.", n);
    for (int i = 0; bound && i < n; i++) {
        if (bind_call(&calls[i], &bound[i], error) == 0)
            continue;
        free(bound);
        bound = NULL;
    }
    return bound;
}

static double run_bound(struct device *device, struct bound_call *bound, int n, int count) {
    int64_t begin = clock_now_ns();
    for (int turn = 0; turn < count; turn++)
        for (int i = 0; i < n; i++)
            pool_run(device->pool, bound[i].kernel, bound[i].args, bound[i].items);
    return (double)(clock_now_ns() - begin) / NS_PER_S;
}

static int cpu_run(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
                   struct error *error) {
    struct bound_call *bound = bind_calls(calls, n_calls, error);
    if (!bound)
        return -1;
    double seconds = run_bound(device, bound, n_calls, count);
    if (ret_seconds)
        *ret_seconds = seconds;
    free(bound);
    return 0;
}

static int cpu_time(struct device *device, const struct device_call *calls, int n_calls, int count, int repeats,
                    double *ret_seconds, struct error *error) {
    struct bound_call *bound = bind_calls(calls, n_calls, error);
    if (!bound)
        return -1;
    run_bound(device, bound, n_calls, 1);
    for (int i = 0; i < repeats; i++)
        ret_seconds[i] = run_bound(device, bound, n_calls, count);
    free(bound);
    return 0;
}

const struct device_class device_cpu = {
    .kind = "cpu",
    .count = cpu_count,
    .describe = cpu_describe,
    .state = cpu_state,
    .watch = cpu_watch,
    .open = cpu_open,
    .close = cpu_close,
    .compile = cpu_compile,
    .compiler_id = cpu_compiler_id,
    .load = cpu_load,
    .unload = cpu_unload,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .write = cpu_write,
    .read = cpu_read,
    .fill = cpu_fill,
    .run = cpu_run,
    .time = cpu_time,
};
