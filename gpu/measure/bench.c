/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/measure/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/measure/guarded.h"
#include "gpu/measure/numbers.h"
#include "service/base/clock.h"

enum { MOST_SETS = 8, MOST_EXECUTIONS = 100000, GRAPH_REPEATS = 32 };
#define MOST_SETS_BYTES ((size_t)1 << 30)
/* Operands above this are verified on integers alone: the host holds a copy of each kind. */
#define MOST_BYTES_TWICE ((size_t)256 << 20)
/* Inputs up to this are read back after a run, to see that it left them alone. */
#define MOST_BYTES_READ_BACK ((size_t)1 << 20)
/* Of a trial's time, what timing may fill. */
#define TIMING_SHARE 0.7

/* Buffers of one execution. */
struct set {
    struct guarded *in, *out, *prepared;
};

struct bench {
    const struct device_class *class;
    struct device *device;
    const struct workload *workload;
    struct arena *arena;
    int n_kinds; /* of numbers to verify on; set k holds kind k, later sets the last kind */
    int n_sets, n_timed;
    void **in[NUMBERS_KINDS], **expected[NUMBERS_KINDS]; /* the host's copies, one an operand */
    struct set sets[MOST_SETS];
};

/* A candidate: its code and the buffers that only it has. */
struct candidate {
    struct bench *bench;
    const struct program *program;
    struct device_code *code;
    struct guarded *scratch;
    int n_sets; /* that have prepared buffers */
};

/* ---- operands ---- */

static size_t total_bytes(const struct operand *operands, int n) {
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += operand_bytes(&operands[i]);
    return total;
}

static int choose_sets(const struct target *target, size_t bytes) {
    size_t wanted = 2 * (size_t)target->cache_bytes / (bytes ? bytes : 1), fit = MOST_SETS_BYTES / (bytes ? bytes : 1);
    wanted = wanted < fit ? wanted : fit;
    return wanted < 1 ? 1 : wanted > MOST_SETS ? MOST_SETS : (int)wanted;
}

static int make_host_copies(struct bench *bench, enum numbers kind, struct error *error) {
    const struct workload *w = bench->workload;
    bench->in[kind] = arena_array(bench->arena, (size_t)w->n_in + 1, sizeof(void *));
    bench->expected[kind] = arena_array(bench->arena, (size_t)w->n_out + 1, sizeof(void *));
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

static enum numbers kind_of_set(const struct bench *bench, int set) {
    return (enum numbers)(set < bench->n_kinds ? set : bench->n_kinds - 1);
}

static int write_inputs(struct bench *bench, int number, struct error *error) {
    const struct set *set = &bench->sets[number];
    void **from = bench->in[kind_of_set(bench, number)];
    for (int i = 0; i < bench->workload->n_in; i++)
        if (bench->class->write(bench->device, set->in[i].data, from[i], set->in[i].bytes, error) < 0)
            return -1;
    return 0;
}

static int make_set(struct bench *bench, int number, struct error *error) {
    const struct workload *w = bench->workload;
    struct set *set = &bench->sets[number];
    set->in = arena_array(bench->arena, (size_t)w->n_in + 1, sizeof *set->in);
    set->out = arena_array(bench->arena, (size_t)w->n_out + 1, sizeof *set->out);
    for (int i = 0; i < w->n_in; i++)
        if (guarded_alloc(bench->class, bench->device, operand_bytes(&w->in[i]), CANARY_READ, &set->in[i], error) < 0)
            return -1;
    for (int i = 0; i < w->n_out; i++)
        if (guarded_alloc(bench->class, bench->device, operand_bytes(&w->out[i]), CANARY_WRITTEN, &set->out[i], error) <
            0)
            return -1;
    return write_inputs(bench, number, error);
}

static void free_list(struct bench *bench, struct guarded *list, int n) {
    for (int i = 0; list && i < n; i++)
        guarded_free(bench->class, bench->device, &list[i]);
}

/* ---- candidates ---- */

static void candidate_done(struct candidate *candidate) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    free_list(bench, candidate->scratch, program->n_scratch);
    free(candidate->scratch);
    for (int s = 0; s < candidate->n_sets; s++) {
        free_list(bench, bench->sets[s].prepared, program->n_prepared);
        free(bench->sets[s].prepared);
        bench->sets[s].prepared = NULL;
    }
    if (candidate->code)
        bench->class->unload(bench->device, candidate->code);
}

/* `n` poisoned buffers, or NULL; those made before a failure are in the list and freed with it. */
static int make_list(struct bench *bench, const size_t *bytes, int n, struct guarded **ret, struct error *error) {
    *ret = calloc((size_t)n + 1, sizeof **ret);
    if (!*ret)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for a candidate.");
    for (int i = 0; i < n; i++)
        if (guarded_alloc(bench->class, bench->device, bytes[i], CANARY_WRITTEN, &(*ret)[i], error) < 0 ||
            guarded_poison(bench->class, bench->device, &(*ret)[i], error) < 0)
            return -1;
    return 0;
}

