/* SPDX-License-Identifier: Apache-2.0 */
/* options.h: the command lines of the small verbs: named options with a value, and positional arguments. */
#ifndef WARPTUNE_OPTIONS_H
#define WARPTUNE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "service/base/error.h"

#define OPTION_MAX_VALUES 32

struct option_spec {
    const char *name;                      /* "--repeat", "-o" */
    const char *alias;                     /* another name, or NULL */
    bool is_flag;                          /* takes no value; values[0] is then "" */
    const char *values[OPTION_MAX_VALUES]; /* out, in order */
    int n_values;                          /* out */
};

/* Fills the specs and up to max_positional positional arguments; argv[0] is skipped. ERROR_INVALID names what is off.
 */
int options_parse(int argc, char **argv, struct option_spec *specs, int n_specs, const char **positional,
                  int max_positional, int *ret_positional, struct error *error) MUST_CHECK;
/* The first value of an option as a number in [min, max]; `fallback` when it was not given. */
int option_number(const struct option_spec *spec, int64_t min, int64_t max, int64_t fallback, int64_t *ret,
                  struct error *error) MUST_CHECK;
/* The first value, or `fallback`. */
const char *option_text(const struct option_spec *spec, const char *fallback);

#endif
