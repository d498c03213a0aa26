/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h: a seeded pseudo-random generator (xoshiro256**, seeded by splitmix64): the same seed, the same numbers. */
#ifndef WARPTUNE_BASE_RNG_H
#define WARPTUNE_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound); /* uniform in [0, bound); bound > 0 */
double rng_unit(struct rng *rng);                    /* uniform in [0, 1) */
double rng_normal(struct rng *rng);                  /* mean 0, deviation 1 */

#endif
