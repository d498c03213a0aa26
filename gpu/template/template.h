/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h: a parameterised kernel: which workloads it serves, its search space, and its source for a configuration.
 *
 * A template renders; it never compiles or launches, so all of it works without a device. Rendering is deterministic:
 * the same (workload, target, index) give the same program in every process. Templates are stateless and thread-safe.
 * Adding one is a row in template_list.c and its file.
 */
#ifndef WARPTUNE_TEMPLATE_TEMPLATE_H
#define WARPTUNE_TEMPLATE_TEMPLATE_H

#include "gpu/device/program.h"
#include "gpu/device/target.h"
#include "gpu/template/loop_nest.h"
#include "gpu/template/space.h"
#include "service/model/workload.h"

#define DTYPE_BIT(dtype) (1U << (dtype))
#define TF32_BIT (1U << DTYPE_COUNT) /* f32 numbers, where the factors of products may be rounded to TF32 */

struct template {
    const char *name;   /* "conv2d_direct.cpu", "conv2d_simt.cuda", "plain.cpu" */
    int version;        /* counts up whenever the same configuration may render other code */
    const char *device; /* kind of device: "cpu", "cuda" */
    bool (*serves)(const struct workload *workload, const struct target *target);
    /* The space in a fixed order. Every point renders, or render says why it cannot (instantiation error). */
    struct space *(*space)(const struct workload *workload, const struct target *target, struct arena *arena);
    /* The configuration to use when nothing was tuned: a fair guess from the shapes. */
    int64_t (*fallback)(const struct workload *workload, const struct target *target, const struct space *space);
    /* ERROR_INVALID "instantiation" when the configuration cannot be: too much shared memory, too many threads, … */
    int (*render)(const struct workload *workload, const struct target *target, const struct space *space,
                  int64_t index, struct arena *arena, struct program **ret, struct error *error);
    unsigned dtypes; /* of the numbers that it takes and gives, as a set of these; `serves` refuses others */
    /* Of AutoTVM's spaces: searched only when a job names it, for its records to be of use here. */
    bool by_name;
    /* What its launches need at run time besides the driver: searched only where a job allows it and it is there, and
     * never a fallback. NULL: nothing. */
    const char *library;
    /*
     * The seconds it should take by arithmetic alone (waves, steps, bytes moved): good for an order, not for a figure.
     * INFINITY where a hard limit (threads, shared memory, registers) rules it out. NULL: no estimate.
     */
    double (*estimate)(const struct workload *workload, const struct target *target, const struct space *space,
                       int64_t index);
    /* The loops of the configuration's main kernel. NULL: not described; features are then the knobs alone. */
    void (*nest)(const struct workload *workload, const struct target *target, const struct space *space, int64_t index,
                 struct loop_nest *ret);
    /* True when the source does not depend on the shapes: another workload's compile serves this one. NULL: never. */
    bool (*banked)(const struct space *space, int64_t index);
};

/* The built-in templates, NULL-terminated, the preferred first; the plain ones, which serve everything, last. */
extern const struct template *const template_builtin[];

/* Look-ups in a NULL-terminated list (the built-in one, or a test's own). */
const struct template *template_find(const struct template *const *list, const char *name); /* or NULL */
/* The first template of the list, not by name and without a library, that serves the workload on the target; NULL when
 * none does. */
const struct template *template_for(const struct template *const *list, const struct workload *workload,
                                    const struct target *target);
/* The reference: the plain template of the target's kind, an independent and unoptimised kernel for any operator. */
const struct template *template_plain(const struct target *target);

#endif
