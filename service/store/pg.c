/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/pg.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- Parameters --- */

static int next(struct params *params, const char *value) {
    if (params->n >= PARAMS_MAX)
        abort(); /* more than any statement of ours has */
    params->values[params->n] = value;
    return params->n++;
}

void params_text(struct params *params, const char *text) {
    next(params, text);
}

void params_int(struct params *params, int64_t value) {
    int i = next(params, NULL);
    snprintf(params->texts[i], sizeof params->texts[i], "%lld", (long long)value);
    params->values[i] = params->texts[i];
}

void params_double(struct params *params, double value) {
    int i = next(params, NULL);
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
    int i = next(params, NULL);
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
/* Days from 1970-01-01 to a date of the Gregorian calendar, years counted from March so that leap days come last. */
static int64_t days_to(int year, int month, int day) {
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400, day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

int64_t row_time(struct row *row) {
    const char *value = row_raw(row);
    if (!value || strlen(value) < 19)
        return 0;
    int64_t days = days_to(digits(value, 4), digits(value + 5, 2), digits(value + 8, 2));
    int64_t us =
        (days * 86400 + digits(value + 11, 2) * 3600 + digits(value + 14, 2) * 60 + digits(value + 17, 2)) * 1000000;
    const char *fraction = value + 19;
    if (*fraction == '.')
        for (int64_t unit = 100000; *++fraction >= '0' && *fraction <= '9'; unit /= 10)
            us += (*fraction - '0') * unit;
    return us;
}

int row_ints(struct row *row, int64_t *ret, int max) {
    const char *at = row_raw(row);
    int n = 0;
    while (at && n < max && (*at == '{' || *at == ',') && at[1] != '}') {
        bool negative = *++at == '-';
        int64_t number = 0;
        for (at += negative; *at >= '0' && *at <= '9'; at++)
            number = number * 10 + (*at - '0');
        ret[n++] = negative ? -number : number;
    }
    return n;
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
        if (strncmp(at, "NULL", 4) == 0 && (at[4] == ',' || at[4] == '}')) {
            ret[n++] = NULL;
            at += 4;
            continue;
        }
        at += quoted;
        char *text = arena_alloc(arena, strlen(at) + 1);
        size_t len = 0;
        for (; *at && (quoted ? *at != '"' : *at != ',' && *at != '}'); at++) {
            if (quoted && *at == '\\' && at[1])
                at++;
            text[len++] = *at;
        }
        at += quoted && *at;
        ret[n++] = text;
    }
    return n;
}

int64_t pg_affected(const PGresult *result) {
    return strtoll(PQcmdTuples((PGresult *)(uintptr_t)result), NULL, 10);
}

static void clear(void *result) {
    PQclear(result);
}

void pg_keep(PGresult **result, struct arena *arena) {
    arena_defer(arena, clear, *result);
    *result = NULL;
}

void pg_clear_p(PGresult **result) {
    PQclear(*result);
}
