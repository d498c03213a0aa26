/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h: the parent's side of one call of measurer_run, as its files share it: building.c feeds and hears the
 * builders, running.c the runner, and measurer.c goes round between them.
 */
#ifndef WARPTUNE_MEASURE_BATCH_H
#define WARPTUNE_MEASURE_BATCH_H

#include <limits.h>

#include "gpu/measure/measure.h"
#include "gpu/measure/peer.h"
#include "service/base/scratch.h"

enum { MOST_BUILDERS = 64, MOST_PATH = 512, MOST_LOADS = 3, MOST_RENDERS = 16, MOST_AHEAD = 2 };

/* Which trial a builder or the runner works on; or the plain kernel, or nothing. */
enum { JOB_PLAIN = -1, JOB_NONE = -2 };

struct builder {
    struct peer peer;
    int jobs[MOST_RENDERS], n_jobs; /* that it owes answers for, the next one first */
    bool compiles;                  /* the one job; else it renders them */
    bool begun;                     /* compiling, not rendering for it */
};

struct measurer {
    char program[PATH_MAX], cache_dir[MOST_PATH];
    struct scratch tmp; /* of the compilers: what killed ones leave goes with it */
    const struct device_class *class;
    struct device_info info;
    struct builder *builders;
    int n_builders;
    struct peer runner;
    char *loaded; /* the workload that the runner has, if it runs; NULL: none */
    int null_fd;  /* what children say on standard error goes nowhere: they may be broken in any way */
};

/*
 * How far a job is. All are rendered soon, many in one message, which shows whose code is there already; of those that
 * render to the same source one is compiled while its twins stay STAGE_RENDERED.
 */
enum stage { STAGE_WAITING, STAGE_RENDERING, STAGE_RENDERED, STAGE_COMPILING, STAGE_BUILT, STAGE_RUNNING, STAGE_ENDED };

/* A trial on its way. */
struct item {
    enum stage stage;
    char path[MOST_PATH]; /* where its code is kept; empty: not rendered */
};

/* One call of measurer_run. */
struct batch {
    struct measurer *measurer;
    const struct measure_options *options;
    const struct measure_callbacks *callbacks;
    const char *key; /* the workload */
    struct trial *trials;
    struct item *items;
    struct item plain;
    int n, n_ended;
    int running[MOST_AHEAD], n_running; /* the runner's jobs, the present one first */
    int64_t began_ns;                   /* when the present one did */
    int loads;                          /* tries at loading the workload in a row */
    int plain_builds;                   /* compiler processes that died over the plain kernel */
    int64_t not_before;                 /* of the next trial, for the cooldown */
    int64_t asked_at_ns;                /* when stop was last asked */
};

bool on_host(const struct measurer *measurer);
struct item *item_of(struct batch *batch, int job);
void end_trial(struct batch *batch, int job, enum trial_error error_no, const char *text);
/* Error number and text of an answer; TRIAL_UNKNOWN for one that makes no sense. */
enum trial_error read_verdict(struct json_object *answer, const char **ret_text);

/* Gives idle builders something to do. */
int feed_builders(struct batch *batch, struct error *error) MUST_CHECK;
/* Takes what a builder that owes answers says, if anything; its failures end trials, or all of measuring. */
int hear_builder(struct batch *batch, struct builder *builder, bool readable, struct error *error) MUST_CHECK;
/* Keeps the runner busy; a trial is sent before the one before it is answered, so that the device need not wait. */
int feed_runner(struct batch *batch, struct error *error) MUST_CHECK;
int hear_runner(struct batch *batch, bool readable, struct error *error) MUST_CHECK;

#endif
