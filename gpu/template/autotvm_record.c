/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/template/autotvm_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/base/json.h"

#define BAD(field, ...) error_set(error, ERROR_INVALID, "bad-record", field, __VA_ARGS__)

/* ---- reading ---- */

static void release(void *object) {
    json_object_put(object);
}

/* A line is a text of its own here, so the reader's "line 1" would only mislead. */
static void drop_line_number(struct error *error) {
    char *at = strstr(error->text, "line 1, ");
    if (at)
        memmove(at, at + 8, strlen(at + 8) + 1);
}

/* Rejects what AutoTVM wrote before version 0.2, whose members had other names. */
static int check_version(struct json_object *line, struct autotvm_record *ret, struct error *error) {
    struct json_object *old;
    const char *code = "record-version";
    if (!json_object_object_get_ex(line, "version", NULL) && json_object_object_get_ex(line, "v", &old))
        return error_set(error, ERROR_INVALID, code, "v",
                         "The record is of version %.20s, whose form is no longer in use; only version 0.2 is read.",
                         json_object_is_type(old, json_type_double) ? json_text(old, NULL) : "unknown");
    if (json_read_double(line, "version", JSON_REQUIRED, 0, 1e6, &ret->version, error) < 0)
        return -1;
    if (ret->version != 0.2)
        return error_set(error, ERROR_INVALID, code, "version",
                         "The record is of version %g; only version 0.2 is read.", ret->version);
    return 0;
}

/* An array of exactly n values. */
static int read_list(struct json_object *object, const char *name, size_t n, struct json_object **ret,
                     struct error *error) {
    struct json_object *list = NULL;
    if (json_read_array(object, name, JSON_REQUIRED, &list, error) < 0)
        return -1;
    if (json_object_array_length(list) != n)
        return BAD(name, "The field \"%s\" has %zu values; it must have %zu.", name, json_object_array_length(list), n);
    *ret = list;
    return 0;
}

static int read_text(struct json_object *value, const char *field, const char *what, int max, const char **ret,
                     struct error *error) {
    if (!json_object_is_type(value, json_type_string) || json_object_get_string_len(value) > max)
        return BAD(field, "The %s must be a string of at most %d bytes.", what, max);
    *ret = json_object_get_string(value);
    return 0;
}

static int read_input(struct json_object *line, struct autotvm_record *ret, struct error *error) {
    struct json_object *input = NULL;
    if (read_list(line, "input", 4, &input, error) < 0 ||
        read_text(json_object_array_get_idx(input, 0), "input", "target, the first value of \"input\",",
                  AUTOTVM_MAX_TARGET, &ret->target, error) < 0 ||
        read_text(json_object_array_get_idx(input, 1), "input", "task's name, the second value of \"input\",",
                  AUTOTVM_MAX_NAME, &ret->task, error) < 0)
        return -1;
    ret->args = json_object_array_get_idx(input, 2);
    ret->kwargs = json_object_array_get_idx(input, 3);
    if (!json_object_is_type(ret->args, json_type_array))
        return BAD("input", "The task's arguments, the third value of \"input\", must be an array.");
    if (!json_object_is_type(ret->kwargs, json_type_object))
        return BAD("input", "The task's named arguments, the fourth value of \"input\", must be an object.");
    return 0;
}

/* The members that `known` does not list, in an object of their own; NULL when there are none. */
static struct json_object *others(struct json_object *object, const char *const *known, struct arena *arena) {
    struct json_object *rest = NULL;
    json_object_object_foreach(object, name, value) {
        int i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (known[i])
            continue;
        if (!rest) {
            rest = json_object_new_object();
            arena_defer(arena, release, rest);
        }
        json_add(rest, name, json_object_get(value));
    }
    return rest;
}

static int read_config(struct json_object *line, struct arena *arena, struct autotvm_record *ret, struct error *error) {
    static const char *const known[] = {"index", "code_hash", "entity", NULL};
    struct json_object *config = NULL, *hash = NULL;
    if (json_read_object(line, "config", JSON_REQUIRED, &config, error) < 0)
        return -1;
    if (json_read_int(config, "index", JSON_REQUIRED, 0, INT64_MAX, &ret->index, error) < 0 ||
        json_read_array(config, "entity", JSON_REQUIRED, &ret->entity, error) < 0) {
        char field[sizeof error->field];
        memcpy(field, error->field, sizeof field);
        snprintf(error->field, sizeof error->field, "config.%.100s", field);
        return -1;
    }
    json_object_object_get_ex(config, "code_hash", &hash);
    if (hash &&
        read_text(hash, "config.code_hash", "field \"code_hash\"", AUTOTVM_MAX_LINE, &ret->code_hash, error) < 0)
        return -1;
    ret->config_extra = others(config, known, arena);
    return 0;
}

static int read_number(struct json_object *value, const char *what, double min, double max, double *ret,
                       struct error *error) {
    double number = json_object_get_double(value);
    if ((!json_object_is_type(value, json_type_double) && !json_object_is_type(value, json_type_int)) ||
        !(number >= min && number <= max))
        return BAD("result", "The %s of \"result\" must be a number from %g to %g.", what, min, max);
    *ret = number;
    return 0;
}