/* Loads the code and makes the buffers for the first `n_sets` sets. candidate_done also after a failure. */
static int candidate_init(struct candidate *candidate, struct bench *bench, const struct program *program,
                          const struct buf *code, int n_sets, struct error *error) {
    *candidate = (struct candidate){.bench = bench, .program = program};
    if (bench->class->load(bench->device, code->data, code->len, &candidate->code, error) < 0 ||
        make_list(bench, program->scratch_bytes, program->n_scratch, &candidate->scratch, error) < 0)
        return -1;
    for (int s = 0; s < n_sets; s++) {
        candidate->n_sets = s + 1;
        if (make_list(bench, program->prepared_bytes, program->n_prepared, &bench->sets[s].prepared, error) < 0)
            return -1;
    }
    return 0;
}

static void bind(const struct candidate *candidate, const struct set *set, const struct launch *launch,
                 struct device_call *ret) {
    const struct guarded *lists[] = {
        [ARG_IN] = set->in, [ARG_OUT] = set->out, [ARG_SCRATCH] = candidate->scratch, [ARG_PREPARED] = set->prepared};
    *ret = (struct device_call){.launch = launch, .code = candidate->code};
    for (int i = 0; i < launch->n_args; i++)
        ret->args[i] = lists[launch->args[i].kind][launch->args[i].index].data;
}

/* Runs the launches over the sets [first, first + n), all of them `count` times. */
static int run_sets(const struct candidate *candidate, int first, int n, const struct launch *launches, int n_launches,
                    int count, double *ret_seconds, struct error *error) {
    struct bench *bench = candidate->bench;
    struct device_call *calls = calloc((size_t)n * (size_t)n_launches + 1, sizeof *calls);
    if (!calls)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for the launches.");
    for (int s = 0; s < n; s++)
        for (int i = 0; i < n_launches; i++)
            bind(candidate, &bench->sets[first + s], &launches[i], &calls[s * n_launches + i]);
    int rc = bench->class->run(bench->device, calls, n * n_launches, count, ret_seconds, error);
    free(calls);
    return rc;
}

static int prepare_sets(const struct candidate *candidate, int first, int n, struct error *error) {
    const struct program *program = candidate->program;
    return n > 0 ? run_sets(candidate, first, n, program->prepare, program->n_prepare, 1, NULL, error) : 0;
}

/* One execution on the set of the kind, everything that it should write poisoned before. */
static int execute(const struct candidate *candidate, enum numbers kind, struct error *error) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    const struct set *set = &bench->sets[kind];
    if (prepare_sets(candidate, (int)kind, 1, error) < 0)
        return -1;
    for (int i = 0; i < bench->workload->n_out; i++)
        if (guarded_poison(bench->class, bench->device, &set->out[i], error) < 0)
            return -1;
    return run_sets(candidate, (int)kind, 1, program->run, program->n_run, 1, NULL, error);
}

/* ---- verification ---- */

/* False when a canary of the list was changed; the text says which. -1 when the device fails. */
static int check_list(struct bench *bench, const struct guarded *list, int n, const char *what, char *text, size_t size,
                      struct error *error) {
    for (int i = 0; i < n; i++) {
        bool intact;
        int64_t offset;
        if (guarded_check(bench->class, bench->device, &list[i], &intact, &offset, error) < 0)
            return -1;
        if (intact)
            continue;
        snprintf(text, size,
                 "The kernel wrote outside of %s %d: the canary at byte %" PRId64 " of its %zu bytes changed.", what, i,
                 offset, list[i].bytes);
        return 0;
    }
    return 1;
}

static int check_canaries(const struct candidate *candidate, enum numbers kind, char *text, size_t size,
                          struct error *error) {
    struct bench *bench = candidate->bench;
    const struct workload *w = bench->workload;
    const struct program *program = candidate->program;
    const struct set *set = &bench->sets[kind];
    const struct {
        const struct guarded *list;
        int n;
        const char *what;
    } lists[] = {{set->out, w->n_out, "output"},
                 {set->in, w->n_in, "input"},
                 {candidate->scratch, program->n_scratch, "scratch buffer"},
                 {set->prepared, program->n_prepared, "prepared buffer"}};
    int ok = 1;
    for (size_t i = 0; ok == 1 && i < ARRAY_COUNT(lists); i++)
        ok = check_list(bench, lists[i].list, lists[i].n, lists[i].what, text, size, error);
    return ok;
}

