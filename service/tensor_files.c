/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tensor_files.h"

#include <stdint.h>
#include <string.h>

#include "gpu/module/module_run.h"
#include "service/model/onnx_import.h"

int tensor_source(const char *source, const char *name, int index, size_t n, struct arena *arena, float **ret,
                  struct error *error) {
    bool ramp = strcmp(source, "ramp") == 0;
    if (ramp || strcmp(source, "random") == 0) {
        float *data = arena_try_alloc(arena, n * sizeof *data);
        if (!data)
            return error_set(error, ERROR_LIMIT, "out-of-memory", name, "There is no memory for input %d (%s).", index,
                             name);
        if (ramp)
            module_fill_ramp(data, n);
        else
            module_fill_random(data, n, (uint64_t)index + 1);
        *ret = data;
        return 0;
    }
    struct value tensor;
    if (onnx_read_tensor(source, arena, &tensor, error) < 0)
        return error_prefix(error, "reading %s: ", source);
    if ((size_t)shape_count(&tensor.shape) != n)
        return error_set(error, ERROR_INVALID, "wrong-size", name, "%s holds %lld numbers, but %s has %zu.", source,
                         (long long)shape_count(&tensor.shape), name, n);
    *ret = (float *)(uintptr_t)tensor.data;
    return 0;
}
