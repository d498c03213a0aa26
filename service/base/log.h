/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h: one JSON object a line on standard error.
 *
 * Only handlers, the worker loop and main log; the layers below return errors. The logger is the project's one piece
 * of global state. Thread-safe: a line is written by one write(). A request id or job id set with log_context is
 * added to each line of that thread.
 */
#ifndef WARPTUNE_BASE_LOG_H
#define WARPTUNE_BASE_LOG_H

#include "service/base/attr.h"
#include "service/base/error.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Lines below `level` are dropped. Call once, before any thread starts. */
void log_init(enum log_level level);
/* "debug", "info", …; ERROR_INVALID for anything else. */
int log_level_parse(const char *text, enum log_level *ret_level, struct error *error) MUST_CHECK;

/* Key and value that all later lines of this thread carry; value NULL removes the key. At most 4 keys. */
void log_context(const char *key, const char *value);

/* A message in words. Invalid UTF-8 and control characters are escaped. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
/* A message with fields of its own: numbers where `text` is NULL. */
struct log_field {
    const char *key, *text;
    double number;
};
void log_fields(enum log_level level, const char *message, const struct log_field *fields, int n);
/* Logs an error value with its class, code and field: «what: text». */
void log_error(enum log_level level, const char *what, const struct error *error);

#endif
