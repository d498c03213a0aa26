/* SPDX-License-Identifier: Apache-2.0 */
/* domains.h: what the search of a task ranges over: the spaces of the templates that serve its workload. */
#ifndef WARPTUNE_SCHEDULER_DOMAINS_H
#define WARPTUNE_SCHEDULER_DOMAINS_H

#include "scheduler/search/tuner.h"
#include "service/base/arena.h"

/*
 * `only`: the name of the one template to search, where it serves the workload. Else (and where it is empty) all that
 * are not by name, the preferred first, those that rest on a library last, and only with `libraries`; the plain
 * template only where there is no other but those. `workload` and `target` are borrowed. ERROR_DEVICE "no-template"
 * when none serves it.
 */
int domains_of(const struct workload *workload, const struct target *target, const char *only, bool libraries,
               struct arena *arena, struct domain **ret, int *ret_count, struct error *error) MUST_CHECK;
/* How many points the tuner can propose at most. */
int64_t domains_points(const struct domain *domains, int n, const struct tuner_class *tuner);
/* Number of the template's domain in the list, or -1. */
int domains_find(const struct domain *domains, int n, const char *template, int version);

#endif