static int read_costs(struct json_object *costs, struct arena *arena, struct autotvm_record *ret, struct error *error) {
    size_t n = json_object_is_type(costs, json_type_array) ? json_object_array_length(costs) : 0;
    if (n < 1 || n > AUTOTVM_MAX_COSTS)
        return BAD("result", "The costs, the first value of \"result\", must be an array of 1 to %d numbers.",
                   AUTOTVM_MAX_COSTS);
    double *costs_s = arena_array(arena, n, sizeof *costs_s);
    for (size_t i = 0; i < n; i++) {
        if (read_number(json_object_array_get_idx(costs, i), "costs, the first value", 1e-12, AUTOTVM_FAILED_S,
                        &costs_s[i], error) < 0)
            return -1;
    }
    ret->costs_s = costs_s;
    ret->n_costs = (int)n;
    return 0;
}

static int read_result(struct json_object *line, struct arena *arena, struct autotvm_record *ret, struct error *error) {
    struct json_object *result = NULL;
    if (read_list(line, "result", 4, &result, error) < 0 ||
        read_costs(json_object_array_get_idx(result, 0), arena, ret, error) < 0)
        return -1;
    struct json_object *error_no = json_object_array_get_idx(result, 1);
    int64_t number = json_object_get_int64(error_no);
    if (!json_object_is_type(error_no, json_type_int) || number < 0 || number > AUTOTVM_MAX_ERROR)
        return BAD("result", "The error_no, the second value of \"result\", must be a whole number from 0 to %d.",
                   AUTOTVM_MAX_ERROR);
    ret->error_no = (int)number;
    if (read_number(json_object_array_get_idx(result, 2), "all_cost, the third value", 0, 1e12, &ret->all_cost_s,
                    error) < 0)
        return -1;
    return read_number(json_object_array_get_idx(result, 3), "timestamp, the fourth value", 0, 1e12, &ret->timestamp_s,
                       error);
}

int autotvm_record_parse(const char *line, size_t len, struct arena *arena, struct autotvm_record *ret,
                         struct error *error) {
    static const char *const known[] = {"input", "config", "result", "version", "tvm_version", NULL};
    struct json_object *object = NULL;
    struct autotvm_record record = {0};
    if (len > AUTOTVM_MAX_LINE)
        return BAD(NULL, "The line is longer than %d bytes.", AUTOTVM_MAX_LINE);
    if (json_parse(line, len, &object, error) < 0) {
        drop_line_number(error);
        return -1;
    }
    arena_defer(arena, release, object);
    if (!json_object_is_type(object, json_type_object))
        return BAD(NULL, "A record must be a JSON object.");
    if (check_version(object, &record, error) < 0 || read_input(object, &record, error) < 0 ||
        read_config(object, arena, &record, error) < 0 || read_result(object, arena, &record, error) < 0 ||
        json_read_string(object, "tvm_version", JSON_OPTIONAL, AUTOTVM_MAX_NAME, &record.tvm_version, error) < 0)
        return -1;
    record.extra = others(object, known, arena);
    *ret = record;
    return 0;
}

/* ---- writing ---- */

static void append(struct json_object *array, struct json_object *value) {
    if (json_object_array_add(array, value) < 0)
        abort();
}

/* json.h has the one way to write a number that reads back; it is for members of objects. */
static void append_double(struct json_object *array, double value) {
    struct json_object *holder = json_object_new_object(), *number;
    json_add_double(holder, "n", value);
    json_object_object_get_ex(holder, "n", &number);
    append(array, json_object_get(number));
    json_object_put(holder);
}

static void add_members(struct json_object *object, struct json_object *extra) {
    if (!extra)
        return;
    json_object_object_foreach(extra, name, value) {
        json_add(object, name, json_object_get(value));
    }
}

static struct json_object *make_input(const struct autotvm_record *record) {
    struct json_object *input = json_object_new_array();
    append(input, json_object_new_string(record->target));
    append(input, json_object_new_string(record->task));
    append(input, json_object_get(record->args));
    append(input, record->kwargs ? json_object_get(record->kwargs) : json_object_new_object());
    return input;
}

static struct json_object *make_config(const struct autotvm_record *record) {
    struct json_object *config = json_object_new_object();
    json_add_int(config, "index", record->index);
    json_add_string(config, "code_hash", record->code_hash);
    json_add(config, "entity", json_object_get(record->entity));
    add_members(config, record->config_extra);
    return config;
}

static struct json_object *make_result(const struct autotvm_record *record) {
    struct json_object *result = json_object_new_array(), *costs = json_object_new_array();
    for (int i = 0; i < record->n_costs; i++)
        append_double(costs, record->costs_s[i]);
    append(result, costs);
    append(result, json_object_new_int(record->error_no));
    append_double(result, record->all_cost_s);
    append_double(result, record->timestamp_s);
    return result;
}

void autotvm_record_write(const struct autotvm_record *record, struct buf *ret) {
    struct json_object *line CLEANUP(json_put_p) = json_object_new_object();
    json_add(line, "input", make_input(record));
    json_add(line, "config", make_config(record));
    json_add(line, "result", make_result(record));
    json_add_double(line, "version", record->version);
    if (record->tvm_version)
        json_add_string(line, "tvm_version", record->tvm_version);
    add_members(line, record->extra);
    buf_puts(ret, json_text(line, NULL));
    buf_putc(ret, '\n');
}

double autotvm_record_cost(const struct autotvm_record *record) {
    double sum = 0;
    if (record->error_no != 0)
        return AUTOTVM_FAILED_S;
    for (int i = 0; i < record->n_costs; i++)
        sum += record->costs_s[i];
    return fmin(sum / record->n_costs, AUTOTVM_FAILED_S);
}
