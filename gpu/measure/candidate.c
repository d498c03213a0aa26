/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate on the device: its code, its own buffers, and running it. */
#include <stdlib.h>

#include "gpu/measure/bench_internal.h"
#include "gpu/measure/shelf.h"
#include "service/base/clock.h"

static void give_list(struct bench *bench, struct guarded *list, int n) {
    for (int i = 0; list && i < n; i++)
        shelf_give(bench->shelf, &list[i]);
    free(list);
}

void candidate_done(struct candidate *candidate) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    give_list(bench, candidate->scratch, program->n_scratch);
    for (int s = 0; s < candidate->n_sets; s++) {
        give_list(bench, bench->sets[s].prepared, program->n_prepared);
        bench->sets[s].prepared = NULL;
    }
    if (candidate->code)
        bench->class->unload(bench->device, candidate->code);
}

/* `n` buffers, or NULL; those made before a failure are in the list and given back with it. */
static int make_list(struct bench *bench, const size_t *bytes, int n, bool poisoned, struct guarded **ret,
                     struct error *error) {
    *ret = calloc((size_t)n + 1, sizeof **ret);
    if (!*ret)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for a candidate.");
    for (int i = 0; i < n; i++)
        if (shelf_take(bench->shelf, bytes[i], CANARY_WRITTEN, &(*ret)[i], error) < 0 ||
            (poisoned && guarded_poison(bench->class, bench->device, &(*ret)[i], error) < 0))
            return -1;
    return 0;
}

static void bind(const struct candidate *candidate, const struct set *set, const struct launch *launch,
                 struct device_call *ret) {
    const struct guarded *lists[] = {
        [ARG_IN] = set->in, [ARG_OUT] = set->out, [ARG_SCRATCH] = candidate->scratch, [ARG_PREPARED] = set->prepared};
    *ret = (struct device_call){.launch = launch, .code = candidate->code};
    for (int i = 0; i < launch->n_args; i++) {
        const struct arg *arg = &launch->args[i];
        ret->args[i] = arg->kind == ARG_VALUE ? (uint32_t)arg->index : lists[arg->kind][arg->index].data;
    }
}

/* The calls of the launches for the sets [first, first + n), to be freed. */
static struct device_call *make_calls(const struct candidate *candidate, int first, int n,
                                      const struct launch *launches, int n_launches, struct error *error) {
    struct device_call *calls = calloc((size_t)n * (size_t)n_launches + 1, sizeof *calls);
    if (!calls)
        error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for the launches.");
    for (int s = 0; calls && s < n; s++)
        for (int i = 0; i < n_launches; i++)
            bind(candidate, &candidate->bench->sets[first + s], &launches[i], &calls[s * n_launches + i]);
    return calls;
}

/* Runs the launches once over the sets [first, first + n). */
static int run_sets(const struct candidate *candidate, int first, int n, const struct launch *launches, int n_launches,
                    struct error *error) {
    const struct bench *bench = candidate->bench;
    if (n <= 0 || n_launches == 0)
        return 0;
    struct device_call *calls = make_calls(candidate, first, n, launches, n_launches, error);
    int rc = calls ? bench->class->run(bench->device, calls, n * n_launches, 1, NULL, error) : -1;
    free(calls);
    return rc;
}

int candidate_time(const struct candidate *candidate, int n, int rounds, int repeats, double *ret_seconds,
                   struct error *error) {
    const struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    struct device_call *calls = make_calls(candidate, 0, n, program->run, program->n_run, error);
    int rc =
        calls ? bench->class->time(bench->device, calls, n * program->n_run, rounds, repeats, ret_seconds, error) : -1;
    free(calls);
    return rc;
}

int candidate_init(struct candidate *candidate, struct bench *bench, const struct program *program,
                   const struct buf *code, struct error *error) {
    *candidate = (struct candidate){.bench = bench, .program = program};
    if (bench->class->load(bench->device, code->data, code->len, &candidate->code, error) < 0 ||
        make_list(bench, program->scratch_bytes, program->n_scratch, true, &candidate->scratch, error) < 0)
        return -1;
    return candidate_prepare(candidate, bench->n_kinds, error);
}

int candidate_prepare(struct candidate *candidate, int n, struct error *error) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    int first = candidate->n_sets;
    while (candidate->n_sets < n) {
        /* What is verified is poisoned before: prepare must write all that is read later. */
        bool poisoned = candidate->n_sets < bench->n_kinds;
        int s = candidate->n_sets++;
        if (make_list(bench, program->prepared_bytes, program->n_prepared, poisoned, &bench->sets[s].prepared, error) <
            0)
            return -1;
    }
    return run_sets(candidate, first, n - first, program->prepare, program->n_prepare, error);
}

int candidate_execute(struct candidate *candidate, enum numbers kind, struct error *error) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    const struct set *set = &bench->sets[kind];
    for (int i = 0; i < bench->workload->n_out; i++)
        if (guarded_poison(bench->class, bench->device, &set->out[i], error) < 0)
            return -1;
    int64_t begin = clock_now_ns();
    if (run_sets(candidate, (int)kind, 1, program->run, program->n_run, error) < 0)
        return -1;
    double seconds = (double)(clock_now_ns() - begin) / NS_PER_S;
    if (candidate->estimate_s <= 0 || seconds < candidate->estimate_s)
        candidate->estimate_s = seconds;
    return 0;
}
