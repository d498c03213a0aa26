/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h: what candidates are verified on: inputs made from a seed, and outputs compared.
 *
 * Small integers make every sum exact whatever its order (the products of a sum add up to less than 2^24), so a wrong
 * index shows as a wrong number; uniform numbers in [-1, 1) show what integers hide.
 *
 * An f16 output tells integers apart up to 2048 only, a bf16 one up to 256. Therefore where the weights are of these
 * types and a sum is long, most of them are 0. With f16 about 256 products of a sum are not, so that sums stay within
 * some hundreds, where even a difference of 1 is more than the tolerance: one unit in the last place of the largest
 * number, 1/1024, for integers (a kernel sums in f32 and rounds once; an activation's own rounding may tip the last
 * place) and 2/1000, about two units, for uniform numbers. With bf16, whose unit is eight times that, about 32 are not
 * 0, sums stay below 128, and the tolerances are 1/128 and 2/128.
 *
 * Where the factors may be TF32, small integers are exact as well; uniform numbers are rounded by some kernels, by at
 * most 1/2048 of each factor, and their sums have to be within a thousandth of the largest.
 */
#ifndef WARPTUNE_MEASURE_NUMBERS_H
#define WARPTUNE_MEASURE_NUMBERS_H

#include <stdbool.h>

#include "gpu/device/pool.h"
#include "service/model/workload.h"

enum numbers { NUMBERS_INTEGERS, NUMBERS_UNIFORM, NUMBERS_KINDS };

/* Fills operand_bytes of the workload's input `input`. The same arguments, the same bytes, in every process. */
void numbers_fill(const struct workload *workload, int input, enum numbers kind, void *ret_data);

/*
 * Whether `got` is `expected` within the kind's tolerance of the largest expected magnitude (integers: exactly). If
 * not, the text names the worst element, where it is, both values, and how many differ.
 */
bool numbers_agree(const struct operand *operand, enum numbers kind, const void *got, const void *expected, char *text,
                   size_t size);
/* The same in two parts, for expected numbers that are compared with more than once: the limit first. `tf32`: they are
 * results of factors that may be TF32. */
double numbers_limit(const struct operand *operand, bool tf32, enum numbers kind, const void *expected);
/*
 * A quick look, by the pool's threads (NULL: by the caller's own), which knows f32, f16 and bf16 only: true when they
 * surely agree; false says nothing.
 */
bool numbers_surely_agree(struct pool *pool, const struct operand *operand, double limit, const void *got,
                          const void *expected);
bool numbers_agree_within(const struct operand *operand, double limit, const void *got, const void *expected,
                          char *text, size_t size);

#endif
