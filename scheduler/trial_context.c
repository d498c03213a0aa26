/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/trial_context.h"

#include "service/base/json.h"

static void add_known(struct json_object *object, const char *field, int value) {
    if (value >= 0)
        json_add_int(object, field, value);
}

static struct json_object *flags_json(unsigned flags) {
    static const struct {
        enum trial_flag flag;
        const char *name;
    } names[] = {{TRIAL_THROTTLED, "throttled"}, {TRIAL_SHARED, "shared"}, {TRIAL_CUT_SHORT, "cut_short"}};
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (flags & names[i].flag)
            json_object_array_add(list, json_object_new_string(names[i].name));
    return list;
}

const char *trial_context(const struct trial *trial, const struct device_info *device, struct arena *arena) {
    struct json_object *object CLEANUP(json_put_p) = json_object_new_object();
    add_known(object, "sm_clock_mhz", trial->state.sm_clock_mhz);
    add_known(object, "memory_clock_mhz", trial->state.memory_clock_mhz);
    add_known(object, "temperature_c", trial->state.temperature_c);
    add_known(object, "power_w", trial->state.power_w);
    add_known(object, "other_processes", trial->state.other_processes);
    json_add(object, "flags", flags_json(trial->flags));
    json_add_int(object, "again", trial->again);
    if (*device->driver)
        json_add_string(object, "driver", device->driver);
    json_add_string(object, "compiler", device->compiler);
    return arena_strdup(arena, json_text(object, NULL));
}
