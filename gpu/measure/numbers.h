/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h: what candidates are verified on: inputs made from a seed, and outputs compared.
 *
 * Small integers make every sum exact whatever its order (the products of a sum add up to less than 2^24), so a wrong
 * index shows as a wrong number; uniform numbers in [-1, 1) show what integers hide. 16-bit floating-point operands
 * are only moved so far: they are filled with patterns and compared bit by bit.
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
 * A quick look, by the pool's threads (NULL: by the caller's own), which knows 32-bit floating point only: true when
 * they surely agree; false says nothing.
 */
bool numbers_surely_agree(struct pool *pool, const struct operand *operand, double limit, const void *got,
                          const void *expected);
bool numbers_agree_within(const struct operand *operand, double limit, const void *got, const void *expected,
                          char *text, size_t size);

#endif
