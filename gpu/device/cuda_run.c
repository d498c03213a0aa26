/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching on a GPU. What is timed is captured into a graph and replayed, so that the host's launch times stay out:
 * one direct launch first (code is loaded lazily), then one replay that nobody counts, behind which the counted ones
 * queue up while the GPU is still busy.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cuda_device.h"
#include "gpu/device/cuda_info.h"

enum { MOST_REPEATS = 32, MOST_NODES = 4096 };

/* The driver's own refusal of a block that is too large has one number with all other wrong arguments. */
static int check_threads(struct device *device, const struct launch *launch, struct CUfunc_st *function,
                         struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    unsigned long long threads = (unsigned long long)launch->block[0] * launch->block[1] * launch->block[2];
    int most;
    if (cuda_check(cu, cu->cuFuncGetAttribute(&most, CUDA_MAX_THREADS, function), launch->entry, error) < 0)
        return error_prefix(error, "Asking for a kernel's limits failed: ");
    if (threads > (unsigned long long)most)
        return error_set(error, ERROR_DEVICE, "out-of-resources", NULL,
                         "%s takes at most %d threads a block, by its registers and launch bounds, not %llu.",
                         launch->entry, most, threads);
    return 0;
}

static int resolve(struct device *device, const struct device_call *call, struct cuda_launch *ret,
                   struct error *error) {
    const struct launch *launch = call->launch;
    const struct cuda_driver *cu = &device->cu;
    if (cuda_check(cu, cu->cuModuleGetFunction(&ret->function, call->code->module, launch->entry), launch->entry,
                   error) < 0)
        return error_prefix(error, "Looking up a kernel failed: ");
    if (check_threads(device, launch, ret->function, error) < 0)
        return -1;
    if (launch->shared_bytes > CUDA_SHARED_DEFAULT &&
        cuda_check(cu, cu->cuFuncSetAttribute(ret->function, CUDA_MAX_DYNAMIC_SHARED, (int)launch->shared_bytes),
                   launch->entry, error) < 0)
        return error_prefix(error, "Reserving %u bytes of shared memory failed: ", launch->shared_bytes);
    memcpy(ret->grid, launch->grid, sizeof ret->grid);
    memcpy(ret->block, launch->block, sizeof ret->block);
    ret->shared_bytes = launch->shared_bytes;
    ret->n_args = launch->n_args;
    memcpy(ret->args, call->args, (size_t)launch->n_args * sizeof ret->args[0]);
    return 0;
}

static int launch_all(struct device *device, const struct cuda_launch *launches, int n, int repeats,
                      struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    for (int turn = 0; turn < repeats; turn++) {
        for (int i = 0; i < n; i++) {
            const struct cuda_launch *l = &launches[i];
            void *args[LAUNCH_MAX_ARGS];
            for (int a = 0; a < l->n_args; a++)
                args[a] = (void *)(uintptr_t)&l->args[a];
            unsigned status = cu->cuLaunchKernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                                 l->block[1], l->block[2], l->shared_bytes, device->stream, args, NULL);
            if (cuda_check(cu, status, "Launching a kernel failed", error) < 0)
                return -1;
        }
    }
    return 0;
}

static int wait(struct device *device, struct error *error) {
    return cuda_check(&device->cu, device->cu.cuStreamSynchronize(device->stream), "Running a kernel failed", error);
}

static int capture(struct device *device, const struct cuda_launch *launches, int n, int repeats,
                   struct CUgraphExec_st **ret, struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    struct CUgraph_st *graph = NULL;
    if (cuda_check(cu, cu->cuStreamBeginCapture(device->stream, CUDA_CAPTURE_THREAD_LOCAL), "Beginning a graph failed",
                   error) < 0)
        return -1;
    int rc = launch_all(device, launches, n, repeats, error);
    unsigned status = cu->cuStreamEndCapture(device->stream, &graph);
    if (rc == 0)
        rc = cuda_check(cu, status, "Ending a graph failed", error);
    if (rc == 0)
        rc = cuda_check(cu, cu->cuGraphInstantiateWithFlags(ret, graph, 0), "Instantiating a graph failed", error);
    if (graph)
        cu->cuGraphDestroy(graph);
    return rc;
}

