/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuse.h: fewer, larger operators: a graph that computes the same with less traffic.
 *
 * Batch norm folds into the convolution before it (weights scaled, bias shifted), then bias, residual add and
 * activation become its epilogue; zero padding becomes the convolution's own; x × sigmoid(x) becomes SiLU; a MATMUL
 * or Gemm with a constant right side becomes DENSE; activations join AFFINE and BINARY. Works in place.
 */
#ifndef WARPTUNE_MODEL_FUSE_H
#define WARPTUNE_MODEL_FUSE_H

#include "service/model/graph.h"

int graph_fuse(struct graph *graph, struct error *error) MUST_CHECK;

#endif
