/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/fastdiv.h"

#include <criterion/criterion.h>

#include "service/base/rng.h"

#define MOST 0x7fffffffu /* of dividends and divisors */

static void check(uint32_t n, uint32_t d) {
    uint32_t quotient = fastdiv_quotient(n, fastdiv_of(d));
    if (quotient != n / d)
        cr_assert_fail("%u / %u is %u, not %u", n, d, n / d, quotient);
}

/* Where rounding would show: around multiples of the divisor, the last of them above all. */
static void check_multiples(uint32_t d, uint32_t multiple) {
    for (int64_t off = -2; off <= 2; off++) {
        int64_t n = (int64_t)multiple * d + off;
        if (n >= 0 && n <= MOST)
            check((uint32_t)n, d);
    }
}

Test(fastdiv, divides_every_small_number) {
    for (uint32_t d = 1; d <= 300; d++)
        for (uint32_t n = 0; n <= 5000; n++)
            check(n, d);
}

Test(fastdiv, is_exact_around_the_last_multiple_of_every_small_divisor) {
    for (uint32_t d = 1; d <= 200000; d++) {
        check_multiples(d, MOST / d);
        check_multiples(d, MOST / d / 2);
        check(MOST, d);
    }
}

Test(fastdiv, is_exact_around_powers_of_two) {
    for (int a = 0; a < 31; a++) {
        for (int64_t off = -3; off <= 3; off++) {
            int64_t d = ((int64_t)1 << a) + off;
            if (d < 1)
                continue;
            for (int b = 0; b < 31; b++)
                check_multiples((uint32_t)d, (1u << b) / (uint32_t)d);
            check_multiples((uint32_t)d, MOST / (uint32_t)d);
            check(MOST, (uint32_t)d);
        }
    }
    check(MOST, MOST);
    check(MOST - 1, MOST);
}

Test(fastdiv, is_exact_at_random) {
    struct rng rng;
    rng_seed(&rng, 31);
    for (int i = 0; i < 3000000; i++) {
        uint32_t d = (uint32_t)rng_below(&rng, (uint64_t)MOST >> rng_below(&rng, 31)) + 1;
        uint32_t n = (uint32_t)rng_below(&rng, (uint64_t)MOST + 1);
        check(n, d);
        check_multiples(d, n / d);
    }
}
