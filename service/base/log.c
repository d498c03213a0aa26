/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/log.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/base/clock.h"
#include "service/base/utf8.h"

enum { MAX_KEYS = 4, KEY_SIZE = 32, VALUE_SIZE = 128, MESSAGE_SIZE = 2048, LINE_SIZE = 24 * 1024 };

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

static enum log_level threshold = LOG_INFO; /* set before any thread starts */

struct context {
    char key[KEY_SIZE], value[VALUE_SIZE]; /* key "": free */
};
static _Thread_local struct context contexts[MAX_KEYS];

/* A line in the making. It fits whatever the parts may be: each is bounded, and escaping makes six bytes of one. */
struct line {
    char text[LINE_SIZE];
    size_t len;
};

static void put(struct line *line, const char *text, size_t len) {
    if (len > sizeof line->text - line->len)
        return;
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void put_escaped(struct line *line, unsigned char c) {
    char escape[8];
    const char *format = c == '"' || c == '\\' ? "\\%c" : c == '\n' ? "\\n" : "\\u%04x";
    put(line, escape, (size_t)snprintf(escape, sizeof escape, format, c));
}

/* A JSON string in quotes. */
static void put_string(struct line *line, const char *text) {
    size_t len = strlen(text);
    put(line, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(text + i, len - i);
        unsigned char c = (unsigned char)text[i];
        if (n == 0)
            put(line, "\\ufffd", 6);
        else if (c < 0x20 || c == 0x7F || c == '"' || c == '\\')
            put_escaped(line, c);
        else
            put(line, text + i, n);
        i += n ? n : 1;
    }
    put(line, "\"", 1);
}

static void put_field(struct line *line, const char *key, const char *value) {
    put(line, line->len ? "," : "{", 1);
    put_string(line, key);
    put(line, ":", 1);
    put_string(line, value);
}

static void line_start(struct line *line, enum log_level level, const char *message) {
    char now[32];
    clock_format(clock_wall_us(), now);
    line->len = 0;
    put_field(line, "time", now);
    put_field(line, "level", level_names[level]);
    put_field(line, "message", message);
    for (size_t i = 0; i < MAX_KEYS; i++)
        if (contexts[i].key[0])
            put_field(line, contexts[i].key, contexts[i].value);
}

/* One write(); when it is cut short or refused there is nobody left to tell. */
static void line_end(struct line *line) {
    put(line, "}\n", 2);
    while (write(STDERR_FILENO, line->text, line->len) < 0 && errno == EINTR)
        ;
}

void log_init(enum log_level level) {
    threshold = level;
}

int log_level_parse(const char *text, enum log_level *ret_level, struct error *error) {
    for (size_t i = 0; i < ARRAY_COUNT(level_names); i++)
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    return error_set(error, ERROR_INVALID, "unknown-log-level", NULL,
                     "\"%.64s\" is no log level; use debug, info, warn or error.", text);
}

void log_context(const char *key, const char *value) {
    struct context *slot = NULL;
    for (size_t i = MAX_KEYS; i-- > 0;)
        if (contexts[i].key[0] == '\0')
            slot = &contexts[i];
    for (size_t i = 0; i < MAX_KEYS; i++)
        if (strncmp(contexts[i].key, key, KEY_SIZE - 1) == 0)
            slot = &contexts[i];
    if (!slot)
        return; /* four are taken */
    snprintf(slot->key, sizeof slot->key, "%s", value ? key : "");
    snprintf(slot->value, sizeof slot->value, "%s", value ? value : "");
    utf8_scrub(slot->key);
    utf8_scrub(slot->value);
}

void log_line(enum log_level level, const char *format, ...) {
    if (level < threshold)
        return;
    char message[MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    utf8_scrub(message);
    struct line line;
    line_start(&line, level, message);
    line_end(&line);
}

static void put_number(struct line *line, const char *key, double number) {
    char text[40];
    put(line, ",", 1);
    put_string(line, key);
    put(line, text, (size_t)snprintf(text, sizeof text, isfinite(number) ? ":%.10g" : ":null", number));
}

void log_fields(enum log_level level, const char *message, const struct log_field *fields, int n) {
    if (level < threshold)
        return;
    struct line line;
    char value[VALUE_SIZE * 4];
    line_start(&line, level, message);
    for (int i = 0; i < n; i++) {
        if (!fields[i].text) {
            put_number(&line, fields[i].key, fields[i].number);
            continue;
        }
        snprintf(value, sizeof value, "%s", fields[i].text);
        utf8_scrub(value);
        put_field(&line, fields[i].key, value);
    }
    line_end(&line);
}

void log_error(enum log_level level, const char *what, const struct error *error) {
    if (level < threshold)
        return;
    char message[MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s: %s", what, error->text);
    utf8_scrub(message);
    struct line line;
    line_start(&line, level, message);
    put_field(&line, "class", error_class_name(error->class));
    put_field(&line, "code", error->code);
    if (error->field[0])
        put_field(&line, "field", error->field);
    line_end(&line);
}
