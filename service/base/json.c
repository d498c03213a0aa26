/* SPDX-License-Identifier: Apache-2.0 */
#include "service/base/json.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_tokener.h>

#include "service/base/json_scan.h"
#include "service/base/utf8.h"

/* The text has passed the scan, so a refusal here is a difference between two readers of the same language. */
static int parse_scanned(const char *text, size_t len, struct json_object **ret, struct error *error) {
    struct json_tokener *tokener = json_tokener_new_ex(JSON_MAX_DEPTH + 2);
    if (!tokener)
        return error_set(error, ERROR_LIMIT, "out-of-memory", NULL, "There is not enough memory to read the JSON.");
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *object = json_tokener_parse_ex(tokener, text, (int)len);
    if (json_tokener_get_error(tokener) == json_tokener_continue) /* a bare number might go on */
        object = json_tokener_parse_ex(tokener, "", 1);
    enum json_tokener_error reason = json_tokener_get_error(tokener);
    json_tokener_free(tokener);
    if (reason != json_tokener_success)
        return error_set(error, ERROR_INVALID, "invalid-json", NULL, "The JSON text is refused: %s.",
                         json_tokener_error_desc(reason));
    *ret = object;
    return 0;
}

int json_parse(const char *text, size_t len, struct json_object **ret, struct error *error) {
    if (len >= INT_MAX)
        return error_set(error, ERROR_LIMIT, "too-large", NULL, "A JSON text may be at most 2 GB long.");
    if (json_scan(text, len, error) < 0)
        return -1;
    while (len > 0 && strchr(" \t\r\n", text[len - 1])) /* json-c takes white space at the end for a second value */
        len--;
    return parse_scanned(text, len, ret, error);
}

void json_put_p(struct json_object **object) {
    json_object_put(*object);
    *object = NULL;
}

static int require_object(struct json_object *object, struct error *error) {
    if (json_object_is_type(object, json_type_object))
        return 0;
    return error_set(error, ERROR_INVALID, "wrong-type", NULL, "A JSON object is expected here.");
}

int json_only_fields(struct json_object *object, const char *const *allowed, struct error *error) {
    if (require_object(object, error) < 0)
        return -1;
    json_object_object_foreach(object, name, value) {
        (void)value;
        const char *const *known = allowed;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (!*known)
            return error_set(error, ERROR_INVALID, "unknown-field", name,
                             "There is no field \"%.100s\" here; remove it or correct its name.", name);
    }
    return 0;
}

/* The field's value when it has `type`; 1: absent, and that is allowed. */
static int find(struct json_object *object, const char *field, enum json_need need, enum json_type type,
                struct json_object **ret, struct error *error) {
    static const char *const names[] = {
        [json_type_boolean] = "true or false",
        [json_type_double] = "a number",
        [json_type_int] = "a whole number without fraction or exponent",
        [json_type_object] = "an object",
        [json_type_array] = "an array",
        [json_type_string] = "a string",
    };
    struct json_object *value;
    if (require_object(object, error) < 0)
        return -1;
    if (!json_object_object_get_ex(object, field, &value)) {
        if (need == JSON_OPTIONAL)
            return 1;
        return error_set(error, ERROR_INVALID, "missing-field", field, "The field \"%s\" is missing; it must be %s.",
                         field, names[type]);
    }
    bool fits =
        json_object_is_type(value, type) || (type == json_type_double && json_object_is_type(value, json_type_int));
    if (!fits)
        return error_set(error, ERROR_INVALID, "wrong-type", field, "The field \"%s\" must be %s.", field, names[type]);
    *ret = value;
    return 0;
}

int json_read_string(struct json_object *object, const char *field, enum json_need need, size_t max_len,
                     const char **ret, struct error *error) {
    struct json_object *value = NULL;
    int rc = find(object, field, need, json_type_string, &value, error);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    if ((size_t)json_object_get_string_len(value) > max_len)
        return error_set(error, ERROR_INVALID, "too-long", field, "The field \"%s\" may be at most %zu bytes long.",
                         field, max_len);
    *ret = json_object_get_string(value);
    return 0;
}

int json_read_int(struct json_object *object, const char *field, enum json_need need, int64_t min, int64_t max,
                  int64_t *ret, struct error *error) {
    struct json_object *value = NULL;
    int rc = find(object, field, need, json_type_int, &value, error);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    int64_t number = json_object_get_int64(value);
    if (number < min || number > max)
        return error_set(error, ERROR_INVALID, "out-of-range", field,
                         "The field \"%s\" must lie within %" PRId64 " and %" PRId64 ".", field, min, max);
    *ret = number;
    return 0;
}

int json_read_double(struct json_object *object, const char *field, enum json_need need, double min, double max,
                     double *ret, struct error *error) {
    struct json_object *value = NULL;
    int rc = find(object, field, need, json_type_double, &value, error);
    if (rc != 0)
        return rc < 0 ? -1 : 0;
    double number = json_object_get_double(value);
    if (!(number >= min && number <= max))
        return error_set(error, ERROR_INVALID, "out-of-range", field, "The field \"%s\" must lie within %g and %g.",
                         field, min, max);
    *ret = number;
    return 0;
}

int json_read_bool(struct json_object *object, const char *field, enum json_need need, bool *ret, struct error *error) {
    struct json_object *value = NULL;
    int rc = find(object, field, need, json_type_boolean, &value, error);
    if (rc == 0)
        *ret = json_object_get_boolean(value);
    return rc < 0 ? -1 : 0;
}

int json_read_object(struct json_object *object, const char *field, enum json_need need, struct json_object **ret,
                     struct error *error) {
    return find(object, field, need, json_type_object, ret, error) < 0 ? -1 : 0;
}

int json_read_array(struct json_object *object, const char *field, enum json_need need, struct json_object **ret,
                    struct error *error) {
    return find(object, field, need, json_type_array, ret, error) < 0 ? -1 : 0;
}

/* json-c answers NULL or -1 only when memory is out. */
static void must(bool ok) {
    if (ok)
        return;
    fputs("out of memory while writing JSON\n", stderr);
    abort();
}

void json_add(struct json_object *object, const char *field, struct json_object *value) {
    must(json_object_object_add(object, field, value) == 0);
}

void json_add_string(struct json_object *object, const char *field, const char *text) {
    struct json_object *value = NULL;
    if (text) {
        char *valid = strdup(text);
        must(valid);
        utf8_scrub(valid);
        value = json_object_new_string(valid);
        free(valid);
        must(value);
    }
    json_add(object, field, value);
}

void json_add_int(struct json_object *object, const char *field, int64_t value) {
    struct json_object *number = json_object_new_int64(value);
    must(number);
    json_add(object, field, number);
}

void json_add_double(struct json_object *object, const char *field, double value) {
    struct json_object *number = NULL;
    if (isfinite(value)) {
        char text[40];
        int digits = fabs(value) < DBL_MIN ? 1 : DBL_DIG; /* any decimal of DBL_DIG digits survives a normal double */
        do
            snprintf(text, sizeof text, "%.*g", digits++, value);
        while (strtod(text, NULL) != value);
        number = json_object_new_double_s(value, text);
        must(number);
    }
    json_add(object, field, number);
}

void json_add_bool(struct json_object *object, const char *field, bool value) {
    struct json_object *boolean = json_object_new_boolean(value);
    must(boolean);
    json_add(object, field, boolean);
}

const char *json_text(struct json_object *object, size_t *ret_len) {
    size_t len;
    const char *text =
        json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
    must(text);
    if (ret_len)
        *ret_len = len;
    return text;
}
