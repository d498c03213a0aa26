/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* The first numbers of splitmix64 from seed 0, as its authors published them, are the state. */
Test(rng, seed_is_spread_by_splitmix64) {
    static const uint64_t expected[4] = {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu,
                                         0xF88BB8A8724C81ECu};
    struct rng rng;
    rng_seed(&rng, 0);
    cr_assert_arr_eq(rng.state, expected, sizeof expected);
}

/* rotl(1 × 5, 7) × 9 and so on, by hand for the state 0, 1, 2, 3. */
Test(rng, next_is_xoshiro256_starstar) {
    struct rng rng = {{0, 1, 2, 3}};
    cr_assert_eq(rng_next(&rng), 5760);
    static const uint64_t expected[4] = {2, 3, 2 ^ (1u << 17), UINT64_C(2) << 45};
    cr_assert_arr_eq(rng.state, expected, sizeof expected);
}

Test(rng, the_same_seed_gives_the_same_numbers) {
    struct rng a, b, c;
    rng_seed(&a, 42);
    rng_seed(&b, 42);
    rng_seed(&c, 43);
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = rng_next(&a);
        cr_assert_eq(x, rng_next(&b));
        differ += x != rng_next(&c);
    }
    cr_assert_gt(differ, 95);
}

Test(rng, below_stays_below_and_reaches_everything) {
    struct rng rng;
    rng_seed(&rng, 1);
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint64_t x = rng_below(&rng, 7);
        cr_assert_lt(x, 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++)
        cr_expect(seen[i] > 850 && seen[i] < 1150, "%d came %d times of 7000", i, seen[i]);
    cr_assert_eq(rng_below(&rng, 1), 0);
    cr_assert_lt(rng_below(&rng, UINT64_MAX), UINT64_MAX);
}

Test(rng, unit_lies_in_0_to_1_and_averages_a_half) {
    struct rng rng;
    rng_seed(&rng, 2);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        double x = rng_unit(&rng);
        cr_assert(x >= 0 && x < 1);
        sum += x;
    }
    cr_assert_float_eq(sum / 10000, 0.5, 0.02);
}

Test(rng, normal_has_mean_0_and_deviation_1) {
    struct rng rng;
    rng_seed(&rng, 3);
    double sum = 0, squares = 0;
    for (int i = 0; i < 10000; i++) {
        double x = rng_normal(&rng);
        cr_assert(isfinite(x));
        sum += x;
        squares += x * x;
    }
    cr_assert_float_eq(sum / 10000, 0, 0.05);
    cr_assert_float_eq(squares / 10000, 1, 0.05);
}
