/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/base/utf8.h"

static const char *const class_names[] = {
    [ERROR_NONE] = "none",
    [ERROR_INVALID] = "invalid",
    [ERROR_NOT_FOUND] = "not_found",
    [ERROR_CONFLICT] = "conflict",
    [ERROR_LIMIT] = "limit",
    [ERROR_AUTH] = "auth",
    [ERROR_BUSY] = "busy",
    [ERROR_TIMEOUT] = "timeout",
    [ERROR_CANCELLED] = "cancelled",
    [ERROR_IO] = "io",
    [ERROR_DB] = "db",
    [ERROR_DEVICE] = "device",
    [ERROR_INTERNAL] = "internal",
};

/* The arguments may lie inside `error` itself, so everything is made beside it and put in at the end. */
int error_set(struct error *error, enum error_class class, const char *code, const char *field, const char *format,
              ...) {
    if (!error)
        return -1;
    struct error made = {.class = class};
    snprintf(made.code, sizeof made.code, "%s", code ? code : "");
    snprintf(made.field, sizeof made.field, "%s", field ? field : "");
    va_list args;
    va_start(args, format);
    vsnprintf(made.text, sizeof made.text, format, args);
    va_end(args);
    utf8_scrub(made.field);
    utf8_scrub(made.text);
    *error = made;
    return -1;
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error)
        return -1;
    char text[sizeof error->text];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    size_t rest = strnlen(error->text, sizeof text - 1 - len);
    memcpy(text + len, error->text, rest);
    text[len + rest] = '\0';
    utf8_scrub(text);
    memcpy(error->text, text, sizeof text);
    return -1;
}

const char *error_class_name(enum error_class class) {
    return (size_t) class < ARRAY_COUNT(class_names) ? class_names[class] : "unknown";
}
