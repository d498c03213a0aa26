/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/rng.h"

#include <math.h>

static uint64_t rotate_left(uint64_t x, int k) {
    return x << k | x >> (64 - k);
}

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        rng->state[i] = splitmix64(&seed);
}

uint64_t rng_next(struct rng *rng) {
    uint64_t *s = rng->state, result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The lowest 2^64 mod bound numbers are drawn again, so that every remainder is as likely as any other. */
uint64_t rng_below(struct rng *rng, uint64_t bound) {
    uint64_t skip = -bound % bound, x;
    do
        x = rng_next(rng);
    while (x < skip);
    return x % bound;
}

double rng_unit(struct rng *rng) {
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* Box and Muller's transform; its second number is left, so that the state is all there is. */
double rng_normal(struct rng *rng) {
    double radius = sqrt(-2 * log(1 - rng_unit(rng)));
    return radius * cos(2 * M_PI * rng_unit(rng));
}
