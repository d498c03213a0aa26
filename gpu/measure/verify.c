/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a candidate computes what the plain kernel does, on integers and on random numbers, and touches nothing else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gpu/measure/bench_internal.h"

enum numbers kind_of_set(const struct bench *bench, int set) {
    return (enum numbers)(set < bench->n_kinds ? set : bench->n_kinds - 1);
}

int write_inputs(struct bench *bench, int set_no, struct error *error) {
    const struct set *set = &bench->sets[set_no];
    void **from = bench->in[kind_of_set(bench, set_no)];
    for (int i = 0; i < bench->workload->n_in; i++)
        if (bench->class->write(bench->device, set->in[i].data, from[i], set->in[i].bytes, error) < 0)
            return -1;
    return 0;
}

static int outside(const char *what, int number, int64_t offset, size_t bytes, char *text, size_t size) {
    snprintf(text, size, "The kernel wrote outside of %s %d: the canary at byte %" PRId64 " of its %zu bytes changed.",
             what, number, offset, bytes);
    return 0;
}

/* 0 when a canary of the list was changed; the text says which. */
static int check_list(struct bench *bench, const struct guarded *list, int n, const char *what, char *text, size_t size,
                      struct error *error) {
    for (int i = 0; i < n; i++) {
        bool intact;
        int64_t offset;
        if (guarded_check(bench->class, bench->device, &list[i], &intact, &offset, error) < 0)
            return -1;
        if (!intact)
            return outside(what, i, offset, list[i].bytes, text, size);
    }
    return 1;
}

static int check_own(const struct candidate *candidate, enum numbers kind, char *text, size_t size,
                     struct error *error) {
    struct bench *bench = candidate->bench;
    const struct program *program = candidate->program;
    int ok = check_list(bench, candidate->scratch, program->n_scratch, "scratch buffer", text, size, error);
    return ok == 1 ? check_list(bench, bench->sets[kind].prepared, program->n_prepared, "prepared buffer", text, size,
                                error)
                   : ok;
}

int verify_canaries(const struct candidate *candidate, enum numbers kind, char *text, size_t size,
                    struct error *error) {
    struct bench *bench = candidate->bench;
    const struct set *set = &bench->sets[kind];
    int ok = check_own(candidate, kind, text, size, error);
    if (ok == 1)
        ok = check_list(bench, set->in, bench->workload->n_in, "input", text, size, error);
    return ok == 1 ? check_list(bench, set->out, bench->workload->n_out, "output", text, size, error) : ok;
}

/*
 * Reads a whole buffer, canaries and all, in one transfer. *ret_data: NULL when a canary changed (the text says so),
 * valid until the next one is read.
 */
static int read_back(struct bench *bench, const struct guarded *guarded, const char *what, int number,
                     const void **ret_data, char *text, size_t size, struct error *error) {
    bool intact;
    int64_t offset;
    if (guarded_read(bench->class, bench->device, guarded, bench->stage, ret_data, &intact, &offset, error) < 0)
        return -1;
    if (!intact) {
        outside(what, number, offset, guarded->bytes, text, size);
        *ret_data = NULL;
    }
    return 0;
}

/* 1 when the inputs are as before, as far as they are small, 0 with the text when not. */
static int check_inputs(struct bench *bench, enum numbers kind, bool *ret_poisoned, char *text, size_t size,
                        struct error *error) {
    int ok = 1;
    for (int i = 0; ok == 1 && i < bench->workload->n_in; i++) {
        const struct guarded *in = &bench->sets[kind].in[i];
        const void *now = bench->in[kind][i];
        bool whole = in->bytes <= MOST_BYTES_READ_BACK;
        int rc = whole ? read_back(bench, in, "input", i, &now, text, size, error)
                       : check_list(bench, in, 1, "input", text, size, error);
        if (rc < 0)
            return -1;
        *ret_poisoned = !now || (!whole && rc == 0);
        ok = !*ret_poisoned && (!whole || memcmp(now, bench->in[kind][i], in->bytes) == 0);
        if (!ok && !*ret_poisoned)
            snprintf(text, size, "The kernel changed its input %d.", i);
    }
    return ok;
}

/* 1 when every output is what the plain kernel gave, 0 with the text when not. */
static int check_outputs(struct bench *bench, enum numbers kind, bool *ret_poisoned, char *text, size_t size,
                         struct error *error) {
    int ok = 1;
    for (int i = 0; ok == 1 && i < bench->workload->n_out; i++) {
        char difference[512];
        const void *got;
        if (read_back(bench, &bench->sets[kind].out[i], "output", i, &got, text, size, error) < 0)
            return -1;
        *ret_poisoned = !got;
        if (!got)
            return 0;
        const struct operand *out = &bench->workload->out[i];
        const void *expected = bench->expected[kind][i];
        double limit = bench->limit[kind][i];
        ok = numbers_surely_agree(bench->pool, out, limit, got, expected) ||
             numbers_agree_within(out, limit, got, expected, difference, sizeof difference);
        if (!ok)
            snprintf(text, size, "On %s output %d is wrong: %s.",
                     kind == NUMBERS_INTEGERS ? "small integers" : "random numbers", i, difference);
    }
    return ok;
}

/* An answer of the device's or of the verification, as a trial's error. */
static void fail(struct bench_result *result, enum trial_error error_no, bool poisoned, const char *text) {
    result->error_no = error_no;
    result->poisoned = poisoned;
    snprintf(result->text, sizeof result->text, "%s", text);
}

void fail_with(struct bench_result *result, const struct error *error) {
    bool refused = strcmp(error->code, "out-of-memory") == 0 || strcmp(error->code, "out-of-resources") == 0 ||
                   strcmp(error->code, "no-plan") == 0 || strcmp(error->code, "no-cudnn") == 0;
    bool device = error->class == ERROR_DEVICE;
    fail(result,
         refused  ? TRIAL_INSTANTIATION
         : device ? TRIAL_RUNTIME
                  : TRIAL_UNKNOWN,
         device && !refused, error->text);
}

/* Runs it once on the kind's set and looks at all that it may have touched: 1, 0 with the text, or -1. */
static int verify_once(struct candidate *candidate, enum numbers kind, bool *ret_poisoned, char *text, size_t size,
                       struct error *error) {
    struct bench *bench = candidate->bench;
    const struct set *set = &bench->sets[kind];
    *ret_poisoned = false;
    if (candidate_execute(candidate, kind, error) < 0)
        return -1;
    int ok = check_own(candidate, kind, text, size, error);
    if (ok == 1 && bench->workload->n_out > 1) /* all canaries, before a wrong answer may end it */
        ok = check_list(bench, set->out, bench->workload->n_out, "output", text, size, error);
    *ret_poisoned = ok == 0;
    if (ok == 1)
        ok = check_inputs(bench, kind, ret_poisoned, text, size, error);
    return ok == 1 ? check_outputs(bench, kind, ret_poisoned, text, size, error) : ok;
}

/* What looks wrong is looked at twice: an earlier candidate may have changed an input too large to be read back. */
bool verify(struct candidate *candidate, struct bench_result *result) {
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
