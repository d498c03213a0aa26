/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_files.h: where `run` and `reference` take a tensor's numbers from: a TensorProto file, `ramp` (arange(n)/n) or
 * `random` (seeded, uniform in [-1, 1)).
 */
#ifndef WARPTUNE_TENSOR_FILES_H
#define WARPTUNE_TENSOR_FILES_H

#include "service/base/arena.h"
#include "service/base/error.h"

/*
 * The float32 numbers of input `index`, which has `n` elements and is called `name`. ERROR_INVALID when a file holds
 * another number of them. Memory from `arena`.
 */
int tensor_source(const char *source, const char *name, int index, size_t n, struct arena *arena, float **ret,
                  struct error *error) MUST_CHECK;

#endif
