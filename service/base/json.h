/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h: strict JSON in, plain JSON out, over json-c.
 *
 * json-c accepts much that RFC 8259 forbids (duplicate keys, NaN, single quotes, control characters, overlong UTF-8,
 * integers that saturate), so every text first passes our own strict scan: depth at most 32, no duplicate keys, valid
 * UTF-8, no \u0000, integers within ±2^53. Objects are json-c's; json_parse's result is released with
 * json_object_put. The json_read_… functions leave *ret untouched when the field is absent and not required; a wrong
 * type, a null or a value out of range is ERROR_INVALID with `field` set to the field's name.
 */
#ifndef WARPTUNE_BASE_JSON_H
#define WARPTUNE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json_object.h>
#include <json-c/linkhash.h> /* json_object_object_foreach needs it */

#include "service/base/attr.h"
#include "service/base/error.h"

int json_parse(const char *text, size_t len, struct json_object **ret, struct error *error) MUST_CHECK;
void json_put_p(struct json_object **object); /* for CLEANUP */

/* ERROR_INVALID, naming the field, when `object` has a field that `allowed` (NULL-terminated) does not list. */
int json_only_fields(struct json_object *object, const char *const *allowed, struct error *error) MUST_CHECK;

enum json_need { JSON_OPTIONAL, JSON_REQUIRED };
/* *ret points into `object`. */
int json_read_string(struct json_object *object, const char *field, enum json_need need, size_t max_len,
                     const char **ret, struct error *error) MUST_CHECK;
int json_read_int(struct json_object *object, const char *field, enum json_need need, int64_t min, int64_t max,
                  int64_t *ret, struct error *error) MUST_CHECK;
int json_read_double(struct json_object *object, const char *field, enum json_need need, double min, double max,
                     double *ret, struct error *error) MUST_CHECK;
int json_read_bool(struct json_object *object, const char *field, enum json_need need, bool *ret,
                   struct error *error) MUST_CHECK;
/* *ret borrowed from `object`. */
int json_read_object(struct json_object *object, const char *field, enum json_need need, struct json_object **ret,
                     struct error *error) MUST_CHECK;
int json_read_array(struct json_object *object, const char *field, enum json_need need, struct json_object **ret,
                    struct error *error) MUST_CHECK;

/* Writers; NULL text and non-finite numbers become null. */
void json_add_string(struct json_object *object, const char *field, const char *text);
void json_add_int(struct json_object *object, const char *field, int64_t value);
void json_add_double(struct json_object *object, const char *field, double value); /* shortest that reads back */
void json_add_bool(struct json_object *object, const char *field, bool value);
void json_add(struct json_object *object, const char *field, struct json_object *value); /* takes ownership */
/* Compact text, owned by the object. */
const char *json_text(struct json_object *object, size_t *ret_len);

#endif
