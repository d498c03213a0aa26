/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permutation.h: a seeded permutation of [0, size) that needs no memory, for sampling without replacement.
 *
 * A Feistel network over the smallest even number of bits that covers the size, walked until the value falls inside
 * it (at most four steps are expected).
 */
#ifndef WARPTUNE_SEARCH_PERMUTATION_H
#define WARPTUNE_SEARCH_PERMUTATION_H

#include <stdint.h>

struct permutation {
    uint64_t size;
    uint64_t key[4];
    int half_bits;
};

/* size in [1, 2^62] */
void permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed);
/* The image of `position`, which must be below the size; a bijection. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t position);

#endif
