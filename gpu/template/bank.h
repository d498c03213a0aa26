/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bank.h: the programs whose source depends on no shape, listed without a workload at hand, so that they can be
 * compiled before any job comes; a search among them then compiles nothing.
 *
 * They are found by rendering all banked configurations of a few workloads, one for each kind that makes a source of
 * its own (layouts; channels that come in fours or do not). Activations that are more than bounds (SiLU, …) have
 * sources of their own too and are left out: the first job that needs one compiles it.
 */
#ifndef WARPTUNE_TEMPLATE_BANK_H
#define WARPTUNE_TEMPLATE_BANK_H

#include "gpu/template/template.h"

/* One source, and a configuration that renders it: what a builder is asked for. */
struct bank_entry {
    const char *source;
    const struct template *template;
    const char *workload; /* its text */
    int64_t index;
};

/* Each source once, in the same order every time. All of it lives in the arena. */
void bank_list(const struct target *target, struct arena *arena, struct bank_entry **ret, int *ret_count);

#endif
