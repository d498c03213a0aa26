/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/device.h"

#include <string.h>

#include "service/base/json.h"

const struct device_state device_state_unknown = {-1, -1, -1, -1, -1, -1, -1, -1};

/* The figures of a state by name; memory, which is longer, apart. */
static const struct {
    const char *name;
    size_t offset;
} figures[] = {
    {"sm_clock_mhz", offsetof(struct device_state, sm_clock_mhz)},
    {"memory_clock_mhz", offsetof(struct device_state, memory_clock_mhz)},
    {"temperature_c", offsetof(struct device_state, temperature_c)},
    {"power_w", offsetof(struct device_state, power_w)},
    {"utilization_percent", offsetof(struct device_state, utilization_percent)},
    {"other_processes", offsetof(struct device_state, other_processes)},
    {"throttle_reasons", offsetof(struct device_state, throttle_reasons)},
};
static const char memory[] = "memory_used_bytes";

struct json_object *device_state_to_json(const struct device_state *state) {
    struct json_object *object = json_object_new_object();
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        int value;
        memcpy(&value, (const char *)state + figures[i].offset, sizeof value);
        if (value >= 0)
            json_add_int(object, figures[i].name, value);
    }
    if (state->memory_used_bytes >= 0)
        json_add_int(object, memory, state->memory_used_bytes);
    return object;
}

int device_state_from_json(struct json_object *object, struct device_state *ret, struct error *error) {
    struct device_state state = device_state_unknown;
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        int64_t value = -1;
        if (json_read_int(object, figures[i].name, JSON_OPTIONAL, 0, INT32_MAX, &value, error) < 0)
            return -1;
        int narrow = (int)value;
        memcpy((char *)&state + figures[i].offset, &narrow, sizeof narrow);
    }
    if (json_read_int(object, memory, JSON_OPTIONAL, 0, INT64_MAX, &state.memory_used_bytes, error) < 0)
        return -1;
    *ret = state;
    return 0;
}

const struct device_class *device_class_find(const char *kind) {
    static const struct device_class *const classes[] = {&device_cpu, &device_cuda};
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++)
        if (strcmp(classes[i]->kind, kind) == 0)
            return classes[i];
    return NULL;
}
