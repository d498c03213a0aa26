/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching on a GPU. What is timed is captured into a graph and replayed, so that the host's launch times stay out:
 * one direct launch first where there was none (code is loaded lazily), then one replay that nobody counts, behind
 * which the counted ones queue up while the GPU is still busy. A graph is a small part of a repeat: capturing,
 * instantiating and the uncounted replay all cost time that a trial pays once more for nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cuda_device.h"
#include "gpu/device/cuda_info.h"
#include "gpu/device/cuda_plan.h"
#include "service/base/clock.h"

enum {
    MOST_NODES = 64,  /* of a graph, unless one execution has more */
    MOST_REPLAYS = 64 /* while a kept graph, captured for fewer executions, is good enough */
};
/* A graph lasts about this long at most: between two there is a gap of about a microsecond. */
#define GRAPH_S 300e-6

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

static int find_function(struct device *device, const struct device_call *call, struct cuda_launch *ret,
                         struct error *error) {
    const struct launch *launch = call->launch;
    const struct cuda_driver *cu = &device->cu;
    ret->code = call->code;
    ret->n_args = launch->n_args;
    if (cudnn_is_entry(launch->entry))
        return cuda_plan_find(device, call->code, launch, &ret->plan, error);
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
    ret->early = launch->early;
    return 0;
}

/* The launches, to be freed; NULL with the error. Calls of the same launch, for another set of buffers, share. */
static struct cuda_launch *resolve(struct device *device, const struct device_call *calls, int n, struct error *error) {
    struct cuda_launch *launches = calloc((size_t)n, sizeof *launches);
    if (!launches)
        error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for %d launches.", n);
    for (int i = 0; launches && i < n; i++) {
        int same = 0;
        while (calls[same].launch != calls[i].launch || calls[same].code != calls[i].code)
            same++;
        if (same < i) {
            launches[i] = launches[same]; /* but for the arguments */
        } else if (find_function(device, &calls[i], &launches[i], error) < 0) {
            free(launches);
            return NULL;
        }
        memcpy(launches[i].args, calls[i].args, (size_t)launches[i].n_args * sizeof launches[i].args[0]);
    }
    return launches;
}

