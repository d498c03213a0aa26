/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/bench.h"

#include <stdlib.h>

#include "gpu/measure/bench_internal.h"
#include "gpu/measure/shelf.h"
#include "service/base/clock.h"

#define MOST_SETS_BYTES ((size_t)1 << 30)
/* Operands above this are verified on integers alone: the host holds a copy of each kind. */
#define MOST_BYTES_TWICE ((size_t)256 << 20)
/* Of a trial's time, what timing may fill. */
#define TIMING_SHARE 0.7

/* ---- a trial ---- */

static double lap(int64_t *since) {
    int64_t now = clock_now_ns();
    double seconds = (double)(now - *since) / NS_PER_S;
    *since = now;
    return seconds;
}

void bench_trial(struct bench *bench, const struct program *program, const struct buf *code,
                 const struct measure_options *options, double bound_s, struct bench_result *ret) {
    struct candidate candidate;
    struct error error;
    int64_t deadline = deadline_in_s(options->timeout_s * TIMING_SHARE), since = clock_now_ns();
    *ret = (struct bench_result){.error_no = TRIAL_OK, .state = device_state_unknown};
    int rc = candidate_init(&candidate, bench, program, code, &error);
    ret->load_s = lap(&since);
    bool good = rc == 0 && verify(&candidate, ret);
    ret->verify_s = lap(&since);
    if (good)
        rc = time_candidate(&candidate, options, bound_s, deadline, ret, &error);
    ret->time_s = lap(&since);
    if (rc < 0)
        fail_with(ret, &error);
    candidate_done(&candidate);
    ret->load_s += lap(&since);
}

/* ---- operands ---- */

static size_t total_bytes(const struct operand *operands, int n) {
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += operand_bytes(&operands[i]);
    return total;
}

static int count_sets(const struct target *target, size_t bytes) {
    size_t wanted = 2 * (size_t)target->cache_bytes / (bytes ? bytes : 1), fit = MOST_SETS_BYTES / (bytes ? bytes : 1);
    wanted = wanted < fit ? wanted : fit;
    return wanted < 1 ? 1 : wanted > MOST_SETS ? MOST_SETS : (int)wanted;
}

static int make_host_copies(struct bench *bench, enum numbers kind, struct error *error) {
    const struct workload *w = bench->workload;
    bench->in[kind] = arena_array(bench->arena, (size_t)w->n_in + 1, sizeof(void *));
    bench->expected[kind] = arena_array(bench->arena, (size_t)w->n_out + 1, sizeof(void *));
    bench->limit[kind] = arena_array(bench->arena, (size_t)w->n_out + 1, sizeof(double));
    for (int i = 0; i < w->n_in + w->n_out; i++) {
        bool in = i < w->n_in;
        void *copy = arena_try_alloc(bench->arena, operand_bytes(in ? &w->in[i] : &w->out[i - w->n_in]) + 1);
        if (!copy)
            return error_set(error, ERROR_LIMIT, "out-of-memory", NULL,
                             "There is not enough memory for the operands of the workload.");
        if (in)
            numbers_fill(w, i, kind, bench->in[kind][i] = copy);
        else
            bench->expected[kind][i - w->n_in] = copy;
    }
    return 0;
}

static int make_set(struct bench *bench, int number, struct error *error) {
    const struct workload *w = bench->workload;
    struct set *set = &bench->sets[number];
    set->in = arena_array(bench->arena, (size_t)w->n_in + 1, sizeof *set->in);
    set->out = arena_array(bench->arena, (size_t)w->n_out + 1, sizeof *set->out);
    for (int i = 0; i < w->n_in; i++)
        if (shelf_take(bench->shelf, operand_bytes(&w->in[i]), CANARY_READ, &set->in[i], error) < 0)
            return -1;
    for (int i = 0; i < w->n_out; i++)
        if (shelf_take(bench->shelf, operand_bytes(&w->out[i]), CANARY_WRITTEN, &set->out[i], error) < 0)
            return -1;
    return write_inputs(bench, number, error);
}