void cuda_graph_drop(struct device *device) {
    if (device->graph.exec)
        device->cu.cuGraphExecDestroy(device->graph.exec);
    free(device->graph.launches);
    device->graph = (struct cuda_graph){0};
}

/* Makes the kept graph that of `launches` (which it takes over) with `repeats`; warm once it was launched directly. */
static int prepare_graph(struct device *device, struct cuda_launch *launches, int n, int repeats, struct error *error) {
    struct cuda_graph *kept = &device->graph;
    bool same_list =
        kept->exec && kept->n_launches == n && memcmp(kept->launches, launches, (size_t)n * sizeof *launches) == 0;
    if (same_list && kept->repeats == repeats) {
        free(launches);
        return 0;
    }
    cuda_graph_drop(device);
    struct cuda_graph graph = {launches, n, repeats, NULL};
    int rc = same_list ? 0 : launch_all(device, launches, n, 1, error);
    if (rc == 0)
        rc = wait(device, error);
    if (rc == 0)
        rc = capture(device, launches, n, repeats, &graph.exec, error);
    if (rc == 0)
        *kept = graph;
    else
        free(launches);
    return rc;
}

/* Replays the kept graph and launches directly what the replays leave of `count`. */
static int time_graph(struct device *device, int count, double *ret_seconds, struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    const struct cuda_graph *graph = &device->graph;
    static const char replaying[] = "Replaying a graph failed", timing[] = "Timing a kernel failed";
    float ms = 0;
    if (cuda_check(cu, cu->cuGraphLaunch(graph->exec, device->stream), replaying, error) < 0 ||
        cuda_check(cu, cu->cuEventRecord(device->begin, device->stream), timing, error) < 0)
        return -1;
    for (int done = 0; done < count / graph->repeats; done++)
        if (cuda_check(cu, cu->cuGraphLaunch(graph->exec, device->stream), replaying, error) < 0)
            return -1;
    if (launch_all(device, graph->launches, graph->n_launches, count % graph->repeats, error) < 0 ||
        cuda_check(cu, cu->cuEventRecord(device->end, device->stream), timing, error) < 0 || wait(device, error) < 0 ||
        cuda_check(cu, cu->cuEventElapsedTime(&ms, device->begin, device->end), timing, error) < 0)
        return -1;
    *ret_seconds = ms / 1e3;
    return 0;
}

/* How many times over a list is captured: all of `count` when that is few, else a divisor of it that is near the most.
 */
static int choose_repeats(int count, int n_launches) {
    int most = MOST_NODES / (n_launches > 0 ? n_launches : 1);
    most = most < 1 ? 1 : most > MOST_REPEATS ? MOST_REPEATS : most;
    if (count <= most)
        return count;
    for (int repeats = most; repeats > most / 2; repeats--)
        if (count % repeats == 0)
            return repeats;
    return most;
}

int cuda_run(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
             struct error *error) {
    if (n_calls == 0 || count <= 0) {
        if (ret_seconds)
            *ret_seconds = 0;
        return 0;
    }
    struct cuda_launch *launches = calloc((size_t)n_calls, sizeof *launches);
    if (!launches)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for %d launches.",
                         n_calls);
    int rc = 0;
    for (int i = 0; rc == 0 && i < n_calls; i++)
        rc = resolve(device, &calls[i], &launches[i], error);
    if (rc < 0 || !ret_seconds) {
        if (rc == 0)
            rc = launch_all(device, launches, n_calls, count, error);
        if (rc == 0)
            rc = wait(device, error);
        free(launches);
        return rc;
    }
    if (prepare_graph(device, launches, n_calls, choose_repeats(count, n_calls), error) < 0)
        return -1;
    return time_graph(device, count, ret_seconds, error);
}
