/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/device.h"

#include <string.h>

const struct device_class *device_class_find(const char *kind) {
    static const struct device_class *const classes[] = {&device_cpu, &device_cuda};
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++)
        if (strcmp(classes[i]->kind, kind) == 0)
            return classes[i];
    return NULL;
}
