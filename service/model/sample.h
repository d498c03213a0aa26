/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h: well-known networks with seeded random weights, written as ONNX: resnet-18/34/50, vgg-16/19,
 * mobilenet-v2, squeezenet-1.0/1.1, alexnet, … Weights are scaled so that activations keep their size through the
 * depth (He), batch norms have non-trivial statistics. The same name, batch and seed give the same bytes.
 */
#ifndef WARPTUNE_MODEL_SAMPLE_H
#define WARPTUNE_MODEL_SAMPLE_H

#include <stdint.h>

#include "service/base/error.h"

/* Names, NULL-terminated, for help texts. */
const char *const *sample_names(void);
/* Streams to `path`; batch 0 writes a symbolic batch dimension "N". Unknown names: ERROR_INVALID listing the names. */
int sample_write(const char *name, int64_t batch, uint64_t seed, const char *path, struct error *error) MUST_CHECK;

#endif
