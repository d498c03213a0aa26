/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warptune_module.h: the interface of a compiled network (module.so).
 *
 *     struct warptune_module *m = warptune_module_open(0, error, sizeof error);
 *     warptune_module_set_input(m, 0, pixels, bytes);      // row-major, logical order (N, C, H, W)
 *     warptune_module_run(m);
 *     warptune_module_get_output(m, 0, scores, bytes);
 *     warptune_module_close(m);
 *
 * Link against the module or dlopen it. A CUDA module needs the NVIDIA driver and nothing else; a CPU module needs
 * nothing. Functions that return int give 0, or -1 with the reason in warptune_module_error. A handle is used by one
 * thread at a time; several handles may live side by side.
 */
#ifndef WARPTUNE_MODULE_H
#define WARPTUNE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARPTUNE_MODULE_ABI 1

struct warptune_module;

struct warptune_tensor {
    const char *name;
    const char *dtype; /* "f32", "i64", … */
    int rank;
    int64_t dim[8];
    size_t bytes;
};

/* `ordinal`: which GPU; ignored by a CPU module. NULL on failure, with the reason in error[0…error_size). */
struct warptune_module *warptune_module_open(int ordinal, char *error, size_t error_size);
/* How many, and the first of an array that lives as long as the handle. */
int warptune_module_inputs(struct warptune_module *module, const struct warptune_tensor **ret);
int warptune_module_outputs(struct warptune_module *module, const struct warptune_tensor **ret);
int warptune_module_set_input(struct warptune_module *module, int index, const void *data, size_t bytes);
/* Runs the network on the inputs last set and waits for it. */
int warptune_module_run(struct warptune_module *module);
int warptune_module_get_output(struct warptune_module *module, int index, void *data, size_t bytes);
/* Runs it `count` times on inputs already on the device and gives the seconds of each in seconds[0…count). */
int warptune_module_time(struct warptune_module *module, int count, double *seconds);
const char *warptune_module_error(struct warptune_module *module);
void warptune_module_close(struct warptune_module *module); /* NULL-safe */

#ifdef __cplusplus
}
#endif

#endif
