/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h: what a job came to, layer by layer, held against another when that was asked for. report_fill makes it from
 * rows of the database; report_json.c, report_markdown.c, report_junit.c and report_html.c each write it their way.
 *
 * Times are microseconds. A figure that is not known is INFINITY, never a guess: JSON has null for it, people a dash.
 */
#ifndef WARPTUNE_API_REPORT_H
#define WARPTUNE_API_REPORT_H

#include <stdbool.h>

#include "service/base/arena.h"
#include "service/base/buf.h"
#include "service/store/golden_store.h"
#include "service/store/job_store.h"

/* Of a layer, or of the whole network, against the reference. */
enum report_verdict {
    REPORT_NOT_COMPARED, /* nothing to compare with was asked for */
    REPORT_NEW,          /* the reference has nothing like it */
    REPORT_SAME,         /* within the limit */
    REPORT_FASTER,       /* by more than the limit */
    REPORT_REGRESSION,   /* slower by more than the limit */
    REPORT_NO_BEST,      /* of a layer, compared or not: every trial failed */
};
const char *report_verdict_name(enum report_verdict verdict); /* "not_compared", "new", … */

/* One distinct workload of the network. */
struct report_layer {
    const struct task_row *task;
    double ours_us, spread_us, baseline_us, floor_us;
    double speedup;      /* baseline / ours */
    double floor_ratio;  /* ours / floor */
    double share;        /* of the sum of all layers, each times its count */
    double reference_us; /* of the reference */
    double ratio;        /* ours / reference */
    enum report_verdict verdict;
};

/* A job's module as it was timed. */
struct report_network {
    double p50_us, p90_us, p99_us, mean_us;
    double baseline_p50_us, baseline_p90_us, baseline_p99_us;
    double speedup;
    double samples_per_s;
    int64_t batch;                                         /* samples of one run; 0: not recorded */
    double relative_error;                                 /* of the output, against the reference evaluation */
    double layers_us, layers_baseline_us, layers_floor_us; /* sums over the layers, each times its count */
    double reference_p50_us, ratio;
    enum report_verdict verdict;
};

/* What the job is held against. */
struct report_reference {
    const char *job_id;
    int64_t golden;      /* number of the golden set; 0: the job itself */
    double limit;        /* ratio above which it is a regression */
    int n_missing;       /* layers of the reference that the job does not have */
    double layers_ratio; /* over the layers that both have, each times its count */
};

struct report {
    const struct job_row *job;
    const char *model_name; /* the model's id where it is gone */
    struct report_network network;
    struct report_layer *layers; /* in order of their tasks */
    int n_layers;
    struct report_reference reference; /* job_id NULL: nothing to compare with */
    int n_regressions;                 /* the network counts as one */
    int n_no_best;
};

/* Rows to make a report of; at most one of `against` and `golden`. */
struct report_source {
    const struct job_row *job;
    const char *model_name;
    const struct job_row *against;
    const struct golden_row *golden;
    double limit;
};

/*
 * ERROR_CONFLICT "job-not-finished" or "job-without-result" when the job, or the one it is held against, has no result;
 * "other-device" when that is of another class of devices. Everything lives in the arena, or in the rows.
 */
int report_fill(const struct report_source *source, struct arena *arena, struct report *ret,
                struct error *error) MUST_CHECK;

void report_write_json(struct buf *out, const struct report *report);
/* For a comment on a pull request. */
void report_write_markdown(struct buf *out, const struct report *report);
/* A test for the network and for each layer; a regression, or a layer without a best, is a failure. */
void report_write_junit(struct buf *out, const struct report *report);
/* A page by itself: inline style, no script. */
void report_write_html(struct buf *out, const struct report *report);

#endif
