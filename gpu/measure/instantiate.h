/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instantiate.h: a template's program for one configuration, refused when the device cannot launch it. Builder and
 * runner both do it, and get the same, for rendering is deterministic.
 */
#ifndef WARPTUNE_MEASURE_INSTANTIATE_H
#define WARPTUNE_MEASURE_INSTANTIATE_H

#include "gpu/template/template.h"

/*
 * `name`: a template of the list, or "" for the plain one. *ret lives in the arena. Every failure is ERROR_INVALID
 * "instantiation": unknown name, workload not served, index outside the space, more shared memory or threads than the
 * target has, arguments that are not there.
 */
int instantiate(const struct template *const *templates, const char *name, const struct workload *workload,
                const struct target *target, int64_t index, struct arena *arena, struct program **ret,
                struct error *error) MUST_CHECK;

#endif
