/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fits into the memory that is there already is copied here; all else is the buffer's affair. */
static inline void put(struct buf *out, const char *bytes, size_t len) {
    if (out->cap - out->len > len && out->max - out->len >= len && !out->overflowed) {
        memcpy(out->data + out->len, bytes, len);
        out->len += len;
        out->data[out->len] = 0;
    } else {
        buf_append(out, bytes, len);
    }
}

static inline void put_char(struct buf *out, char c) {
    put(out, &c, 1);
}

static void put_string(struct buf *out, const char *text) {
    put_char(out, '"');
    for (const char *from = text;;) {
        const char *at = from;
        while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
            at++;
        put(out, from, (size_t)(at - from));
        if (!*at)
            break;
        if (*at == '"' || *at == '\\') {
            put_char(out, '\\');
            put_char(out, *at);
        } else {
            buf_printf(out, "\\u%04x", (unsigned char)*at);
        }
        from = at + 1;
    }
    put_char(out, '"');
}

/* A comma unless it is the first in its bracket; the name. */
static void begin(struct buf *out, const char *name) {
    char last = out->len ? out->data[out->len - 1] : '[';
    if (last != '{' && last != '[')
        put_char(out, ',');
    if (name) {
        put_char(out, '"');
        put(out, name, strlen(name));
        put(out, "\":", 2);
    }
}

void write_object(struct buf *out, const char *name) {
    begin(out, name);
    put_char(out, '{');
}

void write_array(struct buf *out, const char *name) {
    begin(out, name);
    put_char(out, '[');
}

void write_end(struct buf *out, char bracket) {
    put_char(out, bracket);
}

void write_text(struct buf *out, const char *name, const char *text) {
    begin(out, name);
    if (text)
        put_string(out, text);
    else
        put(out, "null", 4);
}

/* Digits of a number, from the end of `text` backwards; where they begin. */
static char *digits(char *end, uint64_t number, int at_least) {
    char *at = end;
    while (number || end - at < at_least) {
        *--at = (char)('0' + number % 10);
        number /= 10;
    }
    return at;
}

void write_int(struct buf *out, const char *name, int64_t value) {
    char text[24], *end = text + sizeof text;
    char *at = digits(end, value < 0 ? -(uint64_t)value : (uint64_t)value, 1);
    if (value < 0)
        *--at = '-';
    begin(out, name);
    put(out, at, (size_t)(end - at));
}

void write_int_if(struct buf *out, const char *name, int64_t value, bool known) {
    if (known)
        write_int(out, name, value);
    else
        write_raw(out, name, NULL);
}

void write_fixed(struct buf *out, const char *name, double value) {
    char text[32], *end = text + sizeof text;
    double magnitude = fabs(value);
    if (!(magnitude < 1e15)) {
        write_double(out, name, value);
        return;
    }
    uint64_t thousandths = (uint64_t)llround(magnitude * 1000);
    char *at = digits(end, thousandths % 1000, 3);
    *--at = '.';
    at = digits(at, thousandths / 1000, 1);
    if (value < 0 && thousandths)
        *--at = '-';
    begin(out, name);
    put(out, at, (size_t)(end - at));
}

void write_double(struct buf *out, const char *name, double value) {
    char text[40] = "null";
    if (isfinite(value)) {
        int precision = 15;
        do
            snprintf(text, sizeof text, "%.*g", precision++, value);
        while (precision <= 17 && strtod(text, NULL) != value);
    }
    begin(out, name);
    put(out, text, strlen(text));
}

void write_bool(struct buf *out, const char *name, bool value) {
    begin(out, name);
    put(out, value ? "true" : "false", value ? 4 : 5);
}

/* Two digits each, from the end backwards. */
static char *two_digits(char *end, int64_t number, char before) {
    end = digits(end, (uint64_t)number, 2);
    *--end = before;
    return end;
}

/* A day since 1970 as year-month-day of the Gregorian calendar, years counted from March. */
static char *date(char *end, int64_t days) {
    int64_t shifted = days + 719468, era = shifted / 146097, day_of_era = shifted % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    end = two_digits(end, day, '-');
    end = two_digits(end, month, '-');
    return digits(end, (uint64_t)(year_of_era + era * 400 + (month <= 2)), 4);
}

void write_time(struct buf *out, const char *name, int64_t wall_us) {
    char text[40], *end = text + sizeof text, *at = end;
    int64_t ms = wall_us / 1000, s = ms / 1000;
    if (wall_us <= 0) {
        write_text(out, name, NULL);
        return;
    }
    *--at = '"';
    *--at = 'Z';
    at = digits(at, (uint64_t)(ms % 1000), 3);
    *--at = '.';
    at = two_digits(at, s % 60, ':');
    at = two_digits(at, s / 60 % 60, ':');
    at = two_digits(at, s / 3600 % 24, 'T');
    at = date(at, s / 86400);
    *--at = '"';
    begin(out, name);
    put(out, at, (size_t)(end - at));
}

void write_raw(struct buf *out, const char *name, const char *json) {
    begin(out, name);
    json = json ? json : "null";
    put(out, json, strlen(json));
}

void write_members(struct buf *out, const char *json_object) {
    const char *open = strchr(json_object, '{'), *close = strrchr(json_object, '}');
    if (!open || !close)
        return;
    open += 1 + strspn(open + 1, " \t\r\n");
    if (open >= close)
        return;
    begin(out, NULL);
    put(out, open, (size_t)(close - open));
}
