/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU through the driver alone: the primary context, a cubin for each code, one graph that holds every step of the
 * network; steps that are plans of cuDNN's are captured into it like kernels. Inputs and outputs pass through pinned
 * memory in the network's own stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gpu/device/cuda_api.h"
#include "gpu/module/runtime/backend.h"
#include "gpu/module/runtime/library.h"

enum { TIMED_AT_ONCE = 64 };

struct block {
    struct block *next;
    unsigned long long address;
    void *host; /* pinned memory instead */
};

struct backend {
    struct fault *fault;
    const char *arch;
    struct cuda_driver cu;
    int gpu;
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct CUmod_st **codes;
    uint32_t n_codes;
    struct block *blocks;
    struct CUgraphExec_st *network;
    struct CUevent_st *events[TIMED_AT_ONCE + 1];
    struct library library;
};

/* What a call launches. */
struct kernel {
    struct CUfunc_st *function; /* NULL: the plan */
    struct library_plan *plan;
};

static int check(struct backend *backend, unsigned status, const char *what) {
    char text[400];
    if (status == 0)
        return 0;
    cuda_explain(&backend->cu, status, what, text, sizeof text);
    return fault_set(backend->fault, "%s.", text);
}

static int check_call(struct backend *backend, unsigned status, const struct call *call) {
    char what[160];
    if (status == 0)
        return 0;
    snprintf(what, sizeof what, "Kernel %.60s of node %.60s failed", call->entry, call->node);
    return check(backend, status, what);
}

/* A context belongs to a thread, and the handle may come from another one than last time. */
static int enter(struct backend *backend) {
    return check(backend, backend->cu.cuCtxSetCurrent(backend->context), "The GPU's context cannot be used");
}

static void free_block(struct backend *backend, struct block *block) {
    if (block->host)
        backend->cu.cuMemFreeHost(block->host);
    else
        backend->cu.cuMemFree(block->address);
    free(block);
}

/* Of what was made, in the opposite order; after a failed open only a part of it. */
static void release_gpu(struct backend *backend) {
    const struct cuda_driver *cu = &backend->cu;
    for (size_t i = 0; i < sizeof backend->events / sizeof backend->events[0]; i++) {
        if (backend->events[i])
            cu->cuEventDestroy(backend->events[i]);
    }
    if (backend->network)
        cu->cuGraphExecDestroy(backend->network);
    library_close(&backend->library);
    while (backend->blocks) {
        struct block *block = backend->blocks;
        backend->blocks = block->next;
        free_block(backend, block);
    }
    for (uint32_t i = 0; backend->codes && i < backend->n_codes; i++) {
        if (backend->codes[i])
            cu->cuModuleUnload(backend->codes[i]);
    }
    if (backend->stream)
        cu->cuStreamDestroy(backend->stream);
    cu->cuDevicePrimaryCtxRelease(backend->gpu);
}

static void cuda_close(struct backend *backend) {
    if (!backend)
        return;
    if (backend->context && enter(backend) == 0) {
        if (backend->stream)
            backend->cu.cuStreamSynchronize(backend->stream);
        release_gpu(backend);
    }
    free(backend->codes);
    free(backend);
}

static int open_gpu(struct backend *backend, int ordinal) {
    const struct cuda_driver *cu = &backend->cu;
    int count = 0;
    if (check(backend, cu->cuInit(0), "The NVIDIA driver cannot be used") < 0 ||
        check(backend, cu->cuDeviceGetCount(&count), "The GPUs cannot be counted") < 0)
        return -1;
    if (ordinal < 0 || ordinal >= count)
        return fault_set(backend->fault, "There is no GPU number %d; the driver has %d.", ordinal, count);
    if (check(backend, cu->cuDeviceGet(&backend->gpu, ordinal), "The GPU cannot be opened") < 0 ||
        check(backend, cu->cuDevicePrimaryCtxRetain(&backend->context, backend->gpu), "The GPU cannot be opened") < 0 ||
        enter(backend) < 0 ||
        check(backend, cu->cuStreamCreate(&backend->stream, CUDA_STREAM_NON_BLOCKING), "The GPU has no stream") < 0)
        return -1;
    for (size_t i = 0; i < sizeof backend->events / sizeof backend->events[0]; i++) {
        if (check(backend, cu->cuEventCreate(&backend->events[i], 0), "The GPU has no event") < 0)
            return -1;
    }
    return 0;
}

