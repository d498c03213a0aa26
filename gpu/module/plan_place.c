/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets in the workspace: the largest buffers first, each into the smallest gap that fits between those placed
 * before whose lifetimes meet its own.
 */
#include <limits.h>
#include <stdlib.h>

#include "gpu/module/plan_internal.h"

/* A buffer of the workspace with the steps between which its content matters, both included. */
struct tenant {
    int buffer, first, last;
    size_t bytes, offset;
};

/* Preparing comes before step 0: what it uses lives at -1 only, all of it at once. */
static void note_use(struct tenant *tenants, int buffer, int step) {
    if (buffer < 0)
        return;
    struct tenant *tenant = &tenants[buffer];
    tenant->first = tenant->first < step ? tenant->first : step;
    tenant->last = tenant->last > step ? tenant->last : step;
}

static void note_uses(const struct plan *plan, struct tenant *tenants) {
    for (int i = 0; i < plan->n_prepare; i++) {
        for (int a = 0; a < plan->prepare[i].launch->n_args; a++)
            if (plan->prepare[i].buffers[a] >= 0)
                tenants[plan->prepare[i].buffers[a]].first = tenants[plan->prepare[i].buffers[a]].last = -1;
    }
    for (int i = 0; i < plan->n_run; i++) {
        for (int a = 0; a < plan->run[i].launch->n_args; a++)
            note_use(tenants, plan->run[i].buffers[a], i);
    }
}

static int larger_first(const void *a, const void *b) {
    const struct tenant *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static bool meet(const struct tenant *a, const struct tenant *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is in order of offset. */
static size_t find_gap(const struct tenant *tenant, struct tenant *const *placed, int n) {
    size_t end = 0, best = SIZE_MAX, best_room = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        if (!meet(tenant, placed[i]))
            continue;
        if (placed[i]->offset > end && placed[i]->offset - end >= tenant->bytes &&
            placed[i]->offset - end < best_room) {
            best = end;
            best_room = placed[i]->offset - end;
        }
        if (placed[i]->offset + placed[i]->bytes > end)
            end = placed[i]->offset + placed[i]->bytes;
    }
    return best != SIZE_MAX ? best : end;
}

static void insert(struct tenant *tenant, struct tenant **placed, int n) {
    int at = n;
    for (; at > 0 && placed[at - 1]->offset > tenant->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = tenant;
}

static struct tenant *list_tenants(struct planner *planner, int *ret_n) {
    struct plan *plan = planner->plan;
    struct tenant *tenants = arena_array(planner->arena, (size_t)plan->n_buffers, sizeof *tenants);
    int n = 0;
    for (int i = 0; i < plan->n_buffers; i++)
        tenants[i] = (struct tenant){i, INT_MAX, INT_MIN, 0, 0};
    note_uses(plan, tenants);
    for (int i = 0; i < plan->n_buffers; i++) {
        if (plan->buffers[i].kind != PLAN_WORKSPACE)
            continue;
        if (tenants[i].first > tenants[i].last)
            plan->buffers[i].bytes = 0; /* nobody uses it */
        tenants[n] = tenants[i];
        tenants[n++].bytes = (plan->buffers[i].bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    *ret_n = n;
    return tenants;
}

void plan_place(struct planner *planner) {
    struct plan *plan = planner->plan;
    int n;
    struct tenant *tenants = list_tenants(planner, &n);
    struct tenant **placed = arena_array(planner->arena, (size_t)n, sizeof(struct tenant *));
    qsort(tenants, (size_t)n, sizeof *tenants, larger_first);
    for (int i = 0; i < n; i++) {
        struct tenant *tenant = &tenants[i];
        tenant->offset = find_gap(tenant, placed, i);
        insert(tenant, placed, i);
        plan->buffers[tenant->buffer].offset = tenant->offset;
        size_t end = tenant->offset + tenant->bytes;
        plan->workspace_bytes = plan->workspace_bytes > end ? plan->workspace_bytes : end;
    }
}
