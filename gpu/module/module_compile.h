/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_compile.h: a model file and chosen configurations in, a module out.
 *
 * module_compile does the work in a limited child (`warptune child compile`): import, fuse, bring to the precision,
 * plan, compile the kernels that the code cache lacks (several at once), write the module. Weights are streamed from
 * the model's mapping to the module's file. The child's memory is its own; the caller's does not grow.
 */
#ifndef WARPTUNE_MODULE_MODULE_COMPILE_H
#define WARPTUNE_MODULE_MODULE_COMPILE_H

#include <stdbool.h>

#include "gpu/module/plan.h"
#include "service/model/precision.h"

struct module_request {
    const char *program;    /* the executable that answers `child compile`; NULL: this one */
    const char *model_path; /* ONNX file */
    int64_t batch;          /* 0: the file's own, or 1 */
    struct target target;
    enum precision precision;
    enum layout layout;
    const struct plan_choice *choices;
    int n_choices;
    const char *cache_dir;  /* compiled code */
    const char *so_path;    /* where module.so goes, or NULL */
    const char *tar_path;   /* where module.tar goes, or NULL */
    double build_timeout_s; /* of one kernel */
};

/* ret_manifest: the module's manifest.json (workloads, configurations, sizes). Call from any long-lived thread. */
int module_compile(const struct module_request *request, int64_t deadline, bool (*stop)(void *data), void *data,
                   struct buf *ret_manifest, struct error *error) MUST_CHECK;

/* The same in this process, for tests and for the child. */
int module_compile_here(const struct module_request *request, const struct template *const *templates,
                        struct buf *ret_manifest, struct error *error) MUST_CHECK;

/* `warptune child compile`: one request on standard input, one answer on standard output. Exit status. */
int compile_child_main(const struct template *const *templates);

#endif
