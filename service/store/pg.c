/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/pg.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- Parameters --- */

static int next(struct params *params, const char *value, int length, int format) {
    if (params->n >= PARAMS_MAX)
        abort(); /* more than any statement of ours has */
    params->values[params->n] = value;
    params->lengths[params->n] = length;
    params->formats[params->n] = format;
    return params->n++;
}

void params_text(struct params *params, const char *text) {
    next(params, text, 0, 0);
}

void params_bytes(struct params *params, const void *data, size_t len) {
    next(params, data, (int)len, 1);
}

void params_int(struct params *params, int64_t value) {
    int i = next(params, NULL, 0, 0);
    snprintf(params->texts[i], sizeof params->texts[i], "%lld", (long long)value);
    params->values[i] = params->texts[i];
}

void params_double(struct params *params, double value) {
    int i = next(params, NULL, 0, 0);
    if (!isfinite(value))
        return;
    snprintf(params->texts[i], sizeof params->texts[i], "%.17g", value);
    params->values[i] = params->texts[i];
}

void params_bool(struct params *params, bool value) {
    params_text(params, value ? "t" : "f");
}

void params_time(struct params *params, int64_t us) {
    if (us == 0) {
        params_text(params, NULL);
        return;
    }
    int i = next(params, NULL, 0, 0);
    time_t seconds = (time_t)(us / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    char day[24];
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(params->texts[i], sizeof params->texts[i], "%.19s.%06dZ", day, (int)(us % 1000000));
    params->values[i] = params->texts[i];
}

/* --- Rows --- */

const char *row_raw(struct row *row) {
    int column = row->column++;
    return PQgetisnull(row->result, row->number, column) ? NULL : PQgetvalue(row->result, row->number, column);
}

const char *row_text(struct row *row, struct arena *arena) {
    const char *value = row_raw(row);
    return value ? arena_strdup(arena, value) : NULL;
}

void row_copy(struct row *row, char *ret, size_t size) {
    const char *value = row_raw(row);
    snprintf(ret, size, "%s", value ? value : "");
}

int64_t row_int(struct row *row) {
    const char *value = row_raw(row);
    return value ? strtoll(value, NULL, 10) : 0;
}

double row_double(struct row *row) {
    const char *value = row_raw(row);
    return value ? strtod(value, NULL) : INFINITY;
}

bool row_bool(struct row *row) {
    const char *value = row_raw(row);
    return value && *value == 't';
}

static int digits(const char *text, int n) {
    int value = 0;
    for (int i = 0; i < n; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

/* 2026-12-01 03:24:00.123456+00: sessions are set to UTC and ISO. */
int64_t row_time(struct row *row) {
    const char *value = row_raw(row);
    if (!value || strlen(value) < 19)
        return 0;
    struct tm parts = {.tm_year = digits(value, 4) - 1900,
                       .tm_mon = digits(value + 5, 2) - 1,
                       .tm_mday = digits(value + 8, 2),
                       .tm_hour = digits(value + 11, 2),
                       .tm_min = digits(value + 14, 2),
                       .tm_sec = digits(value + 17, 2)};
    int64_t us = (int64_t)timegm(&parts) * 1000000;
    const char *fraction = value + 19;
    if (*fraction == '.')
        for (int64_t unit = 100000; *++fraction >= '0' && *fraction <= '9'; unit /= 10)
            us += (*fraction - '0') * unit;
    return us;
}

int row_doubles(struct row *row, double *ret, int max) {
    const char *at = row_raw(row);
    int n = 0;
    while (at && n < max && (*at == '{' || *at == ',') && at[1] != '}') {
        char *end;
        ret[n++] = strtod(at + 1, &end);
        at = end;
    }
    return n;
}

int row_texts(struct row *row, struct arena *arena, const char **ret, int max) {
    const char *at = row_raw(row);
    int n = 0;
    while (at && n < max && (*at == '{' || *at == ',') && at[1] != '}') {
        bool quoted = *++at == '"';
        at += quoted;
        char *text = arena_alloc(arena, strlen(at) + 1);
        size_t len = 0;
        for (; *at && (quoted ? *at != '"' : *at != ',' && *at != '}'); at++) {
            if (quoted && *at == '\\' && at[1])
                at++;
            text[len++] = *at;
        }
        at += quoted && *at;
        ret[n++] = !quoted && strcmp(text, "NULL") == 0 ? NULL : text;
    }
    return n;
}

int64_t pg_affected(const PGresult *result) {
    return strtoll(PQcmdTuples((PGresult *)(uintptr_t)result), NULL, 10);
}

void pg_clear_p(PGresult **result) {
    PQclear(*result);
}
