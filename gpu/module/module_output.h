/* SPDX-License-Identifier: Apache-2.0 */
/* module_output.h: a file that appears under its name when it is complete, or not at all. */
#ifndef WARPTUNE_MODULE_MODULE_OUTPUT_H
#define WARPTUNE_MODULE_MODULE_OUTPUT_H

#include <limits.h>

#include "service/base/error.h"

struct module_output {
    const char *path; /* borrowed */
    char temporary[PATH_MAX];
    int fd;
};

/* Opens a temporary name beside `path`. */
int module_output_open(const char *path, struct module_output *ret, struct error *error) MUST_CHECK;
/* Renames it when rc is 0, else removes it. Returns -1 when rc is, or when that fails. */
int module_output_close(struct module_output *output, int rc, struct error *error) MUST_CHECK;

#endif