static int cuda_open(const struct backend_options *options, struct backend **ret) {
    struct backend *backend = calloc(1, sizeof *backend);
    char reason[400];
    if (!backend || !(backend->codes = calloc(options->n_codes + 1, sizeof(struct CUmod_st *)))) {
        free(backend);
        return fault_set(options->fault, "There is not enough memory to open the module.");
    }
    backend->fault = backend->library.fault = options->fault;
    backend->arch = options->arch;
    backend->n_codes = options->n_codes;
    if (cuda_driver_open(&backend->cu, reason, sizeof reason) < 0) {
        cuda_close(backend);
        return fault_set(options->fault, "The module needs the NVIDIA driver. %s", reason);
    }
    if (open_gpu(backend, options->ordinal) < 0) {
        cuda_close(backend);
        return -1;
    }
    *ret = backend;
    return 0;
}

static int cuda_load(struct backend *backend, uint32_t index, const void *data, size_t bytes) {
    char what[96];
    (void)bytes; /* a cubin knows its own */
    snprintf(what, sizeof what, "Loading code made for %s failed", backend->arch);
    return check(backend, backend->cu.cuModuleLoadData(&backend->codes[index], data), what);
}

static int wait(struct backend *backend, const char *what) {
    return check(backend, backend->cu.cuStreamSynchronize(backend->stream), what);
}

static int keep(struct backend *backend, unsigned long long address, void *host) {
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return fault_set(backend->fault, "There is not enough memory to note an allocation.");
    *block = (struct block){backend->blocks, address, host};
    backend->blocks = block;
    return 0;
}

static int cuda_alloc(struct backend *backend, size_t bytes, uint64_t *ret) {
    const struct cuda_driver *cu = &backend->cu;
    unsigned long long address = 0;
    size_t words = (bytes + 3) / 4;
    words = words ? words : 1;
    if (check(backend, cu->cuMemAlloc(&address, words * 4), "Taking GPU memory for the module failed") < 0)
        return -1;
    if (keep(backend, address, NULL) < 0) {
        cu->cuMemFree(address);
        return -1;
    }
    *ret = address;
    return check(backend, cu->cuMemsetD32Async(address, 0, words, backend->stream), "Clearing GPU memory failed");
}

static void cuda_free(struct backend *backend, uint64_t address) {
    for (struct block **at = &backend->blocks; *at; at = &(*at)->next) {
        struct block *block = *at;
        if (block->host || block->address != address)
            continue;
        *at = block->next;
        free_block(backend, block);
        return;
    }
}

static int cuda_write(struct backend *backend, uint64_t to, const void *from, size_t bytes) {
    static const char what[] = "Copying constants to the GPU failed";
    if (bytes == 0)
        return 0;
    if (check(backend, backend->cu.cuMemcpyHtoDAsync(to, from, bytes, backend->stream), what) < 0)
        return -1;
    return wait(backend, what);
}

/* By 32-bit words where the element repeats in one, else from a copy on the host. */
static int cuda_fill(struct backend *backend, uint64_t to, const void *element, size_t element_bytes, size_t bytes) {
    uint32_t words[2];
    for (size_t done = 0; done < sizeof words; done += element_bytes)
        memcpy((char *)words + done, element, element_bytes);
    if (words[0] == words[1])
        return check(backend, backend->cu.cuMemsetD32Async(to, words[0], (bytes + 3) / 4, backend->stream),
                     "Filling GPU memory failed");
    char *data = malloc(bytes);
    if (!data)
        return fault_set(backend->fault, "There is not enough memory for a constant of %zu bytes.", bytes);
    for (size_t done = 0; done + element_bytes <= bytes; done += element_bytes)
        memcpy(data + done, element, element_bytes);
    int rc = cuda_write(backend, to, data, bytes);
    free(data);
    return rc;
}

