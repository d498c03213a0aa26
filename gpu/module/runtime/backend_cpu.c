/* SPDX-License-Identifier: Apache-2.0 */
/* The host's processor: shared objects loaded from memory, their work items shared by a thread pool. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu/device/pool.h"
#include "gpu/module/runtime/backend.h"

enum { LARGE_PAGE = 2 << 20 };

/* The memory file stays open while its code is loaded: dlopen takes an equal path for the same library. */
struct code {
    void *handle;
    int fd;
};

struct block {
    struct block *next;
    void *data;
};

/* A call with its function found and its addresses as pointers. */
struct bound {
    pool_kernel *kernel;
    int64_t items;
    void *args[FORMAT_MAX_ARGS];
};

struct backend {
    struct fault *fault;
    struct pool *pool;
    struct code *codes;
    uint32_t n_codes;
    struct block *blocks;
    struct bound *network;
    int n_network;
};

/* The levels of the x86-64 architecture that code is made for. */
static bool host_runs(const char *arch) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return strcmp(arch, "x86-64-v4") == 0 ? v4 : strcmp(arch, "x86-64-v3") == 0 ? v3 : true;
#else
    (void)arch;
    return true; /* the loader refuses code of another architecture */
#endif
}

static void cpu_close(struct backend *backend) {
    if (!backend)
        return;
    pool_free(backend->pool);
    for (uint32_t i = 0; backend->codes && i < backend->n_codes; i++) {
        if (backend->codes[i].handle)
            dlclose(backend->codes[i].handle);
        if (backend->codes[i].fd >= 0)
            close(backend->codes[i].fd);
    }
    while (backend->blocks) {
        struct block *block = backend->blocks;
        backend->blocks = block->next;
        free(block->data);
        free(block);
    }
    free(backend->codes);
    free(backend->network);
    free(backend);
}

static int cpu_open(const struct backend_options *options, struct backend **ret) {
    if (!host_runs(options->arch))
        return fault_set(options->fault, "The module was made for %s, which this processor is not.", options->arch);
    struct backend *backend = calloc(1, sizeof *backend);
    if (backend) {
        backend->fault = options->fault;
        backend->n_codes = options->n_codes;
        backend->codes = calloc(options->n_codes + 1, sizeof *backend->codes);
        backend->pool = pool_new(0);
    }
    if (!backend || !backend->codes || !backend->pool) {
        cpu_close(backend);
        return fault_set(options->fault, "The module cannot start its threads: memory or threads are at a limit.");
    }
    for (uint32_t i = 0; i < backend->n_codes; i++)
        backend->codes[i].fd = -1;
    *ret = backend;
    return 0;
}

static int write_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

static int cpu_load(struct backend *backend, uint32_t index, const void *data, size_t bytes) {
    struct code *code = &backend->codes[index];
    char path[40];
    code->fd = memfd_create("warptune-kernel", MFD_CLOEXEC);
    if (code->fd < 0 || write_all(code->fd, data, bytes) < 0)
        return fault_set(backend->fault, "The module's code cannot be put into memory: %m.");
    snprintf(path, sizeof path, "/proc/self/fd/%d", code->fd);
    code->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (code->handle)
        return 0;
    const char *reason = dlerror();
    return fault_set(backend->fault, "The module's code cannot be loaded: %.300s.",
                     reason ? reason : "no reason given");
}

/* Large ones lie on large pages where the system has some to give. */
static int cpu_alloc(struct backend *backend, size_t bytes, uint64_t *ret) {
    struct block *block = calloc(1, sizeof *block);
    size_t align = bytes >= LARGE_PAGE ? LARGE_PAGE : FORMAT_PLACE;
    if (!block || posix_memalign(&block->data, align, bytes ? bytes : 1) != 0) {
        free(block);
        return fault_set(backend->fault, "The host has no %zu bytes of memory left for the module.", bytes);
    }
    if (align == LARGE_PAGE)
        (void)madvise(block->data, bytes, MADV_HUGEPAGE);
    memset(block->data, 0, bytes);
    block->next = backend->blocks;
    backend->blocks = block;
    *ret = (uintptr_t)block->data;
    return 0;
}

static void cpu_free(struct backend *backend, uint64_t address) {
    for (struct block **at = &backend->blocks; *at; at = &(*at)->next) {
        struct block *block = *at;
        if ((uintptr_t)block->data != address)
            continue;
        *at = block->next;
        free(block->data);
        free(block);
        return;
    }
}

static int cpu_write(struct backend *backend, uint64_t to, const void *from, size_t bytes) {
    (void)backend;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

/* Each copy doubles what is there. */
static int cpu_fill(struct backend *backend, uint64_t to, const void *element, size_t element_bytes, size_t bytes) {
    (void)backend;
    char *data = (char *)(uintptr_t)to;
    size_t done = element_bytes < bytes ? element_bytes : bytes;
    memcpy(data, element, done);
    while (done < bytes) {
        size_t n = done < bytes - done ? done : bytes - done;
        n = n < LARGE_PAGE ? n : LARGE_PAGE; /* the source stays in the cache */
        memcpy(data + done, data, n);
        done += n;
    }
    return 0;
}

static int cpu_stage(struct backend *backend, struct port *port) {
    (void)backend;
    port->host = (void *)(uintptr_t)port->address;
    return 0;
}

static int bind_call(struct backend *backend, const struct call *call, struct bound *ret) {
    void *symbol = dlsym(backend->codes[call->code].handle, call->entry);
    if (!symbol)
        return fault_set(backend->fault, "The module's code has no function %.100s, for node %.100s.", call->entry,
                         call->node);
    memcpy(&ret->kernel, &symbol, sizeof symbol); /* ISO C has no cast from an object's to a function's pointer */
    ret->items = call->items;
    for (int i = 0; i < call->n_args; i++)
        ret->args[i] = (void *)(uintptr_t)call->args[i];
    return 0;
}

static int cpu_prepare(struct backend *backend, const struct call *calls, int n) {
    for (int i = 0; i < n; i++) {
        struct bound bound;
        if (bind_call(backend, &calls[i], &bound) < 0)
            return -1;
        pool_run(backend->pool, bound.kernel, bound.args, bound.items);
    }
    return 0;
}

static int cpu_bind(struct backend *backend, const struct call *calls, int n) {
    backend->network = calloc((size_t)n + 1, sizeof *backend->network);
    if (!backend->network)
        return fault_set(backend->fault, "There is not enough memory for the module's %d steps.", n);
    backend->n_network = n;
    for (int i = 0; i < n; i++) {
        if (bind_call(backend, &calls[i], &backend->network[i]) < 0)
            return -1;
    }
    return 0;
}

static int cpu_run(struct backend *backend, struct ports *ports) {
    (void)ports;
    for (int i = 0; i < backend->n_network; i++) {
        const struct bound *bound = &backend->network[i];
        pool_run(backend->pool, bound->kernel, bound->args, bound->items);
    }
    return 0;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int cpu_time(struct backend *backend, struct ports *ports, int count, double *seconds) {
    for (int i = 0; i < count; i++) {
        double begin = now_s();
        (void)cpu_run(backend, ports);
        seconds[i] = now_s() - begin;
    }
    return 0;
}

const struct backend_class backend_cpu = {
    .constants_in_place = true,
    .open = cpu_open,
    .close = cpu_close,
    .load = cpu_load,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_write,
    .fill = cpu_fill,
    .stage = cpu_stage,
    .prepare = cpu_prepare,
    .bind = cpu_bind,
    .run = cpu_run,
    .time = cpu_time,
};
