/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/target.h"

#include <stdio.h>
#include <string.h>

#include "service/base/json.h"

enum { KB = 1024, MB = 1024 * 1024 };

/* One device that people own for each architecture. */
static const struct target known[] = {
    {"cpu", "x86-64-v2", 4, 1 * MB, 0, 0, 0},
    {"cpu", "x86-64-v3", 4, 1 * MB, 0, 0, 0},
    {"cpu", "x86-64-v4", 4, 2 * MB, 0, 0, 0},
    {"cpu", "armv8-a", 4, 1 * MB, 0, 0, 0},
    {"cuda", "sm_75", 40, 4 * MB, 64 * KB, 1024, 65536},       /* T4 */
    {"cuda", "sm_80", 108, 40 * MB, 163 * KB, 1024, 65536},    /* A100 */
    {"cuda", "sm_86", 84, 6 * MB, 99 * KB, 1024, 65536},       /* A40 */
    {"cuda", "sm_89", 142, 96 * MB, 99 * KB, 1024, 65536},     /* L40S */
    {"cuda", "sm_90a", 132, 50 * MB, 227 * KB, 1024, 65536},   /* H200 */
    {"cuda", "sm_100a", 148, 126 * MB, 227 * KB, 1024, 65536}, /* B200 */
    {"cuda", "sm_120", 170, 96 * MB, 99 * KB, 1024, 65536},    /* RTX 5090 */
};

int target_of_arch(const char *arch, struct target *ret, struct error *error) {
    char list[256];
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strcmp(known[i].arch, arch) == 0) {
            *ret = known[i];
            return 0;
        }
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", known[i].arch);
    }
    return error_set(error, ERROR_INVALID, "unknown-arch", "arch", "There is no architecture \"%.32s\"; use one of %s.",
                     arch, list);
}

struct json_object *target_to_json(const struct target *target) {
    struct json_object *object = json_object_new_object();
    json_add_string(object, "kind", target->kind);
    json_add_string(object, "arch", target->arch);
    json_add_int(object, "units", target->units);
    json_add_int(object, "cache_bytes", target->cache_bytes);
    json_add_int(object, "shared_bytes", target->shared_bytes);
    json_add_int(object, "max_threads", target->max_threads);
    json_add_int(object, "registers", target->registers);
    return object;
}

int target_from_json(struct json_object *object, struct target *ret, struct error *error) {
    static const char *const fields[] = {"kind",         "arch",        "units",     "cache_bytes",
                                         "shared_bytes", "max_threads", "registers", NULL};
    const int64_t most = (int64_t)1 << 40;
    struct target target = {0};
    const char *kind = NULL, *arch = NULL;
    int64_t units = 0;
    if (json_only_fields(object, fields, error) < 0 ||
        json_read_string(object, "kind", JSON_REQUIRED, sizeof target.kind - 1, &kind, error) < 0 ||
        json_read_string(object, "arch", JSON_REQUIRED, sizeof target.arch - 1, &arch, error) < 0 ||
        json_read_int(object, "units", JSON_REQUIRED, 1, 1 << 20, &units, error) < 0 ||
        json_read_int(object, "cache_bytes", JSON_REQUIRED, 0, most, &target.cache_bytes, error) < 0 ||
        json_read_int(object, "shared_bytes", JSON_REQUIRED, 0, most, &target.shared_bytes, error) < 0 ||
        json_read_int(object, "max_threads", JSON_REQUIRED, 0, most, &target.max_threads, error) < 0 ||
        json_read_int(object, "registers", JSON_REQUIRED, 0, most, &target.registers, error) < 0)
        return -1;
    if (strcmp(kind, "cpu") != 0 && strcmp(kind, "cuda") != 0)
        return error_set(error, ERROR_INVALID, "unknown-kind", "kind", "A target's kind is \"cpu\" or \"cuda\".");
    snprintf(target.kind, sizeof target.kind, "%s", kind);
    snprintf(target.arch, sizeof target.arch, "%s", arch);
    target.units = (int)units;
    *ret = target;
    return 0;
}