static int cuda_stage(struct backend *backend, struct port *port) {
    void *host = NULL;
    if (check(backend, backend->cu.cuMemHostAlloc(&host, port->bytes ? port->bytes : 1, 0),
              "Taking pinned memory for inputs and outputs failed") < 0)
        return -1;
    if (keep(backend, 0, host) < 0) {
        backend->cu.cuMemFreeHost(host);
        return -1;
    }
    memset(host, 0, port->bytes);
    port->host = host;
    return 0;
}

static int resolve_plan(struct backend *backend, const struct call *call, struct kernel *ret) {
    uint64_t address = 0;
    bool is_new;
    if (library_find(&backend->library, call->entry, call->n_args, &ret->plan, &is_new) < 0)
        return -1;
    if (is_new && ret->plan->workspace_bytes > 0 && cuda_alloc(backend, ret->plan->workspace_bytes, &address) < 0)
        return -1;
    if (is_new)
        ret->plan->workspace = address;
    return 0;
}

static int resolve(struct backend *backend, const struct call *call, struct kernel *ret) {
    const struct cuda_driver *cu = &backend->cu;
    if (cudnn_is_entry(call->entry))
        return resolve_plan(backend, call, ret);
    if (check_call(backend, cu->cuModuleGetFunction(&ret->function, backend->codes[call->code], call->entry), call) < 0)
        return -1;
    if (call->shared <= CUDA_SHARED_DEFAULT)
        return 0;
    return check_call(backend, cu->cuFuncSetAttribute(ret->function, CUDA_MAX_DYNAMIC_SHARED, (int)call->shared), call);
}

static int launch_all(struct backend *backend, const struct call *calls, const struct kernel *kernels, int n) {
    for (int i = 0; i < n; i++) {
        const struct call *call = &calls[i];
        void *args[FORMAT_MAX_ARGS];
        if (kernels[i].plan) {
            if (library_run(&backend->library, kernels[i].plan, call->args, backend->stream) < 0)
                return -1;
            continue;
        }
        for (int a = 0; a < call->n_args; a++)
            args[a] = (void *)(uintptr_t)&call->args[a];
        unsigned status = cuda_launch_kernel(&backend->cu, kernels[i].function, call->grid, call->block, call->shared,
                                             (int)call->early, backend->stream, args);
        if (check_call(backend, status, call) < 0)
            return -1;
    }
    return 0;
}

/* Finds every kernel and launches each call once. *ret: the kernels, the caller's, or NULL. */
static int launch_once(struct backend *backend, const struct call *calls, int n, struct kernel **ret) {
    struct kernel *kernels = *ret = calloc((size_t)n + 1, sizeof *kernels);
    if (!kernels)
        return fault_set(backend->fault, "There is not enough memory for the module's %d steps.", n);
    for (int i = 0; i < n; i++) {
        if (resolve(backend, &calls[i], &kernels[i]) < 0)
            return -1;
    }
    return launch_all(backend, calls, kernels, n) < 0 ? -1 : wait(backend, "Running the network failed");
}

static int cuda_prepare(struct backend *backend, const struct call *calls, int n) {
    struct kernel *kernels;
    int rc = launch_once(backend, calls, n, &kernels);
    free(kernels);
    return rc;
}

