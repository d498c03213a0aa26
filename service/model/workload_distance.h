/* SPDX-License-Identifier: Apache-2.0 */
/* workload_distance.h: how far the shapes of two workloads are apart. */
#ifndef WARPTUNE_MODEL_WORKLOAD_DISTANCE_H
#define WARPTUNE_MODEL_WORKLOAD_DISTANCE_H

#include "service/model/workload.h"

/*
 * The Euclidean length of the differences of the logarithms (base 2) of all dimensions and whole-number attributes (1
 * for twice the batch), and a quarter for each part of the epilogue that is not the same: what is fused matters less
 * than the shapes. INFINITY when they are not of a kind: another operator, element type, math, layout or
 * rank.
 */
double workload_distance(const struct workload *a, const struct workload *b);

#endif