/* What a buffer holds, to be freed; NULL with the error when it cannot be read. */
static void *read_back(struct bench *bench, const struct guarded *guarded, struct error *error) {
    void *bytes = malloc(guarded->bytes + 1);
    if (!bytes) {
        error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for an operand.");
    } else if (bench->class->read(bench->device, bytes, guarded->data, guarded->bytes, error) < 0) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

/* 1 when every output is what the plain kernel gave, 0 with the text when not. */
static int check_outputs(struct bench *bench, enum numbers kind, char *text, size_t size, struct error *error) {
    int ok = 1;
    for (int i = 0; ok == 1 && i < bench->workload->n_out; i++) {
        char difference[512];
        void *got = read_back(bench, &bench->sets[kind].out[i], error);
        if (!got)
            return -1;
        ok =
            numbers_agree(&bench->workload->out[i], kind, got, bench->expected[kind][i], difference, sizeof difference);
        if (!ok)
            snprintf(text, size, "On %s output %d is wrong: %s.",
                     kind == NUMBERS_INTEGERS ? "small integers" : "random numbers", i, difference);
        free(got);
    }
    return ok;
}

/* 1 when the inputs are as before, as far as they are small, 0 with the text when not. */
static int check_inputs(struct bench *bench, enum numbers kind, char *text, size_t size, struct error *error) {
    int ok = 1;
    for (int i = 0; ok == 1 && i < bench->workload->n_in; i++) {
        const struct guarded *in = &bench->sets[kind].in[i];
        if (in->bytes > MOST_BYTES_READ_BACK)
            continue;
        void *now = read_back(bench, in, error);
        if (!now)
            return -1;
        ok = memcmp(now, bench->in[kind][i], in->bytes) == 0;
        if (!ok)
            snprintf(text, size, "The kernel changed its input %d.", i);
        free(now);
    }
    return ok;
}

/* An answer of the device's or of the verification, as a trial's error. */
static void fail(struct bench_result *result, enum trial_error error_no, bool poisoned, const char *text) {
    result->error_no = error_no;
    result->poisoned = poisoned;
    snprintf(result->text, sizeof result->text, "%s", text);
}

static void fail_with(struct bench_result *result, const struct error *error) {
    bool too_large = strcmp(error->code, "out-of-memory") == 0 || strcmp(error->code, "out-of-resources") == 0;
    bool device = error->class == ERROR_DEVICE;
    fail(result,
         too_large ? TRIAL_INSTANTIATION
         : device  ? TRIAL_RUNTIME
                   : TRIAL_UNKNOWN,
         device && !too_large, error->text);
}

/* Runs it once on the kind's set and looks at all that it may have touched: 1, 0 with the text, or -1. */
static int verify_once(const struct candidate *candidate, enum numbers kind, bool *ret_poisoned, char *text,
                       size_t size, struct error *error) {
    struct bench *bench = candidate->bench;
    *ret_poisoned = false;
    if (execute(candidate, kind, error) < 0)
        return -1;
    int ok = check_canaries(candidate, kind, text, size, error);
    *ret_poisoned = ok == 0;
    if (ok == 1)
        ok = check_inputs(bench, kind, text, size, error);
    return ok == 1 ? check_outputs(bench, kind, text, size, error) : ok;
}

/* What looks wrong is looked at twice: an earlier candidate may have changed an input too large to be read back. */
static bool verify(const struct candidate *candidate, struct bench_result *result) {
    struct bench *bench = candidate->bench;
    char text[sizeof result->text] = "";
    struct error error;
    for (int kind = 0; kind < bench->n_kinds; kind++) {
        bool poisoned;
        int ok = verify_once(candidate, (enum numbers)kind, &poisoned, text, sizeof text, &error);
        if (ok == 0 && !poisoned) {
            ok = write_inputs(bench, kind, &error);
            if (ok == 0)
                ok = verify_once(candidate, (enum numbers)kind, &poisoned, text, sizeof text, &error);
            if (ok == 0 && write_inputs(bench, kind, &error) < 0)
                ok = -1;
        }
        if (ok < 0)
            fail_with(result, &error);
        else if (!ok)
            fail(result, TRIAL_WRONG_ANSWER, poisoned, text);
        if (ok != 1)
            return false;
    }
    return true;
}

/* ---- timing ---- */

/* Rounds over all sets in one repeat, so that it lasts min_repeat_ms; a multiple of what is captured into a graph. */
static int choose_rounds(const struct measure_options *options, int n_sets, double round_s) {
    double wanted = options->min_repeat_ms / 1e3 / (round_s > 1e-9 ? round_s : 1e-9);
    double least = (double)options->number / n_sets, most = (double)MOST_EXECUTIONS / n_sets;
    double rounds = ceil(wanted > least ? wanted : least);
    rounds = rounds > most ? floor(most) : rounds;
    int n = rounds < 1 ? 1 : (int)rounds;
    return n > GRAPH_REPEATS ? (n + GRAPH_REPEATS - 1) / GRAPH_REPEATS * GRAPH_REPEATS : n;
}

static int choose_repeats(const struct measure_options *options, double repeat_s, double left_s) {
    int n = options->repeat < 1 ? 1 : options->repeat > TRIAL_MAX_COSTS ? TRIAL_MAX_COSTS : options->repeat;
    double fit = left_s / (repeat_s > 1e-9 ? repeat_s : 1e-9);
    return fit < 1 ? 1 : fit < n ? (int)fit : n;
}

static int time_candidate(const struct candidate *candidate, const struct measure_options *options, int n_sets,
                          int64_t deadline, struct bench_result *result, struct error *error) {
    const struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    double round_s = 0, seconds = 0;
    /* Twice: the first finds cold caches and lazily loaded code. */
    if (prepare_sets(candidate, bench->n_kinds, n_sets - bench->n_kinds, error) < 0 ||
        run_sets(candidate, 0, n_sets, program->run, program->n_run, 1, &round_s, error) < 0 ||
        run_sets(candidate, 0, n_sets, program->run, program->n_run, 1, &round_s, error) < 0)
        return -1;
    int rounds = choose_rounds(options, n_sets, round_s);
    int repeats = choose_repeats(options, round_s * rounds, (double)(deadline - clock_now_ns()) / NS_PER_S);
    for (int i = 0; i < repeats; i++) {
        if (run_sets(candidate, 0, n_sets, program->run, program->n_run, rounds, &seconds, error) < 0)
            return -1;
        result->costs_s[result->n_costs++] = seconds / ((double)rounds * n_sets);
    }
    return 0;
}

void bench_trial(struct bench *bench, const struct program *program, const struct buf *code,
                 const struct measure_options *options, struct bench_result *ret) {
    struct candidate candidate;
    struct error error;
    int64_t deadline = deadline_in_s(options->timeout_s * TIMING_SHARE);
    int n_sets = options->number > 0 && options->number < bench->n_timed ? options->number : bench->n_timed;
    *ret = (struct bench_result){.error_no = TRIAL_OK};
    if (candidate_init(&candidate, bench, program, code, n_sets > bench->n_kinds ? n_sets : bench->n_kinds, &error) < 0)
        fail_with(ret, &error);
    else if (verify(&candidate, ret) && time_candidate(&candidate, options, n_sets, deadline, ret, &error) < 0)
        fail_with(ret, &error);
    candidate_done(&candidate);
}

/* ---- the workload ---- */

static int read_expected(struct bench *bench, enum numbers kind, struct error *error) {
    for (int i = 0; i < bench->workload->n_out; i++) {
        const struct guarded *out = &bench->sets[kind].out[i];
        if (bench->class->read(bench->device, bench->expected[kind][i], out->data, out->bytes, error) < 0)
            return -1;
    }
    return 0;
}

static int run_plain(struct bench *bench, const struct program *plain, const struct buf *code, struct error *error) {
    struct candidate candidate;
    char text[256];
    int rc = candidate_init(&candidate, bench, plain, code, bench->n_kinds, error);
    for (int kind = 0; rc == 0 && kind < bench->n_kinds; kind++) {
        rc = execute(&candidate, (enum numbers)kind, error);
        int intact = rc == 0 ? check_canaries(&candidate, (enum numbers)kind, text, sizeof text, error) : -1;
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
    bench->n_timed = choose_sets(target, bytes);
    while (bench->n_sets < bench->n_timed || bench->n_sets < bench->n_kinds)
        if (make_set(bench, bench->n_sets++, error) < 0)
            return -1;
    return run_plain(bench, plain, plain_code, error);
}

int bench_new(const struct device_class *class, struct device *device, const struct target *target,
              const struct workload *workload, const struct program *plain, const struct buf *plain_code,
              struct bench **ret, struct error *error) {
    struct arena *arena = arena_new(0);
    struct bench *bench = arena_alloc(arena, sizeof *bench);
    *bench = (struct bench){.class = class, .device = device, .workload = workload, .arena = arena};
    if (bench_init(bench, target, plain, plain_code, error) < 0) {
        bench_free(bench);
        return -1;
    }
    *ret = bench;
    return 0;
}

void bench_free(struct bench *bench) {
    if (!bench)
        return;
    for (int s = 0; s < bench->n_sets; s++) {
        free_list(bench, bench->sets[s].in, bench->workload->n_in);
        free_list(bench, bench->sets[s].out, bench->workload->n_out);
    }
    arena_free(bench->arena);
}