static int capture(struct backend *backend, const struct call *calls, const struct kernel *kernels, int n) {
    const struct cuda_driver *cu = &backend->cu;
    struct CUgraph_st *graph = NULL;
    static const char what[] = "Making the network's graph failed";
    if (check(backend, cu->cuStreamBeginCapture(backend->stream, CUDA_CAPTURE_THREAD_LOCAL), what) < 0)
        return -1;
    int rc = launch_all(backend, calls, kernels, n);
    unsigned status = cu->cuStreamEndCapture(backend->stream, &graph);
    if (rc == 0)
        rc = check(backend, status, what);
    if (rc == 0)
        rc = check(backend, cu->cuGraphInstantiateWithFlags(&backend->network, graph, 0), what);
    if (graph)
        cu->cuGraphDestroy(graph);
    return rc;
}

/* Code is loaded lazily, at its first launch, which may not happen while a graph is captured: so all runs once. */
static int cuda_bind(struct backend *backend, const struct call *calls, int n) {
    struct kernel *kernels;
    int rc = launch_once(backend, calls, n, &kernels);
    if (rc == 0)
        rc = capture(backend, calls, kernels, n);
    free(kernels);
    return rc;
}

static int send_inputs(struct backend *backend, struct ports *ports) {
    for (int i = 0; i < ports->n_in; i++) {
        struct port *port = &ports->in[i];
        if (port->fresh &&
            check(backend, backend->cu.cuMemcpyHtoDAsync(port->address, port->host, port->bytes, backend->stream),
                  "Copying an input to the GPU failed") < 0)
            return -1;
        port->fresh = false;
    }
    return 0;
}

static int fetch_outputs(struct backend *backend, const struct ports *ports) {
    for (int i = 0; i < ports->n_out; i++) {
        const struct port *port = &ports->out[i];
        if (check(backend, backend->cu.cuMemcpyDtoHAsync(port->host, port->address, port->bytes, backend->stream),
                  "Copying an output from the GPU failed") < 0)
            return -1;
    }
    return wait(backend, "Running the network failed");
}

static int launch_network(struct backend *backend) {
    return check(backend, backend->cu.cuGraphLaunch(backend->network, backend->stream), "Launching the network failed");
}

static int cuda_run(struct backend *backend, struct ports *ports) {
    if (enter(backend) < 0 || send_inputs(backend, ports) < 0 || launch_network(backend) < 0)
        return -1;
    return fetch_outputs(backend, ports);
}

/* One launch that nobody counts, behind which the timed ones queue up while the GPU is busy; an event after each. */
static int time_some(struct backend *backend, int count, double *seconds) {
    const struct cuda_driver *cu = &backend->cu;
    static const char what[] = "Timing the network failed";
    if (launch_network(backend) < 0 || check(backend, cu->cuEventRecord(backend->events[0], backend->stream), what) < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        if (launch_network(backend) < 0 ||
            check(backend, cu->cuEventRecord(backend->events[i + 1], backend->stream), what) < 0)
            return -1;
    }
    if (wait(backend, "Running the network failed") < 0)
        return -1;
    for (int i = 0; i < count; i++) {
        float ms = 0;
        if (check(backend, cu->cuEventElapsedTime(&ms, backend->events[i], backend->events[i + 1]), what) < 0)
            return -1;
        seconds[i] = ms / 1e3;
    }
    return 0;
}

static int cuda_time(struct backend *backend, struct ports *ports, int count, double *seconds) {
    if (enter(backend) < 0 || send_inputs(backend, ports) < 0)
        return -1;
    for (int done = 0; done < count; done += TIMED_AT_ONCE) {
        int n = count - done < TIMED_AT_ONCE ? count - done : TIMED_AT_ONCE;
        if (time_some(backend, n, seconds + done) < 0)
            return -1;
    }
    return fetch_outputs(backend, ports);
}

const struct backend_class backend_cuda = {
    .constants_in_place = false,
    .open = cuda_open,
    .close = cuda_close,
    .load = cuda_load,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .write = cuda_write,
    .fill = cuda_fill,
    .stage = cuda_stage,
    .prepare = cuda_prepare,
    .bind = cuda_bind,
    .run = cuda_run,
    .time = cuda_time,
};
