/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/permutation.h"

#include "service/base/rng.h"

void permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed) {
    struct rng rng;
    rng_seed(&rng, seed);
    permutation->size = size;
    permutation->half_bits = 1;
    while ((1ULL << (2 * permutation->half_bits)) < size)
        permutation->half_bits++;
    for (int i = 0; i < 4; i++)
        permutation->key[i] = rng_next(&rng);
}

/* Mixes the bits of a half with a round's key (the finaliser of MurmurHash3). */
static uint64_t round_function(uint64_t half, uint64_t key) {
    uint64_t x = half ^ key;
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

static uint64_t encrypt(const struct permutation *permutation, uint64_t value) {
    uint64_t mask = (1ULL << permutation->half_bits) - 1;
    uint64_t left = value >> permutation->half_bits;
    uint64_t right = value & mask;
    for (int i = 0; i < 4; i++) {
        uint64_t next = left ^ (round_function(right, permutation->key[i]) & mask);
        left = right;
        right = next;
    }
    return left << permutation->half_bits | right;
}

uint64_t permutation_at(const struct permutation *permutation, uint64_t position) {
    uint64_t value = position;
    do
        value = encrypt(permutation, value);
    while (value >= permutation->size);
    return value;
}
