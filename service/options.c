/* SPDX-License-Identifier: Apache-2.0 */
#include "service/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct option_spec *find(struct option_spec *specs, int n_specs, const char *name, size_t len) {
    for (int i = 0; i < n_specs; i++) {
        const char *const names[] = {specs[i].name, specs[i].alias};
        for (int k = 0; k < 2; k++)
            if (names[k] && strlen(names[k]) == len && memcmp(names[k], name, len) == 0)
                return &specs[i];
    }
    return NULL;
}

static int add_value(struct option_spec *spec, const char *value, struct error *error) {
    if (spec->n_values == OPTION_MAX_VALUES)
        return error_set(error, ERROR_LIMIT, "too-many-options", spec->name, "%s may be given at most %d times.",
                         spec->name, OPTION_MAX_VALUES);
    spec->values[spec->n_values++] = value;
    return 0;
}

int options_parse(int argc, char **argv, struct option_spec *specs, int n_specs, const char **positional,
                  int max_positional, int *ret_positional, struct error *error) {
    *ret_positional = 0;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (arg[0] != '-' || arg[1] == 0) {
            if (*ret_positional == max_positional)
                return error_set(error, ERROR_INVALID, "unexpected-argument", arg, "Unexpected '%.80s'.", arg);
            positional[(*ret_positional)++] = arg;
            continue;
        }
        const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
        struct option_spec *spec = find(specs, n_specs, arg, equals ? (size_t)(equals - arg) : strlen(arg));
        if (!spec)
            return error_set(error, ERROR_INVALID, "unknown-option", arg, "There is no option '%.80s'.", arg);
        const char *value = spec->is_flag ? "" : equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value)
            return error_set(error, ERROR_INVALID, "missing-value", arg, "%.80s needs a value.", arg);
        if (add_value(spec, value, error) < 0)
            return -1;
    }
    return 0;
}

int option_number(const struct option_spec *spec, int64_t min, int64_t max, int64_t fallback, int64_t *ret,
                  struct error *error) {
    *ret = fallback;
    if (spec->n_values == 0)
        return 0;
    char *end;
    errno = 0;
    long long number = strtoll(spec->values[0], &end, 10);
    if (end == spec->values[0] || *end || errno || number < min || number > max)
        return error_set(error, ERROR_INVALID, "bad-option", spec->name,
                         "%s is '%.60s', but must be a whole number from %lld to %lld.", spec->name, spec->values[0],
                         (long long)min, (long long)max);
    *ret = number;
    return 0;
}

const char *option_text(const struct option_spec *spec, const char *fallback) {
    return spec->n_values ? spec->values[0] : fallback;
}
