/* SPDX-License-Identifier: Apache-2.0 */
/* bench_internal.h: the parts of a bench as its files share them: candidate.c, verify.c, timing.c, bench.c. */
#ifndef WARPTUNE_MEASURE_BENCH_INTERNAL_H
#define WARPTUNE_MEASURE_BENCH_INTERNAL_H

#include "gpu/measure/bench.h"
#include "gpu/measure/guarded.h"
#include "gpu/measure/numbers.h"

enum { MOST_SETS = 8 };

/* Buffers of one execution. */
struct set {
    struct guarded *in, *out, *prepared;
};

struct bench {
    const struct device_class *class;
    struct device *device;
    struct shelf *shelf;
    struct steady *steady;
    struct pool *pool;
    const struct workload *workload;
    struct arena *arena;
    int n_kinds; /* of numbers to verify on; set k holds kind k, later sets the last kind */
    int n_sets, n_timed;
    void **in[NUMBERS_KINDS], **expected[NUMBERS_KINDS]; /* the host's copies, one an operand */
    double *limit[NUMBERS_KINDS];                        /* how far an output may be from what is expected */
    void *stage;                                         /* room for the largest buffer that is read back */
    struct set sets[MOST_SETS];
    struct device_state state; /* as last read, when: it serves the next trial too if that comes soon */
    int64_t state_at_ns;
};

/* A candidate: its code and the buffers that only it has. */
struct candidate {
    struct bench *bench;
    const struct program *program;
    struct device_code *code;
    struct guarded *scratch;
    int n_sets;        /* that have prepared buffers */
    double estimate_s; /* of one execution, by the host's clock: at most a few tens of microseconds too long */
};

/* Inputs up to this are read back after a run, to see that it left them alone. */
#define MOST_BYTES_READ_BACK ((size_t)1 << 20)

/* ---- candidate.c ---- */

/* Loads the code and makes the buffers that verifying needs. candidate_done also after a failure. */
int candidate_init(struct candidate *candidate, struct bench *bench, const struct program *program,
                   const struct buf *code, struct error *error) MUST_CHECK;
/* Makes buffers for and prepares as many of the sets as are not yet, up to the first `n`. */
int candidate_prepare(struct candidate *candidate, int n, struct error *error) MUST_CHECK;
/* One execution on the kind's set, all that it should write poisoned before; learns the estimate. */
int candidate_execute(struct candidate *candidate, enum numbers kind, struct error *error) MUST_CHECK;
/* Times `rounds` rounds over the first n sets, `repeats` times over. */
int candidate_time(const struct candidate *candidate, int n, int rounds, int repeats, double *ret_seconds,
                   struct error *error) MUST_CHECK;
void candidate_done(struct candidate *candidate);

/* ---- verify.c ---- */

/* Rewrites the inputs of the kind's set. */
int write_inputs(struct bench *bench, int set, struct error *error) MUST_CHECK;
enum numbers kind_of_set(const struct bench *bench, int set);
/* 1 when every canary around what it may touch is whole, 0 with the text when not, -1 when the device fails. */
int verify_canaries(const struct candidate *candidate, enum numbers kind, char *text, size_t size,
                    struct error *error) MUST_CHECK;
/* Whether it computes what the plain kernel does, and nothing else; if not, the result says why. */
bool verify(struct candidate *candidate, struct bench_result *result);
/* A failure of the device's as a trial's error. */
void fail_with(struct bench_result *result, const struct error *error);

/* ---- timing.c ---- */

/* Times a verified candidate, again while the device is disturbed; fills costs, flags and state. */
int time_candidate(struct candidate *candidate, const struct measure_options *options, double bound_s, int64_t deadline,
                   struct bench_result *result, struct error *error) MUST_CHECK;

#endif
