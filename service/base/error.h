/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h: errors as values.
 *
 * A function that can fail returns 0 or -1, and on -1 has filled the caller's `struct error`: a class, by which the
 * layers above choose what to do (one place maps it to HTTP), a stable code for programs, the field or node at fault,
 * and a text for the user that says what, where and what to do. Outputs named ret_… are set only on success.
 */
#ifndef WARPTUNE_BASE_ERROR_H
#define WARPTUNE_BASE_ERROR_H

#include "service/base/attr.h"

enum error_class {
    ERROR_NONE,
    ERROR_INVALID,   /* the input is wrong; the same input will always be refused */
    ERROR_NOT_FOUND, /* what was named is not there */
    ERROR_CONFLICT,  /* the state of what was named forbids it */
    ERROR_LIMIT,     /* larger, longer or more than a limit allows */
    ERROR_AUTH,      /* not known, or not allowed */
    ERROR_BUSY,      /* try again later */
    ERROR_TIMEOUT,   /* a deadline passed */
    ERROR_CANCELLED, /* somebody asked for it to stop */
    ERROR_IO,        /* file, pipe, socket or child process */
    ERROR_DB,        /* PostgreSQL refused or was away */
    ERROR_DEVICE,    /* GPU, driver, NVRTC or host compiler */
    ERROR_INTERNAL,  /* a broken promise of our own */
};

struct error {
    enum error_class class;
    char code[48];   /* stable, kebab-case: "unsupported-operator" */
    char field[128]; /* JSON field, ONNX node or query parameter at fault; empty when none */
    char text[1024]; /* for the user; one or more whole sentences, valid UTF-8 */
};

/* Fills `error` (which may be NULL) and returns -1, so that a function can end with `return error_set(…)`. */
int error_set(struct error *error, enum error_class class, const char *code, const char *field, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Puts a context in front of the text ("reading model.onnx: …"), keeps the rest, returns -1. */
int error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

/* "invalid", "not_found", …: the class as logs show it. */
const char *error_class_name(enum error_class class);

#endif
