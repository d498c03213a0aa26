/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/search/tuner_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RNG_TEXT = 4 * 16 };

/* As text: JSON's integers end at 2^53. */
void state_add_rng(struct json_object *state, const struct rng *rng) {
    char text[RNG_TEXT + 1];
    for (int i = 0; i < 4; i++)
        snprintf(text + (size_t)i * 16, 17, "%016" PRIx64, rng->state[i]);
    json_add_string(state, "rng", text);
}

int state_read_rng(struct json_object *state, struct rng *ret, struct error *error) {
    const char *text = "";
    if (json_read_string(state, "rng", JSON_REQUIRED, RNG_TEXT, &text, error) < 0)
        return -1;
    if (strspn(text, "0123456789abcdef") != RNG_TEXT)
        return error_set(error, ERROR_INVALID, "bad-state", "rng", "The search's stored state has no generator.");
    for (int i = 0; i < 4; i++) {
        ret->state[i] = 0;
        for (int c = 0; c < 16; c++) {
            char digit = text[i * 16 + c];
            ret->state[i] = ret->state[i] << 4 | (uint64_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
        }
    }
    return 0;
}

void state_add_list(struct json_object *state, const char *field, const int64_t *list, int n) {
    struct json_object *array = json_object_new_array();
    for (int i = 0; i < n; i++)
        json_object_array_add(array, json_object_new_int64(list[i]));
    json_add(state, field, array);
}

int state_read_list(struct json_object *state, const char *field, int64_t below, int64_t *ret, int most, int *ret_n,
                    struct error *error) {
    struct json_object *array;
    if (json_read_array(state, field, JSON_REQUIRED, &array, error) < 0)
        return -1;
    size_t n = json_object_array_length(array);
    if (n > (size_t)most)
        return error_set(error, ERROR_INVALID, "bad-state", field, "The search's stored state has too long a list.");
    for (size_t i = 0; i < n; i++) {
        ret[i] = json_object_get_int64(json_object_array_get_idx(array, i));
        if (ret[i] < 0 || ret[i] >= below)
            return error_set(error, ERROR_INVALID, "bad-state", field,
                             "The search's stored state has %" PRId64 ", which is not in the space.", ret[i]);
    }
    *ret_n = (int)n;
    return 0;
}