static int launch_all(struct device *device, const struct cuda_launch *launches, int n, int repeats,
                      struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    for (int turn = 0; turn < repeats; turn++) {
        for (int i = 0; i < n; i++) {
            const struct cuda_launch *l = &launches[i];
            void *args[LAUNCH_MAX_ARGS];
            if (l->plan) {
                if (cuda_plan_run(device, l->plan, l->args, error) < 0)
                    return -1;
                continue;
            }
            for (int a = 0; a < l->n_args; a++)
                args[a] = (void *)(uintptr_t)&l->args[a];
            unsigned status =
                cuda_launch_kernel(cu, l->function, l->grid, l->block, l->shared_bytes, l->early, device->stream, args);
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

/* Where a function's entry among those that ran is, or would be. */
static int find_ran(const struct device_code *code, const struct CUfunc_st *function) {
    int i = 0;
    while (i < code->n_ran && code->ran[i].function != function)
        i++;
    return i;
}

static void note_ran(const struct cuda_launch *launches, int n, double seconds) {
    for (int i = 0; i < n; i++) {
        struct device_code *code = launches[i].code;
        int at = find_ran(code, launches[i].function);
        if (at == MOST_RAN)
            continue;
        code->n_ran += at == code->n_ran;
        code->ran[at].function = launches[i].function;
        code->ran[at].seconds = seconds / n;
    }
}

/* How long the launches take at most; -1 when one of them never ran. */
static double sum_ran(const struct cuda_launch *launches, int n) {
    double seconds = 0;
    for (int i = 0; i < n; i++) {
        int at = find_ran(launches[i].code, launches[i].function);
        if (at == launches[i].code->n_ran)
            return -1;
        seconds += launches[i].code->ran[at].seconds;
    }
    return seconds;
}

/*
 * How many times over a list of n, which takes about so long, is captured for a repeat of `count`: a divisor of it, if
 * one is near.
 */
static int choose_captured(int count, int n, double seconds) {
    int wanted = MOST_NODES / n;
    if (seconds > 0 && wanted > GRAPH_S / seconds)
        wanted = (int)(GRAPH_S / seconds);
    wanted = wanted < 1 ? 1 : wanted;
    if (count <= wanted)
        return count;
    for (int captured = wanted; captured > wanted / 2; captured--)
        if (count % captured == 0)
            return captured;
    return wanted;
}

static bool is_kept(const struct cuda_graph *kept, int captured, int count) {
    return kept->repeats == captured ||
           (kept->repeats < captured && count % kept->repeats == 0 && count / kept->repeats <= MOST_REPLAYS);
}

/* Makes the kept graph one of `launches` (which it takes over), each of which has been launched before. */
static int prepare_graph(struct device *device, struct cuda_launch *launches, int n, int count, struct error *error) {
    struct cuda_graph *kept = &device->graph;
    double seconds = sum_ran(launches, n);
    int captured = choose_captured(count, n, seconds);
    bool same_list =
        kept->exec && kept->n_launches == n && memcmp(kept->launches, launches, (size_t)n * sizeof *launches) == 0;
    if (same_list && is_kept(kept, captured, count)) {
        free(launches);
        return 0;
    }
    cuda_graph_drop(device);
    struct cuda_graph graph = {launches, n, captured, NULL};
    int rc = seconds < 0 ? launch_all(device, launches, n, 1, error) : 0;
    if (rc == 0)
        rc = wait(device, error);
    if (rc == 0)
        rc = capture(device, launches, n, captured, &graph.exec, error);
    if (rc == 0)
        *kept = graph;
    else
        free(launches);
    return rc;
}

static const char timing[] = "Timing a kernel failed";

/* Queues one repeat: replays of the kept graph, direct launches of what they leave of `count`, and an event. */
static int queue_repeat(struct device *device, int count, struct CUevent_st *event, struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    const struct cuda_graph *graph = &device->graph;
    for (int done = 0; done < count / graph->repeats; done++)
        if (cuda_check(cu, cu->cuGraphLaunch(graph->exec, device->stream), "Replaying a graph failed", error) < 0)
            return -1;
    if (launch_all(device, graph->launches, graph->n_launches, count % graph->repeats, error) < 0)
        return -1;
    return cuda_check(cu, cu->cuEventRecord(event, device->stream), timing, error);
}

static int time_graph(struct device *device, int count, int repeats, double *ret_seconds, struct error *error) {
    const struct cuda_driver *cu = &device->cu;
    if (queue_repeat(device, device->graph.repeats, device->event[0], error) < 0)
        return -1;
    for (int i = 0; i < repeats; i++)
        if (queue_repeat(device, count, device->event[i + 1], error) < 0)
            return -1;
    if (wait(device, error) < 0)
        return -1;
    for (int i = 0; i < repeats; i++) {
        float ms = 0;
        if (cuda_check(cu, cu->cuEventElapsedTime(&ms, device->event[i], device->event[i + 1]), timing, error) < 0)
            return -1;
        ret_seconds[i] = ms / 1e3;
    }
    return 0;
}

int cuda_time(struct device *device, const struct device_call *calls, int n_calls, int count, int repeats,
              double *ret_seconds, struct error *error) {
    for (int i = 0; i < repeats; i++)
        ret_seconds[i] = 0;
    if (n_calls == 0 || count <= 0)
        return 0;
    struct cuda_launch *launches = resolve(device, calls, n_calls, error);
    if (!launches || prepare_graph(device, launches, n_calls, count, error) < 0)
        return -1;
    return time_graph(device, count, repeats, ret_seconds, error);
}

int cuda_run(struct device *device, const struct device_call *calls, int n_calls, int count, double *ret_seconds,
             struct error *error) {
    if (ret_seconds)
        return cuda_time(device, calls, n_calls, count, 1, ret_seconds, error);
    if (n_calls == 0 || count <= 0)
        return 0;
    struct cuda_launch *launches = resolve(device, calls, n_calls, error);
    int64_t begin = clock_now_ns();
    int rc = launches ? launch_all(device, launches, n_calls, count, error) : -1;
    if (rc == 0)
        rc = wait(device, error);
    if (rc == 0)
        note_ran(launches, n_calls, (double)(clock_now_ns() - begin) / NS_PER_S / count);
    free(launches);
    return rc;
}
