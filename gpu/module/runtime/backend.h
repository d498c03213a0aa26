/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h: what the runtime needs of the CPU or a GPU: memory, code, and the network's steps as one thing to run.
 *
 * A backend is used by one thread at a time. Functions that return int give 0, or -1 with the reason in the fault that
 * open was given.
 */
#ifndef WARPTUNE_MODULE_BACKEND_H
#define WARPTUNE_MODULE_BACKEND_H

#include <stdbool.h>

#include "gpu/module/runtime/image.h"

struct backend; /* each class has its own */

struct backend_options {
    int ordinal;
    const char *arch; /* what the code was made for */
    uint32_t n_codes;
    struct fault *fault; /* must outlive the backend */
};

/* A step with its buffers' addresses. */
struct call {
    uint32_t code;
    const char *entry, *node;
    int64_t items;
    unsigned grid[3], block[3], shared, early;
    int n_args;
    uint64_t args[FORMAT_MAX_ARGS];
};

/* A network's input or output. */
struct port {
    uint64_t address;
    size_t bytes;
    void *host; /* where the caller's bytes go in or come out; on the CPU the same memory */
    bool fresh; /* input: host holds what the device does not */
};

struct ports {
    struct port *in, *out;
    int n_in, n_out;
};

struct backend_class {
    bool constants_in_place; /* kernels read constants where the file is mapped */
    int (*open)(const struct backend_options *options, struct backend **ret);
    void (*close)(struct backend *backend); /* frees what was loaded and allocated; NULL-safe */
    int (*load)(struct backend *backend, uint32_t code, const void *data, size_t bytes);
    int (*alloc)(struct backend *backend, size_t bytes, uint64_t *ret); /* zeroed, aligned to FORMAT_PLACE */
    void (*free)(struct backend *backend, uint64_t address);
    int (*write)(struct backend *backend, uint64_t to, const void *from, size_t bytes);
    /* Repeats an element of 1, 2, 4 or 8 bytes. */
    int (*fill)(struct backend *backend, uint64_t to, const void *element, size_t element_bytes, size_t bytes);
    int (*stage)(struct backend *backend, struct port *port);                 /* sets its host memory */
    int (*prepare)(struct backend *backend, const struct call *calls, int n); /* runs them once, now */
    int (*bind)(struct backend *backend, const struct call *calls, int n);    /* the network, for run and time */
    int (*run)(struct backend *backend, struct ports *ports);
    int (*time)(struct backend *backend, struct ports *ports, int count, double *seconds);
};

extern const struct backend_class backend_cpu, backend_cuda;

#endif
