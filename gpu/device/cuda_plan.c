/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/cuda_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/cuda_info.h"

enum { REASON = 900, MOST_KEPT = 32 };
#define MOST_KEPT_WORKSPACE ((size_t)64 << 20)
/* More than any plan worth having takes. */
#define MOST_WORKSPACE ((size_t)4 << 30)

static int no_plan(struct error *error, const char *reason) {
    return error_set(error, ERROR_DEVICE, "no-plan", NULL, "%s", reason);
}

static int open_library(struct device *device, struct error *error) {
    char reason[REASON];
    if (device->cudnn || cudnn_open(&device->cudnn, reason, sizeof reason) == 0)
        return 0;
    return error_set(error, ERROR_DEVICE, "no-cudnn", NULL,
                     "cuDNN 9 is not here (%.600s) Install it, or name libcudnn.so.9 in WARPTUNE_CUDNN.", reason);
}

static int take_workspace(struct device *device, struct cuda_plan *plan, struct error *error) {
    size_t bytes = cudnn_plans_workspace(plan->plans, plan->index);
    unsigned long long address = 0;
    if (bytes > MOST_WORKSPACE)
        return no_plan(error, "The plan needs more than 4 GB of workspace.");
    if (bytes > 0 &&
        cuda_check(&device->cu, device->cu.cuMemAlloc(&address, bytes), "Taking a workspace failed", error) < 0)
        return -1;
    plan->workspace = address;
    plan->workspace_bytes = bytes;
    return 0;
}

static void plan_free(struct device *device, struct cuda_plan *plan) {
    if (plan->workspace)
        device->cu.cuMemFree(plan->workspace);
    if (!plan->borrowed)
        cudnn_plans_free(plan->plans);
    free(plan);
}

static void free_list(struct device *device, struct cuda_plan **list) {
    while (*list) {
        struct cuda_plan *plan = *list;
        *list = plan->next;
        plan_free(device, plan);
    }
}

void cuda_plan_tidy(struct device *device, struct device_code *code) {
    int kept = 0;
    free_list(device, &code->plans);
    for (struct cuda_plan **at = &device->plans; *at;) {
        struct cuda_plan *plan = *at;
        if (kept < MOST_KEPT && plan->workspace_bytes <= MOST_KEPT_WORKSPACE) {
            kept++;
            at = &plan->next;
            continue;
        }
        *at = plan->next;
        plan_free(device, plan);
    }
}

void cuda_plan_close(struct device *device) {
    free_list(device, &device->plans);
    cudnn_close(device->cudnn);
}

/* Into the list, with a workspace; plans that are not borrowed go when it fails. */
static int add(struct device *device, struct cuda_plan **list, const char *entry, struct cuda_plan from,
               struct cuda_plan **ret, struct error *error) {
    struct cuda_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        if (!from.borrowed)
            cudnn_plans_free(from.plans);
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory for a plan.");
    }
    *plan = from;
    snprintf(plan->entry, sizeof plan->entry, "%s", entry);
    if (take_workspace(device, plan, error) < 0) {
        plan_free(device, plan);
        return -1;
    }
    plan->next = *list;
    *ret = *list = plan;
    return 0;
}

static int make(struct device *device, const struct launch *launch, struct cuda_plan **ret, struct error *error) {
    struct cudnn_conv conv;
    struct cuda_plan plan = {0};
    char reason[REASON];
    int version;
    if (!cudnn_entry_parse(launch->entry, &conv, &plan.index, &version) || launch->n_args != cudnn_conv_args(&conv))
        return no_plan(error, "A launch of cuDNN is not described as it should be.");
    if (open_library(device, error) < 0)
        return -1;
    if (cudnn_plans_new(device->cudnn, &conv, &plan.plans, reason, sizeof reason) < 0)
        return no_plan(error, reason);
    if (cudnn_plans_build(plan.plans, plan.index, reason, sizeof reason) < 0) {
        cudnn_plans_free(plan.plans);
        return no_plan(error, reason);
    }
    return add(device, &device->plans, launch->entry, plan, ret, error);
}

static struct cuda_plan *find(struct cuda_plan *list, const char *entry) {
    while (list && strcmp(list->entry, entry) != 0)
        list = list->next;
    return list;
}

int cuda_plan_find(struct device *device, struct device_code *code, const struct launch *launch, struct cuda_plan **ret,
                   struct error *error) {
    *ret = find(code->plans, launch->entry);
    if (!*ret)
        *ret = find(device->plans, launch->entry);
    return *ret ? 0 : make(device, launch, ret, error);
}

int cuda_plan_lend(struct device *device, struct device_code *code, const char *entry, struct cudnn_plans *plans,
                   int index, struct error *error) {
    const struct cuda_plan plan = {.plans = plans, .index = index, .borrowed = true};
    struct cuda_plan *made;
    return open_library(device, error) < 0 ? -1 : add(device, &code->plans, entry, plan, &made, error);
}

int cuda_plan_run(struct device *device, const struct cuda_plan *plan, const uint64_t *args, struct error *error) {
    char reason[REASON];
    if (cudnn_plans_run(plan->plans, plan->index, device->cudnn, args, plan->workspace, device->stream, reason,
                        sizeof reason) == 0)
        return 0;
    return error_set(error, ERROR_DEVICE, "plan-failed", NULL, "%s", reason);
}
