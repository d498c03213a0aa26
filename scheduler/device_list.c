/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/device_list.h"

#include <stdlib.h>
#include <string.h>

static int add_one(const struct device_class *class, int ordinal, struct device_info *ret, int *count,
                   struct error *error) {
    if (*count == DEVICE_LIST_MAX)
        return error_set(error, ERROR_LIMIT, "too-many-devices", "devices", "A worker takes at most %d devices.",
                         DEVICE_LIST_MAX);
    for (int i = 0; i < *count; i++)
        if (strcmp(ret[i].target.kind, class->kind) == 0 && ret[i].ordinal == ordinal)
            return error_set(error, ERROR_INVALID, "bad-devices", "devices", "%s:%d is named twice.", class->kind,
                             ordinal);
    if (class->describe(ordinal, &ret[*count], error) < 0)
        return -1;
    ++*count;
    return 0;
}

/* Every device of a kind that is here; none is no error. */
static int add_all(const struct device_class *class, struct device_info *ret, int *count, struct error *error) {
    struct error none;
    int here = class->count(&none);
    for (int i = 0; i < here; i++)
        if (add_one(class, i, ret, count, error) < 0)
            return -1;
    return 0;
}

/* "cpu", "cuda" (all of them) or "cuda:1". */
static int add_named(const char *name, size_t len, struct device_info *ret, int *count, struct error *error) {
    char kind[16] = "";
    size_t kind_len = strcspn(name, ":,");
    if (kind_len < sizeof kind)
        memcpy(kind, name, kind_len);
    const struct device_class *class = device_class_find(kind);
    if (!class)
        return error_set(error, ERROR_INVALID, "bad-devices", "devices",
                         "'%.*s' is no device; name cpu, cuda, cuda:N, auto or all.", (int)len, name);
    struct error why = {0};
    int here = class->count(&why);
    if (here == 0)
        return error_set(error, ERROR_DEVICE, "no-device", "devices", "There is no %s device here: %.600s", kind,
                         why.text);
    if (kind_len == len)
        return strcmp(kind, "cpu") == 0 ? add_one(class, 0, ret, count, error) : add_all(class, ret, count, error);
    char *end;
    long ordinal = strtol(name + kind_len + 1, &end, 10);
    if (end != name + len || end == name + kind_len + 1 || ordinal < 0 || ordinal >= here)
        return error_set(error, ERROR_DEVICE, "no-device", "devices", "'%.*s' is not here; there are %d of that kind.",
                         (int)len, name, here);
    return add_one(class, (int)ordinal, ret, count, error);
}

int device_list(const char *text, struct device_info ret[DEVICE_LIST_MAX], int *ret_count, struct error *error) {
    int count = 0;
    bool automatic = strcmp(text, "auto") == 0, all = strcmp(text, "all") == 0;
    if (automatic || all) {
        if (add_all(&device_cuda, ret, &count, error) < 0 ||
            ((all || count == 0) && add_all(&device_cpu, ret, &count, error) < 0))
            return -1;
    } else {
        for (const char *at = text; *at;) {
            size_t len = strcspn(at, ",");
            if (add_named(at, len, ret, &count, error) < 0)
                return -1;
            at += len + (at[len] == ',');
        }
    }
    if (count == 0)
        return error_set(
            error, ERROR_DEVICE, "no-device", "devices",
            "There is no device to tune on: neither a GPU nor a C compiler was found. `warptune doctor` says more.");
    *ret_count = count;
    return 0;
}
