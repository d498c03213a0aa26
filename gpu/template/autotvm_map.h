/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_map.h: what a tuning record means in our words: its workload, its template, its index in the template's
 * space.
 *
 * A record of one of AutoTVM's own tasks says its workload by the task's arguments; it is plain FP32 in NCHW, without
 * epilogue. A record that we exported says all of it in a member of our own, which AutoTVM passes over:
 *
 *   "warptune": {"workload": "conv2d(…) -> … {…} bias act=relu", "device_key": "cuda/NVIDIA H200/sm_90a/132",
 *                "version": 3, "spread_s": 1e-07, "baseline_s": 2e-05, "provenance": {…}}
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_MAP_H
#define WARPTUNE_TEMPLATE_AUTOTVM_MAP_H

#include "gpu/template/autotvm_record.h"
#include "gpu/template/template.h"

/* The workload of a task's arguments. ERROR_INVALID: "task-not-served", "argument-not-served". */
int autotvm_workload(const char *task, struct json_object *args, struct arena *arena, struct workload **ret,
                     struct error *error) MUST_CHECK;
/* And back: the arguments of TVM's function of the same purpose. Caller releases. */
struct json_object *autotvm_args(const struct workload *workload, const char *task);

/* "cuda -model=v100 -arch=sm_70" gives "cuda/v100", a class of devices that no local one belongs to. */
const char *autotvm_device_key(const char *target, struct arena *arena);
/*
 * What to render for on the devices of a class ("cuda/NVIDIA H200/sm_90a/132", "cuda/v100"). Where the architecture is
 * not said or not known, a common one of the kind stands for it.
 */
int autotvm_target(const char *device_key, struct target *ret, struct error *error) MUST_CHECK;

/* Our own member of a record; all zero when there is none. */
struct autotvm_own {
    const char *workload, *device_key;
    int64_t version;                /* the template's when it was measured */
    double spread_s, baseline_s;    /* 0; INFINITY: not said */
    struct json_object *provenance; /* NULL: not said */
};

int autotvm_own_read(const struct autotvm_record *record, struct autotvm_own *ret, struct error *error) MUST_CHECK;
/* As the `extra` of a record to write. Caller releases. */
struct json_object *autotvm_own_make(const struct autotvm_own *own);

struct autotvm_fit {
    const struct template *template;
    const struct workload *workload;
    const char *key; /* the workload's text */
    const struct target *target;
    const struct space *space;
    const char
        *task; /* what makes records each other's rivals: target, task, arguments, and what our own member adds */
    int64_t index;
};

/* Maps records one after the other, and remembers the last one's space: those of one task come together. */
struct autotvm_mapper;
/* `templates`: NULL-terminated; outlives the mapper. */
struct autotvm_mapper *autotvm_mapper_new(const struct template *const *templates);
void autotvm_mapper_free(struct autotvm_mapper *mapper); /* NULL-safe */
/*
 * *ret lasts until the next call. ERROR_INVALID says why the record is of no use here: its task or target is not
 * served, no template has its name, its template has changed, its configuration is not in the space, or its index and
 * its entity name different configurations.
 */
int autotvm_map(struct autotvm_mapper *mapper, const struct autotvm_record *record, struct autotvm_fit *ret,
                struct error *error) MUST_CHECK;

#endif
