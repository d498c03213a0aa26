/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h: what candidates are verified on: inputs made from a seed, and outputs compared.
 *
 * Small integers make every sum exact whatever its order (the products of a sum add up to less than 2^24), so a wrong
 * index shows as a wrong number; uniform numbers in [-1, 1) show what integers hide.
 *
 * An f16 output tells integers apart up to 2048 only. Therefore where the weights are f16 and a sum is long, most of
 * them are 0: about 256 products of a sum are not, so that sums stay within some hundreds, where even a difference of 1
 * is more than the tolerance of f16: one unit in the last place of the largest number, 1/1024, for integers (a kernel
 * sums in f32 and rounds once; an activation's own rounding may tip the last place) and 2/1000 for uniform numbers.
 *
 * bf16 operands are only moved so far: they are filled with patterns and compared bit by bit.
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
/* The same in two parts, for expected numbers that are compared with more than once: the limit first. */
double numbers_limit(const struct operand *operand, enum numbers kind, const void *expected);
/*
 * A quick look, by the pool's threads (NULL: by the caller's own), which knows f32 and f16 only: true when they surely
 * agree; false says nothing.
 */
bool numbers_surely_agree(struct pool *pool, const struct operand *operand, double limit, const void *got,
                          const void *expected);
bool numbers_agree_within(const struct operand *operand, double limit, const void *got, const void *expected,
                          char *text, size_t size);

#endif
