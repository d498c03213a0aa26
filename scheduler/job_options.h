/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_options.h: what a client asks of a job, checked: the body of POST /jobs, stored with the job as JSON, read again
 * by the worker.
 */
#ifndef WARPTUNE_SCHEDULER_JOB_OPTIONS_H
#define WARPTUNE_SCHEDULER_JOB_OPTIONS_H

#include <stdint.h>

#include "gpu/measure/measure.h"
#include "scheduler/search/tuner.h"
#include "service/base/arena.h"
#include "service/model/precision.h"
#include "service/model/workload.h"

struct json_object;

/* false, true or "exact" in a body. */
enum reuse_kind {
    REUSE_NOTHING,   /* start from nothing */
    REUSE_KNOWLEDGE, /* learn from earlier trials and from shared configurations */
    REUSE_EXACT,     /* the same, and take what the very same work has found already without a search (reuse.h) */
};

struct job_options {
    const char *model_id;
    const char *device; /* "auto" (a GPU, else the CPU), "cpu", "cuda" */
    enum precision precision;
    enum layout layout; /* of rank-4 activations: "nchw" is LAYOUT_ROW; "auto" and "nhwc" are LAYOUT_NHWC */
    int64_t batch;      /* for a symbolic batch; 0: the file's own, or 1 */
    const struct tuner_class *tuner;
    int64_t trials;         /* at most, of each task */
    int64_t early_stopping; /* 0: never */
    int64_t seed;
    enum feature_kind feature; /* for the tuners with a cost model, as the next */
    enum loss_kind loss;
    double diversity;     /* AutoTVM's diversity_filter_ratio: 0, or above 1 */
    bool allow_cudnn;     /* its plans may be candidates, and the module then need the library at run time */
    const char *template; /* the only one searched, for the tasks that it serves; empty: the default ones */
    enum reuse_kind reuse;
    struct measure_options measure;
    double budget_s;            /* wall clock of the whole search, pauses left out; 0: none */
    int64_t priority;           /* higher first, -100 to 100 */
    const char *key;            /* only workers with this label; empty: any */
    const char *webhook_url;    /* told of the job's states; NULL: nobody */
    const char *webhook_secret; /* the client's; NULL: none. Not part of the JSON */
    struct json_object *labels; /* object of strings, borrowed from the body; or NULL */
};

/*
 * From a body that json_parse accepted. Unknown fields, wrong types, values out of range: ERROR_INVALID with the field
 * by its path ("tuner.trials"). Texts point into `body`, which must outlive the options.
 */
int job_options_read(struct json_object *body, struct job_options *ret, struct error *error) MUST_CHECK;
/* All options with their defaults filled in; job_options_read takes it. Caller releases. */
struct json_object *job_options_json(const struct job_options *options);

#endif
