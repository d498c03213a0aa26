/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_space.h: what the spaces and estimates of CUDA templates have in common. Private to gpu/template/.
 */
#ifndef WARPTUNE_TEMPLATE_CUDA_SPACE_H
#define WARPTUNE_TEMPLATE_CUDA_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/template/template.h"

/* The values of the knob "shapes", which these spaces end with: where a kernel has its shape from. */
enum { ARGUMENTS, CONSTANTS };

static inline int64_t ceil_div(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

/* The same, as a factor of a time. */
static inline double ceil_ratio(int64_t n, int64_t by) {
    int64_t quotient = ceil_div(n, by);
    return (double)quotient;
}

/* May a kernel count so many in an int? With room for what it adds before it looks. */
static inline bool fits_int(int64_t n) {
    return n < (1LL << 31) - (1 << 20);
}

/* The compute capability: 90 for "sm_90a"; 0 for what is no such name. */
int cuda_sm(const struct target *target);

/* A choice among the candidates of a rising list up to the first that covers `enough`; at least one. */
void cuda_choose_up_to(struct space *space, const char *name, const int64_t *values, int n, int64_t enough);
/* Whether a configuration has its shape as arguments: one compile then serves every shape (template.banked). */
bool cuda_banked(const struct space *space, int64_t index);
typedef double cuda_estimate(const struct workload *workload, const struct target *target, const struct space *space,
                             int64_t index);
/* The point from `first` on with the least estimate, the first of equals; `first` where none is finite. */
int64_t cuda_best_estimated(cuda_estimate *estimate, const struct workload *workload, const struct target *target,
                            const struct space *space, int64_t first);

/* How many blocks of `threads` with so many registers each and so much shared memory an SM holds at a time; 0: none. */
int64_t cuda_resident(const struct target *target, int64_t threads, int64_t registers, int64_t shared_bytes);

#endif