/* Room for the largest buffer that verifying reads back whole. */
static int make_stage(struct bench *bench, struct error *error) {
    const struct workload *w = bench->workload;
    size_t most = MOST_BYTES_READ_BACK;
    for (int i = 0; i < w->n_out; i++)
        most = operand_bytes(&w->out[i]) > most ? operand_bytes(&w->out[i]) : most;
    return bench->class->host_alloc(bench->device, guarded_total(most), &bench->stage, error);
}

/* ---- the workload ---- */

static int read_expected(struct bench *bench, enum numbers kind, struct error *error) {
    for (int i = 0; i < bench->workload->n_out; i++) {
        const struct guarded *out = &bench->sets[kind].out[i];
        if (bench->class->read(bench->device, bench->expected[kind][i], out->data, out->bytes, error) < 0)
            return -1;
        bench->limit[kind][i] =
            numbers_limit(&bench->workload->out[i], bench->workload->tf32, kind, bench->expected[kind][i]);
    }
    return 0;
}

static int run_plain(struct bench *bench, const struct program *plain, const struct buf *code, struct error *error) {
    struct candidate candidate;
    char text[256];
    int rc = candidate_init(&candidate, bench, plain, code, error);
    for (int kind = 0; rc == 0 && kind < bench->n_kinds; kind++) {
        rc = candidate_execute(&candidate, (enum numbers)kind, error);
        int intact = rc == 0 ? verify_canaries(&candidate, (enum numbers)kind, text, sizeof text, error) : -1;
        if (intact == 0)
            error_set(error, ERROR_INTERNAL, "plain-kernel-wrong", NULL, "%s", text);
        rc = intact == 1 ? read_expected(bench, (enum numbers)kind, error) : -1;
    }
    candidate_done(&candidate);
    return rc < 0 ? error_prefix(error, "Running the plain kernel: ") : 0;
}

static int bench_init(struct bench *bench, const struct target *target, const struct program *plain,
                      const struct buf *plain_code, struct error *error) {
    const struct workload *w = bench->workload;
    size_t bytes = total_bytes(w->in, w->n_in) + total_bytes(w->out, w->n_out);
    bench->n_kinds = bytes > MOST_BYTES_TWICE ? 1 : NUMBERS_KINDS;
    for (int kind = 0; kind < bench->n_kinds; kind++)
        if (make_host_copies(bench, (enum numbers)kind, error) < 0)
            return -1;
    bench->n_timed = count_sets(target, bytes);
    if (make_stage(bench, error) < 0)
        return -1;
    while (bench->n_sets < bench->n_timed || bench->n_sets < bench->n_kinds)
        if (make_set(bench, bench->n_sets++, error) < 0)
            return -1;
    return run_plain(bench, plain, plain_code, error);
}

int bench_new(const struct bench_device *on, const struct target *target, const struct workload *workload,
              const struct program *plain, const struct buf *plain_code, struct bench **ret, struct error *error) {
    struct arena *arena = arena_new(0);
    struct bench *bench = arena_alloc(arena, sizeof *bench);
    *bench = (struct bench){.class = on->class,
                            .device = on->device,
                            .shelf = on->shelf,
                            .steady = on->steady,
                            .pool = on->pool,
                            .workload = workload,
                            .arena = arena};
    if (bench_init(bench, target, plain, plain_code, error) < 0) {
        bench_free(bench);
        return -1;
    }
    *ret = bench;
    return 0;
}

static void give_list(struct bench *bench, struct guarded *list, int n) {
    for (int i = 0; list && i < n; i++)
        shelf_give(bench->shelf, &list[i]);
}

void bench_free(struct bench *bench) {
    if (!bench)
        return;
    for (int s = 0; s < bench->n_sets; s++) {
        give_list(bench, bench->sets[s].in, bench->workload->n_in);
        give_list(bench, bench->sets[s].out, bench->workload->n_out);
    }
    if (bench->stage)
        bench->class->host_free(bench->device, bench->stage);
    arena_free(bench->arena);
}
