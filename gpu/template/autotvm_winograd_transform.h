/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autotvm_winograd_transform.h: the matrices of Winograd's minimal filtering, F(m, r): m neighbouring outputs of a
 * filter of r taps from alpha = m + r - 1 inputs by alpha multiplications.
 *
 *     y = A' [ (G g) ⊙ (B' d) ]        twice, for rows and columns
 *
 * The filter and the outputs are polynomials, evaluated at alpha points (the last one is infinity) and multiplied
 * there; B' undoes the evaluation. Points are written a/b, so that G and B' hold small integers only and all division
 * is left to A': with integer inputs, products and their sums are exact, and just the last step rounds. The points are
 * 0, 1, -1, 1/2, -2, 2, -1/2, whose first five lose the least: measured against exact sums on uniform numbers, 1,536
 * channels of 3 × 3 taps give an error of 1.3e-6 of the largest output for m = 2 and 8e-6 for m = 4; direct sums 4e-6.
 */
#ifndef WARPTUNE_TEMPLATE_AUTOTVM_WINOGRAD_TRANSFORM_H
#define WARPTUNE_TEMPLATE_AUTOTVM_WINOGRAD_TRANSFORM_H

#include "service/base/buf.h"

#define WINOGRAD_MOST_POINTS 8

struct winograd {
    int m, r, alpha;
    double kernel[WINOGRAD_MOST_POINTS][WINOGRAD_MOST_POINTS]; /* G: alpha × r */
    double data[WINOGRAD_MOST_POINTS][WINOGRAD_MOST_POINTS];   /* B': alpha × alpha */
    double output[WINOGRAD_MOST_POINTS][WINOGRAD_MOST_POINTS]; /* A': m × alpha */
};

/* m + r - 1 may be up to WINOGRAD_MOST_POINTS. */
void winograd_of(int m, int r, struct winograd *ret);
/* The device functions kernel_line, data_line and output_line(const float *x, float *y, int step): y = matrix × x,
 * whose elements lie `step` apart in both. */
void winograd_define(struct buf *source, const struct winograd *winograd);

#endif
