/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/module/runtime/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REASON = 400 };

static void print_version(int version, char text[24]) {
    snprintf(text, 24, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static int open_library(struct library *library, int wanted) {
    char reason[REASON], here[24], made[24];
    print_version(wanted, made);
    if (!library->cudnn && cudnn_version(&library->version, reason, sizeof reason) < 0)
        return fault_set(library->fault,
                         "The module needs cuDNN %s, which is not here: %.200s Install it, name its libcudnn.so.9 in "
                         "WARPTUNE_CUDNN, or make the module without (allow_cudnn: false).",
                         made, reason);
    if (wanted != 0 && wanted != library->version) {
        print_version(library->version, here);
        return fault_set(library->fault,
                         "The module was made with cuDNN %s, and %s is here; plans of one are not those of another. "
                         "Name the right libcudnn.so.9 in WARPTUNE_CUDNN, or make the module anew.",
                         made, here);
    }
    if (!library->cudnn && cudnn_open(&library->cudnn, reason, sizeof reason) < 0)
        return fault_set(library->fault, "cuDNN cannot be used: %s", reason);
    return 0;
}

static int make(struct library *library, struct library_plan *plan, const char *entry, int n_args) {
    struct cudnn_conv conv;
    char reason[REASON];
    int version;
    if (!cudnn_entry_parse(entry, &conv, &plan->index, &version) || cudnn_conv_args(&conv) != n_args)
        return fault_set(library->fault, "A step of the module is no plan of cuDNN's: %.200s", entry);
    if (open_library(library, version) < 0)
        return -1;
    if (cudnn_plans_new(library->cudnn, &conv, &plan->plans, reason, sizeof reason) < 0 ||
        cudnn_plans_build(plan->plans, plan->index, reason, sizeof reason) < 0)
        return fault_set(library->fault, "A plan of cuDNN's cannot be made. %s", reason);
    plan->workspace_bytes = cudnn_plans_workspace(plan->plans, plan->index);
    return 0;
}

int library_find(struct library *library, const char *entry, int n_args, struct library_plan **ret, bool *ret_new) {
    *ret_new = false;
    for (*ret = library->made; *ret; *ret = (*ret)->next)
        if (strcmp((*ret)->entry, entry) == 0)
            return 0;
    struct library_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return fault_set(library->fault, "There is not enough memory for a plan.");
    snprintf(plan->entry, sizeof plan->entry, "%s", entry);
    if (make(library, plan, entry, n_args) < 0) {
        cudnn_plans_free(plan->plans);
        free(plan);
        return -1;
    }
    plan->next = library->made;
    *ret = library->made = plan;
    *ret_new = true;
    return 0;
}

int library_run(const struct library *library, const struct library_plan *plan, const uint64_t *args,
                struct CUstream_st *stream) {
    char reason[REASON];
    if (cudnn_plans_run(plan->plans, plan->index, library->cudnn, args, plan->workspace, stream, reason,
                        sizeof reason) == 0)
        return 0;
    return fault_set(library->fault, "A plan of cuDNN's failed. %s", reason);
}

void library_close(struct library *library) {
    while (library->made) {
        struct library_plan *plan = library->made;
        library->made = plan->next;
        cudnn_plans_free(plan->plans);
        free(plan);
    }
    cudnn_close(library->cudnn);
    library->cudnn = NULL;
}
