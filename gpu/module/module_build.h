/* SPDX-License-Identifier: Apache-2.0 */
/* module_build.h: the code of a plan's programs, out of the cache or compiled, several at once. */
#ifndef WARPTUNE_MODULE_MODULE_BUILD_H
#define WARPTUNE_MODULE_MODULE_BUILD_H

#include "gpu/module/plan.h"

/*
 * ret_codes: for each program, the file in the cache that holds its code; from `arena`. `timeout_s`: of one compile.
 * The first error ends it; the programs not begun by then are left.
 */
int module_build(const struct plan *plan, const struct target *target, const char *cache_dir, double timeout_s,
                 struct arena *arena, const char *const **ret_codes, struct error *error) MUST_CHECK;

#endif
