/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h: the runtime's errors: a text for the user. A function that can fail returns -1 after it filled one. */
#ifndef WARPTUNE_MODULE_FAULT_H
#define WARPTUNE_MODULE_FAULT_H

struct fault {
    char text[512];
};

/* Returns -1. */
int fault_set(struct fault *fault, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
